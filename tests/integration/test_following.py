"""Trunk's tests are followed, a part each day: asked for, leased to no change, told, taken in, used; and no lies."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from factories import make_run, result_line, shard_spec
from fastapi.testclient import TestClient
from night_trunk import DAY, START, Trunk, enrol, make_settings
from sqlalchemy import select, update
from worker_web import ADDS, FAILS, Relay

from relay.artifacts import artifacts
from relay.chores import slow_chores_of
from relay.errors import BadRequest, LeaseLost, NotFound
from relay.services import concluding, exploring, following, leasing, selecting, traces, trunk_runs
from relay.store import chores, shards, views_load
from relay.store.db import reading
from relay.store.schema import decision, dispatch, plan, result, shard, worker
from relay.web.app import create_app
from relay.worker import agent
from selector.discover.traced import Followed, Trace, Unit
from selector.model import Side, TestId

SOURCE = "torch/nn/functional.py"
FILE, CLASS = "test/test_x.py", "TestX"


@pytest.fixture
def trunk(tmp_path: Path) -> Trunk:
    return Trunk(tmp_path / "upstream")


@pytest.fixture
def settings(tmp_path, engine):
    url = engine.url.render_as_string(hide_password=False)
    return make_settings(tmp_path, trace_seconds=1000.0, worker_key="key", database_url=url)


def named(name: str) -> TestId:
    return TestId(FILE, CLASS, f"test_{name}")


def queued(engine):
    with reading(engine) as conn:
        return conn.execute(select(shard).where(shard.c.state == "queued").order_by(shard.c.index)).all()


def told(spec, *, torch="2.13.0", functions=None, ops=None, units=None) -> Trace:
    """What a worker says of a shard of which every test passed and ran one function of its own and a common one."""
    tests = [TestId.parse(test) for test in spec["tests"]]
    here = {"shared": tuple(range(len(tests))), **{test.method: (n,) for n, test in enumerate(tests)}}
    return Trace(
        torch,
        tuple(Unit(test, None, 1.0) for test in tests) if units is None else units,
        {SOURCE: here} if functions is None else functions,
        {"add": tuple(range(len(tests)))} if ops is None else ops,
        {test: Followed("", "") for test in tests},
    )


def play(engine, settings, trace=told, seconds: float = 9.0) -> list[list[str]]:
    """The workers: run what is queued and tell it. -> the tests of each shard"""
    ran = []
    for one in queued(engine):
        lease = leasing.take(engine, settings, one.id, "w", time.time())
        assert lease["shard"]["follow"] is True
        assert lease["shard"]["trusted"] is True
        lines = [
            result_line(test.rpartition("::")[2], test=test, seconds=seconds, kernels=3) for test in one.spec["tests"]
        ]
        leasing.record(engine, settings, one.id, lease["token"], lines, time.time())
        if trace is not None:
            data = trace(lease["shard"]).to_bytes()
            traces.take(engine, artifacts(settings), one.id, lease["token"], data)
        leasing.complete(
            engine, settings, one.id, lease["token"], status="done", error=None, report={}, now=time.time()
        )
        concluding.conclude(engine, settings, one.dispatch_id, time.time())
        ran.append(one.spec["tests"])
    return ran


def step(engine, settings, memory, day: float):
    return following.step(engine, settings, memory, START + day * DAY)


@pytest.mark.both_databases
def test_a_table_fills_over_days_and_is_what_a_selection_goes_by(engine, trunk, settings):
    trunk.commit(0, **{f"t{n}": n for n in range(8)})
    assert traces.in_use(engine, settings, "spyre", {"2.13.0"}) is None
    assert step(engine, settings, {}, 1) == {}, "no worker is alive: it is asked for once there is one"
    enrol(engine)
    part = settings.model_copy(update={"trace_seconds": 1.4})  # of some 0.1 s each, beside importing the file
    memory = step(engine, part, {}, 1)
    assert step(engine, part, memory, 1.01) == memory, "it goes on"
    (run,) = {one.dispatch_id for one in queued(engine)}
    with reading(engine) as conn:
        row = conn.execute(select(dispatch).where(dispatch.c.id == run)).one()
    assert (row.event, row.head_sha, row.state) == ("trunk", trunk.shas[0], "running")
    assert {one.side for one in queued(engine)} == {"trace"}
    first = [test for tests in play(engine, part) for test in tests]
    assert 0 < len(first) < 8
    memory = step(engine, part, memory, 1.02)
    assert (memory["run"], memory["followed"], memory["of"]) == (None, len(first), 8)
    assert queued(engine) == [], "once a day"

    memory = step(engine, settings, memory, 2)
    second = [test for tests in play(engine, settings) for test in tests]
    assert sorted(first + second) == sorted(f"{FILE}::{CLASS}::test_t{n}" for n in range(8))
    memory = step(engine, settings, memory, 2.01)
    remember(engine, memory)
    table = traces.in_use(engine, settings, "spyre", {"2.13.1+cpu"})
    assert len(table.tests) == table.of == 8
    assert table.whole
    assert {one.day for one in table.tests.values()} == {"2026-11-02", "2026-11-03"}
    places = {unit.test: n for n, unit in enumerate(table.units)}
    assert table.running(SOURCE, "test_t3") == {places[named("t3")]}
    assert table.running(SOURCE, "shared") == set(places.values())
    assert traces.in_use(engine, settings, "spyre", {"2.14.0"}) is None, "of another torch"
    assert traces.in_use(engine, settings, "other", {"2.13.0"}) is None
    off = settings.model_copy(update={"trace_seconds": 0.0})
    assert traces.in_use(engine, off, "spyre", {"2.13.0"}) is None
    assert step(engine, settings, memory, 3)["run"] is None, "everything is known as it is now"

    # what following cost and counted teaches nobody
    with reading(engine) as conn:
        assert set(conn.execute(select(result.c.side)).scalars()) == {"trace"}
        learned = exploring.learn(conn, "spyre", time.time())
    assert learned.history.variant_seconds == {}
    assert learned.kernels == {}


@pytest.mark.both_databases
def test_what_has_changed_is_followed_again_and_what_is_gone_is_dropped(engine, trunk, settings):
    trunk.commit(0, a=1, b=2, c=3)
    enrol(engine)
    memory = step(engine, settings, {}, 1)
    play(engine, settings)
    memory = step(engine, settings, memory, 1.01)
    old = memory["table"]
    trunk.commit(1, a=1, b=22, d=4)
    memory = step(engine, settings, memory, 2)
    assert sorted(t for one in queued(engine) for t in one.spec["tests"]) == [str(named("b")), str(named("d"))]
    play(engine, settings)
    memory = step(engine, settings, memory, 2.01)
    table = traces.read_table(artifacts(settings), memory["table"])
    assert {test: one.day for test, one in table.tests.items()} == {
        named("a"): "2026-11-02", named("b"): "2026-11-03", named("d"): "2026-11-03",
    }  # fmt: skip
    with pytest.raises(NotFound):
        traces.read_table(artifacts(settings), old)
    assert not list(Path(settings.data_dir, "artifacts", "traces", "pieces").rglob("*.gz"))
    # a month later they are looked at again, the oldest first, though they are as they were
    with engine.begin() as conn:
        conn.execute(update(worker).values(seen_at=time.time() + 40 * DAY))
    memory = step(engine, settings, memory, 33)
    assert {t for one in queued(engine) for t in one.spec["tests"]} == {str(named(n)) for n in "abd"}
    # and on another torch nothing is known
    play(engine, settings)
    enrol(engine, torch="2.14.0", name="newer")
    with engine.begin() as conn:
        conn.execute(update(worker).values(seen_at=time.time() + 40 * DAY))
    memory = step(engine, settings, memory, 34)
    assert {one.spec["runtime"]["torch"] for one in queued(engine)} == {"2.14.0"}
    assert memory["followed"] == 0


def test_a_worker_that_tells_nothing_costs_its_own_tests_alone(engine, trunk, settings):
    trunk.commit(0, a=1)
    enrol(engine)
    memory = step(engine, settings, {}, 1)
    play(engine, settings, trace=None)
    memory = step(engine, settings, memory, 1.01)
    assert memory["run"] is None
    assert "table" not in memory
    assert step(engine, settings, memory, 2)["run"] is not None, "asked again the next day"


def test_a_run_that_never_ends_is_given_up_with_what_it_told(engine, trunk, settings):
    trunk.commit(0, **{f"t{n}": n for n in range(4)})
    enrol(engine)
    memory = step(engine, settings, {}, 1)
    (one,) = queued(engine)
    assert step(engine, settings, memory, 2)["run"] == memory["run"]
    memory = step(engine, settings, memory, 3.1)
    assert memory["asked"] == "2026-11-05"
    with reading(engine) as conn:
        states = dict(conn.execute(select(shard.c.id, shard.c.state)).all())
    assert states.pop(one.id) == "failed"
    assert set(states.values()) == {"queued"}


def test_shards_are_handed_out_so_that_half_of_the_workers_stay_free(engine, trunk, settings):
    trunk.commit(0, **{f"t{n}": n for n in range(40)})
    enrol(engine)
    enrol(engine, name="w2")
    little = settings.model_copy(update={"shard_seconds": 6.0})
    step(engine, little, {}, 1)
    rows = queued(engine)
    due = [one.due_at for one in rows]
    assert len(due) > 1
    assert due == pytest.approx([due[0] + n * 2.0 * 6.0 / 2 for n in range(len(due))])
    with reading(engine) as conn:
        waiting = [views_load.load(conn, at)[rows[0].queue].waiting for at in (due[0], due[1], due[-1])]
    assert waiting == [1, 2, len(due)], "no worker is wanted for what is not due"


def alone(spec, seconds: float, times: int) -> Trace:
    """Of the shard's first test only."""
    return told(spec, units=(Unit(TestId.parse(spec["tests"][0]), None, seconds),) * times, functions={}, ops={})


LIES = {
    "another torch": (lambda s: told(s, torch="9.9"), "of torch '9.9'"),
    "a test of somebody else's": (lambda s: told({"tests": [*s["tests"], "test/test_y.py::T::test_y"]}), "not one of"),
    "no source of torch": (lambda s: told(s, functions={"test/test_x.py": {"f": (0,)}}), "no source of torch"),
    "a way out": (lambda s: told(s, functions={"torch/../x.py": {"f": (0,)}}), "no source of torch"),
    "a name that is none": (lambda s: told(s, functions={SOURCE: {"f\n": (0,)}}), "is no name"),
    "a long name": (lambda s: told(s, functions={SOURCE: {"f" * 301: (0,)}}), "is no name"),
    "an operator that is none": (lambda s: told(s, ops={"": (0,)}), "is no operator"),
    "a day": (lambda s: alone(s, 1e6, 1), "a day"),
    "twice": (lambda s: alone(s, 1.0, 2), "twice"),
    "too many": (
        lambda s: told(s, functions={SOURCE: {f"f{n}": (0,) for n in range(traces.MOST_NAMES + 1)}}),
        "functions and operators",
    ),
}  # fmt: skip


def test_what_cannot_be_is_refused_and_leaves_nothing(engine, trunk, settings):
    trunk.commit(0, a=1, b=2)
    enrol(engine)
    step(engine, settings, {}, 1)
    (one,) = queued(engine)
    lease = leasing.take(engine, settings, one.id, "w", time.time())
    line = result_line("test_a", test=str(named("a")))
    leasing.record(engine, settings, one.id, lease["token"], [line], time.time())
    with TestClient(create_app(settings)) as client:

        def put(data: bytes, token: str = lease["token"]):
            at = f"/worker/leases/{one.id}/trace"
            return client.put(at, content=data, headers={"Authorization": f"Bearer {token}"})

        for lie, words in LIES.values():
            answer = put(lie(lease["shard"]).to_bytes())
            assert answer.status_code == 400, words
            assert words in answer.json()["detail"]
        bomb = gzip.compress(b" " * (traces.MAX_UNPACKED + 1), 9)
        assert "has more than" in put(bomb).json()["detail"]
        for data in (b"", b"nonsense", gzip.compress(json.dumps({"format": 1}).encode())):
            assert put(data).status_code == 400
        assert put(b"x" * (traces.MAX_BYTES + 1)).status_code == 413
        good = told(lease["shard"]).to_bytes()
        assert put(good, "another").status_code == 410
        assert not list(Path(settings.data_dir, "artifacts").rglob("*.gz"))
        assert put(good).status_code == 204
    # a lease that was lost says nothing any more, and what it said before is not taken in
    with engine.begin() as conn:
        conn.execute(update(shard).values(lease_until=1.0))
        shards.take_back(conn, one.id, time.time())
    with pytest.raises(LeaseLost):
        traces.take(engine, artifacts(settings), one.id, lease["token"], good)
    again = leasing.take(engine, settings, one.id, "w2", time.time())
    assert again["done"] == [], "what the lost lease had run was followed by nobody"
    with reading(engine) as conn:
        rows = list(shards.of_dispatch(conn, one.dispatch_id))
    assert list(traces.pieces(artifacts(settings), rows)) == []


def test_no_change_of_anybody_is_followed_whatever_its_shard_says(engine, trunk, settings):
    """Neither an unmerged head nor the base beside it, nor a forged side: only the relay's own runs of trunk."""
    trunk.commit(0, a=1)
    test = str(named("a"))
    spec = shard_spec(test, commit=trunk.shas[0], follow={test: "0"})
    run = make_run(engine, head_sha=trunk.shas[0], base_ref="main", author_trusted=True)
    for side in ("head", "base", "again", "base-again", "trace"):
        with engine.begin() as conn:
            (key,) = shards.add(conn, dispatch_id=run, side=side, queue="q", specs=[spec], now=time.time())
        lease = leasing.take(engine, settings, key, "w", time.time())
        assert "follow" not in lease["shard"], side
        with pytest.raises(BadRequest, match="nobody asked"):
            traces.take(engine, artifacts(settings), key, lease["token"], told(spec).to_bytes())


def test_a_table_that_somebody_changed_in_the_store_is_not_used(engine, trunk, settings):
    trunk.commit(0, a=1)
    enrol(engine)
    memory = step(engine, settings, {}, 1)
    play(engine, settings)
    memory = step(engine, settings, memory, 1.01)
    remember(engine, memory)
    artifacts(settings).put(f"traces/tables/{memory['table']}.gz", Trace("2.13.0", ()).to_bytes())
    assert traces.in_use(engine, settings, "spyre", {"2.13.0"}) is None
    assert step(engine, settings, memory, 2)["run"] is not None, "it is begun anew"


def test_the_operators_table_comes_first_where_it_is_of_the_workers_torch(engine, trunk, settings, tmp_path):
    trunk.commit(0, a=1)
    enrol(engine)
    memory = step(engine, settings, {}, 1)
    play(engine, settings)
    remember(engine, step(engine, settings, memory, 1.01))
    (tmp_path / "given.gz").write_bytes(Trace("2.13.0", (), {}, {"mul": ()}).to_bytes())
    both = settings.model_copy(update={"trace": tmp_path / "given.gz"})
    assert set(traces.in_use(engine, both, "spyre", {"2.13.0"}).ops) == {"mul"}
    (tmp_path / "old.gz").write_bytes(Trace("2.6.0", (), {}, {"mul": ()}).to_bytes())
    both = settings.model_copy(update={"trace": tmp_path / "old.gz"})
    assert set(traces.in_use(engine, both, "spyre", {"2.13.0"}).ops) == {"add"}


def test_nobody_is_followed_unless_it_is_set(settings, engine):
    names = {chore.name for chore in slow_chores_of(engine, settings)}
    assert traces.CHORE in names
    off = settings.model_copy(update={"trace_seconds": 0.0})
    assert traces.CHORE not in {chore.name for chore in slow_chores_of(engine, off)}


def test_a_change_reaches_who_was_seen_to_run_what_it_edits(engine, trunk, settings):
    source = Path(trunk.folder, "torch", "hidden.py")
    source.parent.mkdir()
    source.write_text("def deep(x):\n    return x\n")
    base = trunk.commit(0, a=1, b=2)
    enrol(engine)
    memory = step(engine, settings, {}, 1)

    def seen(spec):
        return told(spec, functions={"torch/hidden.py": {"deep": (spec["tests"].index(str(named("b"))),)}})

    play(engine, settings, seen)
    remember(engine, step(engine, settings, memory, 1.01))
    source.write_text("def deep(x):\n    return +x\n")
    head = trunk.commit(1, a=1, b=2)
    facts = {"state": "selecting", "due_at": time.time(), "base_sha": base, "head_sha": head, "base_ref": "main"}
    run = make_run(engine, **facts, compare_sha=None)
    selecting.select_dispatch(engine, settings, run)
    with reading(engine) as conn:
        row = conn.execute(select(plan).where(plan.c.dispatch_id == run)).one()
        why = conn.execute(select(decision.c.evidence).where(decision.c.dispatch_id == run)).scalars().all()
    assert {t["test"]: t["codes"] for t in row.tests} == {str(named("b")): ["traced"]}
    details = {fact["detail"] for evidence in why for fact in evidence}
    assert "ran deep in a trusted run of 2026-11-02 on torch 2.13.0" in details


def remember(engine, memory) -> None:
    with engine.begin() as conn:
        chores.claim(conn, traces.CHORE, 1.0, 60.0)
        chores.finish(conn, traces.CHORE, 1.0, memory=memory, error=None)


# ------------------------------------------------------------------------------------------------------- a real worker


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path) as server:
        yield server


@pytest.mark.torch
def test_a_real_worker_follows_what_it_is_told_to_and_nothing_else(web: Relay) -> None:
    spec = {**shard_spec(ADDS, FAILS), "follow": {ADDS: "1", FAILS: "2"}}
    with web.engine.begin() as conn:
        run = trunk_runs.request(conn, web.settings, [spec], web.commit, time.time(), why="a test", side=Side.TRACE)
        (key,) = conn.execute(select(shard.c.id).where(shard.c.dispatch_id == run)).scalars()
    agent.run_shard(key, web.config)
    row = web.row(key)
    assert (row.state, row.error) == ("done", None)
    assert web.outcomes(key)["test_fails_spyre"] == "failed"
    ((_, found),) = traces.pieces(artifacts(web.settings), [row])
    assert {str(unit.test) for unit in found.units} == {ADDS}
    assert {str(test) for test in found.tests} == {ADDS, FAILS}
    assert found.ops["add"] == (0,)
    assert any(path == "torch/testing/_internal/common_utils.py" for path in found.functions)
    # and a shard of a change, on the same warm worker, is run as ever
    other = web.shard(ADDS)
    agent.run_shard(other, web.config)
    assert web.row(other).state == "done"
    with pytest.raises(NotFound):
        artifacts(web.settings).get(f"traces/pieces/{other[-2:]}/{other}/1.gz")
