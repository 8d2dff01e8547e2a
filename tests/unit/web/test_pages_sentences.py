"""The one line above a page says what is so, and no more than is known."""

from __future__ import annotations

from typing import Any

import pytest

from relay.web import pages_sentences as sentences


def dispatch(downstream: str, state: str, conclusion: str | None = None, tests: int | None = None) -> dict[str, Any]:
    """``tests``: of a run of the relay's own workers, how many tests the change broke."""
    own = {"executor": "workers", "failures": {"regressed": tests}} if tests is not None else {"executor": "github"}
    return {"downstream": downstream, "state": state, "conclusion": conclusion, **own}


@pytest.mark.parametrize(
    ("dispatches", "said"),
    [
        ([dispatch("a/a", "completed", "success")], "This commit is fine on a/a."),
        ([dispatch("a/a", "completed", "failure", 1)], "This commit breaks 1 test on a/a."),
        ([dispatch("a/a", "completed", "failure", 4)], "This commit breaks 4 tests on a/a."),
        # failed, and its details are gone
        ([dispatch("a/a", "completed", "failure", 0)], "This commit breaks a/a."),
        # its own CI compares with nothing
        ([dispatch("a/a", "completed", "failure")], "This commit fails on a/a."),
        (
            [dispatch("a/a", "completed", "failure", 2), dispatch("b/b", "completed", "failure")],
            "This commit breaks 2 tests on a/a, and fails on b/b.",
        ),
        (
            [dispatch("a/a", "completed", "failure"), dispatch("b/b", "running"), dispatch("c/c", "superseded")],
            "This commit fails on a/a, and is still running on b/b.",
        ),
        (
            [dispatch("a/a", "completed", "success"), dispatch("b/b", "completed", "neutral")],
            "Nothing broke, but it is not a full answer for b/b: see why below.",
        ),
        (
            [dispatch("a/a", "failed"), dispatch("b/b", "completed", "success")],
            "This commit could not be run on a/a.",
        ),
        # ended by the relay itself: neutral, whatever the state says
        ([dispatch("a/a", "failed", "neutral")], "Nothing broke, but it is not a full answer for a/a: see why below."),
        ([dispatch("a/a", "superseded")], "Every run of this commit was superseded."),
        (
            [dispatch(n, "completed", "success") for n in ("a/a", "b/b")],
            "This commit is fine on 2 backends (a/a, b/b).",
        ),
        ([dispatch("a/a", "completed", "cancelled")], "1 run ended."),
    ],
)
def test_one_line_about_a_pull_request(dispatches: list[dict[str, Any]], said: str) -> None:
    assert sentences.pr_sentence(dispatches) == said


def test_what_needs_eyes_comes_first() -> None:
    words = ["superseded", "success", "running", "neutral", "failure"]
    found = sentences.bad_first(
        [dispatch(w, "completed" if w != "running" else w, None if w == "running" else w, 1) for w in words]
    )
    assert [d["downstream"] for d in found] == ["failure", "running", "neutral", "success", "superseded"]


def test_of_failures_the_surest_comes_first() -> None:
    row = {"runs": 2, "pulls": 2}
    known = {"a/failing": (0, row), "b/unknown": (0, None), "c/passing": (4, None)}
    runs = [dispatch(name, "completed", "failure") | {"passed_before": passed, "streak": streak}
            for name, (passed, streak) in known.items()]  # fmt: skip
    runs.append(dispatch("d/ours", "completed", "failure", 2))
    assert [d["downstream"] for d in sentences.bad_first(runs)] == ["d/ours", "c/passing", "b/unknown", "a/failing"]


def status(*backends: dict[str, Any], **more: Any) -> dict[str, Any]:
    outbox = {"parked": 0, "oldest_wait_s": None}
    return {"queue": {"queues": []}, "outbox": outbox, "unrouted": 0, "chores": [], "places": [], "runs": [],
            "backends": list(backends), **more}  # fmt: skip


def backend(name: str, runs: int, pulls: int = 0) -> dict[str, Any]:
    """``runs`` failures in a row, of ``pulls`` pull requests."""
    return {"downstream": name, "fails": runs > 0, "streak": {"runs": runs, "pulls": pulls} if runs else None}


@pytest.mark.parametrize(
    ("found", "said", "look"),
    [
        (status(), "All is well: nothing is running.", "good"),
        (status(backend("a/a", 0), runs=[{}]), "All is well: 1 run in progress.", "good"),
        (
            status(backend("a/a", 1, 1), backend("b/b", 0)),
            "The relay works. 1 of 2 backends failed in the last run: a/a.",
            "warn",
        ),
        # the commits of one pull request tell of that change, not of the backend
        (status(backend("a/a", 3, 1)), "The relay works. 1 of 1 backend failed in the last run: a/a.", "warn"),
        (
            status(backend("a/a", 3, 2)),
            "The relay works. 1 of 1 backend failed in the last run: a/a, and in the 2 before it.",
            "bad",
        ),
        (
            status(*(backend(f"a/{n}", n, n) for n in range(5))),
            "The relay works. 4 of 5 backends failed in the last run; 3 of them on several changes in a row.",
            "bad",
        ),
        (status(backend("a/a", 3, 2), unrouted=21), "21 deliveries not routed yet.", "bad"),
        (status(backend("a/a", 0), unrouted=21), "21 deliveries not routed yet.", "warn"),
    ],
)
def test_one_look_tells_whether_the_relay_and_its_backends_are_fine(
    found: dict[str, Any], said: str, look: str
) -> None:
    assert sentences.status_sentence(found) == said
    assert sentences.status_look(found, []) == look


def test_an_incident_is_worse_than_a_failure_of_a_backend() -> None:
    assert sentences.status_look(status(backend("a/a", 1, 1)), [{"state": "bad"}]) == "bad"
    assert sentences.status_look(status(), [{"state": "warn"}]) == "warn"
