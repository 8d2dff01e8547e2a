"""A replay's state in a folder: what is there is not done again, so that a run that was cut off goes on.

``faults.json``, ``pool.json`` and ``settings.json`` say what the replay is; ``cases.jsonl`` (what was selected) and
``results.jsonl`` (what became of variants) grow a line at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from relay.errors import SettingsError
from selector.discover.traced import Trace
from selector.model import TestId
from selector.replay.model import Edit, Fault, PoolVariant
from selector.replay.strategies import Case, ChosenTest


class Store:
    """The folder of one replay. SettingsError where it belongs to another one, or holds what cannot be read."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "settings.json"
        if path.exists():
            there = json.loads(path.read_text(encoding="utf-8"))
            differ = sorted(key for key in there.keys() | settings.keys() if there.get(key) != settings.get(key))
            if differ:
                raise SettingsError(
                    f"{folder} holds a replay with another {', '.join(differ)}",
                    "give another --work, or the same settings",
                )
        else:
            path.write_text(json.dumps(settings, indent=1), encoding="utf-8")

    # ------------------------------------------------------------------------------------------------ what it is

    def faults(self) -> list[Fault] | None:
        rows = self._read("faults.json")
        return None if rows is None else [Fault(**{**row, "edit": Edit(**row["edit"])}) for row in rows]

    def keep_faults(self, faults: Sequence[Fault]) -> None:
        self._write("faults.json", [asdict(fault) for fault in faults])

    def pool(self) -> list[PoolVariant] | None:
        rows = self._read("pool.json")
        if rows is None:
            return None
        return [
            PoolVariant(r["key"], TestId.parse(r["test"]), r["op"], r["seconds"], r["share"], frozenset(r["hits"]))
            for r in rows
        ]

    def keep_pool(self, variants: Sequence[PoolVariant]) -> None:
        self._write(
            "pool.json",
            [
                {
                    "key": v.key, "test": str(v.test), "op": v.op, "seconds": v.seconds, "share": v.share,
                    "hits": sorted(v.hits),
                }
                for v in variants
            ],
        )  # fmt: skip

    def trace(self) -> Trace | None:
        path = self.folder / "trace.json.gz"
        return Trace.from_bytes(path.read_bytes()) if path.exists() else None

    def keep_trace(self, trace: Trace) -> None:
        path = self.folder / "trace.json.gz.new"
        path.write_bytes(trace.to_bytes())
        path.replace(self.folder / "trace.json.gz")

    # ------------------------------------------------------------------------------------------------ what came of it

    def cases(self, faults: Mapping[str, Fault]) -> dict[str, Case]:
        found = {}
        for row in self._lines("cases.jsonl"):
            fault = faults[row["fault"]]
            traced = None if row.get("traced") is None else _case(fault, row["traced"])
            found[fault.id] = replace(_case(fault, row), traced=traced)
        return found

    def keep_case(self, case: Case) -> None:
        traced = None if case.traced is None else _row(case.traced)
        self._append("cases.jsonl", {"fault": case.fault.id, **_row(case), "traced": traced})

    def results(self) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, Any]]]:
        """(fault -> variant -> what it did, fault -> notes: spent seconds, whether it has a place, whether all ran)."""
        known: dict[str, dict[str, str]] = {}
        notes: dict[str, dict[str, Any]] = {}
        for row in self._lines("results.jsonl"):
            known.setdefault(row["fault"], {}).update(row.get("variants", {}))
            notes.setdefault(row["fault"], {}).update({k: v for k, v in row.items() if k not in ("fault", "variants")})
        return known, notes

    def keep_results(self, fault: str, variants: Mapping[str, str], **notes: Any) -> None:
        self._append("results.jsonl", {"fault": fault, "variants": dict(variants), **notes})

    # ------------------------------------------------------------------------------------------------ files

    def _read(self, name: str) -> Any:
        path = self.folder / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _write(self, name: str, value: Any) -> None:
        path = self.folder / f"{name}.new"
        path.write_text(json.dumps(value), encoding="utf-8")
        path.replace(self.folder / name)

    def _append(self, name: str, value: Any) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        path = self.folder / name
        if not path.exists():
            return
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):  # a line that was cut off is not there
                yield json.loads(line)


def _row(case: Case) -> dict[str, Any]:
    return {
        "decide_s": case.decide_s,
        "widened": case.widened,
        "chosen": [
            {"test": str(c.test), "ops": sorted(c.ops), "weight": c.weight, "seconds": c.seconds, "codes": c.codes}
            for c in case.chosen
        ],
    }


def _case(fault: Fault, row: Mapping[str, Any]) -> Case:
    chosen = tuple(
        ChosenTest(TestId.parse(c["test"]), frozenset(c["ops"]), c["weight"], c["seconds"], tuple(c["codes"]))
        for c in row["chosen"]
    )
    return Case(fault, chosen, row["decide_s"], row["widened"])
