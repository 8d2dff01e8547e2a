"""``relay simulate``: a month of upstream's traffic against pools of workers, as a table and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relay.cli.terminal import Terminal
from relay.domain.words import plural
from relay.errors import SettingsError
from relay.simulate.month import simulate
from relay.simulate.outcome import Outcome, Percentiles
from relay.simulate.scenario import Scenario
from selector.configs.nodes import nearest

POOLS = (10, 50, 100, 200, 500, 2000)


def run(
    pools: Sequence[int],
    changes: Sequence[str],
    *,
    plot: Path | None,
    as_json: bool,
    console: Console | None = None,
) -> int:
    """Exit code 0. SettingsError for numbers that make no scenario."""
    scenario = _changed(Scenario(), changes)
    outcomes = [simulate(replace(scenario, pool=pool)) for pool in pools or POOLS]
    out = console or Terminal()
    if plot is not None:
        from relay.simulate.plot import plot as draw

        draw(outcomes, plot)
    if as_json:
        out.print_json(json.dumps([_value(one) for one in outcomes]))
    else:
        _tables(outcomes, out)
    return 0


def _changed(scenario: Scenario, changes: Sequence[str]) -> Scenario:
    known = {field.name: type(getattr(scenario, field.name)) for field in fields(scenario)}
    values: dict[str, Any] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in known:
            raise SettingsError(f"simulate: --set {change}: there is no such number", nearest(name, known))
        try:
            values[name] = known[name](text)
        except ValueError as exc:
            kind = "a whole number" if known[name] is int else "a number"
            raise SettingsError(
                f"simulate: --set {change}: {name} takes {kind}", f"like {name}={getattr(scenario, name)}"
            ) from exc
    return replace(scenario, **values)


def _value(one: Outcome) -> dict[str, Any]:
    value = asdict(one)
    value["limits"] = [{**asdict(limit), "breaks_at": round(limit.breaks_at, 2)} for limit in one.limits()]
    for name in ("rows_a_day", "bytes_a_day", "database_gb", "cost_a_month", "cost_busy"):
        value[name] = round(getattr(one, name), 2)
    return value


def _tables(outcomes: Sequence[Outcome], out: Console) -> None:
    first = outcomes[0]
    s = first.scenario
    out.print(
        f"{s.days:g} {'day' if s.days == 1 else 'days'}: {plural(first.events, 'webhook')}, "
        f"{plural(first.runs, 'run')} on our workers of {plural(s.variants, 'variant')}; "
        f"{plural(s.downstreams, 'downstream')}, {s.on_workers} of them on our workers; a day: "
        f"{plural(first.calls / s.days, 'call')} of GitHub, {plural(first.rows_a_day, 'row')}, "
        f"{first.bytes_a_day / 1e9:.1f} GB"
    )
    table = Table(
        "workers", "first test", "verdict", "makespan", "busy", "superseded", "cost", "first to break", box=None
    )
    for one in outcomes:
        worst = one.limits()[0]
        table.add_row(
            f"{one.scenario.pool:,}",
            _times(one.first),
            _times(one.verdict),
            _times(one.makespan),
            f"{one.busy:.0%}",
            f"{one.superseded / max(one.runs, 1):.0%}",
            f"{one.cost_a_month:,.0f} ({one.cost_busy:,.0f})",
            f"{worst.name}, x{worst.breaks_at:.2g}",
        )
    out.print(table)
    out.print("Times: p50, p95, p99. Cost: a month of the pool, always on (in brackets: of its busy hours).")
    best = next((one for one in outcomes if one.verdict.p95 <= 900), outcomes[-1])
    out.print(f"With {plural(best.scenario.pool, 'worker')}, what gives way as more comes in, the first one first:")
    for limit in best.limits():
        out.print(f"  x{limit.breaks_at:<5.2g} {limit.name}: {limit.words}. Then: {limit.mend}.")


def _times(of: Percentiles) -> str:
    return "  ".join(_time(one) for one in (of.p50, of.p95, of.p99))


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}min" if seconds < 7200 else f"{seconds / 3600:.0f}h"
