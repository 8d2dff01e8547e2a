"""A seeded sample of the orders of tests/bench/lifecycle_orders.py, with concurrent writers, on both databases."""

from __future__ import annotations

import pytest
from lifecycle_orders import order_of, play, problems

pytestmark = pytest.mark.both_databases
SAMPLE = 40


def test_the_orders_are_of_every_kind():
    orders = [order_of(seed) for seed in range(500)]
    assert sum(len(o.reports) == 8 == len(o.kept) for o in orders) == 125
    assert sum(len(o.kept) < 8 for o in orders) == 250
    assert sum(len(o.reports) > len(o.kept) for o in orders) == 250
    assert len({o.reports for o in orders}) > 490


def test_concurrent_writers_in_any_order_end_as_one_writer_would(engine):
    for seed in range(SAMPLE):
        order = order_of(seed)
        assert problems(engine, order, play(engine, order)) == [], order
