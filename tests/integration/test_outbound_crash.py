"""A crash between a send and its record, for each kind of effect; a dashboard that is away; a person's hand."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from outbound_relay import pull_request, rerequested, running
from typer.testing import CliRunner

import relay as package
from relay.cli import app
from relay.queue import tasks
from relay.services import effects_pull, effects_recheck, sending
from relay.services.effects_actions import EFFECTS
from relay.store import outbox

ALLOWLIST = """\
L2:
  - org/two
L4:
  - org/four: [dave]
"""
A = "a" * 40
assert tasks.register  # the process that sends imports it, and with it whoever adds a kind
KINDS = sorted(EFFECTS)


class Killed(BaseException):
    """The process ends here: nothing below may catch it."""


@pytest.fixture
def relay(tmp_path):
    with running(tmp_path, ALLOWLIST) as relay:
        yield relay


def crash_after_the_send(relay, monkeypatch, kind):
    """The next effect of ``kind`` is sent, and its sender dies before it has written that down."""
    record, hit = sending._Batch._record, []

    def dying(batch, rows):
        if any(one.row.kind == kind and one.claimed for one in rows):
            hit.extend(one.row.id for one in rows if one.row.kind == kind)
            raise Killed
        record(batch, rows)

    with monkeypatch.context() as patch:
        patch.setattr(sending._Batch, "_record", dying)
        with pytest.raises(Killed):
            relay.turn()
    assert hit
    (row,) = [row for row in relay.rows() if row.id == hit[0]]
    assert (row.state, row.ambiguous) == ("due", True)


def reach(relay, kind):
    """Brings the service to the point where an effect of ``kind`` is the next thing to leave."""
    if kind == "pull":
        relay.world.hub.files.repos["org/four"] = {"main": {"configs/a.yaml": "x: 1\n"}}
        with relay.engine.begin() as conn:
            files = {"configs/a.yaml": ("x: 1\n", "x: 2\n")}
            effects_pull.enqueue(conn, repo="org/four", base="main", files=files, title="t", body="b", now=relay.now)
        return
    event = relay.push()
    if kind == "dispatch":
        return
    relay.turn()
    ledger = relay.world.hub.ledger
    ledger.runs[55] = {"id": 55, "repo": "org/four", "event": "x", "status": "in_progress", "conclusion": None}
    if kind in ("check_run", "hud", "cancel"):
        relay.report(event, "in_progress", repo="org/four")
    if kind == "cancel":
        relay.turn()
        relay.ahead += 20
        relay.push("synchronize", sha="c" * 40)
    if kind in ("comment", "rerun"):
        relay.report(event, "completed", "failure", repo="org/four")
    if kind == "rerun":
        relay.turn()
        ledger.runs[55].update(status="completed", conclusion="failure")
        number = relay.checks("/ci/tests")[0]["id"]
        relay.webhook("check_run", rerequested("check_run", A, number))
    if kind in ("recheck", "hud_recheck"):
        reach_a_look_afterwards(relay, event)


def reach_a_look_afterwards(relay, event):
    """What was in doubt is performed late: a check run is there twice, the dashboard's row goes back."""
    for path in (".*/check-runs", "/api/crcr/results"):
        relay.world.fail(path=path, method="POST", status=504)
    relay.report(event, "in_progress", repo="org/four")
    relay.turn()
    relay.wait(5)
    relay.report(event, "completed", "success", repo="org/four")
    relay.turn()
    for call in [call for call in relay.world.calls("POST") if call["status"] == 504]:
        if call["path"].endswith("/check-runs"):
            relay.world.hub.ledger.put_check_run("pytorch/pytorch", call["body"])
        else:
            relay.world.hub.hud.store(call["body"])
    relay.ahead += 31


def arrived(relay, kind):
    """How often the receiver acted."""
    ledger = relay.world.hub.ledger
    if kind == "dispatch":
        return max(ledger.dispatches.values())
    if kind == "check_run":
        return len(relay.checks("/ci/tests"))
    if kind == "recheck":
        return len({(run["status"], run["conclusion"]) for run in relay.checks("/ci/tests")})
    if kind == "hud_recheck":
        return [row["status"] for row in relay.world.hub.hud.rows.values()].count("completed")
    if kind == "comment":
        return len(relay.comments())
    if kind == "rerun":
        return ledger.runs[55].get("run_attempt", 1) - 1
    if kind == "cancel":
        return int(ledger.runs[55]["conclusion"] == "cancelled")
    if kind == "pull":
        return len(relay.world.hub.files.opened)
    assert kind == "hud", f"say here how often an effect of kind {kind} arrived"
    return len(relay.world.hub.hud.rows)


def test_what_is_asked_for_anywhere_is_of_a_kind_that_the_sender_knows():
    asked = {}
    for path in Path(package.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("outbox.enqueue", "outbox.request"):
                named = [word.value for word in call.keywords if word.arg == "kind"]
                found = (named or call.args[1:2])[0]
                asked.setdefault(found.value if isinstance(found, ast.Constant) else ast.unparse(found), path.name)
    assert {"KIND", "kind", "dispatch", "hud"} <= set(asked)
    asked[effects_pull.KIND] = asked.pop("KIND")
    asked |= dict.fromkeys((effects_recheck.KIND, effects_recheck.OF_HUD), asked.pop("kind"))
    assert set(asked) == set(KINDS), asked


@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_that_dies_after_the_send_leaves_one_effect(relay, monkeypatch, kind):
    reach(relay, kind)
    crash_after_the_send(relay, monkeypatch, kind)
    if kind == "dispatch":  # the receivers' workflow runs show our key
        for number, (repo, key) in enumerate(list(relay.world.hub.ledger.dispatches), 900):
            relay.world.hub.ledger.runs[number] = {
                "id": number, "repo": repo, "event": "repository_dispatch", "status": "queued", "conclusion": None,
                "name": "CI", "display_title": f"CI {key}",
            }  # fmt: skip
    relay.wait(outbox.CLAIM_S + 1)
    relay.wait(60)
    assert {row.state for row in relay.rows(kind=kind) if row.created_at <= relay.now} == {"sent"}
    assert arrived(relay, kind) == 1


def test_a_dashboard_that_is_away_for_ten_minutes_gets_everything_in_order_and_once_by_key(relay):
    event = relay.push()
    relay.turn()
    relay.world.fail(path="/api/crcr/results", status=503, count=None)
    jobs = [f"job-{number}" for number in range(12)]
    for minute in range(10):
        for name in jobs[minute : minute + 3]:
            relay.report(event, "in_progress", repo="org/two", job_name=name, run_id=name[4:] + "1")
        for name in jobs[max(0, minute - 2) : minute + 1]:
            relay.report(event, "completed", "success", repo="org/two", job_name=name, run_id=name[4:] + "1")
        relay.wait(60)
    assert relay.world.hub.hud.received == []
    assert relay.rows(state="parked") == []
    relay.world.hub.asgi.faults.clear()
    relay.wait(300)  # the longest wait between two tries
    relay.wait(300)
    asked = [row.payload for row in relay.rows(kind="hud")]
    received = relay.world.hub.hud.received
    assert len(asked) == len(relay.rows(kind="hud", state="sent"))
    again = relay.rows(kind="hud_recheck", state="sent")
    assert len(received) == len(asked) + len(again)
    for name in jobs:
        mine = [_flow(body)["status"] for body in received if _flow(body)["job_name"] == name]
        once = [_flow(body)["status"] for body in asked if _flow(body)["job_name"] == name]
        # the last one may be told a second time, half a minute later: a try of the first may still have arrived
        assert mine in (once, [*once, once[-1]][:3])
    ended = {row["job_name"] for row in relay.world.hub.hud.rows.values() if row["status"] == "completed"}
    assert ended == set(jobs[:10])


def _flow(body):
    return body["untrusted"]["callback_payload"]["workflow"]


def test_a_person_looks_sends_again_and_gives_up(relay, tmp_path, monkeypatch):
    monkeypatch.setenv("RELAY_DATABASE_URL", relay.world.settings.database)
    relay.world.fail(path=".*/org/two/dispatches", status=422, count=None)
    relay.push()
    relay.turn()
    call = CliRunner().invoke
    shown = call(app, ["outbox", "list", "--target", "ORG"])
    assert shown.exit_code == 1
    (line,) = shown.output.splitlines()
    number = line.split()[0]
    assert "parked  dispatch to org/two" in line
    assert "refused: POST /repos/org/two/dispatches: 422" in line
    found = json.loads(call(app, ["outbox", "list", "--state", "parked", "--json"]).output)
    assert [(row["id"], row["kind"], row["last_status"]) for row in found] == [(int(number), "dispatch", 422)]
    relay.world.hub.asgi.faults.clear()
    assert "due: dispatch to org/two" in call(app, ["outbox", "retry", "--parked", "--kind", "dispatch"]).output
    relay.turn()
    assert sum(relay.world.hub.ledger.dispatches.values()) == 2
    again = call(app, ["outbox", "retry", number])
    assert (again.exit_code, "has left" in again.output) == (1, True)
    relay.webhook("pull_request", pull_request("opened", A, number=8))
    relay.world.fail(path=".*/org/two/dispatches", status=422, count=None)
    relay.turn()
    number = json.loads(call(app, ["outbox", "list", "--state", "parked", "--json"]).output)[0]["id"]
    assert call(app, ["outbox", "drop", str(number), "--reason", "gone"]).exit_code == 0
    assert relay.rows(id=number)[0].last_error == "by hand: gone"
    assert "No effect is due or parked." in call(app, ["outbox", "list"]).output
    wrong = call(app, ["outbox", "list", "--state", "lost"])
    assert wrong.exit_code != 0
