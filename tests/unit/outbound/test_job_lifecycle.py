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


def end(conclusion, at, counts=None):
    return JobReport(JobStatus.COMPLETED, at, Completion(conclusion, at, counts))


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
        if before.conclusion is not None:
            assert SEVERITY[state.conclusion] >= SEVERITY[before.conclusion]
        assert change.publish == ((before.status, before.conclusion) != (state.status, state.conclusion))


def test_all_orders_of_two_jobs_with_two_attempts_end_the_same():
    """All 8!/(2!)^4 = 2,520 orders in which each attempt starts before it ends."""
    keys = [(name, attempt) for name in ("a", "b") for attempt in (1, 2)]
    conclusions = {("a", 1): "failure", ("a", 2): "success", ("b", 1): "success", ("b", 2): "cancelled"}
    outcomes = set()
    orders = 0
    for order in _interleavings(dict.fromkeys(keys, 2)):
        orders += 1
        seen, states = dict.fromkeys(keys, 0), {}
        for at, key in enumerate(order):
            report = end(conclusions[key], at) if seen[key] else start(at)
            seen[key] += 1
            states[key] = advance(states.get(key), report).state
        views = [_view(*key, states[key]) for key in keys]
        outcomes.add((overall(views).state, overall(views).conclusion, tuple(v.attempt for v in newest(views))))
    assert orders == 2520
    assert outcomes == {("completed", "cancelled", (2, 2))}


def _interleavings(left):
    if not any(left.values()):
        yield ()
    for key, count in left.items():
        if count:
            for rest in _interleavings({**left, key: count - 1}):
                yield (key, *rest)


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
