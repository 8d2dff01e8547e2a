"""From what variants did under faults to what each strategy would have found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from selector.plan.ranking import Ranker
from selector.replay import schedule
from selector.replay.model import KILLED, Fault
from selector.replay.statistics import Outcome
from selector.replay.strategies import MODELLED, TRACED, Case, Pool, orders

GROUPS = ("scoring, Python", "scoring, native-like", "writing, Python", "writing, native-like")


@dataclass(frozen=True, slots=True)
class Missed:
    """A fault that tests of the pool find and the rules' selection does not hold one of them."""

    fault: Fault
    killers: tuple[str, ...]
    selected: int
    widened: bool


@dataclass(slots=True)
class Evaluation:
    """``outcomes``: group -> strategy -> an outcome for each fault that some variant kills. Counts are of faults:
    ``drawn``; ``unreached`` by any variant of the pool (``no_place``: what runs has none, though the source has);
    ``unkilled``: all that reach it pass; ``undecided``: those that had time to run pass; ``not_run`` yet."""

    outcomes: dict[str, dict[str, list[Outcome]]] = field(default_factory=dict)
    drawn: int = 0
    killed: int = 0
    unreached: int = 0
    no_place: int = 0
    unkilled: int = 0
    undecided: int = 0
    not_run: int = 0
    missed: list[Missed] = field(default_factory=list)
    kinds: dict[str, list[int]] = field(default_factory=dict)
    """kind -> [drawn, reached, killed, found by the rules]"""


def group_of(fault: Fault) -> str:
    return f"{'scoring' if fault.scoring else 'writing'}, {'native-like' if fault.native else 'Python'}"


def evaluate(
    faults: Sequence[Fault],
    pool: Pool,
    cases: Mapping[str, Case],
    known: Mapping[str, Mapping[str, str]],
    notes: Mapping[str, Mapping[str, object]],
    seed: str,
    ranker: Ranker | None = None,
) -> Evaluation:
    """``known``: fault -> variant -> what it did; ``notes``: fault -> what is said of its run. Runs nothing."""
    found = Evaluation(outcomes={group: {} for group in GROUPS})
    for fault in faults:
        found.drawn += 1
        kind = found.kinds.setdefault(fault.kind, [0, 0, 0, 0])
        kind[0] += 1
        said, ran = notes.get(fault.id), known.get(fault.id, {})
        reached = pool.reached(fault.id)
        cut_off = KILLED in ran.values() and fault.id not in cases  # between its tests and its selection
        if said is None or cut_off:
            found.not_run += 1
        elif said.get("no_place"):
            found.no_place += 1
        elif not reached:
            found.unreached += 1
        elif KILLED not in ran.values():
            kind[1] += 1
            if all(key in ran for key in reached):
                found.unkilled += 1
            else:
                found.undecided += 1
        else:
            kind[1] += 1
            kind[2] += 1
            found.killed += 1
            kind[3] += _fault(found, fault, pool, cases[fault.id], ran, bool(said.get("all_ran")), seed, ranker)
    return found


def _fault(
    found: Evaluation,
    fault: Fault,
    pool: Pool,
    case: Case,
    ran: Mapping[str, str],
    all_ran: bool,
    seed: str,
    ranker: Ranker | None,
) -> bool:
    """Adds the outcomes of a killed fault. Returns whether the rules find it."""
    reached = pool.reached(fault.id)
    killers = [key for key, what in ran.items() if what == KILLED]
    by_rules = False
    for strategy, order in orders(case, pool, seed, ranker).items():
        chosen = set(order)
        hit = any(key in chosen for key in killers)
        weight = {key: 1.0 / pool.variants[key].share for key in killers}
        outcome = Outcome(
            fault.id,
            hit,
            not hit and bool(schedule.to_run(order, reached, ran)),
            pool.share(order),
            schedule.first_failure(order, ran, pool) if not schedule.to_run(order, reached, ran) else None,
            _decided(strategy, case),
            case.recorded.usd if case.recorded is not None and strategy == MODELLED else 0.0,
            (sum(weight[k] for k in killers if k in chosen), sum(weight.values())) if all_ran else None,
        )
        found.outcomes[group_of(fault)].setdefault(strategy, []).append(outcome)
        if strategy == "rules":
            by_rules = hit
            if not hit:
                found.missed.append(Missed(fault, tuple(sorted(killers)), len(order), case.widened))
    return by_rules


def _decided(strategy: str, case: Case) -> float:
    """Seconds that it took to decide."""
    if strategy == TRACED and case.traced is not None:
        return case.traced.decide_s
    if strategy == MODELLED and case.recorded is not None:
        return case.decide_s + case.recorded.seconds
    return case.decide_s if strategy.startswith("rules") else 0.0
