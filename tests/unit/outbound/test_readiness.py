"""Readiness for a level, and demotion with hysteresis."""

from __future__ import annotations

import pytest

from relay.domain.readiness import MIN_RUNS, STEADY_S, Sample, checklist, judge, measure


def samples(good=30, bad=0, timed=0, queue_s=60.0, run_s=600.0, whole_s=900.0, **more):
    words = ["success"] * good + ["failure"] * bad + ["timed_out"] * timed
    return [Sample(str(n), word, queue_s, run_s, whole_s, **more) for n, word in enumerate(words)]


def test_a_good_downstream_is_ready_for_the_next_level():
    found = measure("L2", samples())
    assert (found.next, found.missing, found.pass_rate, found.queue_s) == ("L3", (), 1.0, 60.0)
    assert measure("L4", samples()).next is None


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (samples(good=MIN_RUNS - 1), "19 of the 20 runs"),
        (samples(good=26, bad=4), "pass rate 86.7 %"),
        (samples(queue_s=1800.0), "mean wait for a start 30 min"),
        (samples(run_s=3 * 3600.0 + 1), "runs over 3 h 100 %"),
        (samples(whole_s=3 * 3600.0), "median from event to answer 3 h"),
        (samples(timed=1), "timeouts 3.23 %"),
        ([], "pass rate not measured"),
    ],
)
def test_what_is_missing_is_said(which, said):
    assert any(said in line for line in measure("L2", which).missing), measure("L2", which).missing


@pytest.mark.parametrize(
    ("seconds", "said"), [(40.0, "40 s"), (99.6, "2 min"), (1800.0, "30 min"), (9000.0, "2.5 h"), (1e6, "278 h")]
)
def test_a_time_is_said_in_the_unit_that_fits(seconds, said):
    lines = {line["what"]: line for line in checklist(measure("L2", samples(queue_s=seconds)).as_map())}
    assert lines["mean wait for a start"]["value"] == said
    assert lines["mean wait for a start"]["asked"] == "below 30 min"


def test_cancelled_and_skipped_runs_say_nothing():
    found = measure("L2", [*samples(), Sample("x", "cancelled", 9e9, 9e9, 9e9), Sample("y", "skipped")])
    assert (found.runs, found.pass_rate, found.missing) == (30, 1.0, ())


def test_nothing_can_be_measured_at_level_1():
    assert "nothing comes back" in measure("L1", []).missing[0]


def test_a_demotion_is_proposed_after_days_below_and_taken_back_after_days_above():
    good, middling, bad = (measure("L3", samples(good=30 - n, bad=n)) for n in (0, 5, 15))
    standing, proposed = None, []
    script = [(good, 1), (bad, 2), (middling, 1), (bad, 4), (middling, 9), (good, 2), (middling, 1), (good, 4)]
    now = 0.0
    for measured, days in script:
        for _ in range(days):
            standing = judge(standing, measured, now)
            now += STEADY_S / 3
        proposed.append(standing.proposed)
    # two days below are not enough, a day in between begins the count anew; in between nothing is taken back
    assert proposed == [None, None, None, "L2", "L2", "L2", "L2", None]


def test_too_few_runs_prove_nothing_and_a_level_that_was_changed_begins_anew():
    bad = measure("L3", samples(good=0, bad=30))
    standing = judge(judge(None, bad, 0.0), bad, STEADY_S)
    assert (standing.proposed, "pass rate 0 %" in standing.reason) == ("L2", True)
    assert judge(standing, measure("L3", samples(good=3)), 2 * STEADY_S).proposed == "L2"
    assert judge(standing, measure("L2", samples()), 2 * STEADY_S).proposed is None
    assert judge(None, measure("L3", samples(good=0, bad=5)), 9e9).proposed is None
