"""Pull requests of upstream over some days, as the webhooks that they cause. Deterministic by seed.

More comes on weekdays than at weekends, and most between 14 and 24 h UTC, when most of upstream's people are awake. A
stack is pushed as a whole: all of its pull requests within a few seconds.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from relay.domain.events import PullRequestEvent
from relay.simulate.scenario import DAY_S, Scenario

UPSTREAM = "pytorch/pytorch"
HOURS = (3, 2, 2, 2, 2, 2, 3, 4, 5, 5, 5, 5, 5, 6, 8, 9, 10, 10, 10, 10, 9, 8, 7, 5)
"""How much comes in each hour of the day (UTC), in relation to the others."""
WEEKDAYS = (1.0, 1.1, 1.1, 1.1, 1.0, 0.25, 0.25)
STACK_S = 20.0
"""Seconds in which a stack's pushes arrive."""
OPEN_DAYS = 4.0
"""Mean days in which a pull request gets its pushes."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A webhook: ``at`` seconds after the first midnight, a Monday's."""

    at: float
    event: PullRequestEvent


def arrivals(scenario: Scenario) -> Iterator[Arrival]:
    """All webhooks of the scenario's days, by time. Pull requests that opened before the first day are there too."""
    rng = random.Random(scenario.seed)
    stack = scenario.stack_size
    whole = round(scenario.pull_requests * (scenario.days + OPEN_DAYS) / 30)
    stacked = round(whole * scenario.stack_share / stack) if stack > 1 else 0
    groups = [stack] * stacked + [1] * max(0, whole - stacked * stack)
    found: list[Arrival] = []
    number = 0
    for size in groups:
        numbers = range(number + 1, number + size + 1)
        number += size
        found += _group(rng, scenario, numbers)
    found.sort(key=lambda one: (one.at, one.event.number))
    yield from (one for one in found if 0 <= one.at < scenario.seconds)


def _group(rng: random.Random, scenario: Scenario, numbers: range) -> Iterator[Arrival]:
    """A pull request, or a stack of them that is always pushed together."""
    opened = _daytime(rng, -OPEN_DAYS * DAY_S, scenario.seconds)
    length = rng.expovariate(1 / (OPEN_DAYS * DAY_S))
    moments = [opened]
    while len(moments) < scenario.pushes:
        moments.append(_daytime(rng, opened, opened + length + 600.0))
    moments.sort()
    for round_, moment in enumerate(moments):
        action = "opened" if round_ == 0 else "synchronize"
        for number in numbers:
            late = rng.uniform(0, STACK_S) if len(numbers) > 1 else 0.0
            yield Arrival(moment + late, _event(number, action, f"{number}:{round_}"))
    closed = moments[-1] + rng.uniform(1.0, 2.0) * 3600.0
    for number in numbers:
        yield Arrival(closed, _event(number, "closed", f"{number}:{len(moments) - 1}"))


def _daytime(rng: random.Random, since: float, until: float) -> float:
    """A moment between two, as likely as HOURS and WEEKDAYS say."""
    most = max(HOURS) * max(WEEKDAYS)
    while True:
        at = rng.uniform(since, until)
        day, second = divmod(at, DAY_S)
        if rng.random() * most <= HOURS[int(second // 3600)] * WEEKDAYS[int(day) % 7]:
            return at


def _event(number: int, action: str, version: str) -> PullRequestEvent:
    return PullRequestEvent(
        action=action,
        upstream=UPSTREAM,
        number=number,
        title=f"change {number}",
        body="",
        author="someone",
        author_association="MEMBER",
        head_sha=hashlib.sha1(version.encode()).hexdigest(),
        base_sha="0" * 40,
        base_ref="main",
        head_repo=UPSTREAM,
        labels=(),
        draft=False,
        merged=action == "closed",
    )
