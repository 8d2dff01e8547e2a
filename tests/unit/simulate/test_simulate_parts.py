"""The parts of the simulation against what they must come to by hand, and the whole against itself."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest

from relay.cli import simulate as cli_simulate
from relay.cli.terminal import Terminal
from relay.errors import SettingsError
from relay.simulate.calls import Calls
from relay.simulate.month import simulate
from relay.simulate.outcome import Percentiles
from relay.simulate.plans import plans
from relay.simulate.pool import Pool, Work
from relay.simulate.scenario import DAY_S, Scenario
from relay.simulate.traffic import arrivals

SMALL = Scenario(days=0.5, downstreams=10, on_workers=3, level4=2, pool=20, variants=400, files=10)


class Clock:
    """What is to be done, by time."""

    def __init__(self) -> None:
        self.due: list[tuple[float, int, Callable[[float], None]]] = []

    def later(self, at: float, what: Callable[[float], None]) -> None:
        self.due.append((at, len(self.due), what))

    def run(self) -> float:
        at = 0.0
        while self.due:
            self.due.sort(key=lambda one: one[:2])
            at, _, what = self.due.pop(0)
            what(at)
        return at


def test_a_pool_takes_the_oldest_first() -> None:
    clock, ended = Clock(), []
    pool = Pool(2, clock.later, 3.0)
    for name, seconds in (("a", 10.0), ("b", 4.0), ("c", 4.0), ("d", 1.0)):
        pool.add(Work(seconds, 0.0, lambda at, name=name: ended.append((name, at))), 0.0)  # type: ignore[misc]
    assert clock.run() == 10.0
    assert ended == [("b", 4.0), ("c", 8.0), ("d", 9.0), ("a", 10.0)]
    assert (pool.busy_s, pool.longest, pool.free) == (19.0, 2, 2)


def test_what_is_cancelled_leaves_the_line_or_its_server_a_heartbeat_later() -> None:
    clock, ended = Clock(), []
    pool = Pool(1, clock.later, 3.0)
    works = [Work(100.0, 0.0, lambda at, n=n: ended.append((n, at))) for n in range(3)]  # type: ignore[misc]
    for work in works:
        pool.add(work, 0.0)
    clock.later(10.0, lambda at: [pool.cancel(work, at) for work in works[:2]] and None)
    assert clock.run() == 113.0
    assert ended == [(2, 113.0)]
    assert (pool.busy_s, pool.wasted_s, pool.free) == (113.0, 13.0, 1)


def test_calls_over_the_minutes_budget_wait_for_the_next_and_a_token_holds_an_hour() -> None:
    clock, answered = Clock(), []
    calls = Calls(clock.later, budget=3, call_s=0.5)
    for _ in range(7):
        calls.ask("pytorch", 100.0, answered.append)
    clock.run()
    assert answered == [100.5, 100.5, 101.0, 160.5, 160.5, 160.5, 220.5]
    assert calls.most_in_an_hour() == ("pytorch", 8)  # seven, and one for the token
    assert Percentiles.of(calls.waits) == Percentiles(60.0, 120.0, 120.0, 120.0)


def test_traffic_is_what_the_scenario_says() -> None:
    month = Scenario(days=14)
    events = list(arrivals(month))
    assert [one.at for one in events] == sorted(one.at for one in events)
    assert all(0 <= one.at < month.seconds for one in events)
    opened = sum(one.event.action == "opened" for one in events)
    pushed = sum(one.event.action == "synchronize" for one in events)
    assert opened == pytest.approx(1400, rel=0.15)
    assert pushed == pytest.approx(5 * 1400, rel=0.15)
    weekend = sum(int(one.at // DAY_S) % 7 >= 5 for one in events)
    assert weekend < len(events) * 0.18
    assert events == list(arrivals(month))
    assert events != list(arrivals(replace(month, seed=2)))


def test_a_stack_is_pushed_together() -> None:
    events = list(arrivals(Scenario(days=30, pull_requests=60, stack_share=1.0, stack_size=30, seed=3)))
    for action in ("opened", "synchronize"):
        first = [one.at for one in events if one.event.action == action and one.event.number <= 30][:30]
        assert len(first) == 30, action
        assert max(first) - min(first) <= 20.0


def test_plans_hold_what_the_scenario_asks_for() -> None:
    for made in plans(SMALL):
        assert made.variants == pytest.approx(400, rel=0.2)
        assert made.left_out == 0
        assert sum(made.shards) >= made.variants * SMALL.variant_s
    small = plans(replace(SMALL, budget_minutes=0.02, pool=1))
    assert all(made.left_out and made.variants < 400 for made in small)


def test_every_run_ends_or_is_superseded_and_a_seed_decides() -> None:
    one = simulate(SMALL)
    assert one.runs > 0
    assert one.runs >= one.superseded
    assert one.first.p50 >= SMALL.select_s
    assert one.verdict.p50 > one.first.p50
    assert 0 < one.busy < 1
    assert simulate(SMALL) == one
    assert simulate(replace(SMALL, seed=9)) != one


def test_a_larger_pool_waits_less_and_a_smaller_one_is_full() -> None:
    short, long = (simulate(replace(SMALL, pool=pool, stack_share=1.0)) for pool in (40, 1))
    assert short.verdict.p95 < long.verdict.p95
    assert long.limits()[0].name == "emulator workers"
    assert long.limits()[0].load > 1
    assert long.superseded > short.superseded  # what waits long is overtaken by the next push


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("pol=3", "did you mean 'pool'"),
        ("pool", "allowed"),
        ("pool=many", "a whole number"),
        ("select_s=fast", "a number"),
        ("pool=0", "more than 0"),
        ("stack_share=2", "at most 1"),
        ("on_workers=61", "raise downstreams"),
        ("days=nan", "more than 0"),
    ],
)
def test_numbers_that_make_no_scenario(change: str, says: str) -> None:
    with pytest.raises(SettingsError) as info:
        cli_simulate.run([1], [change], plot=None, as_json=False)
    assert says in f"{info.value.message} {info.value.hint}"


def test_the_command_prints_a_table_json_and_a_picture(tmp_path) -> None:
    changes = ["days=0.2", "downstreams=6", "on_workers=2", "level4=1", "variants=200", "files=5"]
    out = StringIO()
    console = Terminal(file=out, width=140)
    assert cli_simulate.run([5, 20], changes, plot=tmp_path / "a.svg", as_json=False, console=console) == 0
    assert "first to break" in out.getvalue()
    assert (tmp_path / "a.svg").read_text().count("<path") > 10
    out.seek(0)
    out.truncate()
    assert cli_simulate.run([5], changes, plot=None, as_json=True, console=console) == 0
    (value,) = json.loads(out.getvalue())
    assert value["scenario"]["pool"] == 5
    assert {limit["name"] for limit in value["limits"]} >= {"emulator workers", "selection", "database"}
    with pytest.raises(SettingsError, match=r"a\.xyz"):
        cli_simulate.run([5], changes, plot=tmp_path / "a.xyz", as_json=False, console=console)
