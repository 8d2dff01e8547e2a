"""What stage 4 takes besides results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from selector.model import Decision, Selection, Side, TestId

ProblemKind = Literal["infrastructure", "collection", "unmatched", "emptied", "refused"]
"""infrastructure: the worker could not run the shard; collection: a file could not be imported; unmatched: a planned
test that the file does not have (``message`` is its id); emptied: a test of which device and configs left no variant;
refused: a changed file that the worker could not lay over its torch, and so did not exercise"""


@dataclass(frozen=True, slots=True)
class ShardProblem:
    """Something that a shard reports besides results. ``file`` is a path in upstream's tree, or a test's id."""

    shard: str
    side: Side
    kind: str
    message: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a test was selected: codes, strongest first, and what stages 1 and 2 said about it."""

    codes: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()


Selected = Selection | Mapping[TestId, tuple[str | tuple[str, ...], tuple[Decision, ...]]]
"""A whole selection, or for each test its code (or codes) and its decisions"""


def whys(selected: Selected) -> dict[TestId, Why]:
    """Why each test was selected, from either form."""
    if not isinstance(selected, Selection):
        return {
            test: Why((codes,) if isinstance(codes, str) else tuple(codes), tuple(decisions))
            for test, (codes, decisions) in selected.items()
        }
    by_subject: dict[str, list[Decision]] = {}
    for decision in selected.decisions:
        by_subject.setdefault(decision.subject, []).append(decision)
    return {p.test: Why(p.codes, tuple(by_subject.get(str(p.test), ()))) for p in selected.plan.tests}


def report_problems(shard: str, side: Side, report: Mapping[str, object]) -> tuple[ShardProblem, ...]:
    """The problems in a worker's report (docs/worker-api.md). Entries of another form are passed over."""
    found: list[ShardProblem] = []
    for entry in _entries(report.get("errors")):
        if isinstance(entry, Mapping):
            message, file = str(entry.get("message") or ""), str(entry.get("file") or "")
            found.append(ShardProblem(shard, side, "collection", message, file))
    for entry in _entries(report.get("unmatched")):
        found.append(ShardProblem(shard, side, "unmatched", "there is no such test in the file", str(entry)))
    for entry in _entries(report.get("emptied")):
        if isinstance(entry, Mapping):
            message, test = str(entry.get("reason") or ""), str(entry.get("test") or "")
            found.append(ShardProblem(shard, side, "emptied", message, test))
    for entry in _entries(report.get("refused")):
        if isinstance(entry, Mapping):
            message, file = str(entry.get("message") or ""), str(entry.get("file") or "")
            found.append(ShardProblem(shard, side, "refused", message, file))
    return tuple(found)


def _entries(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else ()
