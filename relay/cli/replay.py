"""The bodies of ``relay replay``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relay.cli import replay_cases
from relay.cli.terminal import Terminal
from relay.errors import SettingsError
from relay.replay.asking import asked
from relay.replay.recorded import read_recorded
from relay.replay.session import Session
from relay.replay.session import Settings as ReplaySettings
from relay.replay.upstream import POOL_FILES, Ground
from relay.services import advising
from relay.settings import Settings
from selector.plan.learned import NAME, Learned, read_ranker
from selector.replay import catalogue
from selector.replay.evaluate import GROUPS, Evaluation, evaluate
from selector.replay.model import is_scoring
from selector.replay.statistics import Line, Outcome, line, table
from selector.replay.strategies import MODELLED

WIDTH = 150


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says. ``faults``: how many that the pool reaches, None: all; ``minutes``: of running."""

    upstream: Path
    configs: Path
    work: Path
    seed: str
    files: Sequence[str] = ()
    faults: int | None = None
    minutes: float | None = None
    share: float = 0.02
    most: int = 700
    full: int = 20
    ranker: Path | None = None
    model_run: Path | None = None
    least: int = 100
    pool_s: float = 480.0
    fault_s: float = 60.0
    quotas: tuple[tuple[str, int], ...] = tuple(catalogue.QUOTAS.items())
    trace: bool = False


def session(given: Given, console: Console) -> Session:
    """The replay of these settings, new or gone on with."""
    ground = Ground(given.upstream, given.configs, given.work, tuple(given.files) or POOL_FILES)
    settings = ReplaySettings(
        given.seed, given.share, given.least, given.most, given.pool_s, given.fault_s, full=given.full,
        quotas=given.quotas,
    )  # fmt: skip
    found = Session(ground, settings, console.print, tracing=given.trace)
    if given.model_run is not None:
        found.recorded = read_recorded(given.model_run)
    return found


def run(given: Given, console: Console | None = None) -> int:
    """Runs what is not there yet and prints the table. 0; what cannot be used is raised."""
    out = console or Terminal(soft_wrap=True)
    until = None if given.minutes is None else time.monotonic() + given.minutes * 60
    replay = session(given, out)
    replay.run(given.faults, until, ranker_of(given.ranker))
    return show(given, as_json=False, console=out, replay=replay)


def ask(given: Given, settings: Settings, out: Path, console: Console | None = None) -> int:
    """Asks the model of the settings about each fault that the pool reaches, and writes what it said to ``out``."""
    asking = advising.in_force(settings, "relay replay ask")
    told = console or Terminal(soft_wrap=True)
    answers = asked(session(given, told), asking, out, given.faults)
    told.print(f"{out}: {len(answers)} answers of {asking.agents.model}; relay replay show --model-run takes them")
    return 0


def show(
    given: Given,
    *,
    as_json: bool,
    reports: Path | None = None,
    missed: Path | None = None,
    console: Console | None = None,
    replay: Session | None = None,
) -> int:
    """Prints the table of what is there; writes what `replay_reports` takes, and what `relay replay cases` does."""
    out = console or Terminal(soft_wrap=True)
    if not out.is_terminal:
        out.width = WIDTH
    replay = replay or session(given, out)
    pool = replay.pool()
    found = evaluate(
        replay.first(given.faults, pool), pool, replay.all_cases(), replay.known, replay.notes, given.seed,
        ranker_of(given.ranker),
    )  # fmt: skip
    if reports is not None:
        reports.write_text(json.dumps(report_values(found), indent=1), encoding="utf-8")
    if missed is not None:
        value = replay_cases.to_value(found.missed, pool.variants, given.seed, replay.ground.opdb.torch)
        missed.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    if as_json:
        out.file.write(json.dumps(to_value(found, replay), indent=1) + "\n")
    else:
        print_tables(found, replay, out)
    return 0


def ranker_of(path: Path | None) -> Learned | None:
    if path is None:
        return None
    try:
        return read_ranker(path.read_text(encoding="utf-8"), str(path))
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", "relay learn writes such a file") from exc


def report_values(found: Evaluation) -> list[dict[str, Any]]:
    """What `selector.plan.takeover` reads of a ranker and a model, by the scoring kinds of both sorts."""
    reports = []
    for strategy, subject in (("rules + ranker", f"ranker:{NAME}"), (MODELLED, "model:recorded")):
        ours = _of(found, "rules")
        theirs = _of(found, strategy)
        if theirs:
            base, new = line("rules", ours), line(strategy, theirs)
            reports.append(
                {
                    "subject": subject,
                    "change_recall": new.changes.value,
                    "baseline": base.changes.value,
                    "n": new.changes.of,
                    "seconds_share": new.share / base.share if base.share else 1.0,
                }
            )
    return reports


def _of(found: Evaluation, strategy: str) -> list[Outcome]:
    return [o for group in GROUPS[:2] for o in found.outcomes[group].get(strategy, ())]


def to_value(found: Evaluation, replay: Session) -> dict[str, Any]:
    """Everything, as plain values."""
    groups = {group: [asdict(one) for one in table(of)] for group, of in found.outcomes.items()}
    missed = [
        {
            "fault": one.fault.id, "kind": one.fault.kind, "scoring": one.fault.scoring, "path": one.fault.path,
            "symbol": one.fault.symbol, "line": one.fault.line, "edit": one.fault.edit.text, "op": one.fault.op,
            "killers": list(one.killers), "selected": one.selected, "widened": one.widened,
        }
        for one in found.missed
    ]  # fmt: skip
    counts = {name: getattr(found, name) for name in COUNTS}
    pool = replay.pool()
    size = {
        "variants": len(pool.variants),
        "seconds": round(pool.seconds(list(pool.variants)), 1),
        "stands_for_s": round(pool.total),
    }
    return {"faults": counts, "pool": size, "kinds": found.kinds, "groups": groups, "missed": missed}


COUNTS = ("drawn", "not_run", "no_place", "unreached", "unkilled", "undecided", "killed")


def print_tables(found: Evaluation, replay: Session, out: Console) -> None:
    out.print(", ".join(f"{getattr(found, name)} {name.replace('_', ' ')}" for name in COUNTS))
    for group in GROUPS:
        rows = table(found.outcomes[group])
        if rows:
            out.print(strategy_table(group, rows))
    kinds = Table("kind", "", "drawn", "reached", "killed", "found by the rules", title="Kinds")
    for kind, (drawn, reached, killed, by_rules) in sorted(found.kinds.items()):
        kinds.add_row(kind, "scoring" if is_scoring(kind) else "writing", *map(str, (drawn, reached, killed, by_rules)))
    out.print(kinds)
    for one in found.missed:
        part = "scoring" if one.fault.scoring else "writing"
        out.print(
            f"missed ({part}): {one.fault.id} {one.fault.path}:{one.fault.line} {one.fault.symbol}; "
            f"found by {', '.join(one.killers[:3])}",
        )  # fmt: skip


def strategy_table(group: str, rows: Sequence[Line]) -> Table:
    """One group's lines; the interval is Wilson's, 95 %."""
    shown = Table(
        "strategy", "change recall", "95 %", "undecided", "test recall", "seconds", "saved", "first failure (s)",
        "decides (s)", "USD",
        title=f"{group}: {rows[0].changes.of} faults that some test finds",
    )  # fmt: skip
    for one in rows:
        low, high = one.changes.interval
        shown.add_row(
            one.strategy,
            f"{one.changes.value:.1%} ({one.changes.hits}/{one.changes.of})",
            f"{low:.1%}–{high:.1%}",
            str(one.undecided),
            "-" if one.test_recall is None else f"{one.test_recall:.1%} of {one.test_recall_faults}",
            f"{one.share:.1%}",
            f"{one.saved:.1%}",
            "-" if one.first_s is None else f"{one.first_s:.1f}",
            f"{one.decide_s:.2f}",
            f"{one.usd:.2f}",
        )
    return shown
