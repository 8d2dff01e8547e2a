"""The search for the commit that broke a test."""

from __future__ import annotations

import math

import pytest

from selector.verify.bisect import Found, Lost, Probe, State, step

COMMITS = [f"c{n}" for n in range(100)]


def search(first_bad: int, known: dict[str, State], silent: frozenset[int] = frozenset()) -> tuple[object, int]:
    """(what was found, runs it took) with a trunk that tells the truth."""
    known = dict(known)
    for runs in range(200):
        told = step(COMMITS, known)
        if not isinstance(told, Probe):
            return told, runs
        at = int(told.commit[1:])
        assert told.commit not in known, "nothing is run twice"
        known[told.commit] = "broken" if at in silent else "bad" if at >= first_bad else "good"
    raise AssertionError("it does not end")


@pytest.mark.parametrize("first_bad", [1, 2, 37, 50, 98, 99])
def test_it_finds_the_commit_in_logarithmically_many_runs(first_bad: int) -> None:
    found, runs = search(first_bad, {"c0": "good", "c99": "bad"})
    assert found == Found(f"c{first_bad}", f"c{first_bad - 1}")
    assert runs <= math.ceil(math.log2(99)) + 1


def test_what_is_stored_need_not_be_run() -> None:
    stored: dict[str, State] = {"c0": "good", "c36": "good", "c37": "bad", "c99": "bad"}
    assert search(37, stored) == (Found("c37", "c36"), 0)


def test_without_a_good_commit_it_goes_back_farther_each_time() -> None:
    found, runs = search(90, {"c99": "bad"})
    assert found == Found("c90", "c89")
    assert runs <= 12
    assert search(0, {"c99": "bad"})[0] == Lost("it fails as far back as trunk is known")


def test_commits_that_say_nothing_are_named_and_not_blamed() -> None:
    found, _ = search(41, {"c0": "good", "c99": "bad"}, silent=frozenset({38, 39, 40}))
    assert found == Found("c41", "c37", ("c38", "c39", "c40"))


def test_a_trunk_that_does_not_fail_is_not_searched() -> None:
    assert step(COMMITS, {"c99": "good"}) == Lost("the newest commit is not known to fail")
    assert step([], {}) == Lost("the newest commit is not known to fail")
