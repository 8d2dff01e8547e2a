"""Checks, suites and runs that are run again, one scenario a fault."""

from __future__ import annotations

from factories import make_run, shard_spec
from outbound_relay import LABEL, ON_BOTH, A, of, rerequested
from sqlalchemy import insert

from relay.domain.provenance import same
from relay.services import proving
from relay.store import shards
from relay.store.schema import job, plan, rerun, shard


def start(relay, repo, run_id, **run):
    """A run of ``repo`` that has ended, known to GitHub."""
    relay.world.hub.ledger.runs[int(run_id)] = {
        "id": int(run_id), "repo": repo, "event": "x", "status": "completed", "conclusion": "failure", **run,
    }  # fmt: skip


def test_a_check_is_run_again_and_a_stranger_is_not_obeyed(relay):
    event = relay.push()
    relay.turn()
    start(relay, "org/four", 55)
    relay.report(event, "completed", "failure", repo="org/four")
    relay.turn()
    number = relay.checks("/ci/tests")[0]["id"]
    relay.webhook("check_run", rerequested("check_run", A, number, app_id=666))
    relay.turn()
    assert relay.rows(rerun) == []
    relay.webhook("check_run", rerequested("check_run", A, number))
    relay.turn()
    assert [c["path"] for c in relay.world.calls("POST") if "actions" in c["path"]] == [
        "/repos/org/four/actions/runs/55/rerun-failed-jobs"
    ]
    assert relay.world.hub.ledger.runs[55]["run_attempt"] == 2
    relay.report(event, "completed", "success", repo="org/four", run_attempt="2")
    relay.turn()
    assert [check["conclusion"] for check in relay.checks("/ci/tests")] == ["failure", "success"]
    assert of(relay, "org/four").conclusion == "success"


def test_a_suite_is_run_again_whole_and_one_that_runs_already_is_fine(relay):
    event = relay.push(labels=(LABEL,))
    relay.turn()
    for repo, number, status in (("org/four", "55", "completed"), ("org/three", "56", "in_progress")):
        start(relay, repo, number, status=status)
        relay.report(event, "completed", "success", repo=repo, run_id=number)
    relay.turn()
    relay.webhook("check_suite", rerequested("check_suite", A, 1))
    relay.turn()
    paths = {c["path"] for c in relay.world.calls("POST") if "actions" in c["path"]}
    assert paths == {"/repos/org/four/actions/runs/55/rerun", "/repos/org/three/actions/runs/56/rerun"}
    assert {row.state for row in relay.rows(kind="rerun")} == {"sent"}


@ON_BOTH
def test_a_run_of_our_workers_is_run_again_with_the_very_plan(relay):
    run = make_run(
        relay.engine, state="completed", conclusion="failure", code="verify-regression", head_sha=A, closed_at=relay.now
    )
    spec = shard_spec(
        "test/test_x.py::TestA::test_b", capability="sheet: 1", configs=[{"name": "a.yaml", "text": "x: 1"}]
    )
    with relay.engine.begin() as conn:
        empty = {"tests": [], "left_out": [], "not_exercised": [], "counts": {"planned": 1}, "timings": {}}
        runtime = {"kind": "overlay", "torch": "2.13.0", "files": ["torch/x.py"]}
        conn.execute(
            insert(plan).values(
                dispatch_id=run, runtime=runtime, partial=False, warnings=[], created_at=relay.now, **empty
            )
        )
        shards.add(conn, dispatch_id=run, side="head", queue="shards.spyre", specs=[spec], now=relay.now)
        told = {"workflow": "w", "name": "selected-tests", "run_id": run, "attempt": 1, "status": "completed"}
        conn.execute(insert(job).values(id="j", dispatch_id=run, check_run_id="4711", version=1, **told))
    relay.webhook("check_run", rerequested("check_run", A, 4711))
    relay.turn()
    again = of(relay, "torch-spyre/torch-spyre")
    assert (again.rerun_of, again.state, again.head_sha, again.compare_sha) == (run, "running", A, "b" * 40)
    old, new = relay.rows(shard)
    assert (new.dispatch_id, new.spec, new.state) == (again.id, old.spec, "queued")
    first, second = relay.rows(plan)
    assert (second.runtime, second.counts) == (first.runtime, first.counts)
    with relay.engine.begin() as conn:
        assert same(proving.record(conn, run), proving.record(conn, again.id)) == []
        assert proving.record(conn, again.id)["rerun_of"] == run
    queued = [check for check in relay.checks("/selected-tests") if check["status"] == "queued"]
    assert len(queued) == 1
    relay.webhook("check_run", rerequested("check_run", A, 4711))
    relay.turn()
    assert len(relay.rows(shard)) == 2  # the newer one runs
    assert [row.state for row in relay.rows(rerun)] == ["asked", "refused"]
