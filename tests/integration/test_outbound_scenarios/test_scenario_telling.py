"""Who is called, what a verdict was made of, installations and the state of the relay itself, one scenario a fault."""

from __future__ import annotations

import time

from outbound_relay import ON_BOTH, UPSTREAM, A, B, of
from sqlalchemy import update

from relay import chores
from relay.services.readers import make_reader
from relay.store.schema import chore, dispatch, streak


@ON_BOTH
def test_oncalls_are_called_once_a_streak(relay):
    conclusions = ["failure", "failure", "success", "failure"]
    bodies = []
    for number, conclusion in enumerate(conclusions):
        relay.ahead += 60
        event = relay.push("synchronize" if number else "opened", sha=f"{number}" * 40)
        relay.wait(10)
        relay.report(event, "completed", conclusion, repo="org/four", job_name="@evil [x](http://e)")
        relay.turn()
        bodies.append([comment["body"] for comment in relay.comments()])
    assert [len(found) for found in bodies] == [1, 1, 1, 2]
    assert bodies[0][0].endswith("cc @dave @org/team")
    assert "2 commits in a row" in bodies[1][0]
    assert "passes again" in bodies[2][0]
    assert "@" not in bodies[2][0]
    assert "@evil" not in bodies[0][0]
    assert bodies[3][0] == bodies[2][0]
    assert [(row.failures, row.ended_at is None) for row in relay.rows(streak)] == [(2, False), (1, True)]
    assert len(relay.world.calls("POST", "/comments")) == 2


def test_a_neutral_end_calls_nobody_and_ends_nothing(relay):
    for number, conclusion in enumerate(["failure", "neutral", "cancelled"]):
        relay.ahead += 60
        event = relay.push("synchronize" if number else "opened", sha=f"{number}" * 40)
        relay.wait(10)
        relay.report(event, "completed", conclusion, repo="org/four")
        relay.turn()
    assert len(relay.comments()) == 1
    assert relay.rows(streak)[0].ended_at is None
    assert len(relay.world.calls("POST", "/comments")) == 1


def test_a_comment_whose_answer_was_lost_is_found_again(relay):
    event = relay.push()
    relay.turn()
    relay.world.fail(path=".*/comments", method="POST", drop=True)
    relay.report(event, "completed", "failure", repo="org/four")
    relay.turn()
    assert relay.rows(kind="comment")[0].ambiguous
    relay.wait(30)
    assert len(relay.comments()) == 1
    assert relay.rows(streak)[0].comment_id == str(relay.comments()[0]["id"])


def test_a_verdict_says_what_it_was_made_of(relay):
    event = relay.push()
    relay.turn()
    relay.report(event, "completed", "success", repo="org/two")
    made = of(relay, "org/two").provenance
    assert made["upstream"] == {"repo": UPSTREAM, "head": A, "base": "b" * 40, "merge_base": None}
    assert made["downstream"]["sha"] == ["5" * 40]
    assert made["downstream"]["runs"][0]["ref"] == "refs/heads/main"
    assert made["versions"]["relay"] == "0.1.0"
    page = relay.http.get(f"{relay.url}/run/{of(relay, 'org/two').id}.json").json()
    assert page["provenance"] == made
    assert "5" * 8 in relay.http.get(f"{relay.url}/run/{of(relay, 'org/two').id}").text


def test_a_closed_pull_request_is_told_and_waits_for_nobody(relay):
    relay.push()
    relay.turn()
    relay.push("closed")
    relay.turn()
    assert {(row.state, row.code) for row in relay.rows(dispatch, action="closed")} == {("completed", "told")}
    assert {(row.state, row.code) for row in relay.rows(dispatch, action="opened", level="L4")} == {
        ("superseded", "pull-request-closed")
    }
    assert [(check["status"], check["conclusion"]) for check in relay.checks()] == [("completed", "cancelled")]
    relay.wait(7 * 3600)
    assert relay.swept["total"]["no-response"] == 0


def installation(action, **more):
    about = {"id": 77, "account": {"login": "org"}, "permissions": {"contents": "write"}, **more}
    return {"action": action, "installation": about, "sender": {"login": "ann"}}


@ON_BOTH
def test_installation_webhooks_close_and_open_the_way(relay):
    relay.webhook("installation", installation("suspend", suspended_at="2026-01-01T00:00:00Z"))
    event = relay.push()
    relay.turn()
    assert [c for c in relay.world.hub.asgi.calls if "/org/" in c["path"]] == []
    assert {row.state for row in relay.rows(kind="dispatch")} == {"parked"}
    relay.ahead += 1
    relay.webhook("installation", installation("unsuspend", suspended_at=None))
    relay.turn()
    assert {row.state for row in relay.rows(kind="dispatch")} == {"sent"}
    assert set(relay.world.hub.ledger.dispatches.values()) == {1}
    assert relay.report(event, "completed", "success", repo="org/two")["recorded"]


def test_a_rename_is_followed_from_the_webhook_and_from_the_redirect(relay):
    relay.push()
    relay.turn()
    number = relay.world.hub.ledger.rename("org/two", "org/deux")
    event = relay.push("synchronize", sha=B)
    relay.wait(20)
    relay.wait(20)
    assert {repo for repo, _ in relay.world.hub.ledger.dispatches} >= {"org/two", "org/deux"}
    body = {
        "action": "renamed", "repository": {"id": number, "full_name": "org/deux"},
        "changes": {"repository": {"name": {"from": "two"}}}, "installation": {"id": 77},
    }  # fmt: skip
    relay.webhook("repository", body)
    assert relay.report(event, "completed", "success", repo="org/deux", repository_id=str(number))["recorded"]


def test_a_sweeper_that_nobody_runs_is_seen(relay):
    found = chores.chores_of(relay.engine, relay.world.settings, make_reader(relay.world.settings))
    mine = [one for one in found if one.name in ("deadlines", "places", "reruns", "levels")]
    assert len(mine) == 4
    assert chores.step(relay.engine, mine, time.time()) == [one.name for one in mine]
    assert chores.step(relay.engine, mine, time.time()) == []  # one of many does it
    status = relay.http.get(f"{relay.url}/index.json").json()
    assert {one["name"]: one["late_s"] for one in status["chores"]}["deadlines"] == 0
    assert 'relay_chore_late_seconds{chore="deadlines"} 0.0' in relay.http.get(f"{relay.url}/metrics").text
    with relay.engine.begin() as conn:
        conn.execute(update(chore).where(chore.c.name == "deadlines").values(due_at=time.time() - 600, error="boom"))
    notes = relay.http.get(f"{relay.url}/index.json").json()["notes"]
    assert "nobody has done the chore deadlines for 10 min" in notes[0]
    assert "the chore deadlines failed: boom" in notes
    page = relay.http.get(f"{relay.url}/").text
    assert "boom" in page
    assert 'relay_chore_failed{chore="deadlines"} 1.0' in relay.http.get(f"{relay.url}/metrics").text


def test_a_closed_installation_is_on_the_status_page(relay):
    relay.world.hub.ledger.suspended.add("org")
    relay.push()
    relay.turn()
    assert (
        "nothing is sent to org (installation-suspended)" in relay.http.get(f"{relay.url}/index.json").json()["notes"]
    )
    assert 'relay_places_closed{code="installation-suspended"} 1.0' in relay.http.get(f"{relay.url}/metrics").text
    assert "suspended" in relay.http.get(f"{relay.url}/").text
