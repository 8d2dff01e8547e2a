"""The body of ``relay replay cases``: faults that the rules missed once, selected for again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relay.cli.terminal import Terminal
from relay.errors import SettingsError
from relay.replay.selecting import case_of
from relay.replay.upstream import Ground
from selector.model import TestId
from selector.replay import catalogue
from selector.replay.evaluate import Missed
from selector.replay.model import PoolVariant


def to_value(missed: Sequence[Missed], pool: Mapping[str, PoolVariant], seed: str, torch: str) -> dict[str, Any]:
    """What is kept of missed faults: where they are and which tests, of which op, find them; nothing of the source."""
    rows = [
        {
            "fault": one.fault.id,
            "scoring": one.fault.scoring,
            "path": one.fault.path,
            "symbol": one.fault.symbol,
            "line": one.fault.line,
            "found_by": [
                {"test": test, "op": op}
                for test, op in sorted({(str(pool[key].test), pool[key].op or "") for key in one.killers})
            ],
        }
        for one in sorted(missed, key=lambda one: one.fault.id)
    ]
    return {"seed": seed, "torch": torch, "cases": rows}


def run(file: Path, upstream: Path, configs: Path, work: Path, console: Console | None = None) -> int:
    """Selects for each case of the file again. 0 when the rules select a test that finds each, 1 when they still miss
    one. SettingsError for what cannot be used."""
    out = console or Terminal(soft_wrap=True)
    value = _read(file)
    ground = Ground(upstream, configs, work)
    if ground.opdb.torch != value["torch"]:
        raise SettingsError(f"{file} is of torch {value['torch']}, installed is {ground.opdb.torch}")
    faults = catalogue.by_id(catalogue.draw(ground.tree, value["seed"]))
    table = Table("fault", "part", "place", "found by", "the rules now")
    missing = 0
    for row in value["cases"]:
        fault = faults.get(row["fault"])
        if fault is None:
            raise SettingsError(
                f"{file}: the seed does not draw {row['fault']} here", "the upstream tree is another one"
            )
        chosen = case_of(fault, ground).chosen
        finders = [PoolVariant("", TestId.parse(found["test"]), found["op"] or None, 0.0) for found in row["found_by"]]
        there = any(one.runs(variant) for variant in finders for one in chosen)
        missing += not there
        part = "scoring" if fault.scoring else "writing"
        place = f"{fault.path}:{fault.line} {fault.symbol}"
        table.add_row(
            fault.id, part, place, f"{finders[0].test} {finders[0].op or ''}", "select it" if there else "miss it"
        )
    out.print(table)
    return 1 if missing else 0


def _read(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise SettingsError(f"{file}: {exc.strerror}", "relay replay show --missed writes such a file") from exc
    except ValueError as exc:
        raise SettingsError(f"{file}: {exc}", "relay replay show --missed writes such a file") from exc
    if not isinstance(value, dict) or not {"seed", "torch", "cases"} <= value.keys():
        raise SettingsError(f"{file} holds no cases of a replay", "relay replay show --missed writes such a file")
    return value
