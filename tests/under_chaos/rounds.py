"""Rounds: pull requests on their way, a fault, more pull requests, then a look at everything."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from under_chaos.faults import FAULTS, Fault, hold, missing
from under_chaos.invariants import Findings, check
from under_chaos.relay import RelayUnderChaos
from under_chaos.traffic import Traffic

SETTLE_S = 90.0


@dataclass
class Round:
    """One fault and what came of it; times in seconds. ``untried``: why it was not."""

    fault: str
    database: str
    lasted: float = 0.0
    recovery: float = 0.0
    whole: float = 0.0
    dropped: int = 0
    findings: dict[str, list[str]] = field(default_factory=dict)
    untried: str = ""

    @property
    def good(self) -> bool:
        return not any(self.findings.values())

    def as_map(self) -> dict[str, Any]:
        return asdict(self)


def of_database(database: str) -> list[Fault]:
    return [fault for fault in FAULTS if database == "postgresql" or fault.both]


def sample(database: str, seed: int, number: int, only: str = "") -> list[Fault]:
    """The faults of a run: all in an order that the seed draws, or ``number`` of them with every family before any has
    a second."""
    rng = random.Random(f"{database}{seed}")
    faults = [fault for fault in of_database(database) if only.casefold() in fault.name.casefold()]
    rng.shuffle(faults)
    if not number:
        return faults
    turn: dict[str, int] = {}
    ranked = []
    for at, fault in enumerate(faults):
        turn[fault.family] = turn.get(fault.family, 0) + 1
        ranked.append((turn[fault.family], at, fault))
    return [fault for _, _, fault in sorted(ranked, key=lambda one: one[:2])[:number]]


def play(folder: Path, database: str, seed: int, faults: Sequence[Fault], long: bool) -> list[Round]:
    """Starts the relay once and plays every fault in it. Says each round's line as it ends."""
    rng = random.Random(seed)
    rounds = []
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    with contextlib.ExitStack() as stack:
        relay = RelayUnderChaos(folder, database)
        began = time.monotonic()
        relay.start(stack)
        traffic = Traffic(relay)
        quiet = Fault("nothing (for comparison)", _nothing)
        _round(relay, traffic, quiet, rng, long)  # caches are cold, torch is imported for the first time
        print(f"{database}: up after {time.monotonic() - began:.1f} s; seed {seed}", flush=True)
        for fault in [quiet, *faults]:
            reason = missing(fault)
            if reason:
                one = Round(fault.name, database, untried=reason)
            else:
                one = _tried(relay, traffic, fault, rng, long)
            rounds.append(one)
            say(one)
    return rounds


def _tried(relay: RelayUnderChaos, traffic: Traffic, fault: Fault, rng: random.Random, long: bool) -> Round:
    """A round that says what broke in it, instead of ending all."""
    try:
        return _round(relay, traffic, fault, rng, long)
    except (AssertionError, LookupError) as exc:
        return Round(fault.name, relay.database, findings={"ended": [str(exc)]})


def _round(relay: RelayUnderChaos, traffic: Traffic, fault: Fault, rng: random.Random, long: bool) -> Round:
    began = time.monotonic()
    some = [traffic.open(ours=True), traffic.open(ours=False)]
    relay.wait(lambda: relay.rows(fault.when, guid=some[0].guid), f"before {fault.name}: {fault.when}", 60)
    broke = time.monotonic()
    with fault.begin(relay, rng):
        some.append(traffic.open(ours=False))
        if fault.lasts:
            some.append(traffic.open(ours=True))
        hold(relay, fault.long if long else fault.lasts)
        ended = time.monotonic()
    over = time.monotonic() if fault.lasts else broke
    some.append(traffic.open(ours=False))
    traffic.settle(some, over, SETTLE_S)
    recovery = max(one.gap for one in some)
    if fault.after:
        hold(relay, fault.after)
    findings: Findings = check(relay, some, recovery, late=fault.after > 0)
    state = relay.control("GET", "state")
    return Round(
        fault.name, relay.database, ended - broke, recovery, time.monotonic() - began,
        sum(state["doubles"].values()), findings.of,
    )  # fmt: skip


@contextlib.contextmanager
def _nothing(_: RelayUnderChaos, __: random.Random) -> Any:
    yield


def say(one: Round) -> None:
    if one.untried:
        print(f"  NOT TRIED  {one.fault}: {one.untried}", flush=True)
        return
    state = "ok" if one.good else "THROUGH"
    print(f"  {state:<8} {one.recovery:5.1f} s  {one.whole:5.1f} s  {one.fault}", flush=True)
    for name, lines in one.findings.items():
        for line in lines:
            print(f"           {name}: {line}", flush=True)
