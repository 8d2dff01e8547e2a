"""The addresses for machines: health, readiness, metrics."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import text

from relay.store import chores


def test_process_is_up_without_asking_the_database(client: Any, world: Any) -> None:
    client.app.state.engine.dispose()
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.head("/healthz").status_code == 200


def test_ready_once_the_database_has_this_release_schema(client: Any, world: Any) -> None:
    assert client.get("/readyz").json()["status"] == "ready"
    with world.engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["code"] == "unavailable"
    assert "schema 0000" in answer.json()["detail"]


def test_not_ready_when_the_database_is_gone(client: Any, world: Any, settings: Any) -> None:
    client.app.state.engine.dispose()
    for path in settings.data_dir.glob("relay.sqlite3*"):
        path.unlink()
    settings.data_dir.joinpath("relay.sqlite3").mkdir()
    for path in ("/readyz", "/metrics"):
        answer = client.get(path)
        assert answer.status_code == 503, path
        assert "the database does not answer" in answer.json()["detail"]


def test_metrics_count_rows_by_state(client: Any, world: Any) -> None:
    world.failed_run()
    world.running()
    world.delivery("ignored")
    world.effect(None, "hud", state="parked")
    lines = set(client.get("/metrics").text.splitlines())
    assert {
        'relay_deliveries{state="routed"} 2.0',
        'relay_deliveries{state="ignored"} 1.0',
        'relay_dispatches{state="completed"} 1.0',
        'relay_dispatches{state="running"} 1.0',
        'relay_shards{state="done"} 4.0',
        'relay_shards{state="queued"} 1.0',
        'relay_outbox{kind="hud",state="parked"} 1.0',
        'relay_outbox{kind="check_run",state="due"} 1.0',
    } <= lines


def test_readiness_names_each_part(client: Any, world: Any) -> None:
    told = client.get("/readyz").json()["parts"]
    assert told["database"] == "ok"
    assert told["pump"] == "no pump is heard of"
    assert "broker" not in told, "nobody has looked at it"
    with world.engine.begin() as conn:
        chores.note(conn, "broker", time.time(), error="ConnectionError: refused", again_s=60)
    told = client.get("/readyz").json()["parts"]
    assert told["pump"] == "ok"
    assert told["broker"] == "it does not answer the pump: ConnectionError: refused"
    with world.engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    answer = client.get("/readyz").json()
    assert any(part.startswith("schema: the database has schema 0000") for part in answer["parts"])
    with world.engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert client.get("/readyz").json()["status"] == "ready", "while releases are exchanged, the newer one has migrated"


def test_an_autoscaler_sees_what_waits_and_what_runs(client: Any, world: Any) -> None:
    world.running()
    queues = [line for line in client.get("/metrics").text.splitlines() if line.startswith("relay_queue_")]
    (queue,) = {line.split('"')[1] for line in queues} - {"route", "select", "outbox"}
    told = client.get(f"/scale/{queue}").json()
    assert told["wanted"] == told["waiting"] + told["running"] > 0
    assert f'relay_queue_waiting{{queue="{queue}"}} {float(told["waiting"])}' in queues
    assert f'relay_queue_running{{queue="{queue}"}} {float(told["running"])}' in queues
    assert client.get("/scale/nobody.knows").json() == {
        "queue": "nobody.knows", "waiting": 0, "running": 0, "wanted": 0,
    }  # fmt: skip
    assert client.get("/scale/outbox").json()["waiting"] == 1
