"""The addresses for machines: health, readiness, metrics."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text


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
