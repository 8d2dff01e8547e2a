"""Reports in any order, any number of times, end in the same state."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.lifecycle import (
    SEVERITY,
    Completion,
    Counts,
    JobReport,
    JobState,
    JobStatus,
    JobView,
    advance,
    newest,
    overall,
)


def start(at):
    return JobReport(JobStatus.IN_PROGRESS, at)


def end(conclusion, at, counts=None, presumed=False):
    return JobReport(JobStatus.COMPLETED, at, Completion(conclusion, at, counts, presumed=presumed))


def play(reports, state=None):
    codes = []
    for report in reports:
        change = advance(state, report)
        state = change.state
        codes.append((change.code, change.publish))
    return state, codes


@pytest.mark.parametrize(
    ("reports", "status", "conclusion", "known", "codes"),
    [
        ([start(1)], "in_progress", None, True, ["started!"]),
        ([start(1), end("success", 5)], "completed", "success", True, ["started!", "completed!"]),
        ([end("failure", 5)], "completed", "failure", False, ["completed-start-unknown!"]),
        ([end("success", 5), start(6)], "completed", "success", False, ["completed-start-unknown!", "late-start"]),
        ([start(1), start(2)], "in_progress", None, True, ["started!", "duplicate"]),
        (
            [start(1), end("success", 5), start(6)],
            "completed",
            "success",
            True,
            ["started!", "completed!", "duplicate"],
        ),
        (
            [start(1), end("success", 5), end("failure", 6), end("success", 7)],
            "completed",
            "failure",
            True,
            ["started!", "completed!", "conclusion-worse!", "duplicate"],
        ),
        ([JobReport(JobStatus.QUEUED, 0), start(1)], "in_progress", None, True, ["queued!", "started!"]),
        (
            [start(1), end("timed_out", 5, presumed=True), end("success", 9), end("timed_out", 10, presumed=True)],
            "completed",
            "success",
            True,
            ["started!", "completed!", "late-end!", "duplicate"],
        ),
        (
            [start(1), end("failure", 4), end("timed_out", 5, presumed=True)],
            "completed",
            "failure",
            True,
            ["started!", "completed!", "duplicate"],
        ),
        ([start(1), JobReport(JobStatus.QUEUED, 2)], "in_progress", None, True, ["started!", "duplicate"]),
    ],
)
def test_what_reports_lead_to(reports, status, conclusion, known, codes):
    state, got = play(reports)
    assert (state.status, state.conclusion, state.start_known) == (status, conclusion, known)
    assert [code + ("!" if publish else "") for code, publish in got] == codes


reports = st.lists(
    st.one_of(
        st.builds(start, st.floats(0, 1e6)),
        st.builds(
            end,
            st.sampled_from(sorted(SEVERITY)),
            st.floats(0, 1e6),
            st.one_of(st.none(), st.builds(Counts, *[st.integers(0, 3)] * 3)),
            st.booleans(),
        ),
    ),
    min_size=1,
    max_size=8,
)


@given(reports, st.randoms(use_true_random=False))
def test_order_and_duplication_do_not_matter(given_reports, random):
    expected, _ = play(given_reports)
    shuffled = given_reports + random.choices(given_reports, k=random.randint(0, 6))
    random.shuffle(shuffled)
    state, _ = play(shuffled)
    assert state == expected


@given(reports)
def test_nothing_goes_backwards_and_only_news_is_published(given_reports):
    order = list(JobStatus)
    state = None
    for report in given_reports:
        before = state or JobState()
        change = advance(state, report)
        state = change.state
        assert order.index(state.status) >= order.index(before.status)
        if before.completion is not None and not before.completion.presumed:
            assert not state.completion.presumed
            assert SEVERITY[state.conclusion] >= SEVERITY[before.conclusion]
        news = (before.status, before.conclusion) != (state.status, state.conclusion) or change.code == "late-end"
        assert change.publish == news


REPORTS = [(name, attempt, status) for name in ("a", "b") for attempt in (1, 2) for status in ("start", "end")]
ENDS = {("a", 1): "failure", ("a", 2): "success", ("b", 1): "success", ("b", 2): "cancelled"}
WHOLE = ("completed", "cancelled", (2, 2))


def outcome(order):
    """(state, conclusion, attempts that count) of two jobs with two attempts whose reports come in this order; what
    was shown on the way may not go back within a job."""
    states = {}
    for at, (name, attempt, status) in enumerate(order):
        report = start(at) if status == "start" else end(ENDS[name, attempt], at)
        before = states.get((name, attempt))
        states[name, attempt] = after = advance(before, report).state
        assert before is None or before.completion is None or after.completion == before.completion
    views = [_view(*key, state) for key, state in states.items()]
    whole = overall(views)
    return whole.state, whole.conclusion, tuple(v.attempt for v in newest(views)), states


def test_all_orders_of_two_jobs_with_two_attempts_end_the_same():
    """All 8! = 40,320 orders of the eight reports, ends before their starts among them."""
    starts_unknown = 0
    for order in itertools.permutations(REPORTS):
        *whole, states = outcome(order)
        assert tuple(whole) == WHOLE, order
        early = {(n, a) for n, a, s in order if s == "end" and order.index((n, a, "start")) > order.index((n, a, s))}
        assert {key for key, state in states.items() if not state.start_known} == early
        starts_unknown += bool(early)
    assert starts_unknown == 40_320 - 2_520  # all but the orders in which every start comes before its end


@given(st.randoms(use_true_random=False), st.sets(st.integers(0, 7), max_size=4))
def test_with_losses_and_duplicates_the_newest_end_that_arrived_counts(random, lost):
    kept = [report for index, report in enumerate(REPORTS) if index not in lost]
    sent = kept + random.choices(kept, k=random.randint(0, 6))
    random.shuffle(sent)
    state, conclusion, attempts, states = outcome(sent)
    newest_of = {name: max(a for n, a, _ in kept if n == name) for name in {n for n, _, _ in kept}}
    assert attempts == tuple(newest_of[name] for name in sorted(newest_of))
    ended = {name: (name, attempt, "end") in kept for name, attempt in newest_of.items()}
    assert state == ("completed" if all(ended.values()) else "running")
    if state == "completed":
        assert conclusion == max((ENDS[item] for item in newest_of.items()), key=SEVERITY.__getitem__)
    for name, attempt, status in kept:
        if status == "end":
            assert states[name, attempt].conclusion == ENDS[name, attempt]


def _view(name, attempt, state, run_id="5"):
    return JobView(f"{name}{attempt}", "ci", name, run_id, attempt, state.status, state.conclusion)


def test_an_older_attempt_that_ends_late_does_not_count():
    old = JobView("2", "ci", "t", "5", 1, "completed", "failure")
    new = JobView("1", "ci", "t", "5", 2, "completed", "success")
    assert overall([old, new]).conclusion == "success"
    assert overall([new, old]).code == "jobs-passed"


@pytest.mark.parametrize(
    ("first", "second", "newer"),
    [("9", "10", "10"), ("10", "9", "10"), ("018cdabc-d930", "fffcdabc-d930", "fffcdabc-d930")],
)
def test_runs_are_ordered_by_number_and_else_by_arrival(first, second, newer):
    jobs = [
        JobView("a", "ci", "t", first, 1, "completed", "success"),
        JobView("b", "ci", "t", second, 1, "queued", None),
    ]
    assert [job.run_id for job in newest(jobs)] == [newer]


def test_a_dispatch_runs_until_all_its_jobs_are_completed():
    jobs = [JobView(str(i), "ci", f"t{i}", "1", 1, "completed", "success") for i in range(3)]
    assert overall(jobs).summary == "3 jobs completed, success"
    running = [*jobs, JobView("9", "ci", "last", "1", 1, "in_progress", None)]
    assert (overall(running).state, overall(running).conclusion) == ("running", None)


@pytest.mark.parametrize("status", ["in_progress", "completed"])
def test_a_report_needs_a_completion_exactly_when_it_is_completed(status):
    completion = None if status == "completed" else Completion("success", 1.0)
    with pytest.raises(ValueError, match="completion"):
        JobReport(JobStatus(status), 1.0, completion)


def test_conclusions_are_those_github_takes():
    assert set(SEVERITY) == {
        "action_required",
        "cancelled",
        "failure",
        "neutral",
        "success",
        "skipped",
        "timed_out",
    }
    assert all(
        advance(play([end(a, 1)])[0], end(b, 2)).state.conclusion == max(a, b, key=SEVERITY.__getitem__)
        for a, b in itertools.product(SEVERITY, repeat=2)
    )
