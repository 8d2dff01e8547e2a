"""Webhooks that the web process could not take in are asked for as soon as it can."""

from __future__ import annotations

import json
import shutil
import threading
import time

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from sqlalchemy.exc import InterfaceError, OperationalError

from relay.chores import Chore, _repeat
from relay.demo.webhook import sign
from relay.services import reconciling
from relay.settings import Settings
from relay.store import chores
from relay.store.db import reading
from relay.store.schema import chore
from relay.web.app import create_app

SECRET = "s"


@pytest.fixture
def app(tmp_path):
    settings = Settings(data_dir=tmp_path, webhook_secrets=[SECRET], github_app_id="1", github_private_key="x")
    made = create_app(settings)
    with made.state.engine.begin() as conn:
        chores.claim(conn, reconciling.CHORE, time.time(), 300.0)
    yield made
    made.state.missed.close()
    made.state.engine.dispose()


def due_in(app):
    with reading(app.state.engine) as conn:
        return conn.execute(select(chore.c.due_at).where(chore.c.name == reconciling.CHORE)).scalar_one() - time.time()


def becomes_due(app):
    deadline = time.monotonic() + 20
    while due_in(app) > 2:
        assert time.monotonic() < deadline, "nobody asks for what was missed"
        time.sleep(0.05)


def post(client):
    raw = json.dumps({"zen": "x", "repository": {"full_name": "pytorch/pytorch"}}).encode()
    headers = {"X-GitHub-Event": "ping", "X-GitHub-Delivery": "d1", "X-Hub-Signature-256": sign(SECRET, raw)}
    return client.post("/github/webhook", content=raw, headers=headers)


def test_after_its_start_it_asks_for_what_came_before(app):
    assert due_in(app) > 200
    with TestClient(app):
        becomes_due(app)


def test_after_one_that_it_had_to_refuse_it_asks_as_soon_as_the_database_is_back(app, tmp_path):
    client = TestClient(app, raise_server_exceptions=False)  # without its start, which asks by itself
    database = tmp_path / "relay.sqlite3"
    app.state.engine.dispose()
    away = tmp_path / "away"
    shutil.move(database, away)
    database.mkdir()  # no file can be opened there
    assert post(client).status_code == 503
    time.sleep(1.5)  # it has tried in vain
    database.rmdir()
    shutil.move(away, database)
    becomes_due(app)
    with app.state.engine.begin() as conn:
        assert conn.execute(text("select count(*) from delivery")).scalar_one() == 0


def test_without_an_app_there_is_nobody_to_ask(tmp_path):
    made = create_app(Settings(data_dir=tmp_path))
    with TestClient(made):
        assert made.state.missed._thread is None
    made.state.engine.dispose()


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_a_look_that_the_lost_database_cut_short_is_made_again_at_once(app, kind):
    engine, stop, looks = app.state.engine, threading.Event(), []

    def look(memory, now):
        looks.append(now)
        if len(looks) == 1:
            raise kind("select 1", None, Exception("the connection is gone"))
        stop.set()
        return memory

    reconciling.ask_soon(engine, time.time())
    repeating = threading.Thread(target=_repeat, args=(engine, [Chore(reconciling.CHORE, 300.0, look)], stop))
    repeating.start()
    repeating.join(60)
    stop.set()
    assert len(looks) == 2
