"""Which tests are followed next: a fair sample of what is not known, then what is old, as far as the seconds go."""

from __future__ import annotations

from datetime import date

from selector.discover.traced import Followed
from selector.model import TestId
from selector.plan.following import DAYS, FACTOR, current, due
from selector.plan.ranking import FILE_SECONDS, Ranked

TODAY = date(2026, 11, 30)


def ranked(count: int, seconds: float = 1.0, file: str = "test/a.py") -> list[Ranked]:
    return [Ranked(TestId(file, "T", f"test_{n:03}"), False, 1.0, seconds) for n in range(count)]


def names(found: list[tuple[Ranked, float]]) -> list[str]:
    return [one.test.method for one, _ in found]


def test_what_fits_is_a_sample_that_its_names_draw() -> None:
    tests = ranked(200)
    found = due(tests, {}, FILE_SECONDS + 20 * FACTOR, TODAY)
    assert len(found) == 20
    assert found == due(list(reversed(tests)), {}, FILE_SECONDS + 20 * FACTOR, TODAY)
    assert sum(int(name[-3:]) for name in names(found)) / 20 > 50, "not the first ones of the file"
    assert [takes for _, takes in found] == [FILE_SECONDS + FACTOR, *[FACTOR] * 19]


def test_what_nobody_has_followed_comes_first_and_what_is_fresh_not_at_all() -> None:
    tests = ranked(4)
    known = {
        tests[0].test: Followed("p", "2026-11-29"),
        tests[1].test: Followed("p", "2026-10-01"),
        tests[2].test: Followed("p", "2026-09-01"),
    }
    assert names(due(tests, known, 1e6, TODAY)) == ["test_003", "test_002", "test_001"]
    edge = {one.test: Followed("p", "2026-10-31") for one in tests}
    assert (TODAY - date(2026, 10, 31)).days == DAYS
    assert len(due(tests, edge, 1e6, TODAY)) == 4
    assert due(tests, {one.test: Followed("p", "2026-11-01") for one in tests}, 1e6, TODAY) == []


def test_one_is_followed_however_dear_it_is() -> None:
    assert len(due(ranked(3, seconds=1e4), {}, 1.0, TODAY)) == 1
    assert due([], {}, 1e6, TODAY) == []


def test_what_is_another_test_now_or_gone_is_not_current() -> None:
    a, b, gone = (TestId("test/a.py", "T", name) for name in ("test_a", "test_b", "test_gone"))

    def prints(test: TestId) -> str:
        return {a: "1", b: "2"}[test]

    known = {a: Followed("1", ""), b: Followed("1", ""), gone: Followed("1", "")}
    assert current(prints, known) == {a}
