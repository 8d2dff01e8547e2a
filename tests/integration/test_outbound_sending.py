"""Sending for real: a database, HTTP, and a local GitHub and dashboard that fail on order."""

from __future__ import annotations

import json
import threading
import time
import zlib

import httpx2
import pytest
from factories import make_delivery, make_run
from outbound_servers import HUD_KEY, local_github
from sqlalchemy import insert, select, update

from relay.domain.check_output import render
from relay.hud.client import Hud
from relay.services import effects, reporting, sending
from relay.settings import Settings
from relay.store import outbox
from relay.store.db import reading
from relay.store.ids import new_id
from relay.store.schema import dispatch, job
from relay.store.schema import outbox as table
from selector.model import Conclusion, Verdict

REPO = "example-org/backend-ci"
SETTINGS = Settings()
BODY = {
    "action": "opened",
    "number": 7,
    "pull_request": {"number": 7, "body": "text"},
    "repository": {"full_name": "x"},
}


@pytest.fixture
def world(tmp_path):
    with local_github(tmp_path / "github") as world:
        yield world


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    (tmp_path / "github").mkdir()


@pytest.fixture
def clients(world):
    clients = effects.make_clients(world.settings)
    yield clients
    clients.close()


def make_dispatch(engine, body=BODY, **over):
    delivery = make_delivery(engine, body=zlib.compress(json.dumps(body).encode()))
    told = {"executor": "github", "state": "sending", "level": "L2"}
    values = {**told, "downstream": REPO, "downstream_key": REPO, **over}
    run = make_run(engine, delivery_id=delivery, **values)
    with engine.begin() as conn:
        assert reporting.request_dispatches(conn, SETTINGS, {run: values["downstream"]}, time.time()) == 1
        assert reporting.request_dispatches(conn, SETTINGS, {run: values["downstream"]}, time.time()) == 0
    return run


def rows(engine, **where):
    with reading(engine) as conn:
        found = conn.execute(select(table).order_by(table.c.id)).all()
    return [row for row in found if all(getattr(row, name) == value for name, value in where.items())]


def run_of(engine, dispatch_id):
    with reading(engine) as conn:
        return conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()


def send_due(engine, world, clients, after=0.0):
    """What the pump and a worker do, ``after`` seconds from now. Returns how many rows were handed over."""
    now = time.time() + after
    with engine.begin() as conn:
        found = outbox.due(conn, now, 100)
    if found:
        sending.send(engine, clients, [item.id for item in found], now)
    return len(found)


# ------------------------------------------------------------------------------------------------------------ dispatch


def test_a_dispatch_is_one_call_and_carries_the_event_verbatim(engine, world, clients):
    runs = [make_dispatch(engine) for _ in range(20)]
    send_due(engine, world, clients)
    posts = world.calls("POST", "/dispatches")
    assert len(posts) == 20
    assert len(world.hub.asgi.calls) == 22  # one installation, one token
    by_key = {call["body"]["client_payload"]["relay"]["dispatch_key"]: call["body"] for call in posts}
    assert set(by_key) == set(runs)
    body = by_key[runs[0]]
    assert body["event_type"] == body["client_payload"]["event_type"] == "pull_request"
    assert body["client_payload"]["payload"] == BODY
    assert body["client_payload"]["delivery_id"] == run_of(engine, runs[0]).delivery_id
    assert {run_of(engine, run).state for run in runs} == {"sent"}
    assert {(row.state, row.last_status, row.due_at) for row in rows(engine)} == {("sent", 204, None)}


def test_the_token_is_no_wider_than_the_effect(engine, world, clients):
    make_dispatch(engine)
    send_due(engine, world, clients)
    (call,) = world.calls("POST", "/access_tokens")
    assert call["body"] == {"repositories": ["backend-ci"], "permissions": {"contents": "write"}}


def test_a_payload_too_large_for_github_is_cut_and_sent(engine, world, clients):
    body = {**BODY, "pull_request": {"number": 7, "body": "x" * 100_000}}
    make_dispatch(engine, body)
    send_due(engine, world, clients)
    (call,) = world.calls("POST", "/dispatches")
    assert call["status"] == 204
    assert call["body"]["client_payload"]["relay"]["cut"] == ["pull_request.body: cut to 1000 characters"]


@pytest.mark.parametrize(("fault", "code"), [({"status": 404}, "not-found"), ({"status": 422}, "refused")])
def test_a_refusal_is_seen_and_parked(engine, world, clients, fault, code):
    run = make_dispatch(engine)
    world.fail(path=".*/dispatches", **fault)
    send_due(engine, world, clients)
    (row,) = rows(engine)
    assert (row.state, row.last_status) == ("parked", fault["status"])
    assert row.last_error.startswith(code)
    assert (run_of(engine, run).state, run_of(engine, run).code) == ("failed", "dispatch-not-sent")
    assert send_due(engine, world, clients, after=86_400) == 0


def test_a_repository_without_the_app_is_parked(engine, world, clients):
    make_dispatch(engine, downstream="nobody/nothing")
    send_due(engine, world, clients)
    (row,) = rows(engine)
    assert row.state == "parked"
    assert row.last_error.startswith("not-installed")
    assert not row.ambiguous


def test_a_secondary_limit_is_waited_for_and_not_slept_through(engine, world, clients):
    make_dispatch(engine)
    world.fail(path=".*/dispatches", retry_after=90)
    begun = time.monotonic()
    send_due(engine, world, clients)
    assert time.monotonic() - begun < 5
    (row,) = rows(engine)
    assert row.state == "due"
    assert 85 < row.not_before - time.time() < 95
    assert send_due(engine, world, clients, after=80) == 0
    send_due(engine, world, clients, after=100)
    assert rows(engine)[0].state == "sent"
    assert sum(world.hub.ledger.dispatches.values()) == 1


def test_a_lost_answer_is_reconciled_by_the_downstreams_runs(engine, world, clients):
    run = make_dispatch(engine)
    world.fail(path=".*/dispatches", drop=True)
    send_due(engine, world, clients)
    assert rows(engine)[0].ambiguous
    assert run_of(engine, run).state == "sending"
    world.hub.ledger.runs[1] = {
        "id": 1, "repo": REPO, "event": "repository_dispatch", "status": "queued", "conclusion": None,
        "name": "CI", "display_title": f"CI {run}",
    }  # fmt: skip
    send_due(engine, world, clients, after=60)
    assert rows(engine)[0].state == "sent"
    assert run_of(engine, run).state == "sent"
    assert sum(world.hub.ledger.dispatches.values()) == 1


def test_a_lost_answer_is_reconciled_by_what_the_downstream_reports(engine, world, clients):
    run = make_dispatch(engine)
    world.fail(path=".*/dispatches", drop=True)
    send_due(engine, world, clients)
    make_job(engine, run, "in_progress")
    send_due(engine, world, clients, after=60)
    assert rows(engine, kind="dispatch")[0].state == "sent"
    assert sum(world.hub.ledger.dispatches.values()) == 1


def test_in_doubt_without_a_trace_it_is_sent_again_with_the_same_key(engine, world, clients):
    run = make_dispatch(engine)
    world.fail(path=".*/dispatches", status=502)
    send_due(engine, world, clients)
    assert rows(engine)[0].ambiguous
    send_due(engine, world, clients, after=60)
    assert [call["query"].split("&")[0] for call in world.calls("GET", "/actions/runs")] == [
        "event=repository_dispatch"
    ]
    assert world.hub.ledger.dispatches == {(REPO, run): 1}
    assert not rows(engine)[0].ambiguous


def test_a_sender_killed_between_send_and_record_leaves_the_row_in_doubt(engine, world, clients):
    run = make_dispatch(engine)
    now = time.time()
    with engine.begin() as conn:
        assert outbox.claim(conn, outbox.sendable(conn, [1], now)[0], now)  # and then it dies
    assert send_due(engine, world, clients, after=10) == 0
    assert send_due(engine, world, clients, after=outbox.CLAIM_S + 0.1) == 1
    assert world.calls("GET", "/actions/runs")
    assert run_of(engine, run).state == "sent"


def test_twelve_senders_of_one_row_send_once(engine, world, clients):
    make_dispatch(engine)
    clients.github.prepare(REPO, {"contents": "write"})
    world.fail(path=".*/dispatches", delay_s=0.3)
    gate = threading.Barrier(12)

    def go():
        gate.wait()
        sending.send(engine, clients, [1], time.time())

    threads = [threading.Thread(target=go) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(world.calls("POST", "/dispatches")) == 1
    assert rows(engine)[0].attempts == 1


def test_nobody_there_is_no_doubt(engine, world, clients):
    make_dispatch(engine)
    closed = world.settings.model_copy(update={"github_api_url": "http://127.0.0.1:9"})
    away = effects.make_clients(closed)
    send_due(engine, world, away)
    away.close()
    (row,) = rows(engine)
    assert (row.state, row.ambiguous, row.attempts) == ("due", False, 1)
    assert row.last_error.startswith("not-sent")


def test_a_revoked_token_is_replaced(engine, world, clients):
    make_dispatch(engine)
    send_due(engine, world, clients)
    world.hub.ledger.tokens.clear()
    make_dispatch(engine)
    send_due(engine, world, clients)
    assert rows(engine)[1].last_error.startswith("credentials")
    send_due(engine, world, clients, after=60)
    assert {row.state for row in rows(engine)} == {"sent"}


def test_a_superseded_dispatch_is_not_sent(engine, world, clients):
    run = make_dispatch(engine)
    with engine.begin() as conn:
        conn.execute(update(dispatch).values(state="superseded"))
    send_due(engine, world, clients)
    assert rows(engine)[0].state == "dropped"
    assert run_of(engine, run).state == "superseded"
    assert world.hub.asgi.calls == []


def test_without_a_private_key_the_row_waits_and_says_why(engine, world):
    make_dispatch(engine)
    bare = effects.make_clients(
        world.settings.model_copy(update={"github_app_id": "", "github_private_key": _secret("")})
    )
    send_due(engine, world, bare)
    bare.close()
    (row,) = rows(engine)
    assert row.state == "due"
    assert "github_app_id is not set" in row.last_error


def _secret(text):
    from pydantic import SecretStr

    return SecretStr(text)


# ------------------------------------------------------------------------------------------------ check runs, dashboard


def make_job(engine, run, status, **over):
    values = {
        "id": new_id(), "dispatch_id": run, "workflow": "spyre-emulator", "name": "selected-tests", "run_id": run,
        "attempt": 1, "status": status, "queued_at": time.time(), "started_at": time.time(), "version": 1, **over,
    }  # fmt: skip
    with engine.begin() as conn:
        conn.execute(insert(job).values(**values))
    return values["id"]


def step(engine, world, job_id, **changes):
    """Changes the job and reports it, as the workers' flow does."""
    output = changes.pop("output", {})
    with engine.begin() as conn:
        conn.execute(update(job).where(job.c.id == job_id).values(**changes, version=job.c.version + 1))
        row = conn.execute(select(job).where(job.c.id == job_id)).one()
        run = conn.execute(select(dispatch).where(dispatch.c.id == row.dispatch_id)).one()
        reporting.report_job(conn, world.settings, run, row, time.time(), **output)


def test_a_run_of_our_workers_becomes_one_check_run_and_one_dashboard_row(engine, world, clients):
    run, began = make_run(engine, level="L4"), time.time()
    job_id = make_job(engine, run, "queued", started_at=began)
    step(engine, world, job_id, status="queued")
    send_due(engine, world, clients)
    step(engine, world, job_id, status="in_progress")
    send_due(engine, world, clients)
    page = f"{world.settings.url}/run/{run}"
    output = render(Verdict(Conclusion.FAILURE, "regression", "1 test fails.", {"failed": 1}), page)
    words = {"title": output.title, "summary": output.summary, "text": output.text}
    end = {"status": "completed", "conclusion": "failure", "completed_at": began + 9}
    step(engine, world, job_id, **end, output=words)
    send_due(engine, world, clients)
    (check,) = world.hub.ledger.check_runs.values()
    assert check["name"] == "crcr/torch-spyre/torch-spyre/spyre-emulator/selected-tests"
    assert (check["status"], check["conclusion"], check["details_url"]) == ("completed", "failure", page)
    assert check["output"]["title"] == "1 test fails."
    assert check["external_id"] == f"{run}:7"
    assert len(world.calls("POST", "/check-runs")) == 1
    assert [call["body"]["status"] for call in world.hub.asgi.calls if call["method"] == "PATCH"] == [
        "in_progress", "completed",
    ]  # fmt: skip
    ((key, row),) = world.hub.hud.rows.items()
    assert key.endswith(f"/spyre-emulator/selected-tests/{job_id}")
    assert (row["status"], row["conclusion"], row["level"]) == ("completed", "failure", "L4")
    assert row["execution_time"] == 9.0
    with reading(engine) as conn:
        assert conn.execute(select(job.c.check_run_id)).scalar_one() == str(check["id"])
    assert {item.state for item in rows(engine)} == {"sent"}


def test_a_lost_answer_to_a_create_is_found_again(engine, world, clients):
    run = make_run(engine, level="L4")
    job_id = make_job(engine, run, "in_progress")
    world.fail(path=".*/check-runs", method="POST", drop=True)
    step(engine, world, job_id, status="in_progress")
    send_due(engine, world, clients)
    step(engine, world, job_id, status="completed", conclusion="success", completed_at=time.time())
    assert rows(engine, kind="check_run", state="due")[0].ambiguous
    for after in (60, 120):
        send_due(engine, world, clients, after=after)
    (check,) = world.hub.ledger.check_runs.values()
    assert (check["status"], check["conclusion"]) == ("completed", "success")
    assert len(world.calls("POST", "/check-runs")) == 1


def test_a_new_attempt_gets_a_check_run_of_its_own_and_an_old_one_does_not_hide_it(engine, world, clients):
    run = make_run(engine, level="L4")
    first = make_job(engine, run, "in_progress", attempt=1)
    step(engine, world, first, status="in_progress")
    send_due(engine, world, clients)
    second = make_job(engine, run, "in_progress", attempt=2)
    world.fail(path=".*/check-runs", method="POST", drop=True)
    step(engine, world, second, status="in_progress")
    for after in (0, 60):
        send_due(engine, world, clients, after=after)
    step(engine, world, first, status="completed", conclusion="failure", completed_at=time.time())
    send_due(engine, world, clients)
    old, new = sorted(world.hub.ledger.check_runs.values(), key=lambda check: check["id"])
    assert (old["conclusion"], new["status"]) == ("failure", "in_progress")
    late = make_job(engine, run, "in_progress", attempt=1, run_id="0")
    step(engine, world, late, status="in_progress")
    send_due(engine, world, clients)
    assert len(world.hub.ledger.check_runs) == 2


@pytest.mark.parametrize(
    "fault", [{"status": 401}, {"status": 500}, {"status": 429, "retry_after": 1}, {"drop": True}, {"status": 404}]
)
def test_trouble_of_the_dashboard_loses_nothing_and_keeps_the_order(engine, world, clients, fault):
    run = make_run(engine, level="L2")
    job_id = make_job(engine, run, "in_progress")
    world.fail(path="/api/crcr/results", count=2, **fault)
    step(engine, world, job_id, status="in_progress")
    step(engine, world, job_id, status="completed", conclusion="success", completed_at=time.time())
    for after in range(0, 600, 60):
        send_due(engine, world, clients, after=after)
    assert {row.state for row in rows(engine)} == {"sent"}
    states = [body["untrusted"]["callback_payload"]["workflow"]["status"] for body in world.hub.hud.received]
    assert list(dict.fromkeys(states)) == ["in_progress", "completed"]
    assert states[-1] == "completed"
    assert world.calls("POST", "/check-runs") == []


def test_a_dashboard_that_does_not_answer_in_time_gets_it_again(engine, world, clients):
    impatient = Hud(world.settings.hud_url, HUD_KEY, http=httpx2.Client(timeout=0.3, trust_env=False))
    world.fail(path="/api/crcr/results", delay_s=1.0)
    run = make_run(engine, level="L2")
    step(engine, world, make_job(engine, run, "in_progress"), status="in_progress")
    send_due(engine, world, effects.Clients(clients.github, impatient))
    (row,) = rows(engine)
    assert (row.state, row.ambiguous, row.last_error.split(":")[0]) == ("due", True, "no-answer")
    send_due(engine, world, clients, after=60)
    impatient.close()
    assert rows(engine)[0].state == "sent"
    assert len(world.hub.hud.rows) == 1


def test_a_row_the_dashboard_refuses_does_not_hold_up_the_next(engine, world, clients):
    run = make_run(engine, level="L2")
    job_id = make_job(engine, run, "in_progress")
    world.fail(path="/api/crcr/results", status=400)
    step(engine, world, job_id, status="in_progress")
    step(engine, world, job_id, status="completed", conclusion="success", completed_at=time.time())
    send_due(engine, world, clients)
    send_due(engine, world, clients)
    assert [row.state for row in rows(engine)] == ["parked", "sent"]


def test_without_a_dashboard_there_are_no_rows_for_it(engine, world):
    world.settings.hud_url = ""
    run = make_run(engine, level="L2")
    step(engine, world, make_job(engine, run, "in_progress"), status="in_progress")
    assert rows(engine) == []


# -------------------------------------------------------------------------------------------------------------- outbox


def enqueue(engine, key, stream, now=0.0):
    with engine.begin() as conn:
        return outbox.enqueue(conn, key=key, kind="hud", stream=stream, target="x", payload={}, now=now)


def due_ids(engine, now):
    with engine.begin() as conn:
        return [item.id for item in outbox.due(conn, now, 10)]


def test_only_the_head_of_a_stream_is_due(engine):
    assert all(enqueue(engine, key, key[0]) for key in ("a1", "a2", "b1"))
    assert not enqueue(engine, "a1", "a")
    assert due_ids(engine, 1.0) == [1, 3]
    with engine.begin() as conn:
        assert outbox.sendable(conn, [1, 2], 1.0) == outbox.sendable(conn, [1], 1.0)
        outbox.mark_parked(conn, 1, ambiguous=False, status=422, error="x", now=1.0)
    assert due_ids(engine, 1.0) == [2, 3]


def test_after_a_flush_what_waits_for_the_broker_is_due_and_what_backs_off_is_not(engine):
    for key in "ab":
        enqueue(engine, key, key)
    with engine.begin() as conn:
        (row,) = outbox.sendable(conn, [1], 1.0)
        outbox.mark_retry(conn, row, claimed=False, at=50.0, ambiguous=False, status=503, error="x")
        conn.execute(update(table).values(due_at=100.0))  # the pump handed both over
        outbox.make_due(conn, 2.0)
    assert due_ids(engine, 2.0) == [2]
    assert due_ids(engine, 51.0) == [2, 1]


def test_an_effect_asked_for_in_a_transaction_that_fails_is_not_asked_for(engine):
    def change():
        with engine.begin() as conn:
            outbox.enqueue(conn, key="k", kind="hud", stream="s", target="x", payload={}, now=0.0)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        change()
    assert due_ids(engine, 1.0) == []
