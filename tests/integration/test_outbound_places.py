"""Places that effects go to: suspended and missing installations, renames, budgets, limits, a person's own hand."""

from __future__ import annotations

import json
import time
import zlib

import pytest
from factories import make_delivery, make_run
from outbound_servers import local_github
from sqlalchemy import select

from relay.domain.facts import InstallationFact, RepositoryFact
from relay.errors import Conflict, NotFound
from relay.services import effects, gates, reporting, sending
from relay.settings import Settings
from relay.store import outbox, outbox_ops, repositories
from relay.store.db import reading
from relay.store.schema import dispatch
from relay.store.schema import outbox as table

REPO = "example-org/backend-ci"
SETTINGS = Settings()


@pytest.fixture
def world(tmp_path):
    (tmp_path / "github").mkdir()
    with local_github(tmp_path / "github") as world:
        yield world


@pytest.fixture
def clients(world):
    clients = effects.make_clients(world.settings)
    yield clients
    clients.close()


def ask(engine, repo=REPO, number=1, text="", **over):
    ids = []
    for _ in range(number):
        body = {"action": "opened", "number": 7, "pull_request": {"number": 7, "body": text}}
        delivery = make_delivery(engine, body=zlib.compress(json.dumps(body).encode()))
        key = {"downstream": repo, "downstream_key": repo.casefold(), "pr_number": None, "level": "L2"}
        ids.append(make_run(engine, delivery_id=delivery, executor="github", state="sending", **{**key, **over}))
    with engine.begin() as conn:
        reporting.request_dispatches(conn, SETTINGS, dict.fromkeys(ids, repo), time.time())
    return ids


def send(engine, clients, after=0.0):
    now = time.time() + after
    with engine.begin() as conn:
        found = outbox.due(conn, now, 1000)
    for at in range(0, len(found), 16):
        sending.send(engine, clients, [item.id for item in found[at : at + 16]], now)
    return len(found)


def rows(engine, **where):
    with reading(engine) as conn:
        found = conn.execute(select(table).order_by(table.c.id)).all()
    return [row for row in found if all(getattr(row, name) == value for name, value in where.items())]


def state_of(engine, run):
    with reading(engine) as conn:
        return conn.execute(select(dispatch.c.state).where(dispatch.c.id == run)).scalar_one()


def installed(engine, state, after=0.0):
    with engine.begin() as conn:
        fact = InstallationFact(77, REPO.split("/")[0], state, {})
        repositories.hear_installation(conn, fact, time.time() + after)


# -------------------------------------------------------------------------------------------------------- installations


def test_a_suspended_installation_is_asked_once_and_then_left_alone(engine, world, clients):
    world.hub.ledger.suspended.add("example-org")
    ask(engine)
    send(engine, clients)
    (row,) = rows(engine)
    assert row.last_error.startswith("installation-suspended")
    before = len(world.hub.asgi.calls)
    (later,) = ask(engine)
    send(engine, clients)
    assert len(world.hub.asgi.calls) == before
    assert rows(engine)[1].last_error.startswith("installation-suspended: not tried again before")
    assert state_of(engine, later) == "failed"


@pytest.mark.both_databases
def test_the_installations_own_webhook_opens_it_and_what_waited_is_sent(engine, world, clients):
    world.hub.ledger.suspended.add("example-org")
    runs = ask(engine, number=2)
    send(engine, clients)
    assert {row.state for row in rows(engine)} == {"parked"}
    world.hub.ledger.suspended.clear()
    installed(engine, "active", after=1.0)
    assert gates.revive_if_any(engine, time.time() + 2) == 2
    assert [state_of(engine, run) for run in runs] == ["sending", "sending"]
    for after in (3, 30):  # one tries, the other waits for what comes of it
        send(engine, clients, after=after)
    assert {row.state for row in rows(engine)} == {"sent"}
    assert sum(world.hub.ledger.dispatches.values()) == 2


def test_a_webhook_that_says_suspended_costs_no_call_at_all(engine, world, clients):
    installed(engine, "suspended")
    ask(engine)
    send(engine, clients)
    assert world.hub.asgi.calls == []
    assert rows(engine)[0].last_error.startswith("installation-suspended")
    installed(engine, "active", after=1.0)
    assert gates.revive_if_any(engine, time.time() + 2) == 1
    send(engine, clients, after=3)
    assert rows(engine)[0].state == "sent"


def test_without_a_webhook_one_effect_tries_after_a_while(engine, world, clients):
    world.hub.ledger.suspended.add("example-org")
    ask(engine)
    send(engine, clients)
    world.hub.ledger.suspended.clear()
    ask(engine, number=3)
    send(engine, clients, after=90)
    assert [row.state for row in rows(engine)].count("sent") >= 1
    for after in (100, 130, 200):  # the others follow, and so does what was parked
        send(engine, clients, after=after)
    assert {row.state for row in rows(engine)} == {"sent"}


def test_a_repository_without_the_app_closes_itself_and_not_its_owner(engine, world, clients):
    ask(engine, "example-org/not-there")
    ask(engine)
    send(engine, clients)
    assert [row.state for row in rows(engine)] == ["parked", "sent"]
    assert rows(engine)[0].last_error.startswith("not-installed")


def test_an_installed_again_app_has_another_number(engine, world, clients):
    ask(engine)
    send(engine, clients)
    clients.github._installations["example-org"] = 1  # what it was before
    clients.github._tokens.clear()
    ask(engine)
    send(engine, clients)
    assert {row.state for row in rows(engine)} == {"sent"}


# -------------------------------------------------------------------------------------------------------------- renames


@pytest.mark.parametrize("warm", [True, False])
def test_a_renamed_repository_is_followed_and_remembered(engine, world, clients, warm):
    """Warm: we hold a token from before, and the dispatch itself is redirected; cold: no token is given for the old
    name."""
    number = world.hub.ledger.number_of(REPO)
    if warm:
        clients.github.prepare(REPO, {"contents": "write"})
    world.hub.ledger.rename(REPO, "example-org/new-name")
    (run,) = ask(engine)
    send(engine, clients)
    assert rows(engine)[0].state == "due"
    assert rows(engine)[0].target == "example-org/new-name"
    send(engine, clients, after=1)
    assert rows(engine)[0].state == "sent"
    assert world.hub.ledger.dispatches == {("example-org/new-name", run): 1}
    with reading(engine) as conn:
        known = repositories.of_names(conn, [REPO])[REPO]
    assert (known.id, known.name) == (number, "example-org/new-name")


def test_a_transfer_to_an_owner_with_the_app_is_followed(engine, world, clients):
    world.hub.ledger.rename(REPO, "pytorch/backend-ci")
    (run,) = ask(engine)
    send(engine, clients)
    send(engine, clients, after=1)
    assert world.hub.ledger.dispatches == {("pytorch/backend-ci", run): 1}


def test_a_redirect_to_elsewhere_gets_no_token_of_ours(engine, world, clients):
    clients.github.prepare(REPO, {"contents": "write"})
    assert clients.github.moved_to("https://evil.example/repositories/5") is None
    assert clients.github.moved_to(f"{world.url}/elsewhere/5") is None


# --------------------------------------------------------------------------------------------------- limits and budgets


@pytest.mark.both_databases
def test_a_secondary_limit_holds_the_whole_installation(engine, world, clients):
    ask(engine, number=40)
    world.fail(path=".*/dispatches", retry_after=30, count=16)
    send(engine, clients)
    limited = [call for call in world.calls("POST", "/dispatches") if call["status"] == 403]
    assert 1 <= len(limited) <= 16  # those that were on their way together
    assert len(world.calls("POST", "/dispatches")) == len(limited)
    assert all(row.not_before > time.time() + 25 for row in rows(engine, state="due"))
    assert send(engine, clients, after=20) == 0
    for after in (35, 40):
        send(engine, clients, after=after)
    assert {row.state for row in rows(engine)} == {"sent"}
    assert set(world.hub.ledger.dispatches.values()) == {1}


@pytest.mark.both_databases
def test_a_budget_is_kept_and_what_is_over_it_waits_for_the_next_minute(engine, world):
    tight = effects.make_clients(world.settings.model_copy(update={"github_budget": 5}))
    ask(engine, number=12)
    ask(engine, "torch-spyre/torch-spyre", number=2)  # another installation has a budget of its own
    send(engine, tight)
    assert len(world.calls("POST", "/dispatches")) == 7
    assert [row.attempts for row in rows(engine, state="due")] == [0] * 7
    assert send(engine, tight, after=30) == 0
    send(engine, tight, after=65)
    assert len(world.calls("POST", "/dispatches")) == 12
    send(engine, tight, after=130)
    tight.close()
    assert set(world.hub.ledger.dispatches.values()) == {1}
    assert {row.state for row in rows(engine)} == {"sent"}


# ----------------------------------------------------------------------------------------------------------- Depends-On


def test_depends_on_pins_the_downstreams_pull_request(engine, world, clients):
    world.hub.ledger.pulls[REPO, 12] = {
        "number": 12,
        "state": "open",
        "head": {"sha": "c" * 40},
        "base": {"sha": "d" * 40},
    }
    (run,) = ask(engine, text=f"Fixes it.\n\nDepends-On: {REPO.upper()}#12\n", author_trusted=True, author="ann")
    send(engine, clients)
    (call,) = world.calls("POST", "/dispatches")
    pin = {"repo": REPO, "number": 12, "sha": "c" * 40, "state": "open"}
    assert call["body"]["client_payload"]["relay"] == {"dispatch_key": run, "depends_on": pin}
    with reading(engine) as conn:
        assert conn.execute(select(dispatch.c.pin)).scalar_one() == pin


def test_depends_on_of_somebody_who_is_not_trusted_says_so_and_reads_nothing(engine, world, clients):
    ask(engine, text=f"Depends-On: https://github.com/{REPO}/pull/12", author="eve")
    send(engine, clients)
    (call,) = world.calls("POST", "/dispatches")
    assert call["body"]["client_payload"]["relay"]["depends_on"] == {
        "repo": REPO, "number": 12, "problem": f"eve is not trusted by {REPO}",
    }  # fmt: skip
    assert world.calls("GET", "/pulls/12") == []


def test_depends_on_is_read_under_every_name_of_the_downstream_and_waits_while_github_fails(engine, world, clients):
    with engine.begin() as conn:
        repositories.hear(conn, RepositoryFact(5, REPO, "example-org/old-name"), 1.0)
    world.hub.ledger.pulls[REPO, 3] = {
        "number": 3,
        "state": "open",
        "head": {"sha": "e" * 40},
        "base": {"sha": "d" * 40},
    }
    ask(engine, text="depends-on: example-org/old-name#3", author_trusted=True)
    world.fail(path=".*/pulls/3", status=500)
    send(engine, clients)
    assert rows(engine)[0].state == "due"
    assert not rows(engine)[0].ambiguous
    send(engine, clients, after=30)
    (call,) = world.calls("POST", "/dispatches")
    assert call["body"]["client_payload"]["relay"]["depends_on"]["sha"] == "e" * 40


# ------------------------------------------------------------------------------------------------------ a person's hand


def test_a_parked_dispatch_is_sent_again_by_hand(engine, world, clients):
    (run,) = ask(engine)
    world.fail(path=".*/dispatches", status=422)
    send(engine, clients, after=0)
    assert state_of(engine, run) == "failed"
    with engine.begin() as conn:
        outbox_ops.retry(conn, 1, time.time())
    assert state_of(engine, run) == "sending"
    send(engine, clients)
    assert (state_of(engine, run), rows(engine)[0].state) == ("sent", "sent")
    with engine.begin() as conn, pytest.raises(Conflict, match="has left"):
        outbox_ops.retry(conn, 1, time.time())


def test_what_was_given_up_for_its_age_is_young_again(engine, world, clients):
    ask(engine)
    world.fail(path=".*/dispatches", status=500, count=2)
    send(engine, clients, after=7 * 3600)
    assert rows(engine)[0].last_error.startswith("gave-up")
    with engine.begin() as conn:
        outbox_ops.retry(conn, 1, time.time() + 7 * 3600)
    send(engine, clients, after=7 * 3600 + 1)
    assert rows(engine)[0].state == "due"
    send(engine, clients, after=7 * 3600 + 60)
    assert rows(engine)[0].state == "sent"


def test_a_dropped_dispatch_says_why_and_an_older_effect_is_not_sent_after_a_newer(engine, world, clients):
    (run,) = ask(engine)
    with engine.begin() as conn:
        outbox_ops.drop(conn, 1, "by hand: the repository is gone", time.time())
    assert state_of(engine, run) == "failed"
    assert send(engine, clients) == 0
    with engine.begin() as conn:
        for key in ("a", "b"):
            outbox.enqueue(conn, key=key, kind="hud", stream="s", target="x", payload={}, now=0.0)
        outbox.mark_parked(conn, 2, ambiguous=False, status=400, error="refused: x", now=1.0)
        outbox.mark_sent(conn, 3, status=200, response=None, now=2.0)
        with pytest.raises(Conflict, match="no longer the newest"):
            outbox_ops.retry(conn, 2, 3.0)
        with pytest.raises(NotFound):
            outbox_ops.retry(conn, 99, 3.0)


def test_a_superseded_dispatch_is_not_brought_back(engine, world, clients):
    old, new = (ask(engine, pr_number=7)[0] for _ in range(2))
    with engine.begin() as conn:
        outbox_ops.drop(conn, 1, "x", 1.0)
        with pytest.raises(Conflict, match="newer dispatch"):
            outbox_ops.retry(conn, 1, 2.0)
    assert (state_of(engine, old), state_of(engine, new)) == ("failed", "sending")
