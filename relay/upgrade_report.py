"""What an upgrade shows: as plain values, and those as Markdown to paste into an issue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from relay.domain.check_output import inert
from selector.plan.reconfigure import Reconfigured
from selector.plan.upgrade import Upgrade, reason

_ROWS = 40
"""rows of a table in the Markdown; the JSON has them all"""


def to_value(upgrade: Upgrade, edits: Reconfigured, timings: dict[str, float]) -> dict[str, Any]:
    """Everything, for programs: counts, every change with its reason, every entry of an op database that differs, the
    plan, the configs' edits. ``timings``: seconds by step."""
    difference = upgrade.difference
    relevant = {one.test: one for one in upgrade.relevant}
    categories = {d.subject: d.code for d in upgrade.decisions if d.stage == "triage"}
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
            if upgrade.variants is not None
            else "by rule: the op databases of both torches were not given",
            "between": asdict(upgrade.variants) if upgrade.variants is not None else None,
        },
        "planned": len(upgrade.plan.tests),
        "partial": upgrade.plan.partial,
        "plan": {
            "runtime": {"kind": upgrade.plan.runtime.kind.value, "torch": upgrade.plan.runtime.torch},
            "shards": [
                {"tests": [str(test) for test in shard.tests], "seconds": round(shard.est_seconds, 2)}
                for shard in upgrade.plan.shards
            ],
            "ops": {str(planned.test): list(planned.ops) for planned in upgrade.plan.tests if planned.ops},
            "left_out": len(upgrade.plan.left_out),
        },
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
                "category": categories.get(str(change.test)) if change.to_evaluate else None,
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
        "configs": {
            "edits": [asdict(edit) for edit in edits.edits],
            "by_hand": list(edits.by_hand),
            "patch": edits.patch,
        },
        "broad": dict(difference.broad),
        "problems": [{"side": side, "file": path, "reason": why} for side, path, why in difference.problems],
        "seconds": timings,
    }


def markdown(value: dict[str, Any]) -> str:
    """The report for people: counts first, then what needs one. ``value`` as ``to_value`` makes it."""
    changes = value["changes"]
    lines = [
        f"# Upgrade {inert(value['from'], 200)} to {inert(value['to'], 200)}",
        "",
        f"{value['total']['to']} tests ({value['total']['from']} before). **{value['evaluate']} to evaluate, "
        f"{value['relevant']} of them for this device**; {value['carried']} keep what was decided. "
        f"{value['seconds'].get('all', 0):.1f} s{', kept from before' if value.get('kept') else ''}.",
        "",
        *_table(
            ("what became of them", "tests"), [(kind, str(number)) for kind, number in value["kinds"].items() if number]
        ),
        "",
        _variants(value["variants"]),
        "",
        "## To evaluate, by file",
        "",
        *_by_file(changes),
    ]
    categories = Counter(c["category"] for c in changes if c["category"])
    if categories:
        lines += ["", "## To evaluate, by what triage said", ""]
        lines += _table(("code", "tests"), [(_code(code), str(number)) for code, number in categories.most_common()])
    moved = [c for c in changes if c["kind"] == "renamed"]
    if moved:
        shown = [(_code(c["was"]), _code(c["test"]), c["move"] or "", c["content"]) for c in moved[:_ROWS]]
        lines += ["", "## Renamed", "", *_table(("was", "is", "how", "content"), shown), *_more(len(moved))]
    if value["entries"]:
        aspects = Counter(aspect for entry in value["entries"] for aspect in entry["aspects"])
        rows = [(aspect, str(number)) for aspect, number in aspects.most_common()]
        lines += ["", "## Op databases", "", f"{len(value['entries'])} entries differ.", ""]
        lines += _table(("in", "entries"), rows)
    lines += _configs(value["configs"])
    if value["broad"]:
        lines += ["", "## Shared library", "", "These differ and many tests reach them; run a sample:", ""]
        broad = sorted(value["broad"].items(), key=lambda item: (-item[1], item[0]))
        lines += _table(("helper", "tests"), [(_code(key), str(tests)) for key, tests in broad[:_ROWS]])
        lines += _more(len(broad))
    if value["problems"]:
        lines += ["", "## Could not be read", ""]
        rows3 = [(one["side"], _code(one["file"]), inert(one["reason"], 200)) for one in value["problems"]]
        lines += _table(("side", "file", "reason"), rows3)
    return "\n".join(lines) + "\n"


def _variants(variants: dict[str, Any]) -> str:
    between = variants["between"]
    told = f"About {variants['count']} variants to evaluate on the device, {variants['how']}."
    if between is None:
        return told
    return (
        f"{told} Op by dtype by test, over all tests: {between['added']} variants added, {between['gone']} gone, "
        f"{between['kept']} kept; {between['tests']} tests have other variants than before."
    )


def _by_file(changes: Sequence[dict[str, Any]]) -> list[str]:
    files: dict[str, list[dict[str, Any]]] = {}
    for change in changes:
        if change["evaluate"]:
            files.setdefault(change["test"].partition("::")[0], []).append(change)
    rows = []
    for path, here in sorted(files.items(), key=lambda item: (-sum(c["relevant"] for c in item[1]), item[0])):
        kinds = Counter(change["content"] for change in here)
        what = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        rows.append((_code(path), str(len(here)), str(sum(c["relevant"] for c in here)), what))
    return [*_table(("file", "to evaluate", "for this device", "why"), rows[:_ROWS]), *_more(len(rows))]


def _configs(configs: dict[str, Any]) -> list[str]:
    if not configs["edits"] and not configs["by_hand"]:
        return []
    lines = ["", "## Configs", ""]
    if configs["edits"]:
        lines += [f"{len(configs['edits'])} edits, as a patch in `configs.patch`.", ""]
        rows = [
            (_code(f"{e['source']}:{e['line']}" if e["line"] else e["source"]), e["kind"], _code(e["was"] or "-"),
             _code(e["to"] or "-"), inert(e["reason"], 300))
            for e in configs["edits"][:_ROWS]
        ]  # fmt: skip
        lines += [*_table(("where", "edit", "was", "is", "reason"), rows), *_more(len(configs["edits"]))]
    if configs["by_hand"]:
        lines += ["", "A person has to look at:", ""]
        lines += [f"* {_code(what)}" for what in configs["by_hand"][:_ROWS]]
        lines += _more(len(configs["by_hand"]))
    return lines


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, tuple("---" for _ in head), *rows)]


def _more(number: int) -> list[str]:
    return ["", f"{number - _ROWS} more are in the JSON."] if number > _ROWS else []


def _code(text: str) -> str:
    plain = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain[:300]}`"
