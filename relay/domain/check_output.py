"""A verdict as the output of a check run. Pure.

Names, messages and paths come from upstream's code and from failing tests: whatever they contain, they mention nobody,
link nowhere, and do not break the table they stand in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from selector.model import Cause, NotExercised, Verdict

LIMIT = 65_535
TITLE_LIMIT = 255
CELL_LIMIT = 300
BREAK = "\u200b"
"""Zero-width space. Entities do not help against mentions: they are looked for in the rendered text."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f]+")
_LIVE = re.compile(r"[@#]|(?<=[A-Za-z]):(?=//)|(?<=\bwww)\.|(?<=\bgh)-", re.IGNORECASE)
_MARKDOWN = {ord(c): f"&#{ord(c)};" for c in "&<>|`*_~[]()!\\{}^$\"'"}

T = TypeVar("T")

_WORDS = {
    "regression": "regression",
    "pre-existing": "fails without the change too",
    "unconfirmed": "not confirmed",
    "infrastructure": "infrastructure",
    "conflict": "labs disagree",
    "device-limit": "limit of the device",
    "flaky": "flaky without the change too",
    "broken-on-trunk": "broken on trunk",
}


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """``title`` is plain text, ``summary`` and ``text`` are Markdown; each within GitHub's limit."""

    title: str
    summary: str
    text: str


def inert(text: str, limit: int = CELL_LIMIT) -> str:
    """Foreign text for one line or cell of Markdown: shown as it is, with no effect."""
    flat = _flat(text)
    if len(flat) > limit:
        flat = flat[: limit - 1].rstrip() + "…"
    return _LIVE.sub(lambda found: found.group() + BREAK, flat).translate(_MARKDOWN)


def _flat(text: str) -> str:
    # lone surrogates, which a test's message can contain, cannot be sent as UTF-8
    return _SPACE.sub(" ", text.encode("utf-8", "replace").decode("utf-8")).strip()


def render(verdict: Verdict, run_url: str) -> CheckOutput:
    """The output for ``verdict``; ``run_url`` is our own page about the run."""
    title = _flat(verdict.sentence) or verdict.conclusion.value
    if len(title) > TITLE_LIMIT:
        title = title[: TITLE_LIMIT - 1].rstrip() + "…"
    counts = ", ".join(f"{number} {inert(name.replace('_', ' '))}" for name, number in verdict.counts.items() if number)
    summary = "\n\n".join(
        part
        for part in (
            f"**{inert(verdict.sentence, 2000)}**",
            counts and f"Variants: {counts}.",
            f"[Why each test was selected, logs and the live run]({run_url})",
        )
        if part
    )
    return CheckOutput(title, summary[:LIMIT], _text(verdict, run_url))


def _text(verdict: Verdict, run_url: str) -> str:
    sections = [
        _table("Failing tests", ("test", "kind", "message", "comes from", "why it ran"), verdict.causes, _cause),
        _table("Not exercised", ("path", "why"), verdict.not_exercised, _not_exercised),
        _table("Warnings", ("warning",), verdict.warnings, lambda warning: (inert(warning),)),
    ]
    budget = LIMIT - len(run_url) - 500  # room for the lines that name what was left out
    out: list[str] = []
    for heading, rows in (section for section in sections if section is not None):
        kept: list[str] = []
        for row in rows:
            if len(row) + 1 > budget:
                break
            kept.append(row)
            budget -= len(row) + 1
        left = len(rows) - len(kept)
        more = f"\n\n{left} more on [the run's page]({run_url})." if left else ""
        out.append("\n".join([heading, *kept]) + more)
    return "\n\n".join(out)


def _table(
    title: str, columns: Sequence[str], items: Sequence[T], cells: Callable[[T], Iterable[str]]
) -> tuple[str, list[str]] | None:
    if not items:
        return None
    head = f"### {title} ({len(items)})\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    return head, [f"| {' | '.join(cells(item))} |" for item in items]


def _cause(cause: Cause) -> tuple[str, ...]:
    changes = ", ".join(cause.changes)
    return (
        f"<code>{inert(cause.key, 500)}</code>",
        f"{_WORDS[cause.kind]} ({inert(cause.outcome.value)})",
        inert(cause.message),
        inert(changes) or "-",
        inert(cause.why_selected),
    )


def _not_exercised(item: NotExercised) -> tuple[str, ...]:
    return f"<code>{inert(item.path)}</code>", inert(item.reason)
