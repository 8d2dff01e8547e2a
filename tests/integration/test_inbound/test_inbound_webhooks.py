"""What may go wrong on the way in, a kind a test, by HTTP against the running relay: webhooks, allowlist, names."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time

import pytest
from inbound_service import UPSTREAM, report

from relay.demo.webhook import sign
from relay.services.documents import LOOK_S

REPOS = ("torch-spyre/torch-spyre", "example-org/backend-ci")
PATH = ".github/allowlist.yml"


def delivery_row(service, delivery):
    rows = service.rows("select state, code, body is null from delivery where id = ?", delivery)
    return rows[0] if rows else None


def test_a_delivery_sent_again_or_twice_at_once_is_dispatched_once(service):
    body, delivery = service.event(), f"delivery-{secrets.token_hex(8)}"
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(service.webhook(body, delivery=delivery))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [202] * 6
    assert sum("duplicate" in answer.json() for answer in answers) == 5
    for repo in REPOS:
        service.wait(lambda repo=repo: service.dispatches(delivery, repo))
    assert service.webhook(body, delivery=delivery).json()["duplicate"] is True
    later = service.dispatched(REPOS[0])  # what was routed after it has arrived by now
    assert later
    assert [len(service.dispatches(delivery, repo)) for repo in REPOS] == [1, 1]


def test_the_answer_waits_for_nothing_outside(service):
    service.world.fail(path="/repos/.*/dispatches", delay_s=3.0, count=2)
    delivery = f"delivery-{secrets.token_hex(8)}"
    assert service.webhook(service.event(), delivery=delivery).status_code == 202
    assert not any(call["status"] for call in service.dispatches(delivery))
    service.wait(lambda: all(any(c["status"] == 204 for c in service.dispatches(delivery, r)) for r in REPOS))


def test_what_fails_for_one_downstream_is_sent_again_and_the_others_have_it_once(service):
    service.world.fail(path=f"/repos/{REPOS[0]}/dispatches", status=422, body={"message": "no"})
    service.world.fail(path=f"/repos/{REPOS[1]}/dispatches", status=429, retry_after=1)
    delivery = f"delivery-{secrets.token_hex(8)}"
    service.webhook(service.event(), delivery=delivery)
    service.wait(lambda: [c["status"] for c in service.dispatches(delivery, REPOS[1])] == [429, 204])
    # refused for good is no success, and is not hidden
    state = "select state from outbox where kind = 'dispatch' and target = ? order by id desc limit 1"
    service.wait(lambda: service.rows(state, REPOS[0]) == [("parked",)])


@pytest.mark.parametrize(
    ("raw", "headers", "status", "says"),
    [
        (b"[]", {}, 400, "body: must be an object"),
        (b"{", {}, 400, "not valid JSON"),
        (b"\xff", {}, 400, "not UTF-8"),
        (b"[" * 50_000, {}, 400, "JSON"),
        (b'{"action": "opened", "repository": []}', {}, 400, "repository: must be an object"),
        (b'{"action": "opened", "repository": {"full_name": "pytorch/pytorch"}}', {}, 400, "pull_request: must be"),
        (b"{}", {"X-Hub-Signature-256": "sha256=\u00e9"}, 401, "fits none"),
        (b"{}", {"X-Hub-Signature-256": ""}, 400, "no X-Hub-Signature-256"),
        (b"{}", {"X-GitHub-Delivery": "a b"}, 400, "X-GitHub-Delivery"),
        (b"{}", {"X-GitHub-Event": "Not An Event"}, 400, "X-GitHub-Event"),
    ],
)
def test_what_cannot_be_understood_is_an_answer_with_the_place(service, raw, headers, status, says):
    headers = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = service.webhook(raw, **headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert says in answer.json()["detail"]
    assert answer.json()["code"]


def test_all_of_upstreams_checks_leave_a_line_and_no_body_and_nothing_is_started_by_them(service, shared):
    body = json.loads((shared / "data/relay/webhook/check_run_completed.json").read_text())
    body["repository"]["full_name"] = UPSTREAM
    body["check_run"]["name"] = "crcr/example-org/backend-ci/ci/tests"  # a name is anybody's to write
    for action, code in (("completed", "event-not-used"), ("rerequested", "check-not-ours")):
        delivery = f"check-{action}-{secrets.token_hex(4)}"
        answer = service.webhook({**body, "action": action}, "check_run", delivery).json()
        assert (answer["accepted"], answer["code"]) == (False, code)
        assert delivery_row(service, delivery) == ("ignored", code, 1)
    assert service.rows("select count(*) from rerun where delivery_id like 'check-%'") == [(0,)]


def test_a_check_of_ours_to_run_again_is_due_work_for_the_run_behind_it(service, shared):
    sha = secrets.token_hex(20)
    delivery = service.dispatched(REPOS[1], sha=sha)
    assert service.callback(REPOS[1], report(delivery, run_id="777", conclusion="failure")).status_code == 200
    made = "select job.check_run_id from job join dispatch on dispatch.id = dispatch_id where delivery_id = ?"
    service.wait(lambda: [r for r in service.rows(made, delivery) if r[0]])
    ((check,),) = service.rows(made + " and run_id = '777'", delivery)
    body = json.loads((shared / "data/relay/webhook/check_run_rerequested.json").read_text())
    body["repository"]["full_name"] = UPSTREAM
    body["check_run"] |= {"id": int(check), "head_sha": sha, "app": {"id": 424242}, "external_id": "1:666"}
    asked = f"rerun-{secrets.token_hex(8)}"
    for _ in range(2):
        assert service.webhook(body, "check_run", asked).json()["code"] == "rerun-noted"
    assert service.rows("select run_id, scope from rerun where delivery_id = ?", asked) == [("777", "failed")]


def test_pushes_to_helper_branches_and_labels_of_others_are_told_to_nobody(service, shared):
    push = json.loads((shared / "data/relay/webhook/push_payload.json").read_text())
    push["repository"]["full_name"] = UPSTREAM
    push |= {"ref": "refs/heads/gh/alice/3/head", "after": "a" * 40, "deleted": False}
    assert service.webhook(push, "push").json()["code"] == "push-ref-ignored"
    labeled = service.event("labeled", label={"name": "module: nn"})
    assert service.webhook(labeled).json()["code"] == "label-ignored"


def test_installations_and_drafts_are_remembered(service, shared):
    body = json.loads((shared / "data/relay/webhook/installation_suspend.json").read_text())
    assert service.webhook(body, "installation").json()["code"] == "installation-noted"
    assert service.rows("select state from installation where id = ?", body["installation"]["id"]) == [("suspended",)]
    draft = service.event("converted_to_draft", number=4_242)
    draft["pull_request"]["draft"] = True
    assert service.webhook(draft).json()["code"] == "pull-request-noted"
    old = service.event("ready_for_review", number=4_242, told_at="2026-07-01T00:00:00Z")
    old["pull_request"]["draft"] = False
    assert service.webhook(old).status_code == 202  # it comes later, and tells of a time before
    assert service.rows("select draft from pull_request where number = 4242") == [(1,)]


def test_a_rotated_secret_needs_no_restart_and_what_it_refused_is_asked_for_again(service):
    """GitHub signs with a secret that nobody told the relay: its webhooks are refused, then the secret is told, and
    they come back by themselves."""
    body = service.event()
    lost = f"lost-{secrets.token_hex(8)}"
    raw = json.dumps(body)
    new = f"third secret {secrets.token_hex(4)}"
    sent = {
        "url": f"{service.url}/github/webhook",
        "headers": {
            "X-GitHub-Event": "pull_request",
            "X-GitHub-Delivery": lost,
            "X-Hub-Signature-256": sign(new, raw.encode()),
        },
        "payload": raw,
    }
    row = service.http.post(f"{service.world.url}/_control/webhook", json=sent).json()
    assert row["status_code"] == 401
    assert service.webhook(service.event(), secret="second secret").status_code == 202  # of the file
    with (service.folder / "secrets").open("a") as file:
        file.write(new + "\n")
    assert service.webhook(service.event(), secret=new).status_code == 202
    service.wait(lambda: service.dispatches(lost, REPOS[0]))
    asked = service.world.calls("POST", "/attempts")
    assert len(asked) == 1
    assert service.rows("select event from redelivery where delivery_id = ?", lost) == [("pull_request",)]


def test_one_bad_merge_of_the_allowlist_changes_nothing_and_a_good_one_counts_at_once(service):
    texts = service.texts
    error = "select error from chore where name = 'allowlist'"
    good = texts[PATH]
    try:
        for bad, says in (("", "lists nothing"), ("L1:\n  - o/r: [", ":2:"), ("L1:\n  - a/b\n  - A/B\n", "twice")):
            texts[PATH] = bad
            service.wait(lambda says=says: says in (service.rows(error)[0][0] or ""))
        assert service.dispatched(REPOS[0])
        count = "select count(*) from allowlist_version"
        versions = service.rows(count)
        texts[PATH] = good.replace("  - torch-spyre/torch-spyre\n", "").replace(
            "example-org/backend-ci: [alice]", "EXAMPLE-org/Backend-CI"
        )
        service.wait(lambda: service.rows(count) != versions)
        time.sleep(LOOK_S)  # what a process knows of it may be so old
        delivery = service.dispatched("EXAMPLE-org/Backend-CI")
        # taken off the list: told nothing, and what it still runs is not heard
        assert service.dispatches(delivery, REPOS[0]) == []
        answer = service.callback(REPOS[0], report(delivery))
        assert (answer.status_code, answer.json()["code"]) == (403, "repository-unknown")
    finally:
        texts[PATH] = good
    service.wait(lambda: service.callback(REPOS[0], report("none")).json().get("code") == "dispatch-unknown")


def test_the_allowlist_costs_github_conditional_requests_of_one_process(service):
    def reads():
        return [c for c in service.world.hub.asgi.calls if "/contents/" in c["path"]]

    before, chore = len(reads()), "select ran_at from chore where name = 'allowlist'"
    ran = service.rows(chore)
    answers = [service.webhook(service.event()).status_code for _ in range(40)]
    assert set(answers) == {202}
    service.wait(lambda: service.rows(chore) != ran)
    new = reads()[before:]
    assert all(call["status"] == 304 for call in new if call["status"])
    assert len(new) <= 40 / 4


def test_a_renamed_repository_keeps_its_entry_and_whoever_takes_its_old_name_gets_nothing(service, shared):
    old, new = "example-org/leaving", "example-org/renamed"
    texts = service.texts
    count = "select count(*) from allowlist_version"
    versions = service.rows(count)
    texts[PATH] = texts[PATH].replace("  - example-org/leaving\n", "") + f"  - {old}\n"
    service.wait(lambda: service.rows(count) != versions)
    time.sleep(LOOK_S)
    delivery = service.dispatched(old)
    started = service.callback(
        old, report(delivery, "in_progress"), service.token(old, repository_id="74", jti=secrets.token_hex(8))
    )
    assert started.json()["recorded"] is True
    body = json.loads((shared / "data/relay/webhook/repository_renamed.json").read_text())
    body["repository"] |= {"id": 74, "full_name": new}
    body["changes"] = {"repository": {"name": {"from": "leaving"}}}
    assert service.webhook(body, "repository").json()["code"] == "repository-noted"
    ended = service.callback(new, report(delivery), service.token(new, repository_id="74"))
    assert (ended.status_code, ended.json()["code"]) == (200, "completed")
    later = f"delivery-{secrets.token_hex(8)}"

    def goes_to_the_new_name():
        return service.world.calls("POST", f"/repos/{new}/dispatches")

    for number in range(90):  # a process may know the old list for a second
        service.webhook(service.event(), delivery=f"{later}{number}")
        with contextlib.suppress(AssertionError):
            service.wait(goes_to_the_new_name, 2.0)
            break
    assert goes_to_the_new_name()
    squatter = service.callback(old, report(delivery), service.token(old, repository_id="999"))
    assert (squatter.status_code, squatter.json()["code"]) == (403, "repository-unknown")
