"""The table faults x invariants of docs/chaos.md, from the reports of the runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from under_chaos.faults import FAULTS
from under_chaos.invariants import NAMES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "chaos.md"
BEGIN, END = "<!-- chaos -->", "<!-- /chaos -->"
SHOWN = {"postgresql": "PostgreSQL, Redis", "sqlite": "SQLite, embedded broker"}


def lines(rounds: Iterable[dict[str, Any]]) -> list[str]:
    """The table's lines. Seconds with one decimal."""
    columns = [name for name in NAMES if name != "recovery"]
    out = [
        f"| Fault | On | Lasted | {' | '.join(columns)} | Stood still | Round |",
        "|---|---|---|" + "---|" * len(columns) + "---|---|",
    ]
    order = {fault.name: at for at, fault in enumerate(FAULTS)}
    for one in sorted(rounds, key=lambda row: (order.get(row["fault"], -1), row["fault"], row["database"])):
        if one["untried"]:
            cells = ["-"] * len(columns)
            tail = f"not tried: {one['untried']} | -"
        else:
            cells = ["**no**" if one["findings"].get(name) else "yes" for name in columns]
            late = " **late**" if one["findings"].get("recovery") else ""
            tail = f"{one['recovery']:.1f} s{late} | {one['whole']:.0f} s"
        lasted = f"{one['lasted']:.1f} s" if one["lasted"] >= 0.1 else "-"
        out.append(f"| {one['fault']} | {SHOWN[one['database']]} | {lasted} | {' | '.join(cells)} | {tail} |")
    return out


def write(reports: Sequence[Path], page: Path = PAGE) -> None:
    """Puts the table of ``reports`` between the marks of the page."""
    rounds = [one for report in reports for one in json.loads(report.read_text())]
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines(rounds)) + f"\n{END}{after}", encoding="utf-8")
