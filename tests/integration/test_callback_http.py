"""Callbacks over HTTP: a local issuer's tokens, the real route, the real database."""

from __future__ import annotations

import copy
import itertools
import threading
import time

import httpx2
import pytest
from factories import SHA_HEAD, make_delivery, make_run
from outbound_servers import callback_service, local_github
from sqlalchemy import select, update

from relay.settings import Issuer
from relay.store import tokens
from relay.store.db import reading
from relay.store.schema import dispatch, job, outbox, seen_token

pytestmark = pytest.mark.both_databases

REPO = "Ascend/pytorch"
ALLOWLIST = """\
L1:
  - first/steps
L2:
  - second/level
L4:
  - Ascend/pytorch
"""


class Downstream:
    """Reports as a run of ``repo`` does."""

    def __init__(self, world, url, http):
        self.world, self.url, self.http = world, url, http

    def token(self, repo=REPO, run_id="55", attempt="1", **claims):
        about = {"aud": "pytorch-cross-repo-ci-relay", "repository": repo, "run_id": run_id, "run_attempt": attempt}
        return self.world.hub.ledger.mint({**about, **claims})

    def post(self, body, token=None, **headers):
        if token is None:
            flow = body["workflow"]
            token = self.token(run_id=flow["run_id"], attempt=flow["run_attempt"])
        return self.http.post(self.url, json=body, headers={"authorization": f"Bearer {token}", **headers})


def report(delivery_id, status="in_progress", conclusion=None, **flow):
    workflow = {
        "schema_version": "1", "status": status, "conclusion": conclusion, "name": "ci", "job_name": "tests",
        "url": f"https://github.com/{REPO}/actions/runs/55", "run_id": "55", "run_attempt": "1", "check_run_id": "99",
        "started_at": "2026-01-01T00:00:00Z", "completed_at": None, **flow,
    }  # fmt: skip
    echo = {"pull_request": {"number": 666, "head": {"sha": "f" * 40}, "labels": [{"name": "ciflow/crcr/npu"}]}}
    return {"event_type": "pull_request", "delivery_id": delivery_id, "payload": echo, "workflow": workflow}


@pytest.fixture
def world(tmp_path):
    (tmp_path / "github").mkdir()
    (tmp_path / "allowlist.yml").write_text(ALLOWLIST)
    with local_github(tmp_path / "github", allowlist=str(tmp_path / "allowlist.yml")) as world:
        yield world


@pytest.fixture
def downstream(engine, world):
    with callback_service(engine, world.settings) as url, httpx2.Client(trust_env=False, timeout=30) as http:
        yield Downstream(world, url, http)


def make_dispatch(engine, **over):
    """A dispatch that was sent to Ascend; -> (its id, its delivery's id)."""
    delivery = make_delivery(engine)
    values = {"downstream": REPO, "downstream_key": REPO.casefold(), "executor": "github", "state": "sent", **over}
    return make_run(engine, delivery_id=delivery, **values), delivery


def all_of(engine, table):
    with reading(engine) as conn:
        return conn.execute(select(table)).all()


def check(answer, status, code=None):
    assert answer.status_code == status, answer.text
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == code
        assert answer.json().get("hint")
    return answer.json()


def test_a_job_is_reported_from_start_to_end(engine, downstream):
    run, delivery = make_dispatch(engine)
    assert check(downstream.post(report(delivery)), 200) | {"job": ""} == {
        "ok": True, "status": "in_progress", "recorded": True, "code": "started", "job": "",
    }  # fmt: skip
    (row,) = all_of(engine, dispatch)
    assert (row.state, row.started_at is not None) == ("running", True)
    results = {"passed": 5, "failed": 1, "skipped": 0}
    check(downstream.post(report(delivery, "completed", "failure", test_results=results)), 200)
    (row,) = all_of(engine, dispatch)
    assert (row.id, row.state, row.conclusion, row.code) == (run, "completed", "failure", "jobs-not-passed")
    (one,) = all_of(engine, job)
    assert (one.status, one.conclusion, one.start_known, one.results["failed"]) == ("completed", "failure", True, 1)
    kinds = [(row.kind, row.payload) for row in all_of(engine, outbox)]
    assert [kind for kind, _ in kinds] == ["hud", "check_run", "hud", "check_run", "comment"]
    assert kinds[3][1]["details_url"] == f"https://github.com/{REPO}/actions/runs/55"


def test_what_the_echo_says_about_the_pull_request_is_not_believed(engine, downstream):
    _, delivery = make_dispatch(engine, level="L3", device="npu")
    check(downstream.post(report(delivery, "completed", "success")), 200)
    (row,) = all_of(engine, outbox)  # no label on the real pull request: no check run
    payload = row.payload["untrusted"]["callback_payload"]["payload"]
    assert (payload["pull_request"]["number"], payload["pull_request"]["head"]["sha"]) == (7, SHA_HEAD)


def test_a_labelled_pull_request_gets_its_check_run_at_level_3(engine, downstream):
    _, delivery = make_dispatch(engine, level="L3", device="npu", labels=["ciflow/crcr/npu"])
    check(downstream.post(report(delivery, "completed", "success")), 200)
    assert [row.kind for row in all_of(engine, outbox)] == ["hud", "check_run"]


@pytest.mark.parametrize("header", [None, "Basic eA==", "Bearer"])
def test_without_a_token(downstream, header):
    headers = {} if header is None else {"authorization": header}
    answer = downstream.http.post(downstream.url, content=b"not even JSON", headers=headers)
    check(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_tokens_that_are_not_good(engine, downstream):
    _, delivery = make_dispatch(engine)
    for token in ("x.y.z", downstream.token(aud="another"), downstream.token(exp=time.time() - 100)):
        check(downstream.post(report(delivery), token), 401, "unauthorized")
    assert all_of(engine, seen_token) == []


def test_an_issuer_that_is_down_is_503(engine, downstream, world):
    world.settings.oidc_issuers = [Issuer(issuer=world.url, jwks_url="http://127.0.0.1:9/keys")]
    answer = downstream.post(report("x"))
    check(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1


def test_who_may_report(engine, downstream):
    _, delivery = make_dispatch(engine)
    check(downstream.post(report(delivery), downstream.token("nobody/knows")), 403, "repository-unknown")
    check(downstream.post(report(delivery), downstream.token("second/level")), 404, "dispatch-unknown")
    check(downstream.post(report("never-sent"), downstream.token()), 404, "dispatch-unknown")
    check(downstream.post(report(delivery), downstream.token("ASCEND/PyTorch")), 200)
    assert [row.downstream for row in all_of(engine, dispatch)] == [REPO]


def test_level_1_is_answered_but_not_recorded(engine, downstream):
    _, delivery = make_dispatch(engine, level="L1")
    for body, token in ((report(delivery), None), (report("any"), downstream.token("first/steps"))):
        answer = check(downstream.post(body, token), 200)
        assert (answer["recorded"], answer["status"]) == (False, "ignored")
        assert "L1" in answer["reason"]
    assert all_of(engine, job) == all_of(engine, outbox) == []


def test_a_run_cannot_report_for_another(engine, downstream):
    _, delivery = make_dispatch(engine)
    check(downstream.post(report(delivery), downstream.token(run_id="56")), 403, "forbidden")
    assert all_of(engine, job) == []


def test_our_own_workers_runs_are_reported_by_nobody_else(engine, downstream):
    _, delivery = make_dispatch(engine, executor="workers", state="running")
    check(downstream.post(report(delivery)), 409, "conflict")
    assert all_of(engine, job) == []


def test_a_wrong_field_is_named_and_uses_up_no_token(engine, downstream):
    _, delivery = make_dispatch(engine)
    token = downstream.token()
    bad = report(delivery, "completed", "passed")
    assert check(downstream.post(bad, token), 400, "bad-request")["path"] == "workflow.conclusion"
    check(downstream.post(report(delivery, "completed", "success"), token), 200)


def test_a_body_over_the_limit_is_413(engine, downstream):
    body = report("x")
    body["payload"]["filler"] = "x" * (2 * 1024 * 1024)
    check(downstream.post(body), 413, "body-too-large")


def test_the_same_report_again_gets_the_same_answer_and_another_body_is_refused(engine, downstream):
    _, delivery = make_dispatch(engine)
    token = downstream.token()
    first = check(downstream.post(report(delivery), token), 200)
    assert check(downstream.post(report(delivery), token), 200) == first
    check(downstream.post(report(delivery, "completed", "success"), token), 409, "token-replayed")
    assert len(all_of(engine, outbox)) == 2
    with engine.begin() as conn:
        assert tokens.purge(conn, time.time()) == 0
        assert tokens.purge(conn, time.time() + 1000) == 1


def test_an_end_without_a_start_is_taken(engine, downstream):
    _, delivery = make_dispatch(engine)
    answer = check(downstream.post(report(delivery, "completed", "failure")), 200)
    assert answer["code"] == "completed-start-unknown"
    (row,) = [row for row in all_of(engine, outbox) if row.kind == "hud"]
    assert row.payload["trusted"]["ci_metrics"] == {"queue_time": None, "execution_time": None}
    asked = len(all_of(engine, outbox))
    assert check(downstream.post(report(delivery)), 200)["code"] == "late-start"
    assert len(all_of(engine, outbox)) == asked


def test_a_report_that_outruns_the_answer_to_its_dispatch_is_taken(engine, downstream):
    _, delivery = make_dispatch(engine, state="sending")
    check(downstream.post(report(delivery)), 200)
    assert all_of(engine, dispatch)[0].state == "running"


def test_a_superseded_dispatch_stays_superseded_and_keeps_its_jobs(engine, downstream):
    _, delivery = make_dispatch(engine, state="superseded", conclusion="cancelled")
    check(downstream.post(report(delivery, "completed", "success")), 200)
    (row,) = all_of(engine, dispatch)
    assert (row.state, row.conclusion) == ("superseded", "cancelled")
    assert len(all_of(engine, job)) == 1


def test_the_newest_attempt_counts_in_every_order(engine, downstream):
    reports = [
        report("", "completed", "failure", run_attempt="1"),
        report("", run_attempt="2"),
        report("", "completed", "success", run_attempt="2"),
    ]
    for order in itertools.permutations(reports):
        run, delivery = make_dispatch(engine)
        for body in order:
            check(downstream.post({**body, "delivery_id": delivery}), 200)
        with reading(engine) as conn:
            row = conn.execute(select(dispatch).where(dispatch.c.id == run)).one()
        assert (row.state, row.conclusion) == ("completed", "success")


def test_twelve_at_once_make_one_job_and_one_of_each_effect(engine, downstream):
    _, delivery = make_dispatch(engine)
    same = downstream.token()
    sent = [(report(delivery), downstream.token()) for _ in range(8)] + [(report(delivery), same)] * 4
    answers = []
    gate = threading.Barrier(len(sent))

    def go(body, token):
        gate.wait()
        answers.append(downstream.post(copy.deepcopy(body), token))

    threads = [threading.Thread(target=go, args=one) for one in sent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [200] * 12
    assert len(all_of(engine, job)) == 1
    assert sorted(row.kind for row in all_of(engine, outbox)) == ["check_run", "hud"]
    assert sum(answer.json()["code"] == "started" for answer in answers) in range(1, 5)  # the twins share an answer


def test_the_dashboards_row_keeps_the_first_check_run_id(engine, downstream):
    _, delivery = make_dispatch(engine)
    check(downstream.post(report(delivery, check_run_id="1")), 200)
    check(downstream.post(report(delivery, "completed", "success", check_run_id="2")), 200)
    rows = [row.payload for row in all_of(engine, outbox) if row.kind == "hud"]
    assert {row["untrusted"]["callback_payload"]["workflow"]["check_run_id"] for row in rows} == {"1"}


def test_queue_time_starts_when_the_dispatch_was_sent(engine, world, downstream):
    run, delivery = make_dispatch(engine, created_at=time.time() - 1000)
    with engine.begin() as conn:
        from relay.services.reporting import request_dispatches

        request_dispatches(conn, world.settings, {run: REPO}, time.time() - 1000)
        conn.execute(update(outbox).values(state="sent", sent_at=time.time() - 20, due_at=None))
    check(downstream.post(report(delivery)), 200)
    (row,) = [row for row in all_of(engine, outbox) if row.kind == "hud"]
    assert row.payload["trusted"]["ci_metrics"]["queue_time"] == pytest.approx(20, abs=5)
