"""GitHub and the dashboard away for a while, or answering what is not theirs: nothing is believed that they did not
say, and when they are back everything goes at once."""

from __future__ import annotations

import pytest
from outbound_relay import running

from relay.services import gates
from relay.store.schema import dispatch

REPO = "example-org/backend-ci"
ALLOWLIST = f"L4:\n  - {REPO}\n"
PAGE = "<html>Sign in to this network</html>"


@pytest.fixture(scope="module")
def relay(tmp_path_factory):
    with running(tmp_path_factory.mktemp("outages"), ALLOWLIST) as relay:
        yield relay


@pytest.fixture(autouse=True)
def _quiet(relay):
    yield
    relay.world.hub.asgi.faults.clear()
    for _ in range(12):
        relay.wait(400)


def arrived(relay, delivery):
    (run,) = relay.rows(dispatch, delivery_id=delivery)
    return relay.world.hub.ledger.dispatches[REPO, run.id], run


@pytest.mark.parametrize(
    "rule",
    [
        {"path": ".*/dispatches", "status": 200, "body": PAGE},
        {"path": ".*/dispatches", "status": 404, "body": PAGE},
        {"path": ".*/access_tokens", "status": 200, "body": PAGE},
        {"path": ".*/access_tokens", "status": 404, "body": PAGE},
    ],
    ids=lambda rule: f"{rule['path'].rsplit('/')[-1]}-{rule['status']}",
)
def test_a_page_for_an_answer_is_no_answer(relay, rule):
    number = 100 + len(relay.rows())
    relay.clients.github.forget(REPO)
    relay.world.fail(**rule)
    delivery = relay.push(number=number, sha=f"{number:040x}")
    relay.turn()
    assert arrived(relay, delivery)[0] == 0
    assert arrived(relay, delivery)[1].state == "sending"
    relay.wait(5)
    assert (arrived(relay, delivery)[0], arrived(relay, delivery)[1].state) == (1, "sent")


@pytest.mark.parametrize(
    ("status", "body", "lie"), [(201, {}, False), (201, PAGE, False), (200, {"id": "x"}, False), (500, None, True)]
)
def test_a_check_run_is_made_once_whatever_is_said_of_it(relay, status, body, lie):
    number = 200 + len(relay.rows())
    delivery = relay.push(number=number, sha=f"{number:040x}")
    relay.turn()
    relay.world.fail(path=".*/check-runs", method="POST", status=status, body=body, lie=lie)
    relay.report(delivery, "in_progress", repo=REPO, run_id=str(number))
    relay.turn()
    relay.report(delivery, "completed", "success", repo=REPO, run_id=str(number))
    for _ in range(4):
        relay.wait(10)
    made = [run for run in relay.checks() if run["head_sha"] == f"{number:040x}" and "tests" in run["name"]]
    assert [(run["status"], run["conclusion"]) for run in made] == [("completed", "success")]


@pytest.mark.parametrize(("status", "body"), [(200, PAGE), (200, {"ok": False}), (200, {}), (400, PAGE)])
def test_a_row_that_the_dashboard_did_not_take_is_sent_again(relay, status, body):
    number = 300 + len(relay.rows())
    delivery = relay.push(number=number, sha=f"{number:040x}")
    relay.turn()
    relay.world.fail(path="/api/crcr/results", status=status, body=body)
    relay.report(delivery, "completed", "success", repo=REPO, run_id=str(number))
    relay.turn()
    shown = [row for key, row in relay.world.hub.hud.rows.items() if delivery in key]
    assert shown == []
    relay.wait(5)
    shown = [row for key, row in relay.world.hub.hud.rows.items() if delivery in key]
    assert [row["conclusion"] for row in shown] == ["success"]


def test_a_list_that_is_none_makes_no_second_check_run(relay):
    number = 400 + len(relay.rows())
    delivery = relay.push(number=number, sha=f"{number:040x}")
    relay.turn()
    relay.world.fail(path=".*/check-runs", method="POST", drop=True)
    relay.world.fail(path=".*/commits/.*/check-runs", status=200, body={"message": "half an answer"}, count=2)
    relay.report(delivery, "completed", "success", repo=REPO, run_id=str(number))
    for _ in range(5):
        relay.wait(10)
    assert len([run for run in relay.checks() if run["head_sha"] == f"{number:040x}" and "tests" in run["name"]]) == 1


@pytest.mark.parametrize("path", ["/repos/.*", "/api/crcr/results"])
def test_after_a_long_outage_one_tries_and_then_all_go(relay, path):
    first = 500 + len(relay.rows())
    sent = []
    for number in range(first, first + 3):
        sent.append(relay.push(number=number, sha=f"{number:040x}"))
    relay.turn()
    relay.world.fail(path=path, status=503, count=None)
    for number, delivery in zip(range(first, first + 3), sent, strict=True):
        relay.report(delivery, "completed", "success", repo=REPO, run_id=str(number))
    for _ in range(12):
        relay.wait(300)
    waiting = [row for row in relay.rows() if row.state == "due" and row.not_before > relay.now + 20]
    assert waiting, "the outage was long enough that everybody waits minutes"
    memory = gates.look_for_an_end(relay.engine, {}, relay.now)
    before = {row.id: row.attempts for row in relay.rows()}
    relay.turn()
    tried = [row.id for row in relay.rows() if row.attempts > before[row.id]]
    assert len(tried) == 1, "one tries, the others spare it"
    memory = gates.look_for_an_end(relay.engine, memory, relay.now)  # to no avail: another one tries
    relay.world.hub.asgi.faults.clear()
    relay.turn()
    gates.look_for_an_end(relay.engine, memory, relay.now)
    relay.turn()
    assert [row.last_error for row in relay.rows() if row.state == "due" and "recheck" not in row.kind] == []


def test_a_wait_that_was_asked_for_is_not_cut_short(relay):
    number = 600 + len(relay.rows())
    delivery = relay.push(number=number, sha=f"{number:040x}")
    relay.turn()
    relay.world.fail(path="/api/crcr/results", status=503, retry_after=120)
    relay.report(delivery, "completed", "success", repo=REPO, run_id=str(number))
    relay.turn()
    assert gates.look_for_an_end(relay.engine, {}, relay.now) == {}
    (row,) = [row for row in relay.rows() if row.state == "due"]
    assert row.not_before > relay.now + 100
