"""A proposed change of configs on its way to the downstream's repository: once, never merged, never on another text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from outbound_servers import local_github
from sqlalchemy import select

from relay.services import effects, effects_pull, sending
from relay.store import outbox
from relay.store.db import reading
from relay.store.schema import outbox as table

REPO = "torch-spyre/torch-spyre"
PATH = "tests/configs/test_view_ops_config.yaml"
BEFORE = (Path(__file__).parents[1] / "data/spyre-configs/test_view_ops_config.yaml").read_text()
AFTER = BEFORE.replace("            - TestViewOps::test_split_view\n", "", 1)


@pytest.fixture
def world(tmp_path):
    (tmp_path / "github").mkdir()
    with local_github(tmp_path / "github") as world:
        world.hub.files.repos[REPO] = {"main": {PATH: BEFORE, "README.md": "x"}}
        yield world


@pytest.fixture
def clients(world):
    clients = effects.make_clients(world.settings)
    yield clients
    clients.close()


def ask(engine, after=AFTER):
    with engine.begin() as conn:
        return effects_pull.enqueue(
            conn, repo=REPO, base="main", files={PATH: (BEFORE, after)}, title="One passes", body="why", now=time.time()
        )


def send(engine, clients, after=0.0):
    now = time.time() + after
    with engine.begin() as conn:
        found = outbox.due(conn, now, 10)
    sending.send(engine, clients, [one.id for one in found], now)
    with reading(engine) as conn:
        return conn.execute(select(table).order_by(table.c.id.desc())).first()


def test_a_branch_the_file_and_a_pull_request_and_nothing_is_merged(engine, world, clients):
    branch = ask(engine)
    assert ask(engine) is None, "the same is asked for once"
    row = send(engine, clients)
    assert (row.state, row.last_error) == ("sent", None)
    (pull,) = world.hub.files.opened
    assert (pull["head"]["ref"], pull["base"]["ref"], pull["body"], pull["state"]) == (branch, "main", "why", "open")
    held = world.hub.files.repos[REPO]
    assert held[branch] == {PATH: AFTER, "README.md": "x"}, "byte for byte, and nothing else"
    assert held["main"][PATH] == BEFORE
    assert not [c for c in world.hub.asgi.calls if "merge" in c["path"]]
    assert row.response["html_url"] == pull["html_url"]


@pytest.mark.parametrize("lost", ["/git/refs", "/pulls", f"/contents/{PATH}"])
def test_an_answer_that_is_lost_makes_no_second_pull_request(engine, world, clients, lost):
    method = "PUT" if "contents" in lost else "POST"
    world.fail(method=method, path=f"/repos/{REPO}{lost}", drop=True)
    ask(engine)
    assert send(engine, clients).state == "due"
    assert send(engine, clients, after=60).state == "sent"
    assert len(world.hub.files.opened) == 1
    assert len(world.hub.files.repos[REPO]) == 2


def test_a_file_that_has_changed_meanwhile_is_left_alone(engine, world, clients):
    world.hub.files.repos[REPO]["main"][PATH] = BEFORE + "# somebody was here\n"
    ask(engine)
    row = send(engine, clients)
    assert (row.state, world.hub.files.opened) == ("dropped", [])
    assert "has changed since the proposal" in row.last_error


def test_a_refusal_is_parked_with_githubs_words(engine, world, clients):
    world.hub.files.repos[REPO]["main"][PATH] = AFTER  # merged by hand meanwhile: there is nothing left to propose
    ask(engine)
    row = send(engine, clients)
    assert row.state == "parked"
    assert "No commits between" in row.last_error
