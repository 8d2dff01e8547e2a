"""What an upgrade shows: as plain values, and as Markdown to paste into an issue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from relay.domain.check_output import inert
from selector.discover.diff import TestChange
from selector.plan.upgrade import Upgrade, reason

_ROWS = 40
"""rows of a table in the Markdown; the JSON has them all"""


def to_value(upgrade: Upgrade, timings: dict[str, float]) -> dict[str, Any]:
    """Everything, for programs: counts, every change with its reason, every entry of an op database that differs."""
    difference = upgrade.difference
    relevant = {one.test: one for one in upgrade.relevant}
    return {
        "from": upgrade.old,
        "to": upgrade.new,
        "total": {"from": difference.total_old, "to": difference.total_new},
        "kinds": difference.counts(),
        "evaluate": len(upgrade.evaluate),
        "relevant": len(upgrade.relevant),
        "carried": upgrade.carried,
        "variants": {
            "count": sum(one.est_variants for one in upgrade.relevant),
            "how": "from the op databases and the capability sheet"
            if upgrade.evaluated
            else "by rule: the op databases of both torches were not given",
        },
        "planned": len(upgrade.plan.tests),
        "partial": upgrade.plan.partial,
        "changes": [
            {
                "test": str(change.test),
                "kind": change.kind,
                "content": change.content,
                "was": str(change.was) if change.was else None,
                "move": change.move,
                "details": list(change.details),
                "reason": reason(change),
                "evaluate": change.to_evaluate,
                "relevant": change.test in relevant,
                "ops": list(change.ops),
            }
            for change in difference.changes
        ],
        "entries": [
            {
                "label": entry.label,
                "aspects": list(entry.aspects),
                "lists": list(entry.lists),
                "gained": list(entry.gained),
                "lost": list(entry.lost),
            }
            for entry in difference.entries.values()
        ],
        "broad": dict(difference.broad),
        "problems": [{"side": side, "file": path, "reason": why} for side, path, why in difference.problems],
        "seconds": timings,
    }


def markdown(upgrade: Upgrade, timings: dict[str, float]) -> str:
    """The report for people: counts first, then what needs one."""
    difference = upgrade.difference
    counts = difference.counts()
    lines = [
        f"# Upgrade {inert(upgrade.old, 200)} to {inert(upgrade.new, 200)}",
        "",
        f"{difference.total_new} tests ({difference.total_old} before). **{len(upgrade.evaluate)} to evaluate, "
        f"{len(upgrade.relevant)} of them for this device**; {upgrade.carried} keep what was decided. "
        f"{timings.get('all', 0):.1f} s.",
        "",
        *_table(("what became of them", "tests"), [(kind, str(number)) for kind, number in counts.items() if number]),
        "",
        "## To evaluate, by file",
        "",
        *_by_file(upgrade),
    ]
    moved = [change for change in difference.changes if change.kind == "renamed"]
    if moved:
        shown = [(_code(str(c.was)), _code(str(c.test)), c.move or "", c.content) for c in moved[:_ROWS]]
        lines += ["", "## Renamed", "", *_table(("was", "is", "how", "content"), shown), *_more(len(moved))]
    if difference.entries:
        aspects = Counter(aspect for entry in difference.entries.values() for aspect in entry.aspects)
        rows = [(aspect, str(number)) for aspect, number in aspects.most_common()]
        lines += ["", "## Op databases", "", f"{len(difference.entries)} entries differ.", ""]
        lines += _table(("in", "entries"), rows)
    if difference.broad:
        lines += ["", "## Shared library", "", "These differ and many tests reach them; run a sample:", ""]
        broad = sorted(difference.broad.items(), key=lambda item: (-item[1], item[0]))
        lines += _table(("helper", "tests"), [(_code(key), str(tests)) for key, tests in broad[:_ROWS]])
        lines += _more(len(broad))
    if difference.problems:
        lines += ["", "## Could not be read", ""]
        rows3 = [(side, _code(path), inert(why, 200)) for side, path, why in difference.problems]
        lines += _table(("side", "file", "reason"), rows3)
    return "\n".join(lines) + "\n"


def _by_file(upgrade: Upgrade) -> list[str]:
    relevant = {one.test for one in upgrade.relevant}
    files: dict[str, list[TestChange]] = {}
    for change in upgrade.evaluate:
        files.setdefault(change.test.file, []).append(change)
    rows = []
    for path, changes in sorted(files.items(), key=lambda item: (-sum(c.test in relevant for c in item[1]), item[0])):
        kinds = Counter(change.content for change in changes)
        what = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        rows.append((_code(path), str(len(changes)), str(sum(c.test in relevant for c in changes)), what))
    return [*_table(("file", "to evaluate", "for this device", "why"), rows[:_ROWS]), *_more(len(rows))]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, tuple("---" for _ in head), *rows)]


def _more(number: int) -> list[str]:
    return ["", f"{number - _ROWS} more are in the JSON."] if number > _ROWS else []


def _code(text: str) -> str:
    plain = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain[:300]}`"
