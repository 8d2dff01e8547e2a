"""Which tests are followed next, so that a table of what tests run fills over days and stays of what they are now."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta

from selector.discover.traced import Followed
from selector.model import TestId
from selector.plan.ranking import Ranked, cost

FACTOR = 2.0
"""Times the seconds of a test that following it takes; docs/discover.md has what was measured."""
DAYS = 30
"""A test is followed again after so many: what it reaches may be another while it is the same."""


def current(prints: Callable[[TestId], str], known: Mapping[TestId, Followed]) -> frozenset[TestId]:
    """The tests that were followed as they are now. ``prints``: a test's own fingerprint; KeyError where it is gone."""

    def same(test: TestId, one: Followed) -> bool:
        try:
            return prints(test) == one.print
        except KeyError:
            return False

    return frozenset(test for test, one in known.items() if same(test, one))


def due(
    ranked: Sequence[Ranked], known: Mapping[TestId, Followed], seconds: float, today: date
) -> list[tuple[Ranked, float]]:
    """Tests to follow in ``seconds`` of all workers together, with what each is thought to take: first those that
    nobody has followed, in an order drawn by their names, so that a part is a fair sample; then the oldest, where they
    are older than DAYS. ``known``: those that were followed as they are now. At least one, where any is due."""
    old = (today - timedelta(days=DAYS)).isoformat()

    def place(one: Ranked) -> tuple[str, bytes]:
        followed = known.get(one.test)
        return followed.day if followed else "", hashlib.blake2b(str(one.test).encode()).digest()

    found: list[tuple[Ranked, float]] = []
    files: set[str] = set()
    left = seconds
    for one in sorted(ranked, key=place):
        if one.test in known and known[one.test].day > old:
            break
        takes = cost(one, files) + one.seconds * (FACTOR - 1)
        left -= takes
        if left < 0 and found:
            break
        files.add(one.test.file)
        found.append((one, round(takes, 3)))
    return found
