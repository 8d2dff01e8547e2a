"""Calls that the other side performs long after we stopped to wait for them: what they leave is found afterwards, and
says what we said last.

The local service refuses a call with a 504, as a gateway does that gave up; the test then performs that very call late.
"""

from __future__ import annotations

import pytest
from outbound_relay import UPSTREAM, running

REPO = "example-org/backend-ci"
ALLOWLIST = f"L4:\n  - {REPO}:\n      oncalls: [ann]\n"


@pytest.fixture
def relay(tmp_path):
    with running(tmp_path, ALLOWLIST) as relay:
        yield relay


def given_up(relay, method, end):
    """The last call of this kind that got a 504: its body and its path's end."""
    calls = [call for call in relay.world.calls(method) if end in call["path"] and call["status"] == 504]
    return calls[-1]["body"], calls[-1]["path"].rsplit("/", 1)[-1]


def shown(relay, sha):
    return [run for run in relay.checks("/tests") if run["head_sha"] == sha]


def said(runs):
    return [(run["status"], run["conclusion"], run["output"]["title"], run["output"]["summary"]) for run in runs]


def test_a_check_run_that_was_made_twice_says_one_thing_to_the_end(relay):
    sha = "a1" * 20
    delivery = relay.push(sha=sha)
    relay.turn()
    relay.world.fail(path=".*/check-runs", method="POST", status=504)
    relay.report(delivery, "in_progress", repo=REPO)
    relay.turn()
    relay.wait(5)  # looked, found nothing, made one
    assert len(shown(relay, sha)) == 1
    relay.world.hub.ledger.put_check_run(UPSTREAM, given_up(relay, "POST", "/check-runs")[0])
    relay.report(delivery, "completed", "failure", repo=REPO)
    relay.turn()  # what is known is told at once
    assert [run["status"] for run in shown(relay, sha)] == ["completed", "in_progress"]
    relay.wait(6)
    runs = shown(relay, sha)
    assert len(runs) == 2
    assert said(runs)[0] == said(runs)[1]
    assert runs[1]["conclusion"] == "failure"


def test_a_late_one_of_an_earlier_attempt_says_what_the_later_attempt_says(relay):
    sha = "a2" * 20
    delivery = relay.push(sha=sha)
    relay.turn()
    relay.world.fail(path=".*/check-runs", method="POST", status=504)
    relay.report(delivery, "completed", "failure", repo=REPO)
    relay.turn()
    relay.wait(5)
    relay.report(delivery, "completed", "success", repo=REPO, run_attempt="2")
    relay.turn()
    first, second = shown(relay, sha)
    relay.world.hub.ledger.put_check_run(UPSTREAM, given_up(relay, "POST", "/check-runs")[0])
    for seconds in (6, 30, 300):
        relay.wait(seconds)
    runs = shown(relay, sha)
    assert [run["conclusion"] for run in runs] == [first["conclusion"], "success", "success"]
    assert said(runs)[1] == said(runs)[2] == said([second])[0]


def test_a_check_run_that_a_late_change_set_back_is_set_right(relay):
    sha = "a3" * 20
    delivery = relay.push(sha=sha)
    relay.turn()
    relay.report(delivery, "in_progress", repo=REPO)
    relay.turn()
    (number,) = [str(run["id"]) for run in shown(relay, sha)]
    relay.world.fail(path=f".*/check-runs/{number}", method="PATCH", status=504)
    relay.report(delivery, "completed", "success", repo=REPO)
    relay.turn()
    relay.wait(5)
    relay.report(delivery, "completed", "failure", repo=REPO)  # another leg of the matrix
    relay.turn()
    right = said(shown(relay, sha))
    body, number = given_up(relay, "PATCH", "/check-runs/")
    relay.world.hub.ledger.put_check_run(UPSTREAM, body, int(number))
    assert [run["conclusion"] for run in shown(relay, sha)] == ["success"]
    relay.wait(31)
    assert said(shown(relay, sha)) == right


def test_a_second_comment_is_taken_away(relay):
    delivery = relay.push()
    relay.turn()
    relay.world.fail(path=".*/comments", method="POST", status=504)
    relay.report(delivery, "completed", "failure", repo=REPO)
    relay.turn()
    relay.wait(5)
    (made,) = relay.comments()
    late = {**made, "id": made["id"] + 500_000}
    relay.world.hub.ledger.comments[late["id"]] = late
    relay.world.hub.ledger.comments[1] = {**late, "id": 1, "body": "of a person"}
    relay.wait(31)
    assert [comment["id"] for comment in relay.comments()] == [made["id"], 1]


def test_a_row_that_a_late_start_set_back_is_told_again(relay):
    delivery = relay.push()
    relay.turn()
    relay.world.fail(path="/api/crcr/results", status=504)
    relay.report(delivery, "in_progress", repo=REPO)
    relay.turn()
    relay.wait(5)
    relay.report(delivery, "completed", "success", repo=REPO)
    relay.turn()
    relay.world.hub.hud.store(given_up(relay, "POST", "/results")[0])
    (row,) = relay.world.hub.hud.rows.values()
    assert row["status"] == "in_progress"
    relay.wait(31)
    (row,) = relay.world.hub.hud.rows.values()
    assert (row["status"], row["conclusion"]) == ("completed", "success")


def test_nobody_looks_after_what_was_never_in_doubt(relay):
    delivery = relay.push()
    relay.turn()
    relay.report(delivery, "in_progress", repo=REPO)
    relay.turn()
    relay.report(delivery, "completed", "success", repo=REPO)
    relay.turn()
    assert [row.kind for row in relay.rows() if "recheck" in row.kind] == []
    assert {row.state for row in relay.rows()} == {"sent"}
