"""The body of ``relay config explain``."""

from __future__ import annotations

import json
import platform
from pathlib import Path

from rich.console import Console
from rich.text import Text

from relay.cli.terminal import Terminal
from relay.errors import SettingsError
from relay.services.device_configs import load_device
from selector.configs.explain import NONE, OTHER, Explanation, Group, explain
from selector.model import TestId
from selector.opdb import from_json

SHOWN = 8
"""ops of a group that are named before "and N more" """


def run(
    test: str,
    folder: Path,
    opdb: Path | None = None,
    *,
    machine: str = "",
    as_json: bool = False,
    console: Console | None = None,
) -> int:
    """Prints what governs each group of variants of ``file::Class::method``, on this machine's architecture unless
    ``machine`` names another. 0; 1 when no variant can run."""
    console = console or Terminal(soft_wrap=True)
    try:
        wanted = TestId.parse(test)
    except ValueError as exc:
        raise SettingsError(str(exc), "for example test/test_view_ops.py::TestViewOps::test_real") from exc
    device = load_device(folder, platform=machine or platform.machine())
    ops = None
    if opdb is not None:
        try:
            ops = [(op.name, op.variant) for op in from_json(opdb.read_text(encoding="utf-8")).ops]
        except OSError as exc:
            raise SettingsError(f"{opdb}: {exc.strerror}", "python -m relay.worker.opdb writes one") from exc
    found = explain(device.configs, wanted, device.capability, ops=ops)
    if as_json:
        console.print_json(json.dumps(as_dict(found)))
    else:
        _print(found, console)
    return 0 if any(g.presence != "dropped" and g.rule.mode != "skip" for g in found.groups) else 1


def as_dict(found: Explanation) -> dict[str, object]:
    return {
        "test": str(found.test),
        "notes": list(found.notes),
        "groups": [
            {
                "ops": [op_word(op) for op in g.ops],
                "dtypes": [dtype_word(d) for d in g.dtypes],
                "presence": g.presence,
                "mode": g.rule.mode.value,
                "entry": g.rule.source,
                "reason": g.rule.reason,
                "issue": g.rule.issue,
                "why": g.why,
                "beaten": list(g.beaten),
            }
            for g in found.groups
        ],
    }


def _print(found: Explanation, console: Console) -> None:
    console.print(str(found.test), style="bold")
    console.print("  What the configs say of it; whether upstream has such a test is not looked up.", style="dim")
    for note in found.notes:
        console.print(f"  note: {note}")
    for group in found.groups:
        mode = "not generated" if group.presence == "dropped" else group.rule.mode.value
        added = " (added, whether upstream has it or not)" if group.presence == "added" else ""
        console.print(Text.assemble("\n", (mode, "bold"), f"{added}  {_variants(group)}"))
        if group.presence != "dropped":
            console.print(f"  by      {group.rule.source or '-'}")
        console.print(f"  because {group.why}")
        if group.presence != "dropped" and group.rule.reason:
            issue = f" [{group.rule.issue}]" if group.rule.issue else ""
            console.print(f"  reason  {group.rule.reason + issue}")
        for other in group.beaten:
            console.print(f"  over    {other}")


def _variants(group: Group) -> str:
    ops = [op_word(op) for op in group.ops]
    shown = ", ".join(ops[:SHOWN]) + (f" and {len(ops) - SHOWN} more" if len(ops) > SHOWN else "")
    return f"{shown} × {', '.join(map(dtype_word, group.dtypes))}"


def op_word(op: tuple[str, str]) -> str:
    if op[0] == NONE:
        return "no op"
    return "any other op" if op[0] == OTHER else f"{op[0]}.{op[1]}" if op[1] else op[0]


def dtype_word(dtype: str) -> str:
    return {NONE: "no dtype", OTHER: "any other dtype"}.get(dtype, dtype)
