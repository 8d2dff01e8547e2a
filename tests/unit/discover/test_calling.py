"""Who calls a word: every test that does so itself, and of those alike through one helper a bounded, spread few."""

from __future__ import annotations

from collections import Counter

import pytest

from selector.discover import take
from selector.discover.calling import ALIKE, callers
from selector.trees import MemoryTree

PATH = "test/test_a.py"


def called(sizes: list[int], *, direct: int = 0, word: str = "norm"):
    """Callers among classes of so many tests, all through one helper but the ``direct`` first of each."""
    lines = ["def check(x):", "    return x.norm()", "", "def other(x):", "    return check(x)", ""]
    for number, size in enumerate(sizes):
        lines.append(f"class Test{number}(TestCase):")
        for n in range(size):
            own = "x.norm()" if n < direct else "other(x)"
            lines += [f"    def test_{n}(self):", f"        check({own})", ""]
    inventory = take(MemoryTree({PATH: "\n".join(lines)}))
    every = [(test, method.line) for test, _, method in inventory.tests()]
    return callers(inventory, frozenset({word}), every).get(word, [])


@pytest.mark.parametrize("size", [1, ALIKE])
def test_up_to_the_bound_all_are_taken(size: int) -> None:
    found = called([size])
    assert [one.test.method for one in found] == [f"test_{n}" for n in range(size)]
    assert {(one.how, one.sure) for one in found} == {("calls it", 1.0)}


def test_beyond_it_a_few_of_every_class_stand_for_the_others_and_say_so() -> None:
    found = called([200, 5, 40])
    assert Counter(one.test.cls for one in found) == {"Test0": 28, "Test1": 5, "Test2": 27}
    assert {one.how for one in found} == {
        f"calls it through check of {PATH}, as 244 others do, of which {ALIKE} are taken"
    }
    assert {one.sure for one in found} == {0.5}


def test_who_calls_it_itself_is_never_left_out() -> None:
    found = called([500], direct=90)
    own = [one.test.method for one in found if one.how == "calls it"]
    assert own == [f"test_{n}" for n in range(90)]
    assert len(found) <= 90 + ALIKE


def test_a_word_that_nobody_calls_has_no_callers() -> None:
    assert called([3], word="logit") == []
