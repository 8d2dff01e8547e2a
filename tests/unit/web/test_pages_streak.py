"""How many runs of a backend failed in a row, and since when."""

from __future__ import annotations

from typing import Any

import pytest

from relay.web.pages_streak import failing_since, passing


def runs(words: str) -> list[dict[str, Any]]:
    """A letter a run, the oldest first, each of a pull request of its own."""
    said = {"s": "success", "f": "failure", "n": "neutral", "r": "running"}
    return [{"word": said[letter], "pr": n + 1, "at": 100.0 + n} for n, letter in enumerate(words)]


@pytest.mark.parametrize(
    ("words", "count", "at", "more"),
    [
        ("sf", 1, 101.0, False),
        ("sfff", 3, 101.0, False),
        ("sfnfr", 2, 101.0, False),  # neutral and open ones say nothing either way
        ("ff", 2, 100.0, True),  # nobody knows what was before
        ("fsf", 1, 102.0, False),
    ],
)
def test_failures_in_a_row_count_from_the_newest(words: str, count: int, at: float, more: bool) -> None:
    found = failing_since(runs(words))
    assert found == {"runs": count, "at": at, "pulls": count, "more": more}


@pytest.mark.parametrize("words", ["", "s", "ffs", "nr", "fsr"])
def test_what_does_not_fail_now_has_no_row(words: str) -> None:
    assert failing_since(runs(words)) is None


@pytest.mark.parametrize(("words", "count"), [("", 0), ("f", 0), ("ss", 2), ("sfss", 2), ("ssf", 0), ("sns", 2)])
def test_passes_in_a_row_count_from_the_newest(words: str, count: int) -> None:
    assert passing(runs(words)) == count


def test_runs_of_one_pull_request_are_one() -> None:
    same = [{**one, "pr": 7} for one in runs("ff")] + [{"word": "failure", "pr": None, "at": 300.0}]
    found = failing_since(same)
    assert found is not None
    assert (found["runs"], found["pulls"]) == (3, 1)
