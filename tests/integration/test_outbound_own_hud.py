"""The relay as its own dashboard: what it sends comes in at the other side, by HTTP, and is read by pages."""

from __future__ import annotations

import time

import pytest
from outbound_relay import running
from outbound_servers import HUD_KEY
from sqlalchemy import update

from relay.services import levelling
from relay.store.schema import dispatch, hud_row, job

ALLOWLIST = """\
L2:
  - org/two
L3:
  spyre:
    org/three: [carol]
"""


@pytest.fixture
def relay(tmp_path):
    with running(tmp_path, ALLOWLIST) as relay:
        relay.clients.hud.url = f"{relay.url}/api/crcr/results"
        yield relay


def body(status="completed", conclusion="success", **flow):
    workflow = {
        "schema_version": "1", "name": "ci", "job_name": "tests", "check_run_id": 99, "run_id": "5", "run_attempt": "1",
        "status": status, "conclusion": conclusion, "url": "javascript:alert(1)", **flow,
    }  # fmt: skip
    payload = {"pull_request": {"number": 7, "head": {"sha": "a" * 40}}, "repository": {"full_name": "pytorch/pytorch"}}
    callback = {"event_type": "pull_request", "delivery_id": "d1", "payload": payload, "workflow": workflow}
    trusted = {"ci_metrics": {"queue_time": 3.0, "execution_time": None}, "verified_repo": "Org/Two"}
    return {"trusted": trusted | {"downstream_repo_level": "L2"}, "untrusted": {"callback_payload": callback}}


def post(relay, what, key=HUD_KEY):
    return relay.http.post(f"{relay.url}/api/crcr/results", json=what, headers={"x-hud-internal-bot": key})


def test_what_is_sent_comes_in_and_is_shown(relay):
    event = relay.push()
    relay.turn()
    for name, conclusion in (("x", "success"), ("y", "failure")):
        relay.report(event, "in_progress", repo="org/two", job_name=name, run_id="7")
        relay.report(event, "completed", conclusion, repo="org/two", job_name=name, run_id="7")
    relay.turn()
    assert {row.state for row in relay.rows(kind="hud")} == {"sent"}
    assert {(row.job, row.status, row.conclusion) for row in relay.rows(hud_row)} == {
        ("x", "completed", "success"), ("y", "completed", "failure"),
    }  # fmt: skip
    (one,) = relay.http.get(f"{relay.url}/crcr.json").json()["backends"]
    assert (one["repo"], one["total"], one["conclusions"], one["pass_rate"]) == (
        "org/two", 2, {"success": 1, "failure": 1}, 0.5,
    )  # fmt: skip
    found = relay.http.get(f"{relay.url}/crcr/org/two.json").json()
    assert found["commits"][0]["jobs"]["ci / y"]["conclusion"] == "failure"
    assert "50.0 %" in relay.http.get(f"{relay.url}/crcr").text
    assert "#7" in relay.http.get(f"{relay.url}/crcr/org/two").text
    rows = relay.http.get(f"{relay.url}/api/crcr/results", params={"pr": 7, "upstream": "PyTorch/pytorch"}).json()[
        "rows"
    ]
    assert len(rows) == 2
    assert relay.http.get(f"{relay.url}/crcr/org/nobody").status_code == 404


def test_a_start_after_the_end_changes_nothing_and_nothing_is_there_twice(relay):
    for what in (body(), body("in_progress", None, started_at="2026-01-01T00:00:00Z"), body()):
        answer = post(relay, what)
        assert answer.status_code == 200
        assert answer.json() == {"ok": True, "status": "completed", "dynamoKey": "Org/Two/d1/ci/tests/99"}
    (row,) = relay.rows(hud_row)
    assert (row.status, row.conclusion, row.url, row.queue_s) == ("completed", "success", None, 3.0)
    assert row.body["started_at"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"untrusted": {}}, 400, "untrusted.callback_payload"),
        ({"trusted": []}, 400, "trusted is not an object"),
        ({"trusted": {"verified_repo": "x"}}, 400, "not owner/repo"),
        ({"trusted": {"verified_repo": "a/b", "ci_metrics": {"queue_time": "soon"}}}, 400, "queue_time"),
    ],
)
def test_what_is_wrong_is_named(relay, change, status, said):
    answer = post(relay, body() | change)
    assert answer.status_code == status
    assert said in answer.json()["detail"]


def test_who_has_no_key_and_what_is_too_large_is_refused(relay):
    assert post(relay, body(), key="x").status_code == 401
    assert post(relay, body(), key="").status_code == 401
    assert post(relay, body(job_name="")).status_code == 400
    assert post(relay, body(pad="x" * (2 * 1024 * 1024))).status_code == 413
    assert relay.rows(hud_row) == []
    assert relay.http.get(f"{relay.url}/api/crcr/results", params={"sha": "x"}).status_code == 400


def test_readiness_says_what_is_missing_and_a_demotion_is_proposed_and_not_applied(relay):
    now = time.time()
    for number in range(22):
        event = relay.push(number=100 + number)
        relay.turn()
        relay.report(event, "in_progress", repo="org/two", run_id=str(number + 1))
        relay.report(event, "completed", "success", repo="org/two", run_id=str(number + 1))
        relay.report(
            event, "completed", "failure" if number % 2 else "success", repo="org/three", run_id=str(number + 1)
        )
    with relay.engine.begin() as conn:
        conn.execute(update(job).values(queued_at=job.c.completed_at - 90, started_at=job.c.completed_at - 60))
        conn.execute(update(dispatch).values(closed_at=dispatch.c.created_at + 100))
    levelling.step(relay.engine, relay.world.settings, now)
    found = relay.http.get(f"{relay.url}/api/crcr/levels").json()["downstreams"]
    two, three = ({row["downstream"]: row for row in found}[name] for name in ("org/two", "org/three"))
    assert (two["measured"]["next"], two["measured"]["missing"], two["proposed"]) == ("L3", [], None)
    assert three["measured"]["pass_rate"] == 0.5
    assert any("pass rate 50 %" in line for line in three["measured"]["missing"])
    assert three["proposed"] is None
    assert levelling.step(relay.engine, relay.world.settings, now + 4 * 86400)["proposed"] == {"org/three": "L2"}
    assert "Proposed: down to L2" in relay.http.get(f"{relay.url}/crcr/org/three").text
    event = relay.push(number=500)
    relay.turn()
    assert [row.level for row in relay.rows(dispatch) if row.downstream == "org/three"][-1] == "L3"
