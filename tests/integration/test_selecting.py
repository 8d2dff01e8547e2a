"""Selecting and concluding a run, on a real repository and database: once, whoever is killed, and never silently."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest
from factories import make_run, result_line
from sqlalchemy import func, select, update

from relay.demo.upstream import build
from relay.errors import Conflict
from relay.services import concluding, leasing, selecting
from relay.services.upstream import mirror
from relay.settings import Settings
from relay.store import bisections, due, workers
from relay.store.db import reading
from relay.store.schema import decision, dispatch, job, plan, shard
from selector.verify.flakes import RULE

CONFIGS = Path(__file__).resolve().parents[2] / "test_configs" / "spyre"
HELLO = {"name": "w", "device": "spyre", "queue": "shards.spyre", "torch": "2.13.0", "runtimes": [], "info": {}}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    pytest.importorskip("torch", reason="NOT RUN: the demo's tree is made from the installed torch")
    return build(tmp_path_factory.mktemp("upstream") / "repo", sys.executable)


@pytest.fixture
def settings(tmp_path, upstream):
    return Settings(data_dir=tmp_path, upstream_url=str(upstream.path), configs_dir=CONFIGS, requeue_s=1.0)


@pytest.fixture
def run_id(engine, upstream):
    return make_run(
        engine,
        state="selecting",
        due_at=time.time(),
        base_sha=upstream.base_sha,
        head_sha=upstream.head_sha,
        compare_sha=None,
        pr_number=upstream.pr["number"],
    )


def greet(engine, **over):
    with engine.begin() as conn:
        workers.hello(conn, {**HELLO, "runtimes": ["tests-only", "overlay"], **over}, time.time())


def run_of(engine, run_id):
    with reading(engine) as conn:
        return conn.execute(select(dispatch).where(dispatch.c.id == run_id)).one()


def count(engine, table):
    with reading(engine) as conn:
        return conn.execute(select(func.count()).select_from(table)).scalar_one()


def test_a_plan_decisions_and_shards_are_stored_together(engine, settings, run_id, upstream):
    greet(engine)
    selecting.select_dispatch(engine, settings, run_id)
    run = run_of(engine, run_id)
    assert (run.state, run.compare_sha, run.error, run.claim) == ("running", upstream.base_sha, None, None)
    with reading(engine) as conn:
        stored = conn.execute(select(plan)).one()
        specs = conn.execute(select(shard.c.spec)).scalars().all()
    planned = {t["test"] for t in stored.tests}
    assert {t for spec in specs for t in spec["tests"]} == planned
    assert set(upstream.expect.regressions) <= planned
    assert stored.runtime["kind"] == "overlay"
    assert all(spec["commit"] == upstream.head_sha and spec["runtime"] == stored.runtime for spec in specs)


def test_what_trunk_broke_by_the_same_file_is_reached_and_says_so(engine, settings, run_id, upstream):
    """Of an unmerged change's failures nothing is taken: only searches on trunk that found a commit speak."""
    greet(engine)
    test = next(iter(upstream.expect.regressions))
    path = mirror(settings).change(upstream.base_sha, upstream.head_sha, title="", pr_number=None).files[0].path
    with engine.begin() as conn:
        for bad, state in (("a" * 40, "found"), ("b" * 40, "given-up")):
            bisections.open_(conn, device="spyre", test=test, variant="v", bad_sha=bad, spec={}, now=1.0)
            (one,) = bisections.going_on(conn)
            more = {"first_bad": bad, "last_good": "c" * 40, "paths": [path]}
            bisections.close(conn, one.id, state=state, reason="", now=time.time(), **more)
    selecting.select_dispatch(engine, settings, run_id)
    with reading(engine) as conn:
        stored = conn.execute(select(plan)).one()
        said = [str(row) for row in conn.execute(select(decision.c.reason, decision.c.evidence)).all()]
    (planned,) = [t for t in stored.tests if t["test"] == test]
    assert "failed-before" in planned["codes"]
    assert any(f"broken once by commits of trunk that changed {path}" in text for text in said)


def test_two_processes_that_select_at_once_make_one_plan(engine, settings, run_id):
    greet(engine)
    threads = [threading.Thread(target=selecting.select_dispatch, args=(engine, settings, run_id)) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert count(engine, plan) == 1
    with reading(engine) as conn:
        tests = [t for spec in conn.execute(select(shard.c.spec)).scalars() for t in spec["tests"]]
    assert len(tests) == len(set(tests)) > 0
    assert count(engine, job) == 1


def test_a_selection_whose_claim_was_lost_stores_nothing(engine, settings, run_id, monkeypatch):
    greet(engine)
    real = selecting.run_selector

    def slow(request):
        found = real(request)
        with engine.begin() as conn:  # the pump hands the run to another process, which takes it
            conn.execute(update(dispatch).values(claim="another", due_at=time.time() + 60))
        return found

    monkeypatch.setattr(selecting, "run_selector", slow)
    selecting.select_dispatch(engine, settings, run_id)
    assert run_of(engine, run_id).state == "selecting"
    assert (count(engine, plan), count(engine, shard), count(engine, decision)) == (0, 0, 0)


def test_a_run_waits_for_a_worker_and_says_so(engine, settings, run_id):
    selecting.select_dispatch(engine, settings, run_id)
    run = run_of(engine, run_id)
    assert run.state == "selecting"
    assert run.error == "no queue takes this job now: no worker of spyre is alive; it waits for one"
    assert run.due_at is not None


def test_without_any_worker_the_run_ends_neutral_with_the_reason(engine, settings, run_id):
    with engine.begin() as conn:
        conn.execute(update(dispatch).values(created_at=time.time() - settings.worker_wait_s - 1, tries=4))
    selecting.select_dispatch(engine, settings, run_id)
    run = run_of(engine, run_id)
    assert (run.state, run.conclusion, run.due_at) == ("failed", "neutral", None)
    assert "worker" in run.summary
    with reading(engine) as conn:
        assert conn.execute(select(job.c.conclusion)).scalar_one() == "neutral"


def test_where_the_live_workers_are_of_other_devices_it_is_said_at_once(engine, settings, run_id):
    with engine.begin() as conn:
        workers.hello(conn, {**HELLO, "device": "card", "queue": "card.x86_64.torch-2.13"}, time.time())
    selecting.select_dispatch(engine, settings, run_id)
    run = run_of(engine, run_id)
    assert (run.state, run.conclusion, run.code) == ("failed", "neutral", "no-queue")
    assert "no queue takes jobs of the device spyre" in run.summary
    assert "card.x86_64.torch-2.13" in run.summary


def test_where_no_live_worker_can_run_a_test_it_is_said_at_once(engine, settings, run_id):
    with engine.begin() as conn:
        workers.hello(conn, {**HELLO, "runtimes": []}, time.time())
    selecting.select_dispatch(engine, settings, run_id)
    assert (run_of(engine, run_id).state, run_of(engine, run_id).code) == ("failed", "no-queue")


def test_an_upstream_that_is_gone_is_tried_again_and_then_told(engine, settings, run_id, tmp_path):
    greet(engine)
    lost = settings.model_copy(update={"upstream_url": str(tmp_path / "no-such-repository")})
    tries = 0
    while run_of(engine, run_id).state == "selecting":
        selecting.select_dispatch(engine, lost, run_id)
        tries += 1
        assert tries <= selecting.MAX_TRIES + 2
        run = run_of(engine, run_id)
        if run.state == "selecting":
            assert run.due_at > time.time(), "it backs off"
            with engine.begin() as conn:
                due.take(conn, run.due_at + 0.1, 1.0, {"select": 100})
    run = run_of(engine, run_id)
    assert tries > 2
    assert (run.state, run.conclusion, run.code) == ("failed", "neutral", "select-failed")
    assert run.summary.startswith("Nothing was run: ")


def test_a_run_that_waited_long_in_the_queue_has_its_tries_before_it(engine, settings, run_id, tmp_path):
    greet(engine)
    with engine.begin() as conn:
        conn.execute(update(dispatch).values(attempts=9))  # handed over nine times while another run was selected
    lost = settings.model_copy(update={"upstream_url": str(tmp_path / "no-such-repository")})
    selecting.select_dispatch(engine, lost, run_id)
    assert run_of(engine, run_id).state == "selecting", "the first failure is not the last try"


def test_a_change_that_breaks_the_selector_ends_its_run_all_the_same(engine, settings, run_id, monkeypatch):
    greet(engine)

    def broken(request):
        raise KeyError("secret/path/on/this/machine")

    monkeypatch.setattr(selecting, "run_selector", broken)
    for _ in range(selecting.MAX_TRIES):
        assert run_of(engine, run_id).state == "selecting"
        selecting.select_dispatch(engine, settings, run_id)
    run = run_of(engine, run_id)
    assert (run.state, run.conclusion, run.code, run.due_at) == ("failed", "neutral", "select-failed", None)
    assert run.summary == (
        "Nothing was run: the relay failed while it selected tests: KeyError, the relay's log says where"
    )


def test_a_run_that_kills_every_process_that_selects_it_is_given_up(engine, settings, run_id):
    greet(engine)
    for _ in range(selecting.MAX_TRIES):
        # claimed, and then the process is gone: the claim runs out and the pump takes it away
        assert selecting._claim(engine, settings, run_id, "c") is not None
        with engine.begin() as conn:
            due.take(conn, time.time() + selecting.CLAIM_S + 1, 1.0, {"select": 100})
    selecting.select_dispatch(engine, settings, run_id)
    run = run_of(engine, run_id)
    assert (run.state, run.conclusion) == ("failed", "neutral")
    assert "5 processes that selected its tests ended in the middle of it" in run.summary


def test_results_that_break_the_verdict_end_the_run_all_the_same(engine, settings, run_id, monkeypatch):
    with engine.begin() as conn:
        conn.execute(update(dispatch).values(state="verifying", due_at=1.0))

    def broken(*_):
        raise RecursionError("too deep")

    monkeypatch.setattr(concluding, "verify", broken)
    for _ in range(concluding.MAX_TRIES):
        assert run_of(engine, run_id).state == "verifying"
        concluding.conclude(engine, settings, run_id, time.time())
    run = run_of(engine, run_id)
    assert (run.state, run.conclusion, run.code) == ("failed", "neutral", "conclude-failed")
    assert run.summary.startswith("No verdict: the relay failed while it looked at the results: RecursionError")
    with reading(engine) as conn:
        assert conn.execute(select(job.c.status, job.c.conclusion)).one() == ("completed", "neutral")


def test_a_config_that_broke_meanwhile_names_its_place(engine, settings, run_id, tmp_path):
    greet(engine)
    folder = tmp_path / "configs"
    shutil.copytree(CONFIGS, folder)
    (folder / "upstream.yaml").write_text("test_suite_config:\n  files:\n    - pth: x\n")
    selecting.select_dispatch(engine, settings.model_copy(update={"configs_dir": folder}), run_id)
    assert "upstream.yaml:3:" in run_of(engine, run_id).error


def test_failures_are_compared_with_the_base_before_the_verdict(engine, settings, run_id, upstream):
    greet(engine)
    selecting.select_dispatch(engine, settings, run_id)
    broken = sorted(upstream.expect.regressions)[0]
    method = broken.rpartition("::")[2]
    head = take_all(engine, settings, {broken: f"{method}_spyre_float32"}, outcome="failed", message="Error: no")
    assert head
    concluding.conclude(engine, settings, run_id, time.time())
    concluding.conclude(engine, settings, run_id, time.time())  # the message came twice
    assert run_of(engine, run_id).state == "confirming"
    with reading(engine) as conn:
        base = conn.execute(select(shard.c.spec).where(shard.c.side == "base")).scalars().all()
    key = f"{broken.rpartition('::')[0]}::{method}_spyre_float32"
    assert [(s["commit"], s["variants"]) for s in base] == [(upstream.base_sha, [key])]
    take_all(engine, settings, {broken: f"{method}_spyre_float32"}, outcome="passed")
    concluding.conclude(engine, settings, run_id, time.time())
    assert run_of(engine, run_id).state == "confirming", "it is run again on both sides before anybody is blamed"
    with reading(engine) as conn:
        again = conn.execute(select(shard.c.side, shard.c.spec).where(shard.c.side.like("%again"))).all()
    asked = {row.side: (row.spec["commit"], row.spec["variants"], row.spec["repeat"]) for row in again}
    assert asked == {
        "again": (upstream.head_sha, [key], RULE.first),
        "base-again": (upstream.base_sha, [key], RULE.first),
    }
    for side, outcome in (("again", "failed"), ("base-again", "passed")):
        take_all(engine, settings, {broken: f"{method}_spyre_float32"}, side=side, outcome=outcome, message="Error: no")
    concluding.conclude(engine, settings, run_id, time.time())
    run = run_of(engine, run_id)
    assert (run.state, run.conclusion, run.code) == ("completed", "failure", "verify-regression")
    assert [c["key"] for c in run.verdict["causes"]] == [key]
    with reading(engine) as conn:
        assert conn.execute(select(job.c.status, job.c.conclusion)).one() == ("completed", "failure")


def test_failures_of_one_class_in_several_shards_all_run_on_the_base(engine, settings, run_id, upstream):
    greet(engine)
    apart = settings.model_copy(update={"shard_seconds": 0.01})
    selecting.select_dispatch(engine, apart, run_id)
    broken = [t for t in sorted(upstream.expect.regressions) if "::TestPointwiseDemo::" in t]
    variants = {test: f"{test.rpartition('::')[2]}_spyre_float32" for test in broken}
    assert len(broken) > 1
    assert sorted(take_all(engine, apart, variants, outcome="failed", message="Error: no")) == broken
    concluding.conclude(engine, apart, run_id, time.time())
    with reading(engine) as conn:
        specs = conn.execute(select(shard.c.spec).where(shard.c.side == "base")).scalars().all()
    assert sorted(test for spec in specs for test in spec["tests"]) == broken
    assert sorted(key for spec in specs for key in spec["variants"]) == sorted(
        f"{test.rpartition('::')[0]}::{variant}" for test, variant in variants.items()
    )


def test_a_verdict_that_kills_its_process_again_and_again_ends_the_run(engine, settings, run_id, monkeypatch):
    """No exception is seen then: the process is gone."""
    greet(engine)
    selecting.select_dispatch(engine, settings, run_id)
    take_all(engine, settings, {})

    class Killed(BaseException):
        pass

    def killed(*_args):
        raise Killed

    monkeypatch.setattr(concluding, "_conclude", killed)
    tries, now = 0, time.time()
    while run_of(engine, run_id).state == "verifying":
        assert tries <= concluding.MAX_TRIES, "it is bounded"
        tries += 1
        with contextlib.suppress(Killed):
            concluding.conclude(engine, settings, run_id, now)
        concluding.conclude(engine, settings, run_id, now)  # another message, while the first may be at work: nothing
        now += concluding.CLAIM_S + 1
    assert tries == concluding.MAX_TRIES + 1
    run = run_of(engine, run_id)
    assert (run.state, run.conclusion, run.code, run.due_at) == ("failed", "neutral", "conclude-failed", None)
    assert "5 processes that looked at its results ended" in run.summary


def test_a_shard_that_a_worker_cannot_run_goes_to_another_worker_once(engine, settings, run_id):
    greet(engine)
    greet(engine, name="other")
    selecting.select_dispatch(engine, settings, run_id)
    with reading(engine) as conn:
        first = conn.execute(select(shard.c.id)).scalars().all()
    for id in first:
        token = leasing.take(engine, settings, id, "w", time.time())["token"]
        leasing.complete(
            engine, settings, id, token, status="failed", error="no space left", report={}, now=time.time()
        )
    concluding.conclude(engine, settings, run_id, time.time())
    assert run_of(engine, run_id).state == "confirming"
    with reading(engine) as conn:
        again = conn.execute(select(shard.c.id).where(shard.c.state == "queued")).scalars().all()
    assert len(again) == len(first)
    with pytest.raises(Conflict, match="another worker"):
        leasing.take(engine, settings, again[0], "w", time.time())
    take_all(engine, settings, {}, by="other")
    concluding.conclude(engine, settings, run_id, time.time())
    run = run_of(engine, run_id)
    assert run.code != "verify-infrastructure"
    assert run.verdict["counts"]["passed"] > 0


def test_results_of_the_base_that_another_run_left_are_not_run_again(engine, settings, upstream):
    greet(engine)
    runs = [
        make_run(
            engine,
            state="selecting",
            due_at=time.time(),
            base_sha=upstream.base_sha,
            head_sha=upstream.head_sha,
            base_ref=ref,
            compare_sha=None,
            pr_number=number,
        )
        for number, ref in ((1, "gh/somebody/7/base"), (2, "main"), (3, "main"))
    ]
    broken = sorted(upstream.expect.regressions)[0]
    variants = {broken: f"{broken.rpartition('::')[2]}_spyre_float32"}
    asked = []
    for run in runs:
        selecting.select_dispatch(engine, settings, run)
        take_all(engine, settings, variants, outcome="failed", message="Error: no")
        concluding.conclude(engine, settings, run, time.time())
        with reading(engine) as conn:
            asked.append(conn.execute(select(shard.c.side).where(shard.c.dispatch_id == run)).scalars().all())
        take_all(engine, settings, variants, outcome="passed")
    assert "base" in asked[0]
    assert "base" in asked[1], "a stacked change's base is nobody's trunk"
    assert "base" not in asked[2]
    assert "base-again" in asked[2]


def take_all(engine, settings, variants, side=None, by="w", **over):
    """Plays the worker: leases what is queued, reports one variant for each of ``variants`` (test -> method)."""
    done = []
    wanted = shard.c.state == "queued" if side is None else (shard.c.state == "queued") & (shard.c.side == side)
    with reading(engine) as conn:
        queued = conn.execute(select(shard.c.id, shard.c.spec).where(wanted)).all()
    for row in queued:
        token = leasing.take(engine, settings, row.id, by, time.time())["token"]
        lines = []
        for test in row.spec["tests"]:
            if test in variants:
                repeats = row.spec.get("repeat", 1)
                lines += [result_line(variants[test], test=test, attempt=i, **over) for i in range(repeats)]
                done.append(test)
            elif row.spec["variants"] is None:
                lines.append(result_line(f"{test.rpartition('::')[2]}_spyre_float32", test=test))
        leasing.record(engine, settings, row.id, token, lines, time.time())
        leasing.complete(
            engine,
            settings,
            row.id,
            token,
            status="done",
            error=None,
            report={"collected": len(lines)},
            now=time.time(),
        )
    return done
