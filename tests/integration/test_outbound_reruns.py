"""Somebody presses "re-run" at a check run of ours, whichever kind it is: it happens, or the check says why not."""

from __future__ import annotations

import pytest
from factories import make_run
from outbound_relay import pull_request, rerequested, running
from sqlalchemy import insert, update

from relay.services.rerun_notes import MARK
from relay.store import levels
from relay.store.schema import delivery, dispatch, job, rerun

ALLOWLIST = """\
L3:
  spyre:
    org/three: [carol]
L4:
  - org/four:
      oncalls: [dave]
      deadlines: {start: 30m, run: 24h}
  - org/lab:
      executor: workers
      device: spyre
"""
A, B = "a" * 40, "c" * 40
RESPONSE, JOB, LAB = "org/four/relay/response", "org/four/ci/tests", "/selected-tests"


@pytest.fixture
def relay(tmp_path):
    with running(tmp_path, ALLOWLIST) as relay:
        yield relay


def of(relay, repo="org/four"):
    return [row for row in relay.rows(dispatch) if row.downstream == repo]


def press(relay, name, which=-1, sha=A):
    check = relay.checks(name)[which]
    relay.webhook("check_run", rerequested("check_run", sha, check["id"]))
    relay.turn()
    return relay.world.hub.ledger.check_runs[check["id"]]


def told(relay, repo="org/four"):
    return [c["body"]["client_payload"] for c in relay.world.calls("POST", f"{repo}/dispatches")]


def note(check):
    return check["output"]["summary"].partition(MARK)[2]


def silent(relay):
    """A dispatch to org/four that nobody answered in time."""
    relay.push(body="Depends-On: nobody/else#1")
    relay.turn()
    relay.wait(31 * 60)
    assert of(relay)[-1].code == "no-response"


def test_every_check_that_we_make_is_of_a_kind_that_is_tried_here(relay):
    event = relay.push(labels=("ciflow/crcr/spyre",))
    relay.turn()
    relay.report(event, "completed", "failure", repo="org/four")
    relay.report(event, "completed", "failure", repo="org/three", run_id="56")
    relay.turn()
    owned = {(bool(row.job_id), row.stream.endswith(":response")) for row in relay.rows(kind="check_run")}
    assert owned == {(True, False), (False, True)}  # a job's, and the one that waits
    assert {check["name"] for check in relay.checks()} == {
        "crcr/org/four/relay/response", "crcr/org/four/ci/tests", "crcr/org/three/ci/tests",
        "crcr/org/lab/spyre-emulator/selected-tests",
    }  # fmt: skip


def test_a_downstream_that_never_answered_is_told_again(relay):
    silent(relay)
    with relay.engine.connect() as conn:
        assert [one.conclusion for one in levels.samples(conn, "org/four", 0.0)] == ["timed_out"]
    press(relay, RESPONSE)
    old, new = of(relay)
    assert (old.code, new.state, new.rerun_of) == ("no-response", "sent", old.id)
    first, second = told(relay)
    assert second["payload"] == first["payload"]
    assert second["relay"]["dispatch_key"] == new.id != old.id
    assert second["delivery_id"] == new.delivery_id != old.delivery_id
    assert [(c["status"], c["conclusion"]) for c in relay.checks(RESPONSE)] == [
        ("completed", "timed_out"), ("queued", None),
    ]  # fmt: skip
    relay.report(new.delivery_id, "completed", "success", repo="org/four")
    relay.turn()
    assert [row.conclusion for row in of(relay)] == ["timed_out", "success"]
    assert relay.checks(RESPONSE)[1]["conclusion"] == "success"
    with relay.engine.connect() as conn:  # what counts for its level is the newest attempt
        assert [one.conclusion for one in levels.samples(conn, "org/four", 0.0)] == ["success"]
    press(relay, RESPONSE)  # and whole once more, when it is over
    assert len(told(relay)) == 3
    assert [row.rerun_of for row in of(relay)] == [None, old.id, old.id]


def test_one_that_could_not_be_told_is_told_once(relay):
    relay.world.fail(path=".*/org/four/dispatches", status=422, count=1)
    relay.push()
    relay.turn()
    assert of(relay)[0].code == "dispatch-not-sent"
    assert relay.checks(RESPONSE)[0]["conclusion"] == "neutral"
    press(relay, RESPONSE)
    old, new = of(relay)
    assert (old.state, new.state) == ("failed", "sent")
    (stale,) = relay.rows(dispatch_id=old.id, kind="dispatch")
    assert (stale.state, stale.last_error) == ("dropped", f"told again as {new.id}")


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        ("waits", "the downstream was told and may still report"),
        ("runs", "what it runs is not over"),
        ("superseded", "nobody waits for it any more"),
        ("moved on", "the pull request has moved on"),
        ("told again", "a newer run of the same commit is there"),
        ("forgotten", "the event is older than 14 days and no longer stored"),
    ],
)
def test_why_the_downstream_is_not_told_again_is_said_at_the_check(relay, happens, why):
    event = relay.push()
    relay.turn()
    if happens == "runs":
        relay.report(event, "in_progress", repo="org/four")
    elif happens == "superseded":
        relay.push("synchronize", sha=B)
    elif happens != "waits":
        relay.wait(31 * 60)
    relay.turn()
    if happens == "moved on":
        relay.push("synchronize", sha=B)
        relay.wait(20)
    elif happens == "told again":
        press(relay, RESPONSE)
    elif happens == "forgotten":
        with relay.engine.begin() as conn:
            conn.execute(update(delivery).values(body=None))
    before, calls = dict(relay.checks(RESPONSE)[0]), len(told(relay))
    check = press(relay, RESPONSE, 0)
    assert why in note(check)
    assert "asked for by ann" in note(check)
    assert len(told(relay)) == calls
    kept = ("name", "status", "conclusion", "external_id", "details_url")
    assert [check[key] for key in kept] == [before[key] for key in kept]
    assert note(press(relay, RESPONSE, 0)) == note(check)  # said once, however often it is asked
    assert {(row.state, row.reason is not None) for row in relay.rows(rerun) if row.reason} == {("refused", True)}


def test_a_run_of_a_ci_that_cannot_be_started_says_so(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "completed", "failure", repo="org/four", run_id="abc", url=None)
    relay.turn()
    assert "of a CI that this relay cannot start" in note(press(relay, JOB))
    relay.webhook("check_suite", rerequested("check_suite", A, 1))
    relay.turn()
    assert "of a CI that this relay cannot start" in note(relay.checks(JOB)[0])
    assert len(told(relay)) == 1


def test_runs_of_an_enterprise_server_are_started_and_ended(tmp_path):
    here = "https://ghe.example"
    with running(tmp_path, ALLOWLIST, github_url=here) as relay:
        runs = relay.world.hub.ledger.runs
        for number in (55, 56):
            runs[number] = {"id": number, "repo": "org/four", "event": "x", "status": "completed", "conclusion": "x"}
        event = relay.push()
        relay.turn()
        url = f"{here}/org/four/actions/runs/55"
        relay.report(event, "completed", "failure", repo="org/four", url=url)
        relay.turn()
        press(relay, JOB)
        assert runs[55]["run_attempt"] == 2
        relay.report(event, "in_progress", repo="org/four", url=None, run_id="56")
        urls = {row.url for row in relay.rows(job) if row.run_id in ("55", "56")}
        assert urls == {url, f"{here}/org/four/actions/runs/56"}
        runs[56]["status"] = "in_progress"
        relay.push("closed")
        relay.turn()
        assert runs[56]["conclusion"] == "cancelled"


def test_what_github_refuses_is_said_in_its_words(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "completed", "failure", repo="org/four")
    relay.turn()
    body = {"message": "Unable to rerun: the run was created over a month ago"}
    relay.world.fail(path=".*/rerun-failed-jobs", status=403, body=body)
    check = press(relay, JOB)
    assert "created over a month ago" in note(check)
    assert (check["conclusion"], relay.rows(rerun)[0].state) == ("failure", "refused")


def test_jobs_are_run_again_after_the_merge(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "completed", "failure", repo="org/four")
    relay.turn()
    ended = {"id": 55, "repo": "org/four", "event": "x", "status": "completed", "conclusion": "failure"}
    relay.world.hub.ledger.runs[55] = ended
    relay.push("closed")
    relay.turn()
    assert note(press(relay, JOB)) == ""
    assert relay.world.hub.ledger.runs[55]["run_attempt"] == 2


def test_jobs_of_a_superseded_commit_are_not_started_only_to_be_cancelled(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "in_progress", repo="org/four")
    relay.turn()
    relay.push("closed")
    relay.turn()
    assert "nobody waits for it any more" in note(press(relay, JOB))
    assert [c["path"] for c in relay.world.calls("POST") if "rerun" in c["path"]] == []


def test_our_workers_run_that_is_not_over_says_so(relay):
    relay.push()
    relay.turn()
    assert "the run is selecting" in note(press(relay, LAB))


def test_a_suite_tells_again_who_has_nothing_else_to_run(relay):
    silent(relay)
    event = of(relay, "org/lab")[0].delivery_id
    run = make_run(relay.engine, downstream="org/x", downstream_key="org/x", executor="github", state="completed",
                   delivery_id=event, head_sha=A, closed_at=relay.now)  # fmt: skip
    told_of = {"workflow": "ci", "name": "j", "run_id": "57", "attempt": 1, "status": "completed", "version": 1}
    url = "https://github.com/org/x/actions/runs/57"
    with relay.engine.begin() as conn:
        conn.execute(insert(job).values(id="j", dispatch_id=run, check_run_id="4711", url=url, **told_of))
        conn.execute(update(dispatch).where(dispatch.c.id == run).values(check_run_id="4712"))
    relay.webhook("check_suite", rerequested("check_suite", A, 1))
    relay.turn()
    asked = {(row.dispatch_id, row.scope, row.run_id) for row in relay.rows(rerun)}
    assert (run, "all", "57") in asked
    assert (of(relay)[0].id, "dispatch", "") in asked
    assert not any(one == run and scope == "dispatch" for one, scope, _ in asked)
    assert [row.rerun_of for row in of(relay)] == [None, of(relay)[0].id]


def test_a_late_webhook_of_the_pull_request_supersedes_the_repeated_dispatch_too(relay):
    silent(relay)
    press(relay, RESPONSE)
    relay.webhook("pull_request", pull_request("synchronize", B))
    relay.wait(20)
    assert [row.state for row in of(relay)] == ["failed", "superseded", "sent"]
