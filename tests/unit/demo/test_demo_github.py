"""The local GitHub behaves as GitHub does where the relay depends on it: over real HTTP, on a real port."""

import hashlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
import uvicorn

from relay.demo.github import LocalGithub, listen
from relay.demo.ledger import APP_ID

DOWNSTREAM = "example-org/backend-ci"
HEAD = "a" * 40


class Running:
    def __init__(self, hub: LocalGithub, url: str) -> None:
        self.hub, self.url = hub, url
        self.http = httpx2.Client(base_url=url, timeout=5, trust_env=False)

    def app_jwt(self, **claims: Any) -> dict[str, str]:
        now = int(time.time())
        key = self.hub.ledger.app_key.private
        return bearer(jwt.encode({"iat": now, "exp": now + 540, "iss": str(APP_ID), **claims}, key, algorithm="RS256"))

    def token(self, repo: str = DOWNSTREAM, **body: Any) -> dict[str, str]:
        where = self.http.get(f"/repos/{repo}/installation", headers=self.app_jwt()).json()["id"]
        answer = self.http.post(f"/app/installations/{where}/access_tokens", headers=self.app_jwt(), json=body)
        assert answer.status_code == 201, answer.text
        return bearer(answer.json()["token"])

    def dispatch(
        self, headers: dict[str, str], key: str = "k1", repo: str = DOWNSTREAM, **more: Any
    ) -> httpx2.Response:
        payload = {
            "event_type": "pull_request",
            "delivery_id": "d",
            "payload": {},
            "relay": {"dispatch_key": key},
            **more,
        }
        body = {"event_type": "pull_request", "client_payload": payload}
        return self.http.post(f"/repos/{repo}/dispatches", headers=headers, json=body)

    def state(self) -> Any:
        return self.http.get("/_control/state").json()

    def wait(self, what: Any) -> Any:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            found = what(self.state())
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"not within 5 s; state: {self.state()}")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    listener = listen(0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    hub = LocalGithub(url, tmp_path_factory.mktemp("github"), "bot-key")
    config = uvicorn.Config(hub.asgi, log_level="error", access_log=False, proxy_headers=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    it = Running(hub, url)
    yield it
    it.http.close()
    server.should_exit = True
    thread.join(5)
    listener.close()


@pytest.fixture
def github(running: Running) -> Running:
    """The server with nothing in it; its keys stay."""
    ledger = running.hub.ledger
    for kept in (ledger.tokens, ledger.check_runs, ledger.runs, ledger.deliveries, ledger.dispatches, ledger.pulls):
        kept.clear()
    running.hub.ci.clear()
    running.hub.asgi.faults.clear()
    running.hub.asgi.calls.clear()
    running.hub.hud.received.clear()
    running.hub.hud.rows.clear()
    return running


def test_installations_and_tokens(github: Running) -> None:
    listed = github.http.get("/app/installations", headers=github.app_jwt()).json()
    assert {row["account"]["login"] for row in listed} == {"pytorch", "torch-spyre", "example-org"}
    assert github.http.get("/app/installations", headers=bearer("nonsense")).status_code == 401
    assert github.http.get("/app/installations", headers=github.app_jwt(iss="1")).status_code == 401
    too_long = github.app_jwt(exp=int(time.time()) + 4000)
    assert github.http.get("/app/installations", headers=too_long).status_code == 401
    assert github.http.get("/repos/no/where/installation", headers=github.app_jwt()).status_code == 404


def test_app_lists_are_paged(github: Running) -> None:
    first = github.http.get("/app/installations?per_page=2", headers=github.app_jwt())
    assert len(first.json()) == 2
    assert 'rel="next"' in first.headers["link"]
    last = github.http.get("/app/installations?per_page=2&page=2", headers=github.app_jwt())
    assert len(last.json()) == 1
    assert "link" not in last.headers


def test_a_token_is_good_for_its_repositories_and_permissions_only(github: Running) -> None:
    assert github.dispatch(github.token()).status_code == 204
    assert github.dispatch(bearer("ghs_unknown")).status_code == 401
    assert github.dispatch(github.token(), repo="torch-spyre/torch-spyre").status_code == 404
    assert github.dispatch(github.token(permissions={"checks": "write"})).status_code == 403
    where = github.http.get(f"/repos/{DOWNSTREAM}/installation", headers=github.app_jwt()).json()["id"]
    more = {"permissions": {"administration": "write"}}
    answer = github.http.post(f"/app/installations/{where}/access_tokens", headers=github.app_jwt(), json=more)
    assert answer.status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"event_type": "", "client_payload": {}},
        {"event_type": "x" * 101},
        {"event_type": "x", "client_payload": {f"k{i}": 1 for i in range(11)}},
        {"event_type": "x", "client_payload": {"text": "x" * 65_535}},
        {"event_type": "x", "client_payload": [1]},
    ],
)
def test_dispatches_over_githubs_limits_are_refused(github: Running, body: dict[str, Any]) -> None:
    answer = github.http.post(f"/repos/{DOWNSTREAM}/dispatches", headers=github.token(), json=body)
    assert answer.status_code == 422
    assert github.state()["dispatches"] == []


def test_doubles_are_counted_by_key(github: Running) -> None:
    for key in ("k1", "k1", "k2"):
        assert github.dispatch(github.token(), key).status_code == 204
    assert {(d["key"], d["count"]) for d in github.state()["dispatches"]} == {("k1", 2), ("k2", 1)}


def check_run(github: Running, **body: Any) -> httpx2.Response:
    headers = github.token("pytorch/pytorch")
    return github.http.post("/repos/pytorch/pytorch/check-runs", headers=headers, json={"head_sha": HEAD, **body})


def test_check_runs_are_made_changed_and_found(github: Running) -> None:
    made = check_run(github, name="crcr/x", status="queued")
    assert made.status_code == 201
    headers, number = github.token("pytorch/pytorch"), made.json()["id"]
    body = {"conclusion": "failure", "output": {"title": "t", "summary": "s"}}
    changed = github.http.patch(f"/repos/pytorch/pytorch/check-runs/{number}", headers=headers, json=body).json()
    assert (changed["status"], changed["conclusion"]) == ("completed", "failure")
    assert changed["completed_at"]
    check_run(github, name="crcr/other", status="queued")
    url = f"/repos/pytorch/pytorch/commits/{HEAD}/check-runs"
    found = github.http.get(url, headers=headers, params={"check_name": "crcr/x"}).json()
    assert found["total_count"] == 1
    assert found["check_runs"][0]["id"] == number
    assert github.http.patch("/repos/pytorch/pytorch/check-runs/1", headers=headers, json=body).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x", "status": "done"},
        {"name": "x", "status": "completed"},
        {"name": "x", "conclusion": "fine"},
        {"name": "x", "output": {"title": "t"}},
        {"name": "x", "output": {"title": "t", "summary": "s" * 65_536}},
    ],
)
def test_a_bad_check_run_is_refused_and_not_kept(github: Running, body: dict[str, Any]) -> None:
    assert check_run(github, **body).status_code == 422
    assert github.state()["check_runs"] == []


def test_a_check_run_on_a_commit_that_is_not_there_is_refused(github: Running) -> None:
    github.http.put(
        "/_control/pulls/pytorch/pytorch", json={"number": 1, "head": {"sha": HEAD}, "base": {"sha": "b" * 40}}
    )
    assert check_run(github, name="x", head_sha="c" * 40).status_code == 422
    assert check_run(github, name="x").status_code == 201
    headers = github.token("pytorch/pytorch")
    assert github.http.get("/repos/pytorch/pytorch/pulls/1", headers=headers).json()["number"] == 1
    assert github.http.get("/repos/pytorch/pytorch/pulls/2", headers=headers).status_code == 404


def test_an_answer_can_be_lost_after_the_work_is_done(github: Running) -> None:
    github.http.post("/_control/faults", json=[{"path": ".*/dispatches", "drop": True}])
    with pytest.raises(httpx2.TransportError):
        github.dispatch(github.token())
    assert [d["count"] for d in github.state()["dispatches"]] == [1]
    assert github.dispatch(github.token(), "k2").status_code == 204
    lost, good = github.http.get("/_control/calls?path=/repos/example-org/backend-ci/disp").json()
    assert (lost["status"], lost["fault"]["drop"], good["fault"]) == (204, True, None)


def test_faults_answer_wait_and_limit(github: Running) -> None:
    rules = [
        {"path": ".*/dispatches", "status": 502, "count": 2, "skip": 1},
        {"path": ".*/dispatches", "retry_after": 7},
        {"path": ".*/check-runs", "method": "POST", "delay_s": 0.2, "count": None},
    ]
    assert github.http.post("/_control/faults", json=rules).json() == {"rules": 3}
    headers = github.token()
    answers = [github.dispatch(headers) for _ in range(5)]
    assert [a.status_code for a in answers] == [204, 502, 502, 403, 204]
    assert answers[3].headers["retry-after"] == "7"
    assert "secondary rate limit" in answers[3].json()["message"]
    began = time.monotonic()
    assert check_run(github, name="x").status_code == 201
    assert time.monotonic() - began > 0.19


@pytest.mark.parametrize("rule", [{"path": "("}, {"drop": True, "status": 500}, {"statuss": 500}, {"count": 0}])
def test_a_wrong_fault_is_refused(github: Running, rule: dict[str, Any]) -> None:
    assert github.http.post("/_control/faults", json=[rule]).status_code == 422


def test_the_record_holds_bodies_and_no_secrets(github: Running) -> None:
    headers = github.token()
    github.dispatch(headers, "k9")
    call = github.http.get("/_control/calls?path=/repos/example-org/backend-ci/disp").json()[0]
    assert call["body"]["client_payload"]["relay"]["dispatch_key"] == "k9"
    assert call["auth"] == "bearer"
    lines = github.hub.asgi.file.read_text().splitlines()
    assert json.loads(lines[-1])["body"] == call["body"]
    assert headers["authorization"].split()[1] not in "\n".join(lines)


def hud_body(status: str, check_run_id: str = "9") -> dict[str, Any]:
    workflow = {"status": status, "name": "w", "job_name": "j", "check_run_id": check_run_id}
    return {
        "trusted": {"verified_repo": DOWNSTREAM, "downstream_repo_level": "L2", "ci_metrics": {"queue_time": 1.0}},
        "untrusted": {"callback_payload": {"delivery_id": "d", "workflow": workflow}},
    }


def test_hud_takes_rows_and_refuses_as_the_real_one(github: Running) -> None:
    key = {"x-hud-internal-bot": "bot-key"}
    for status in ("in_progress", "completed"):
        answer = github.http.post("/api/crcr/results", headers=key, json=hud_body(status))
        assert answer.json() == {"ok": True, "status": status, "dynamoKey": f"{DOWNSTREAM}/d/w/j/9"}
    assert github.state()["hud_rows"][f"{DOWNSTREAM}/d/w/j/9"]["status"] == "completed"
    assert github.http.post("/api/crcr/results", headers={"x-hud-internal-bot": "no"}, json={}).status_code == 401
    assert github.http.post("/api/crcr/results", headers=key, json=hud_body("completed", "")).status_code == 400
    assert github.http.post("/api/crcr/results", headers=key, content=b"{").status_code == 400
    assert github.http.post("/api/crcr/results", headers=key, content=b" " * 2_100_000).status_code == 413
    assert len(github.state()["hud"]) == 2


class Relay:
    """The other end: a small server that answers what it is told and keeps what it got."""

    def __init__(self, answers: list[int]) -> None:
        outer = self
        self.got: list[tuple[str, dict[str, str], bytes]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(answers.pop(0) if answers else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Keeps the test's output clean."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def relay() -> Iterator[Relay]:
    it = Relay([])
    yield it
    it.server.shutdown()
    it.server.server_close()


def test_a_dispatch_starts_the_ci_which_calls_back_with_a_good_token(github: Running, relay: Relay) -> None:
    github.http.put(f"/_control/ci/{DOWNSTREAM}", json={"callback_url": f"{relay.url}/github/callback", "work_s": 0.05})
    headers = github.token()
    github.dispatch(headers)
    github.wait(lambda s: [r for r in s["runs"] if r["conclusion"] == "success"])
    github.dispatch(headers)
    github.wait(lambda s: [r for r in s["runs"] if r["conclusion"] == "skipped"])
    assert github.state()["doubles"] == {DOWNSTREAM: 1}
    bodies = [json.loads(body) for _, _, body in relay.got]
    assert [b["workflow"]["status"] for b in bodies] == ["in_progress", "completed"]
    assert bodies[1]["workflow"]["test_results"]["failed"] == 0
    assert bodies[0]["relay"] == {"dispatch_key": "k1"}

    keys = github.http.get("/.well-known/openid-configuration").json()["jwks_uri"]
    key = jwt.PyJWK(httpx2.get(keys, trust_env=False).json()["keys"][0])
    token = relay.got[1][1]["authorization"].split()[1]
    claims = jwt.decode(token, key.key, algorithms=["RS256"], audience="pytorch-cross-repo-ci-relay", issuer=github.url)
    assert claims["repository"] == DOWNSTREAM
    assert claims["run_id"] == bodies[1]["workflow"]["run_id"]
    found = github.http.get(f"/repos/{DOWNSTREAM}/actions/runs?event=repository_dispatch", headers=headers).json()
    assert {run["display_title"] for run in found["workflow_runs"]} == {"k1"}


def test_a_callback_that_fails_is_sent_again_as_the_same_report(github: Running) -> None:
    relay = Relay([503, 200, 200])
    github.http.put(f"/_control/ci/{DOWNSTREAM}", json={"callback_url": relay.url, "work_s": 0})
    github.dispatch(github.token())
    github.wait(lambda s: [r for r in s["runs"] if r["status"] == "completed"])
    relay.server.shutdown()
    relay.server.server_close()
    first, again, _ = relay.got
    assert (first[1]["authorization"], first[2]) == (again[1]["authorization"], again[2])
    notes = github.state()["callbacks"]
    assert [(n["status"], n["attempt"], n["http"]) for n in notes] == [
        ("in_progress", 1, 503),
        ("in_progress", 2, 200),
        ("completed", 1, 200),
    ]


def test_a_webhook_is_sent_listed_and_sent_again_with_the_same_bytes(github: Running, relay: Relay) -> None:
    payload = json.dumps({"action": "opened", "installation": {"id": 3}})
    headers = {"X-GitHub-Delivery": "guid-1", "X-GitHub-Event": "pull_request", "Content-Type": "application/json"}
    what = {"url": f"{relay.url}/github/webhook", "headers": headers, "payload": payload}
    sent = github.http.post("/_control/webhook", json=what).json()
    assert (sent["status_code"], sent["guid"], sent["action"], sent["redelivery"]) == (200, "guid-1", "opened", False)
    url = f"/app/hook/deliveries/{sent['id']}/attempts"
    assert github.http.post(url, headers=github.app_jwt()).status_code == 202
    github.wait(lambda s: len(s["deliveries"]) == 2)
    assert len({hashlib.sha256(body).digest() for _, _, body in relay.got}) == 1
    page = github.http.get("/app/hook/deliveries?per_page=1", headers=github.app_jwt())
    assert page.json()[0]["redelivery"] is True
    assert "request" not in page.json()[0]
    assert 'rel="next"' in page.headers["link"]
    assert github.http.post("/app/hook/deliveries/1/attempts", headers=github.app_jwt()).status_code == 404


def test_a_relay_that_is_down_is_a_failed_delivery(github: Running, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/github/webhook"
    sent = github.http.post("/_control/webhook", json={"url": url, "headers": {}, "payload": "{}"}).json()
    assert sent["status_code"] == 0
    assert sent["status"].startswith("failed to connect")
