"""One scenario a fault: webhooks and reports over HTTP to the running service, what GitHub sees at the other end."""

from __future__ import annotations

import time

import pytest
from factories import make_run, shard_spec
from outbound_relay import UPSTREAM, pull_request, rerequested, running
from sqlalchemy import insert, update

from relay import chores
from relay.domain.provenance import same
from relay.services import proving
from relay.services.readers import make_reader
from relay.store import shards, workers
from relay.store.schema import chore, dispatch, job, plan, rerun, shard, streak, worker

ALLOWLIST = """\
L1:
  - org/one
L2:
  - org/two
L3:
  spyre:
    org/three: [carol]
L4:
  - org/four:
      oncalls: [dave, "@org/team"]
      deadlines: {start: 30m, run: 24h}
"""
LABEL = "ciflow/crcr/spyre"
A, B, C = "a" * 40, "c" * 40, "d" * 40
NAMES = [
    ":nvidia: (B200) a/b",
    "310",
    "007",
    "3_11",
    "тест / 試験 \N{SNOWMAN}",
    "x" * 300,
    "@org/team <b>|`*_[l](http://e)",
]


@pytest.fixture
def relay(tmp_path, request):
    if getattr(request, "param", "sqlite") != "postgresql":
        with running(tmp_path, ALLOWLIST) as relay:
            yield relay
        return
    cluster = request.getfixturevalue("postgres")
    url = cluster.new_database()
    with running(tmp_path, ALLOWLIST, url) as relay:
        yield relay
    cluster.drop_database(url)


ON_BOTH = pytest.mark.parametrize("relay", ["sqlite", "postgresql"], indirect=True)
"""where queries and locks are the point"""


def of(relay, repo):
    return [row for row in relay.rows(dispatch) if row.downstream == repo][-1]


# ------------------------------------------------------------------------------------------------------------ deadlines


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


# -------------------------------------------------------------------------------------------------- storms, superseding


def test_a_push_is_shown_on_its_own_commit(relay):
    body = {
        "ref": "refs/heads/main", "before": A, "after": C, "created": False, "deleted": False, "forced": False,
        "repository": {"id": 65600975, "full_name": UPSTREAM}, "pusher": {"name": "ann"}, "sender": {"login": "ann"},
    }  # fmt: skip
    event = relay.webhook("push", body)
    relay.turn()
    (check,) = relay.checks()
    assert (check["name"], check["head_sha"], check["status"]) == ("crcr/org/four/relay/response", C, "queued")
    relay.report(event, "completed", "failure", repo="org/four")
    relay.turn()
    shown = {check["name"]: (check["head_sha"], check["conclusion"], check["external_id"]) for check in relay.checks()}
    assert shown["crcr/org/four/ci/tests"] == (C, "failure", "55")
    assert relay.comments() == []  # there is no pull request to say it at


def test_a_run_of_our_workers_at_level_4_is_seen_before_anything_is_selected(tmp_path):
    with running(tmp_path, "L4:\n  - org/lab:\n      executor: workers\n      device: spyre\n") as relay:
        relay.push()
        relay.turn()
        (check,) = relay.checks()
        assert (check["name"], check["status"]) == ("crcr/org/lab/spyre-emulator/selected-tests", "queued")


def test_a_storm_of_pushes_is_told_twice_and_not_five_times(relay):
    relay.push()
    relay.turn()
    for number in range(5):
        relay.ahead += 1
        relay.push("synchronize", sha=f"{number:x}" * 40)
        relay.turn()
    assert len([c for c in relay.world.calls("POST", "/dispatches") if "/org/two/" in c["path"]]) == 1
    relay.wait(10)
    posts = [c for c in relay.world.calls("POST", "/dispatches") if "/org/two/" in c["path"]]
    assert [c["body"]["client_payload"]["payload"]["pull_request"]["head"]["sha"] for c in posts] == [A, "4" * 40]
    states = [(c["head_sha"][:1], c["status"], c["conclusion"]) for c in relay.checks("/response")]
    assert states == [("a", "completed", "cancelled"), ("4", "queued", None)]


def test_what_runs_for_a_superseded_commit_is_cancelled_also_when_it_is_heard_of_later(relay):
    first = relay.push()
    relay.turn()
    for number, repo in ((55, "org/four"), (56, "org/two")):
        relay.world.hub.ledger.runs[number] = {
            "id": number, "repo": repo, "event": "x", "status": "in_progress", "conclusion": None,
        }  # fmt: skip
    relay.report(first, "in_progress", repo="org/four")
    relay.turn()
    relay.ahead += 20
    relay.push("synchronize", sha=B)
    relay.turn()
    assert relay.world.hub.ledger.runs[55]["conclusion"] == "cancelled"
    relay.report(first, "in_progress", repo="org/two", run_id="56")
    relay.turn()
    assert relay.world.hub.ledger.runs[56]["conclusion"] == "cancelled"
    relay.report(first, "completed", "failure", repo="org/four")
    relay.turn()
    assert relay.comments() == []  # nobody is called about a commit that has a successor


# --------------------------------------------------------------------------------------------------------------- labels


@ON_BOTH
def test_a_label_shows_and_hides_a_level_3_result_at_any_point(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "in_progress", repo="org/three")
    relay.turn()
    assert relay.checks("org/three/ci/tests") == []
    relay.webhook("pull_request", pull_request("labeled", A, (LABEL,), label={"name": LABEL}))
    relay.turn()
    (check,) = relay.checks("org/three/ci/tests")
    assert check["status"] == "in_progress"
    relay.webhook("pull_request", pull_request("unlabeled", A, (), label={"name": LABEL}))
    relay.turn()
    (check,) = relay.checks("org/three/ci/tests")
    assert (check["conclusion"], check["output"]["title"]) == ("neutral", "No longer shown")
    relay.report(event, "completed", "failure", repo="org/three", test_results={"passed": 3, "failed": 1, "skipped": 0})
    relay.turn()
    assert relay.checks("org/three/ci/tests")[0]["conclusion"] == "neutral"
    relay.webhook("pull_request", pull_request("labeled", A, (LABEL,), label={"name": LABEL}))
    relay.turn()
    (check,) = relay.checks("org/three/ci/tests")
    assert check["conclusion"] == "failure"
    assert "3 passed, 1 failed" in check["output"]["summary"]
    assert len(relay.world.calls("POST", "/check-runs")) == 2  # this one, and level 4's that waits
    assert relay.comments() == []


def test_a_label_that_comes_after_the_end_backfills_every_job(relay):
    event = relay.push()
    relay.turn()
    for number, name in enumerate(("x", "y", "z"), 60):
        relay.report(event, "completed", "success", repo="org/three", job_name=name, run_id=str(number))
    relay.turn()
    relay.webhook("pull_request", pull_request("labeled", A, (LABEL,), label={"name": LABEL}))
    relay.turn()
    shown = {check["name"]: check["conclusion"] for check in relay.checks() if "org/three" in check["name"]}
    assert shown == {f"crcr/org/three/ci/{name}": "success" for name in "xyz"}


def test_any_name_survives_from_start_to_end_and_through_a_deadline(relay):
    event = relay.push()
    relay.turn()
    for number, name in enumerate(NAMES, 60):
        relay.report(event, "in_progress", repo="org/four", job_name=name, name=name, run_id=str(number))
    relay.turn()
    names = {f"crcr/org/four/{name}/{name}" for name in NAMES if len(name) < 300}
    (cut,) = {check["name"] for check in relay.checks()} - {*names, "crcr/org/four/relay/response"}
    assert len(cut) == 255
    names.add(cut)
    assert names <= {check["name"] for check in relay.checks()}
    assert not any("@org/team" in check["output"]["summary"] for check in relay.checks())
    relay.wait(25 * 3600)
    ended = {check["name"] for check in relay.checks() if check["conclusion"] == "timed_out"}
    assert ended == names
    rows = relay.world.hub.hud.rows.values()
    assert {(row["job_name"], row["conclusion"]) for row in rows} == {(name, "timed_out") for name in NAMES}


# --------------------------------------------------------------------------------------------------------------- reruns


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


# --------------------------------------------------------------------------------------------------------------- oncall


@ON_BOTH
def test_oncalls_are_called_once_a_streak(relay):
    conclusions = ["failure", "failure", "success", "failure"]
    bodies = []
    for number, conclusion in enumerate(conclusions):
        relay.ahead += 60
        event = relay.push("synchronize" if number else "opened", sha=f"{number}" * 40)
        relay.wait(10)
        relay.report(event, "completed", conclusion, repo="org/four", job_name="@evil [x](http://e)")
        relay.turn()
        bodies.append([comment["body"] for comment in relay.comments()])
    assert [len(found) for found in bodies] == [1, 1, 1, 2]
    assert bodies[0][0].endswith("cc @dave @org/team")
    assert "2 commits in a row" in bodies[1][0]
    assert "passes again" in bodies[2][0]
    assert "@" not in bodies[2][0]
    assert "@evil" not in bodies[0][0]
    assert bodies[3][0] == bodies[2][0]
    assert [(row.failures, row.ended_at is None) for row in relay.rows(streak)] == [(2, False), (1, True)]
    assert len(relay.world.calls("POST", "/comments")) == 2


def test_a_neutral_end_calls_nobody_and_ends_nothing(relay):
    for number, conclusion in enumerate(["failure", "neutral", "cancelled"]):
        relay.ahead += 60
        event = relay.push("synchronize" if number else "opened", sha=f"{number}" * 40)
        relay.wait(10)
        relay.report(event, "completed", conclusion, repo="org/four")
        relay.turn()
    assert len(relay.comments()) == 1
    assert relay.rows(streak)[0].ended_at is None
    assert len(relay.world.calls("POST", "/comments")) == 1


def test_a_comment_whose_answer_was_lost_is_found_again(relay):
    event = relay.push()
    relay.turn()
    relay.world.fail(path=".*/comments", method="POST", drop=True)
    relay.report(event, "completed", "failure", repo="org/four")
    relay.turn()
    assert relay.rows(kind="comment")[0].ambiguous
    relay.wait(30)
    assert len(relay.comments()) == 1
    assert relay.rows(streak)[0].comment_id == str(relay.comments()[0]["id"])


# ----------------------------------------------------------------------------------------------------------- provenance


def test_a_verdict_says_what_it_was_made_of(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "completed", "success", repo="org/two")
    made = of(relay, "org/two").provenance
    assert made["upstream"] == {"repo": UPSTREAM, "head": A, "base": "b" * 40, "merge_base": None}
    assert made["downstream"]["sha"] == ["5" * 40]
    assert made["downstream"]["runs"][0]["ref"] == "refs/heads/main"
    assert made["versions"]["relay"] == "0.1.0"
    page = relay.http.get(f"{relay.url}/run/{of(relay, 'org/two').id}.json").json()
    assert page["provenance"] == made
    assert "5" * 8 in relay.http.get(f"{relay.url}/run/{of(relay, 'org/two').id}").text


def test_a_closed_pull_request_is_told_and_waits_for_nobody(relay):
    relay.push()
    relay.turn()
    relay.push("closed")
    relay.turn()
    assert {(row.state, row.code) for row in relay.rows(dispatch, action="closed")} == {("completed", "told")}
    assert {(row.state, row.code) for row in relay.rows(dispatch, action="opened", level="L4")} == {
        ("superseded", "pull-request-closed")
    }
    assert [(check["status"], check["conclusion"]) for check in relay.checks()] == [("completed", "cancelled")]
    relay.wait(7 * 3600)
    assert relay.swept["total"]["no-response"] == 0


# -------------------------------------------------------------------------------------------------------- installations


def installation(action, **more):
    about = {"id": 77, "account": {"login": "org"}, "permissions": {"contents": "write"}, **more}
    return {"action": action, "installation": about, "sender": {"login": "ann"}}


@ON_BOTH
def test_installation_webhooks_close_and_open_the_way(relay):
    relay.webhook("installation", installation("suspend", suspended_at="2026-01-01T00:00:00Z"))
    event = relay.push()
    relay.turn()
    assert [c for c in relay.world.hub.asgi.calls if "/org/" in c["path"]] == []
    assert {row.state for row in relay.rows(kind="dispatch")} == {"parked"}
    relay.ahead += 1
    relay.webhook("installation", installation("unsuspend", suspended_at=None))
    relay.turn()
    assert {row.state for row in relay.rows(kind="dispatch")} == {"sent"}
    assert set(relay.world.hub.ledger.dispatches.values()) == {1}
    assert relay.report(event, "completed", "success", repo="org/two")["recorded"]


def test_a_rename_is_followed_from_the_webhook_and_from_the_redirect(relay):
    relay.push()
    relay.turn()
    number = relay.world.hub.ledger.rename("org/two", "org/deux")
    event = relay.push("synchronize", sha=B)
    relay.wait(20)
    relay.wait(20)
    assert {repo for repo, _ in relay.world.hub.ledger.dispatches} >= {"org/two", "org/deux"}
    body = {
        "action": "renamed", "repository": {"id": number, "full_name": "org/deux"},
        "changes": {"repository": {"name": {"from": "two"}}}, "installation": {"id": 77},
    }  # fmt: skip
    relay.webhook("repository", body)
    assert relay.report(event, "completed", "success", repo="org/deux", repository_id=str(number))["recorded"]


# --------------------------------------------------------------------------------------------------------------- drafts


def test_a_draft_is_told_when_it_is_ready_to_who_wants_it_so(tmp_path):
    with running(tmp_path, "L2:\n  - org/all\n  - org/ready:\n      drafts: false\n") as relay:
        relay.webhook("pull_request", pull_request("opened", A, draft=True))
        relay.turn()
        assert [row.downstream for row in relay.rows(dispatch)] == ["org/all"]
        relay.webhook("pull_request", pull_request("ready_for_review", A))
        relay.turn()
        assert [row.downstream for row in relay.rows(dispatch)] == ["org/all", "org/ready"]


# --------------------------------------------------------------------------------------------------------------- health


def test_a_sweeper_that_nobody_runs_is_seen(relay):
    found = chores.chores_of(relay.engine, relay.world.settings, make_reader(relay.world.settings))
    mine = [one for one in found if one.name in ("deadlines", "places", "reruns", "levels")]
    assert len(mine) == 4
    assert chores.step(relay.engine, mine, time.time()) == [one.name for one in mine]
    assert chores.step(relay.engine, mine, time.time()) == []  # one of many does it
    status = relay.http.get(f"{relay.url}/index.json").json()
    assert {one["name"]: one["late_s"] for one in status["chores"]}["deadlines"] == 0
    assert 'relay_chore_late_seconds{chore="deadlines"} 0.0' in relay.http.get(f"{relay.url}/metrics").text
    with relay.engine.begin() as conn:
        conn.execute(update(chore).where(chore.c.name == "deadlines").values(due_at=time.time() - 600, error="boom"))
    notes = relay.http.get(f"{relay.url}/index.json").json()["notes"]
    assert "nobody has done the chore deadlines for 10 min" in notes[0]
    assert "the chore deadlines failed: boom" in notes
    page = relay.http.get(f"{relay.url}/").text
    assert "boom" in page
    assert 'relay_chore_failed{chore="deadlines"} 1.0' in relay.http.get(f"{relay.url}/metrics").text


def test_a_closed_installation_is_on_the_status_page(relay):
    relay.world.hub.ledger.suspended.add("org")
    relay.push()
    relay.turn()
    assert (
        "nothing is sent to org (installation-suspended)" in relay.http.get(f"{relay.url}/index.json").json()["notes"]
    )
    assert 'relay_places_closed{code="installation-suspended"} 1.0' in relay.http.get(f"{relay.url}/metrics").text
    assert "suspended" in relay.http.get(f"{relay.url}/").text
