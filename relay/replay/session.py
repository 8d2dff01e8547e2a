"""A replay from beginning to end: draws faults, takes a pool, selects, runs what has to run. Resumable at any point."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from relay.replay.process import Ended, Host, ReplayBroken
from relay.replay.recorded import RecordedAgent
from relay.replay.selecting import NO_LIMIT_S, case_of
from relay.replay.store import Store
from relay.replay.tracing import follow
from relay.replay.upstream import Ground
from relay.worker.replay.job import HostJob, Order
from selector.discover import Hints
from selector.model import TestId
from selector.plan.ranking import Ranker
from selector.replay import catalogue, schedule
from selector.replay.model import KILLED, SURVIVED, UNSTABLE, Fault, PoolVariant
from selector.replay.strategies import Case, Pool, Recorded, orders

log = structlog.get_logger(__name__)
BAD = frozenset({"failed", "error", "crashed", "timed_out"})
SLOWEST_S = 5.0
"""A variant that takes longer without a fault is in no pool."""
POOL_BATCH = 200


@dataclass(frozen=True, slots=True)
class Settings:
    """What makes a replay what it is: the same settings give the same faults and the same order of everything.

    ``share``, ``least``, ``most``: how many variants of a file are collected (`relay.worker.replay.job`). Seconds of
    wall clock: ``pool_s`` for taking the pool, ``fault_s`` for running tests of a fault, ``full_s`` of one that is run
    to the end; ``full``: how many are. ``quotas``: faults that are drawn, by area.
    """

    seed: str = "1"
    share: float = 0.02
    least: int = 100
    most: int = 700
    pool_s: float = 480.0
    fault_s: float = 60.0
    full_s: float = 240.0
    full: int = schedule.FULL
    quotas: tuple[tuple[str, int], ...] = tuple(catalogue.QUOTAS.items())


class Session:
    """One replay. ``say`` is told of progress, a line at a time; ``tracing``: what the pool's variants run is followed
    once, and one more strategy is given it."""

    def __init__(
        self, ground: Ground, settings: Settings, say: Callable[[str], None] = log.info, *, tracing: bool = False
    ) -> None:
        self.ground, self.settings, self.say = ground, settings, say
        kept: dict[str, Any] = {**asdict(settings), "quotas": [list(q) for q in settings.quotas]}
        kept |= {"torch": ground.opdb.torch, "upstream": str(ground.upstream), "files": list(ground.files)}
        self.store = Store(ground.work, kept | {"configs": str(ground.configs)})
        self.faults = self._faults()
        self.numbers = {fault.id: number for number, fault in enumerate(self.faults)}
        self.known, self.notes = self.store.results()
        self.cases = self.store.cases({fault.id: fault for fault in self.faults})
        self.tracing = tracing
        self.trace = self.store.trace()
        self.recorded: Mapping[str, Recorded] = {}
        """a model's recorded answers, by fault"""

    @property
    def log_file(self) -> Path:
        return self.ground.work / "host.log"

    def _faults(self) -> list[Fault]:
        faults = self.store.faults()
        if faults is None:
            faults = catalogue.draw(self.ground.tree, self.settings.seed, dict(self.settings.quotas))
            self.store.keep_faults(faults)
            self.say(f"{len(faults)} faults drawn, {sum(fault.scoring for fault in faults)} of kinds that only score")
        return faults

    def run(self, limit: int | None = None, until: float | None = None, ranker: Ranker | None = None) -> None:
        """Runs faults in their order until ``limit`` of them were reached by some variant, as far as ``until`` (of
        time.monotonic) allows. ReplayBroken, TreeError."""
        kept = self.store.pool()
        keys = None if kept is None else tuple(variant.key for variant in kept)
        began = time.monotonic()
        with Host(self._job(keys), self.log_file) as host:
            self.say(
                f"{len(host.rows)} variants of {len(host.shares)} files collected in {time.monotonic() - began:.0f} s"
            )
            for file, error in sorted(host.errors.items()):
                self.say(f"{file} cannot be imported: {error.strip().splitlines()[-1][:200]}")
            missing = sorted(set(keys or ()) - host.rows.keys())
            if missing:
                raise ReplayBroken(
                    f"{len(missing)} variants of the pool are not collected any more, {missing[0]} among them",
                    "the tree, the configs or torch are others than they were: begin again with another --work",
                )
            if kept is None:
                kept = self._baseline(host)
                self.store.keep_pool(kept)
            pool = Pool(kept)
            if self.tracing and self.trace is None:
                self.trace = follow(host, kept, self.ground.opdb.torch, self.say)
                self.store.keep_trace(self.trace)
            faults = self.first(limit, pool)
            for place, fault in enumerate(faults):
                if until is not None and time.monotonic() > until:
                    self.say(f"time is over after {place} of {len(faults)} faults")
                    break
                self._fault(fault, pool, host, ranker)
            self._to_the_end(faults, pool, host, until)

    def _job(self, keys: tuple[str, ...] | None) -> HostJob:
        """What the host collects: a pool's variants, or what a pool is to be taken of."""
        s, ground = self.settings, self.ground
        tests = ground.tests if keys is None else tuple({v.test: None for v in self.pool().variants.values()})
        return HostJob(
            ground.upstream.resolve(), ground.site, ground.configs.resolve(), tests, tuple(self.faults), s.seed,
            s.share, s.least, s.most, keys,
        )  # fmt: skip

    def first(self, limit: int | None, pool: Pool) -> list[Fault]:
        """The drawn faults up to the ``limit``-th that some variant reaches; None: all."""
        found: list[Fault] = []
        reached = 0
        for fault in self.faults:
            if limit is not None and reached >= limit:
                break
            found.append(fault)
            reached += bool(pool.reached(fault.id))
        return found

    def pool(self) -> Pool:
        """The pool that an earlier `run` took."""
        kept = self.store.pool()
        if kept is None:
            raise ReplayBroken(f"{self.ground.work} has no pool yet", "relay replay run makes one")
        return Pool(kept)

    def _baseline(self, host: Host) -> list[PoolVariant]:
        """The variants that pass without a fault, with what they cost and which faults they reach: of those that were
        collected a random part, as many as ``pool_s`` seconds allow."""
        keys = sorted(host.rows, key=lambda key: hashlib.blake2b(f"{self.settings.seed} {key}".encode()).digest())
        told: dict[str, dict[str, Any]] = {}
        began = time.monotonic()
        for start in range(0, len(keys), POOL_BATCH):
            some = sorted(keys[start : start + POOL_BATCH])
            ended = host.run(Order(some, None, stop=False, probe=True, variant_s=SLOWEST_S, total_s=3600.0))
            told |= {key: ended.variants.get(key, {"raw": "not run"}) for key in some}
            counts = Counter(one["raw"] for one in told.values())
            self.say(f"without a fault: {len(told)} of {len(keys)} variants: {dict(counts)}")
            if time.monotonic() - began > self.settings.pool_s:
                break
        return self._pool_of(host, told)

    def _pool_of(self, host: Host, told: Mapping[str, dict[str, Any]]) -> list[PoolVariant]:
        flags: dict[str, set[str]] = defaultdict(set)
        for fault in self.faults:
            if fault.flag:
                flags[fault.symbol.partition(":")[2]].add(fault.id)
        listed, ran = (Counter(key.partition("::")[0] for key in keys) for keys in (host.rows, told))
        variants = []
        for key in sorted(told):
            if told[key]["raw"] != "passed":
                continue
            test, op = host.rows[key]
            file = key.partition("::")[0]
            # an entry is read by whatever runs its op, which no probe can see
            hits = frozenset(self.faults[number].id for number in told[key].get("hits", ())) | flags.get(
                op or "", set()
            )
            share = host.shares[file] * ran[file] / listed[file]
            variants.append(PoolVariant(key, TestId.parse(test), op, told[key]["s"], share, hits))
        return variants

    def _fault(self, fault: Fault, pool: Pool, host: Host, ranker: Ranker | None) -> None:
        """Runs what every strategy's first failure asks for: all tests first, since what none of them finds need not be
        selected for; then the strategies in their order."""
        notes = self.notes.setdefault(fault.id, {})
        known = self.known.setdefault(fault.id, {})
        reached = pool.reached(fault.id)
        if not reached or notes.get("no_place"):
            if not notes:
                self._keep(fault, {}, reached=0)
            return
        self._first_failure(fault, list(pool.variants), pool, host)
        if KILLED in known.values():
            for order in orders(self.case(fault), pool, self.settings.seed, ranker).values():
                self._first_failure(fault, order, pool, host)
        killers = sum(v == KILLED for v in known.values())
        told = f"{killers or 'no'} of {len(known)} run and {len(reached)} reaching variants fail"
        self.say(f"{fault.id}: {told}, {notes['spent_s']:.1f} s")

    def _first_failure(self, fault: Fault, order: Sequence[str], pool: Pool, host: Host) -> None:
        """Runs what of an order could fail before its first known failure, as far as the fault's seconds allow."""
        notes, known = self.notes[fault.id], self.known[fault.id]
        reached = pool.reached(fault.id)
        spent = float(notes.get("spent_s", 0.0))
        while keys := schedule.to_run(order, reached, known):
            left = self.settings.fault_s - spent
            if left <= 0.5 or notes.get("no_place"):
                break
            spent = self._run(fault, keys, pool, host, left, spent, stop=True)

    def _run(
        self, fault: Fault, keys: Sequence[str], pool: Pool, host: Host, left: float, spent: float, *, stop: bool
    ) -> float:
        """Runs variants under a fault and keeps what became of them. Returns the seconds spent on the fault so far."""
        began = time.monotonic()
        longest = max(pool.variants[key].seconds for key in keys)
        order = Order(keys, self.numbers[fault.id], stop, variant_s=10.0 + 4 * longest, total_s=left)
        ended = host.run(order)
        told = self._told(ended, host)
        spent += time.monotonic() - began
        no_place = ended.changed == 0 and not ended.late
        notes: dict[str, Any] = {"no_place": True} if no_place else {}
        if ended.late or (not told and not no_place):
            spent = max(spent, self.settings.fault_s if stop else spent)
        self._keep(fault, told, spent_s=round(spent, 2), reached=len(pool.reached(fault.id)), **notes)
        return spent

    def _told(self, ended: Ended, host: Host) -> dict[str, str]:
        """A failure is the fault's only if the variant passes once more without it."""
        told = {key: KILLED if one["raw"] in BAD else SURVIVED for key, one in ended.variants.items()}
        failed = [key for key, what in told.items() if what == KILLED]
        again = host.run(Order(failed, None, stop=False, variant_s=4 * SLOWEST_S, total_s=600.0))
        for key in failed:
            if again.variants.get(key, {}).get("raw") != "passed":
                told[key] = UNSTABLE
        return told

    def _to_the_end(self, faults: Sequence[Fault], pool: Pool, host: Host, until: float | None) -> None:
        """Runs a seeded subset of the killed faults on every variant that reaches them."""
        killed = [fault for fault in faults if KILLED in self.known.get(fault.id, {}).values()]
        chosen = schedule.full_subset(killed, self.settings.seed, self.settings.full)
        for fault in killed:
            if fault.id not in chosen or self.notes[fault.id].get("all_ran") or (until and time.monotonic() > until):
                continue
            left = [key for key in pool.variants if key in pool.reached(fault.id) and key not in self.known[fault.id]]
            spent = float(self.notes[fault.id]["spent_s"])
            if left:
                self._run(fault, left, pool, host, self.settings.full_s, spent, stop=False)
            missing = [key for key in left if key not in self.known[fault.id]]
            self._keep(fault, {}, all_ran=not missing)
            self.say(f"{fault.id}: run to the end, {len(missing)} variants had no time")

    def case(self, fault: Fault) -> Case:
        """What the rules select for it: worked out once."""
        case = self.cases.get(fault.id)
        if case is None:
            case = self.cases[fault.id] = case_of(fault, self.ground)
            self.store.keep_case(case)
        if case.traced is None and self.trace is not None:
            traced = case_of(fault, self.ground, Hints(trace=self.trace))
            case = self.cases[fault.id] = replace(case, traced=traced)
            self.store.keep_case(case)
        return self._modelled(case)

    def _modelled(self, case: Case) -> Case:
        """With what a model's run says of it, and the plan that comes of that: the rules' where they asked nothing."""
        said = self.recorded.get(case.fault.id)
        if said is None:
            return case
        if not said.suspects and not said.drop:
            return replace(case, recorded=said, modelled=case)
        if case.modelled is None or case.recorded != said:
            made = case_of(case.fault, self.ground, agent=RecordedAgent(said), room_s=NO_LIMIT_S)
            case = self.cases[case.fault.id] = replace(case, recorded=said, modelled=made)
        return case

    def all_cases(self) -> dict[str, Case]:
        """Every case that was selected, with what a model's run says of it."""
        return {fault.id: self.case(fault) for fault in self.faults if fault.id in self.cases}

    def _keep(self, fault: Fault, variants: dict[str, str], **notes: Any) -> None:
        self.known.setdefault(fault.id, {}).update(variants)
        self.notes.setdefault(fault.id, {}).update(notes)
        self.store.keep_results(fault.id, variants, **notes)


def by_area(faults: Sequence[Fault]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for fault in faults:
        counts[fault.area] += 1
    return dict(sorted(counts.items()))
