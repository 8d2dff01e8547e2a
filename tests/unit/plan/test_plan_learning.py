"""What becomes an example of a change, and which changes are held out."""

from __future__ import annotations

import pytest

from selector.model import TestId
from selector.plan.learning import MOST_TESTS, newest, of_change
from selector.plan.ranking import SEEN, Ranked, ranked_of


def named(number: int) -> TestId:
    return TestId("test/a.py", "T", f"test_{number}")


def seen(count: int, *, must_run: int | None = None) -> dict[TestId, Ranked]:
    return {named(n): Ranked(named(n), n == must_run, 0.5, 1.0) for n in range(count)}


def found(**over: object) -> dict[str, bool]:
    given = {"seen": seen(5), "ran": {named(n) for n in range(4)}, "broken": {named(0)}, "unsure": set(), **over}
    return {one.ranked.test.method: one.failed for one in of_change("a#1", **given)}  # type: ignore[arg-type]


def test_what_did_not_run_or_is_unsure_is_no_example() -> None:
    assert found() == {"test_0": True, "test_1": False, "test_2": False, "test_3": False}
    assert found(unsure={named(2)}) == {"test_0": True, "test_1": False, "test_3": False}


def test_what_ended_its_process_is_broken_though_it_never_came_to_an_end() -> None:
    assert found(ran=set()) == {"test_0": True}


def test_what_must_run_is_ordered_by_no_ranker() -> None:
    assert found(seen=seen(5, must_run=1)) == {"test_0": True, "test_2": False, "test_3": False}
    assert found(seen=seen(5, must_run=0)) == {}, "nothing that a ranker orders was broken"


def test_a_change_gives_a_bounded_part_of_its_tests_and_a_failing_one() -> None:
    count = MOST_TESTS + 500
    for broken in range(20):  # wherever the hash of its name puts it
        one = found(seen=seen(count), ran={named(n) for n in range(count)}, broken={named(broken)})
        assert len(one) == MOST_TESTS
        assert one[f"test_{broken}"] is True


@pytest.mark.parametrize(("count", "held"), [(1, 1), (4, 1), (10, 2), (40, 10)])
def test_the_newest_changes_are_held_out(count: int, held: int) -> None:
    ended = {f"a#{n}": float(n) for n in range(count)}
    assert newest(ended) == {f"a#{n}" for n in range(count - held, count)}


def test_no_changes_hold_nothing_out() -> None:
    assert newest({}) == frozenset()


@pytest.mark.parametrize("touched", [None, True, False])
def test_what_a_ranker_saw_comes_back_from_plain_numbers(touched: bool | None) -> None:
    one = Ranked(named(1), False, 0.25, 1.5, 3, touched, 2, 9, ("helper", "imports"), True)
    assert ranked_of(one.test, one.codes, dict(zip(SEEN, one.seen(), strict=True))) == one
