"""Deliveries that never arrived are asked for, as often as is worth it; what is old is forgotten."""

from __future__ import annotations

import json
import time

import httpx2
import pytest
from factories import make_delivery, make_run
from outbound_servers import local_github
from sqlalchemy import select, update

from relay.services import reconciling, tidying
from relay.services.readers import make_reader
from relay.settings import Settings
from relay.store import chores, deliveries, outbox, outbox_ops
from relay.store.db import reading
from relay.store.schema import delivery, redelivery
from relay.store.schema import outbox as effect

DAY = 86400.0
NOWHERE = "http://127.0.0.1:9/github/webhook"


@pytest.fixture
def world(tmp_path):
    (tmp_path / "github").mkdir()
    with local_github(tmp_path / "github") as world:
        yield world


def lose(world, guid, event="pull_request", action="opened"):
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": guid}
    sent = {"url": NOWHERE, "headers": headers, "payload": json.dumps({"action": action})}
    httpx2.post(f"{world.url}/_control/webhook", json=sent, trust_env=False).raise_for_status()


def look(engine, world, memory, now):
    reader = make_reader(world.settings)
    try:
        return reconciling.reconcile(engine, reader, memory, now)
    finally:
        reader.close()


def asked(world):
    return len(world.calls("POST", "/attempts"))


def rows(engine):
    with reading(engine) as conn:
        return {row.delivery_id: row for row in conn.execute(select(redelivery))}


def test_what_is_lost_is_asked_for_until_it_comes_or_is_given_up(engine, world):
    now = time.time() + 120
    make_delivery(engine, id="here", received_at=now - 3600)
    lose(world, "lost")
    lose(world, "noise", "check_run", "completed")
    lose(world, "here")
    memory = look(engine, world, {}, now)
    assert set(rows(engine)) == {"lost"}
    assert asked(world) == 1
    memory = look(engine, world, memory, now + 2)  # not again at once
    assert asked(world) == 1
    for wait in (*reconciling.BACKOFF_S[1:], DAY):
        now += wait + 1
        memory = look(engine, world, memory, now)
    assert asked(world) == len(reconciling.BACKOFF_S)
    assert rows(engine)["lost"].state == "gave-up"


def test_what_came_back_is_settled(engine, world):
    now = time.time() + 120
    make_delivery(engine, received_at=now - 3600)
    lose(world, "lost")
    memory = look(engine, world, {}, now)
    make_delivery(engine, id="lost")
    look(engine, world, memory, now + 5000)
    assert rows(engine)["lost"].state == "arrived"
    assert asked(world) == 1


def test_a_new_relay_asks_for_nothing_that_is_older_than_itself(engine, world):
    lose(world, "anothers")
    memory = look(engine, world, {}, time.time() + 5000)
    assert (rows(engine), asked(world)) == ({}, 0)
    assert memory["until"] > 0


def test_a_look_by_a_clock_that_was_ahead_hides_nothing_that_was_lost_after_it(engine, world):
    now = time.time() + 120
    make_delivery(engine, received_at=now - 7200)
    memory = look(engine, world, {}, now + 3600)  # the clock is an hour ahead
    assert memory["until"] > now
    lose(world, "lost")
    memory = look(engine, world, memory, now)  # and right again
    assert set(rows(engine)) == {"lost"}
    assert memory["until"] <= now


def test_a_chore_is_done_by_one_of_those_who_are_there(engine):
    with engine.begin() as conn:
        assert chores.claim(conn, "x", 100.0, 60.0) == {}
        assert chores.claim(conn, "x", 100.0, 60.0) is None
        chores.finish(conn, "x", 100.0, memory={"a": 1}, error=None)
        assert chores.claim(conn, "x", 159.0, 60.0) is None
        chores.make_due(conn, "x", 159.0)
        assert chores.claim(conn, "x", 159.0, 60.0) == {"a": 1}


@pytest.mark.parametrize(
    ("memory", "known"), [({}, None), ({"at": 90}, 90.0), ({"at": 100.0}, 100.0), ({"at": 101.0}, None)]
)
def test_a_time_to_come_is_no_memory(memory, known):
    assert chores.past(memory, "at", 100.0) == known


@pytest.mark.parametrize(
    ("kind", "dashboard"), [("hud", True), ("hud_recheck", True), ("check_run", False), ("recheck", False)]
)
def test_which_side_an_effect_waits_for(engine, kind, dashboard):
    with engine.begin() as conn:
        outbox.enqueue_all(conn, [outbox.request("key", kind, "stream", "target", {}, now=100.0)])
        conn.execute(update(effect).values(not_before=200.0, last_error="server-error: HTTP 502"))
        assert outbox_ops.any_waits_out(conn, dashboard, 150.0)
        assert not outbox_ops.any_waits_out(conn, not dashboard, 150.0)


@pytest.mark.both_databases
def test_bodies_and_noise_are_forgotten_and_what_is_still_needed_is_not(engine, tmp_path):
    now = 100 * DAY
    settings = Settings(data_dir=tmp_path)
    body = deliveries.pack(b"{}")
    old = now - 20 * DAY
    make_delivery(engine, id="old", received_at=old, body=body)
    make_delivery(engine, id="unsent", received_at=old, body=body)
    make_run(engine, delivery_id="unsent", executor="github", state="sending")
    make_delivery(engine, id="unrouted", received_at=old, body=body, state="received")
    make_delivery(engine, id="young", received_at=now - DAY, body=body)
    make_delivery(engine, id="noise", received_at=old, state="ignored")
    make_delivery(engine, id="nightly:x", received_at=old, state="noted")
    make_run(engine, delivery_id="nightly:x", executor="github", state="completed")
    make_delivery(engine, id="fresh-noise", received_at=now - DAY, state="ignored")
    forgotten = tidying.tidy(engine, settings, now)
    assert (forgotten["bodies"], forgotten["ignored"]) == (1, 1)
    with reading(engine) as conn:
        left = {row.id: row.body is not None for row in conn.execute(select(delivery.c.id, delivery.c.body))}
    assert left == {
        "old": False, "unsent": True, "unrouted": True, "young": True, "nightly:x": False, "fresh-noise": False,
    }  # fmt: skip


@pytest.mark.both_databases
def test_an_events_text_stays_while_a_rerun_of_a_rerun_is_to_be_sent(engine, tmp_path):
    now = 100 * DAY
    settings = Settings(data_dir=tmp_path)
    for name in ("told", "over"):  # one whose newest rerun waits, one whose reruns are all over
        make_delivery(engine, id=name, received_at=now - 20 * DAY, body=deliveries.pack(b"{}"))
        run = make_run(engine, delivery_id=name, executor="workers", state="completed")
        for state in ("completed", "completed", "selecting" if name == "told" else "completed"):
            with engine.begin() as conn:
                asked = f"page-{name}-{run}"
                deliveries.add_asked(conn, asked, repo="a/b", reason="somebody asked", now=now)
            run = make_run(engine, delivery_id=asked, executor="workers", state=state, rerun_of=run)
    assert tidying.tidy(engine, settings, now)["bodies"] == 1
    with reading(engine) as conn:
        assert {name: deliveries.has_body(conn, name) for name in ("told", "over")} == {"told": True, "over": False}
        row = deliveries.get(conn, asked)
    assert (row.state, row.code, row.event, row.due_at) == ("routed", "rerun-asked", "rerun", None)
