"""What time it is at a service, whatever our own clock shows."""

from __future__ import annotations

import pytest
from two_clocks import Clocks

from relay.github.true_time import TrueTime, date_of

HOUR = 3600.0


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def true(clocks):
    return TrueTime(lambda: clocks.wall, lambda: clocks.monotonic)


def test_our_own_clock_counts_while_nobody_says_otherwise(clocks, true):
    assert true() == clocks.wall
    true.heard(None)
    true.heard(clocks.wall - 20)  # a Date of whole seconds, an answer that took long
    assert true() == clocks.wall


@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_a_wrong_clock_is_corrected_by_what_was_heard_and_a_right_one_is_believed_again(clocks, true, off):
    really = clocks.wall
    clocks.wall += off
    true.heard(really)
    assert true() == really
    clocks.pass_(100)
    assert true() == really + 100
    clocks.wall -= off  # set right: nothing needs to be heard for it
    assert true() == clocks.wall == really + 100
    clocks.wall += off  # and wrong again
    assert true() == really + 100


def test_a_date_that_is_none_says_nothing():
    assert date_of("Thu, 01 Jan 1970 00:17:10 GMT") == 1030.0
    assert date_of("yesterday") is None
    assert date_of(None) is None
