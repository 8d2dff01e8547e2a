"""Whoever waits as told gets through, whoever does not changes nothing for himself."""

from __future__ import annotations

import pytest

from relay.errors import RateLimited
from relay.web.limits import Buckets


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_burst_then_the_rate_and_what_is_refused_is_not_counted():
    clock = Clock()
    buckets = Buckets(60, 3, clock=clock)
    for _ in range(3):
        buckets.take("a", "x")
    waits = []
    for _ in range(50):
        with pytest.raises(RateLimited) as caught:
            buckets.take("a", "x")
        waits.append(caught.value.extra["retry_after"])
    assert set(waits) == {1.0}
    buckets.take("b", "x")
    clock.now += waits[-1]
    buckets.take("a", "x")
    clock.now += 1000
    for _ in range(3):
        buckets.take("a", "x")
    with pytest.raises(RateLimited):
        buckets.take("a", "x")


def test_it_remembers_no_more_names_than_it_may():
    buckets = Buckets(60, 1, keep=10, clock=Clock())
    for number in range(100):
        buckets.take(f"name-{number}", "x")
    assert len(buckets._levels) == 10
    with pytest.raises(RateLimited):
        buckets.take("name-99", "x")
    buckets.take("name-0", "x")
