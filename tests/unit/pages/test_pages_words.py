"""What pages derive from a view, without a database: time, health, colours, rates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.rates import wilson
from relay.domain.readiness import Sample, checklist, measure
from relay.web import pages_health
from relay.web.ansi import LONGEST, Painter
from relay.web.pages_gantt import gantt, parts_of_time, seconds_left
from relay.web.pages_text import rough

RUN: dict[str, Any] = {
    "state": "running", "executor": "workers", "created_at": 100.0, "selected_at": 110.0, "started_at": 112.0,
    "ran_at": None, "closed_at": None,
}  # fmt: skip


def shard(index: int, worker: str | None, start: float | None, end: float | None, **values: Any) -> dict[str, Any]:
    state = "queued" if start is None else "leased" if end is None else "done"
    return {
        "id": f"s{index}", "side": "head", "index": index, "worker": worker, "state": state, "started_at": start,
        "finished_at": end, "est_seconds": 20.0, "variants_done": 3, "tests": 2, **values,
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------- time


def test_shards_stand_on_their_workers_lane_at_their_time() -> None:
    shards = [
        shard(0, "b", 112.0, 132.0),
        shard(1, "a", 112.0, None),
        shard(2, "b", 132.0, 152.0),
        shard(3, None, None, None),
    ]
    chart = gantt(RUN, shards, [], now=152.0)
    assert chart is not None
    assert chart["seconds"] == 40
    assert [
        (lane["name"], [(bar["at"], bar["width"], bar["state"]) for bar in lane["bars"]]) for lane in chart["lanes"]
    ] == [
        ("a", [(0, 100, "leased")]),
        ("b", [(0, 50, "done"), (50, 50, "done")]),
    ]
    assert [tick["label"] for tick in chart["ticks"]] == ["0", "10 s", "20 s", "30 s", "40 s"]
    assert gantt(RUN, [shard(0, None, None, None)], [], now=152.0) is None


@pytest.mark.parametrize("span", [0.5, 40, 86_400 * 6.5, 86_400 * 400, 2e9])
def test_a_chart_has_few_ticks_however_long_it_is(span: float) -> None:
    chart = gantt(RUN, [shard(0, "a", 112.0, None)], [], now=112.0 + span)
    assert chart is not None
    assert len(chart["ticks"]) <= 7


def test_jobs_show_their_wait_and_their_run() -> None:
    job = {"id": "j", "name": "unit", "status": "completed", "conclusion": "failure"}
    job |= {"queued_at": 0.0, "started_at": 30.0, "completed_at": 90.0}
    chart = gantt(RUN, [], [job], now=500.0)
    assert chart is not None
    assert [(bar["state"], bar["width"]) for bar in chart["lanes"][0]["bars"]] == [
        ("queued", pytest.approx(33.333, abs=0.01)), ("failure", pytest.approx(66.667, abs=0.01)),
    ]  # fmt: skip


starts = st.one_of(st.none(), st.floats(0, 1e6, allow_nan=False))


@given(st.lists(st.tuples(starts, st.floats(0, 1e5, allow_nan=False), st.booleans()), max_size=20))
def test_every_bar_lies_within_the_chart(times: list[tuple[float | None, float, bool]]) -> None:
    shards = [
        shard(n, f"w{n % 3}", start, None if start is None or runs else start + took)
        for n, (start, took, runs) in enumerate(times)
    ]
    chart = gantt(RUN, shards, [], now=2e6)
    for bar in [bar for lane in (chart or {"lanes": []})["lanes"] for bar in lane["bars"]]:
        assert 0 <= bar["at"] <= 100
        assert 0 < bar["width"] <= 100.5


def test_where_the_time_went_adds_up() -> None:
    done = {**RUN, "state": "completed", "ran_at": 142.0, "closed_at": 150.0}
    parts = parts_of_time(done, now=999.0)
    assert [(part["name"], part["seconds"], part["share"]) for part in parts] == [
        ("select", 10, 20), ("wait for a worker", 2, 4), ("run", 30, 60), ("verify and report", 8, 16),
    ]  # fmt: skip
    assert [part["name"] for part in parts_of_time(RUN, now=122.0)] == ["select", "wait for a worker", "run"]
    assert parts_of_time({**RUN, "state": "superseded"}, now=122.0) == []


def test_what_is_left_goes_by_the_pace_and_before_that_by_the_plan() -> None:
    shards = [shard(0, "a", 112.0, None), shard(1, "b", 112.0, None)]
    assert seconds_left(RUN, shards, 0.25, now=122.0) == 30.0
    assert seconds_left(RUN, shards, 0.0, now=113.0) == 20.0, "two workers share 40 s"
    assert seconds_left({**RUN, "state": "verifying"}, shards, 0.5, now=122.0) is None
    assert seconds_left({**RUN, "started_at": None}, shards, 0.5, now=122.0) is None


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, "–"), (0.2, "200 ms"), (75, "75 s"), (1777, "30 min"), (9000, "2.5 h")]
)
def test_a_mean_is_told_roughly(seconds: float | None, said: str) -> None:
    assert rough(seconds) == said


# --------------------------------------------------------------------------------------------------------------- health


NIGHT = {"night": "2026-11-29", "good": None, "summary": None, "error": None}


def status(**values: Any) -> dict[str, Any]:
    chores = [{"name": name, "error": None, "late_s": 0.0} for name in ("broker", "deadlines", "allowlist")]
    queue = {"queued": 0, "leased": 0, "oldest_wait_s": None, "queues": [{"queue": "q", "queued": 0, "alive": 2}]}
    base = {
        "chores": chores, "queue": queue, "places": [], "budget": [], "outbox": {"kinds": []}, "deadlines": {},
        "nightly": None, "allowlist": {"digest": "ab" * 32, "loaded_at": 1.0},
    }  # fmt: skip
    return {**base, **values}


def states(found: dict[str, Any], problem: str | None = None) -> dict[str, str]:
    parts = pages_health.parts(found, hud=True, github_budget=150, allowlist="x.yml", allowlist_problem=problem)
    return {part["name"]: part["state"] for part in parts}


def test_all_is_well_where_nothing_is_wrong() -> None:
    assert set(states(status()).values()) == {"ok", "off"}
    assert states(status())["Last nightly"] == "off"


@pytest.mark.parametrize(
    ("part", "state", "values"),
    [
        ("Broker", "bad", {"chores": [{"name": "broker", "error": "ConnectionError: refused", "late_s": 0.0}]}),
        ("Broker", "bad", {"chores": [{"name": "broker", "error": None, "late_s": 75.0}]}),
        ("Broker", "off", {"chores": []}),
        ("Sweeper", "bad", {"chores": [{"name": "deadlines", "error": None, "late_s": 75.0}]}),
        ("Allowlist", "bad", {"chores": [{"name": "allowlist", "error": "404", "late_s": 0.0}]}),
        ("Workers", "bad", {"queue": {"oldest_wait_s": 3, "queues": [{"queue": "q", "queued": 2, "alive": 0}]}}),
        ("Workers", "warn", {"queue": {"oldest_wait_s": 400, "queues": [{"queue": "q", "queued": 2, "alive": 1}]}}),
        ("GitHub", "bad", {"places": [{"key": "org/two", "code": "suspended"}]}),
        ("GitHub", "warn", {"places": [{"key": "org", "code": "rate-limited"}]}),
        ("GitHub", "warn", {"budget": [{"owner": "org", "used": 149}]}),
        ("GitHub", "warn", {"outbox": {"kinds": [{"kind": "dispatch", "state": "due", "count": 1, "oldest_s": 90}]}}),
        ("HUD", "bad", {"outbox": {"kinds": [{"kind": "hud", "state": "parked", "count": 1, "oldest_s": 90}]}}),
        ("HUD", "warn", {"outbox": {"kinds": [{"kind": "hud", "state": "due", "count": 1, "oldest_s": 90}]}}),
        ("Last nightly", "bad", {"nightly": {**NIGHT, "state": "completed", "good": False, "summary": "x"}}),
        ("Last nightly", "warn", {"nightly": {**NIGHT, "state": "failed", "error": "x"}}),
    ],
)  # fmt: skip
def test_each_part_that_is_not_well_says_so(part: str, state: str, values: dict[str, Any]) -> None:
    found = status(**values)
    assert states(found)[part] == state
    parts = pages_health.parts(found, hud=True, github_budget=150, allowlist="x.yml", allowlist_problem=None)
    if state == "bad":
        assert pages_health.incidents(parts)[0]["name"] == part, "the worst comes first"


def test_a_broken_allowlist_file_is_an_incident() -> None:
    assert states(status(), "line 3: not a level")["Allowlist"] == "bad"


# -------------------------------------------------------------------------------------------------------------- colours


def test_colours_become_classes_and_last_until_they_are_taken_back() -> None:
    painter = Painter()
    assert painter.line("\x1b[1;31mred") == [("a1 f31", "red")]
    assert painter.line("still \x1b[22mthin \x1b[0mplain") == [("a1 f31", "still "), ("f31", "thin "), ("", "plain")]
    assert painter.line("\x1b[38;5;196mexact\x1b[m") == [("", "exact")]
    assert painter.line("50 %\r100 %") == [("", "100 %")]
    assert painter.line("x" * (LONGEST + 5))[-1] == ("a2", " … 5 more characters")


@given(st.text())
def test_no_control_character_comes_through(text: str) -> None:
    shown = "".join(part for _, part in Painter().line(text))
    assert not set(shown) & {chr(n) for n in (*range(9), *range(10, 32), 127, *range(0x202A, 0x202F))}


# ---------------------------------------------------------------------------------------------------------------- rates


def test_the_interval_is_wilsons() -> None:
    assert wilson(0, 10) == (0.0, pytest.approx(0.2775, abs=1e-4))
    assert wilson(4, 90) == (pytest.approx(0.0174, abs=1e-4), pytest.approx(0.1088, abs=1e-4))
    with pytest.raises(ValueError, match="no share"):
        wilson(1, 0)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_share_lies_in_its_interval(pair: tuple[int, int]) -> None:
    low, high = wilson(*pair)
    assert 0 <= low <= pair[0] / pair[1] <= high <= 1


def test_the_checklist_says_the_same_as_readiness() -> None:
    for wait in (60.0, 9000.0):
        for failures in (0, 9):
            samples = [Sample(str(n), "failure" if n < failures else "success", wait, 900.0, 2000.0) for n in range(30)]
            measured = measure("L2", samples).as_map()
            unmet = [line["what"] for line in checklist(measured) if not line["met"]]
            assert len(unmet) == len(measured["missing"])
            assert all(
                any(what in line.replace("pass rate", "passed") for line in measured["missing"]) for what in unmet
            )
    assert checklist(measure("L4", []).as_map()) == []
