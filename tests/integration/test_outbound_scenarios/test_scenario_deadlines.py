"""Deadlines, lost workers and drafts, one scenario a fault: what is reported over HTTP, and what GitHub sees."""

from __future__ import annotations

from factories import make_run, shard_spec
from outbound_relay import ON_BOTH, A, of, pull_request, running
from sqlalchemy import insert

from relay.store import shards, workers
from relay.store.schema import dispatch, job, shard, worker


def test_level_4_is_seen_from_the_dispatch_on_and_a_downstream_that_never_answers_is_named(relay):
    relay.push()
    relay.turn()
    (check,) = relay.checks()
    assert (check["name"], check["status"]) == ("crcr/org/four/relay/response", "queued")
    assert "the merge waits" in check["output"]["summary"]
    assert of(relay, "org/one").state == "completed"  # nobody reports at level 1
    relay.wait(29 * 60)
    assert of(relay, "org/four").state == "sent"
    relay.wait(2 * 60)
    run = of(relay, "org/four")
    assert (run.state, run.conclusion, run.code) == ("failed", "timed_out", "no-response")
    assert run.summary == "org/four was told and did not report within 30 min"
    (check,) = relay.checks()
    assert (check["status"], check["conclusion"]) == ("completed", "timed_out")
    assert "does not block" in check["output"]["summary"]
    assert of(relay, "org/two").state == "sent"  # the relay's own deadline is longer
    relay.wait(6 * 3600)
    assert of(relay, "org/two").code == "no-response"
    assert relay.swept["total"]["no-response"] == 3
    assert len(relay.comments()) == 1
    calls = len(relay.world.hub.asgi.calls)
    relay.wait(24 * 3600)
    assert len(relay.world.hub.asgi.calls) == calls  # effects once


@ON_BOTH
def test_a_true_result_wins_over_a_deadline_however_late(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "in_progress", repo="org/four")
    relay.turn()
    assert [check["conclusion"] for check in relay.checks("/response")] == ["success"]
    relay.wait(23 * 3600)
    assert relay.rows(job)[0].status == "in_progress"  # its own deadline is a day
    relay.wait(2 * 3600)
    (check,) = relay.checks("/ci/tests")
    assert (check["conclusion"], of(relay, "org/four").code) == ("timed_out", "job-timed-out")
    keys = [row for row in relay.world.hub.hud.rows.values() if row["conclusion"] == "timed_out"]
    assert len(keys) == 1
    (said,) = relay.comments()
    assert relay.report(event, "completed", "success", repo="org/four")["code"] == "late-end"
    relay.turn()
    (check,) = relay.checks("/ci/tests")
    assert (check["conclusion"], of(relay, "org/four").conclusion) == ("success", "success")
    assert [row["conclusion"] for row in relay.world.hub.hud.rows.values()] == ["success"]
    (now,) = relay.comments()
    assert now["id"] == said["id"]
    assert "passes again" in now["body"]


def test_a_late_first_report_takes_back_no_response(relay):
    event = relay.push()
    relay.turn()
    relay.wait(31 * 60)
    assert of(relay, "org/four").code == "no-response"
    relay.report(event, "completed", "success", repo="org/four")
    relay.turn()
    run = of(relay, "org/four")
    assert (run.state, run.conclusion, run.code) == ("completed", "success", "jobs-passed")
    assert [check["conclusion"] for check in relay.checks("/response")] == ["success"]


@ON_BOTH
def test_a_run_whose_workers_are_gone_ends(relay):
    run = make_run(relay.engine, state="running", created_at=relay.now)
    with relay.engine.begin() as conn:
        specs = [{**shard_spec("test/test_x.py::TestA::test_b")} for _ in range(3)]
        shards.add(conn, dispatch_id=run, side="head", queue="shards.spyre", specs=specs, now=relay.now)
        told = {"device": "spyre", "queue": "shards.spyre", "torch": "2.13.0", "runtimes": [], "info": {}}
        conn.execute(insert(worker).values(name="w", seen_at=relay.now, **told))
    relay.wait(800)
    assert of(relay, "torch-spyre/torch-spyre").state == "running"
    relay.wait(200)
    assert of(relay, "torch-spyre/torch-spyre").state == "verifying"
    assert {row.error for row in relay.rows(shard)} == {"no worker was there for 15 min"}
    assert relay.swept["total"]["no-worker"] == 1


def test_a_run_whose_only_worker_takes_nothing_waits_as_long_as_for_one_that_is_gone(relay):
    run = make_run(relay.engine, state="running", created_at=relay.now)

    def hello(seconds):
        info = {"held": {"why": "its disk is full", "seconds": seconds}} if seconds else {}
        told = {"device": "spyre", "queue": "shards.spyre", "torch": "2.13.0", "runtimes": [], "info": info}
        with relay.engine.begin() as conn:
            workers.hello(conn, {"name": "w", **told}, relay.now)

    def state():
        return of(relay, "torch-spyre/torch-spyre").state

    with relay.engine.begin() as conn:
        specs = [shard_spec("test/test_x.py::TestA::test_b")]
        shards.add(conn, dispatch_id=run, side="head", queue="shards.spyre", specs=specs, now=relay.now)
    hello(0)
    relay.wait(800)
    hello(100)  # the disk filled up late: the run's own age does not count
    relay.wait(300)
    assert state() == "running"
    hello(0)
    relay.wait(800)
    assert state() == "running"
    hello(890)
    relay.wait(20)
    assert state() == "verifying"


def test_a_draft_is_told_when_it_is_ready_to_who_wants_it_so(tmp_path):
    with running(tmp_path, "L2:\n  - org/all\n  - org/ready:\n      drafts: false\n") as relay:
        relay.webhook("pull_request", pull_request("opened", A, draft=True))
        relay.turn()
        assert [row.downstream for row in relay.rows(dispatch)] == ["org/all"]
        relay.webhook("pull_request", pull_request("ready_for_review", A))
        relay.turn()
        assert [row.downstream for row in relay.rows(dispatch)] == ["org/all", "org/ready"]
