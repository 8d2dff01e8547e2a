"""What rankers, rules and models on trial said, held against what their run showed, and what replay says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection

from relay.settings import Settings
from relay.store import plans, trials
from selector.model import Outcome, Stage, TestId, VariantResult, Verdict
from selector.plan.observed import Observed, Seen, observe
from selector.plan.ranking import IN_FORCE
from selector.plan.shadow import trial
from selector.plan.takeover import ReplayError, ReplayReport, read_reports

_NOT_EXECUTED = (Outcome.SKIPPED, Outcome.SELF_SKIPPED)


def record(conn: Connection, dispatch_id: str, head: Sequence[VariantResult], verdict: Verdict, now: float) -> None:
    """Stores each subject's trial in a run that has its verdict."""
    row = plans.row(conn, dispatch_id)
    if row is None or not row.shadow:
        return
    seen = seen_of(head, verdict, (row.exploration or {}).get("tests", ()))
    told: dict[str, dict[str, Any]] = {}
    observed: dict[str, Observed] = {}
    seconds = {TestId.parse(test): cost for test, cost in row.shadow["seconds"].items()}
    orders = {name: [TestId.parse(test) for test in tests] for name, tests in row.shadow["orders"].items()}
    in_force = orders.pop(IN_FORCE[0], [])
    for name, order in orders.items():
        told[f"ranker:{name}"] = asdict(trial(order, in_force, seconds, seen.broken - seen.drawn))
    for one in row.shadow["opinions"]:
        adds, drops = _tests(one["adds"]), _tests(one["drops"])
        here = observe(Stage(one["stage"]), adds, drops, seen, error=bool(one["error"]))
        known = observed.get(one["subject"])  # a model may speak in two stages: that is one run
        observed[one["subject"]] = replace(known + here, runs=1) if known else here
    told |= {subject: asdict(one) for subject, one in observed.items()}
    trials.add(conn, dispatch_id, told, now)


def seen_of(head: Sequence[VariantResult], verdict: Verdict, drawn: Iterable[str]) -> Seen:
    """What a run showed. Only what its verdict blames on the change counts as broken."""
    return Seen(
        ran=frozenset(r.test for r in head if r.outcome not in _NOT_EXECUTED),
        broken=frozenset(cause.test for cause in verdict.causes if cause.kind == "regression"),
        engaged=frozenset(r.test for r in head if (r.kernels or 0) > 0),
        drawn=_tests(drawn),
    )


def _tests(names: Iterable[str]) -> frozenset[TestId]:
    return frozenset(map(TestId.parse, names))


def replays(settings: Settings) -> tuple[dict[str, ReplayReport], str]:
    """(what the last replay says by subject, what is wrong with the file that says it)"""
    path = settings.replay_reports
    if path is None:
        return {}, ""
    try:
        return read_reports(path.read_text(encoding="utf-8"), str(path)), ""
    except (OSError, ReplayError) as exc:
        return {}, str(exc)
