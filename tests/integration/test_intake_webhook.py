"""The webhook over HTTP, against a real server socket and a real SQLite file."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import threading
import time
import zlib
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi import FastAPI, Query
from pydantic import BaseModel
from sqlalchemy import select

from relay.errors import RateLimited, UpstreamGone
from relay.settings import Settings
from relay.store.schema import delivery
from relay.web import problems, webhook
from relay.web.app import equip

OLD, NEW = "old secret", "new secret"
LIMIT = 200_000


class Body(BaseModel):
    jobs: list[dict[str, int]]


@pytest.fixture
def server(engine, tmp_path) -> Iterator[str]:
    """The address of the webhook served by uvicorn."""
    settings = Settings(
        data_dir=tmp_path,
        upstream_repo="codertocat/hello-world",
        webhook_secrets=[OLD, NEW + "\n"],
        max_body_bytes=LIMIT,
    )
    app = FastAPI()
    equip(app, engine, settings)
    problems.install(app)
    app.include_router(webhook.router)

    @app.get("/limited")
    def limited() -> None:
        raise RateLimited("too many", "wait", retry_after=2.2)

    @app.get("/gone")
    def gone() -> None:
        raise UpstreamGone("the mirror at /secret/place is broken")

    @app.get("/broken")
    def broken(n: int = Query()) -> float:
        return 1 / n

    @app.post("/checked")
    def checked(body: Body) -> Body:
        return body

    running = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield f"127.0.0.1:{port}"
    running.should_exit = True
    thread.join()


def sign(body: bytes, secret: str = NEW) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def call(server: str, method: str, path: str, body: bytes | None = None, headers: dict | None = None):
    """(status, headers, decoded body)"""
    connection = http.client.HTTPConnection(server, timeout=20)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    assert b"Traceback" not in raw
    return answer.status, answer.headers, json.loads(raw)


def post(server: str, body: bytes, *, event="pull_request", delivery_id="d-1", signature=None, **more):
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": delivery_id, "X-Hub-Signature-256": signature, **more}
    headers = {name: value for name, value in headers.items() if value is not None}
    status, _, answer = call(server, "POST", "/github/webhook", body, headers)
    return status, answer


def rows(engine):
    with engine.connect() as conn:
        return conn.execute(select(delivery).order_by(delivery.c.received_at)).all()


@pytest.fixture(scope="module")
def opened(shared) -> bytes:
    return (shared / "data/relay/webhook/pull_request_opened.json").read_bytes()


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_a_signed_delivery_is_committed_when_it_is_answered(server, engine, opened, secret):
    assert post(server, opened, signature=sign(opened, secret)) == (202, {"accepted": True, "delivery": "d-1"})
    (row,) = rows(engine)
    assert (row.id, row.event, row.action, row.repo) == ("d-1", "pull_request", "opened", "Codertocat/Hello-World")
    assert (row.state, row.due_at, row.attempts) == ("received", row.received_at, 0)
    assert zlib.decompress(row.body) == opened
    assert len(row.body) < len(opened) / 4


def test_the_same_delivery_again_changes_nothing(server, engine, opened):
    post(server, opened, signature=sign(opened))
    before = rows(engine)
    duplicate = {"accepted": True, "delivery": "d-1", "duplicate": True}
    assert post(server, opened, signature=sign(opened)) == (202, duplicate)
    assert post(server, opened, signature=sign(opened)) == (202, duplicate)
    assert rows(engine) == before


def test_the_same_delivery_at_the_same_instant_is_claimed_once(server, engine, opened):
    for round_ in range(10):
        together = threading.Barrier(4)
        answers = []

        def send(delivery_id: str, together=together, answers=answers) -> None:
            together.wait()
            answers.append(post(server, opened, signature=sign(opened), delivery_id=delivery_id))

        threads = [threading.Thread(target=send, args=(f"r-{round_}",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [status for status, _ in answers] == [202] * 4
        assert sorted("duplicate" in answer for _, answer in answers) == [False, True, True, True]
    assert len(rows(engine)) == 10


@pytest.mark.parametrize(
    ("signature", "status", "code"),
    [
        (None, 400, "signature-missing"),
        ("", 400, "signature-missing"),
        ("sha256=" + "0" * 64, 401, "signature-invalid"),
        ("sha256=", 401, "signature-invalid"),
        ("sha1=abc", 401, "signature-invalid"),
        ("sha256=\xe9\xff" + "0" * 60, 401, "signature-invalid"),
    ],
)
def test_a_bad_signature_is_refused_before_anything_else(server, engine, opened, signature, status, code):
    for body in (opened, b"{broken", b""):
        got, answer = post(server, body, signature=signature, event="no such event", delivery_id=None)
        assert (got, answer["code"], answer["status"]) == (status, code, status)
        assert answer["hint"]
        assert set(answer) >= {"type", "title", "detail"}
    assert rows(engine) == []


def test_a_signature_of_another_body_or_secret_is_refused(server, opened):
    assert post(server, opened, signature=sign(opened + b" "))[0] == 401
    assert post(server, opened, signature=sign(opened, "third"))[0] == 401
    assert post(server, opened, signature=sign(opened).upper())[0] == 401


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": 1,}', "not valid JSON"),
        (b"payload=%7B%7D", "not valid JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "cannot be read as JSON"),
        (b"[]", "body: must be an object, not a list"),
        (b'"x"', "body: must be an object, not a string"),
        (b'{"action": ["opened"], "repository": {"full_name": "a/b"}}', "action: must be a string, not a list"),
        (b'{"action": "opened", "repository": "a/b"}', "repository: must be an object"),
        (
            b'{"action": "opened", "repository": {"full_name": "codertocat/hello-world"}, "pull_request": {"head": 1}}',
            "pull_request.head: must be an object, not a number",
        ),
    ],
)
def test_a_broken_body_is_a_400_that_names_the_place(server, engine, body, detail):
    status, answer = post(server, body, signature=sign(body))
    assert (status, answer["code"]) == (400, "bad-request")
    assert detail in answer["detail"]
    assert rows(engine) == []


@pytest.mark.parametrize("delivery_id", [None, "", "x" * 65, "a b", "d\xe9"])
def test_a_delivery_without_a_usable_id(server, opened, delivery_id):
    status, answer = post(server, opened, signature=sign(opened), delivery_id=delivery_id)
    assert (status, answer["code"]) == (400, "bad-request")
    assert "X-GitHub-Delivery" in answer["detail"]


@pytest.mark.parametrize("event", [None, "", "Pull_Request!", "x" * 65])
def test_a_delivery_without_a_usable_event(server, opened, event):
    status, answer = post(server, opened, signature=sign(opened), event=event)
    assert (status, answer["code"]) == (400, "bad-request")
    assert "X-GitHub-Event" in answer["detail"]


@pytest.mark.parametrize(
    ("event", "file", "code"),
    [
        ("ping", "ping_with-app_id", "ping"),
        ("check_run", "check_run_completed", "not-used"),
        ("pull_request", "pull_request_unlabeled", "label-ignored"),
        ("pull_request", "pull_request_labeled", "label-ignored"),
        ("push", "push_payload", "push-ref-ignored"),
        ("star", "repository_renamed", "event-unknown"),
    ],
)
def test_what_is_not_wanted_is_remembered_without_its_body(server, engine, shared, event, file, code):
    body = (shared / f"data/relay/webhook/{file}.json").read_bytes()
    status, answer = post(server, body, signature=sign(body), event=event)
    assert status == 202
    assert (answer["accepted"], answer["ignored"]) == (False, True)
    assert answer["code"].endswith(code)
    (row,) = rows(engine)
    assert (row.state, row.code, row.reason, row.body, row.due_at) == (
        "ignored",
        answer["code"],
        answer["reason"],
        None,
        None,
    )
    assert (row.event, row.action) == (event, json.loads(body).get("action"))
    status, answer = post(server, body, signature=sign(body), event=event)
    assert (status, answer["duplicate"], answer["accepted"]) == (202, True, False)


def test_another_repository_is_ignored(server, engine, opened):
    body = opened.replace(b"Codertocat/Hello-World", b"Codertocat/Elsewhere")
    assert post(server, body, signature=sign(body))[1]["code"] == "not-upstream"
    assert rows(engine)[0].repo == "Codertocat/Elsewhere"


def test_every_real_webhook_is_answered_202(server, shared):
    for number, file in enumerate(sorted((shared / "data/relay/webhook").glob("*.json"))):
        event = next(e for e in ("check_run", "check_suite", "pull_request", file.name.split("_")[0]) if e in file.name)
        body = file.read_bytes()
        assert post(server, body, signature=sign(body), event=event, delivery_id=f"n-{number}")[0] == 202, file.name


def test_a_body_over_the_limit_is_refused_by_its_announced_length(server, engine):
    connection = http.client.HTTPConnection(server, timeout=20)
    connection.putrequest("POST", "/github/webhook")
    connection.putheader("Content-Length", str(LIMIT + 1))
    connection.endheaders()  # and not one byte of the body
    answer = connection.getresponse()
    problem = json.loads(answer.read())
    connection.close()
    assert (answer.status, problem["code"], problem["limit"]) == (413, "body-too-large", LIMIT)


def test_a_body_over_the_limit_is_refused_while_it_streams(server, engine):
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < LIMIT * 500:
            sent += 10_000
            yield b"x" * 10_000

    connection = http.client.HTTPConnection(server, timeout=20)
    # it may hang up on us in the middle of a chunk, before we read its answer
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request("POST", "/github/webhook", endless(), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        assert connection.getresponse().status == 413
    connection.close()
    assert sent < LIMIT * 500
    assert rows(engine) == []


def test_a_body_at_the_limit_is_read(server):
    body = b'{"x": "' + b"y" * (LIMIT - 9) + b'"}'
    assert len(body) == LIMIT
    assert post(server, body, signature=sign(body), event="ping")[0] == 202


def test_unknown_places_and_methods_are_problems(server):
    for method, path, status, code in [
        ("GET", "/github/webhook", 405, "method-not-allowed"),
        ("PUT", "/github/webhook", 405, "method-not-allowed"),
        ("POST", "/github/webhooks", 404, "not-found"),
    ]:
        got, headers, answer = call(server, method, path)
        assert (got, answer["code"], answer["status"]) == (status, code, status)
        assert headers["Content-Type"] == "application/problem+json"
        assert path in answer["detail"]
    assert call(server, "GET", "/github/webhook")[1]["Allow"] == "POST"


def test_a_validation_error_names_every_field(server):
    body = json.dumps({"jobs": [{"a": 1}, {"b": "x"}]}).encode()
    status, _, answer = call(server, "POST", "/checked", body, {"Content-Type": "application/json"})
    assert (status, answer["code"]) == (400, "bad-request")
    assert [error["path"] for error in answer["errors"]] == ["body.jobs[1].b"]


def test_retry_after_is_where_the_error_knows_it(server):
    status, headers, answer = call(server, "GET", "/limited")
    assert (status, headers["Retry-After"], answer["code"]) == (429, "3", "rate-limited")


@pytest.mark.parametrize("path", ["/broken?n=0", "/gone"])
def test_what_goes_wrong_inside_stays_inside(server, path, capfd):
    status, headers, answer = call(server, "GET", path)
    assert (status, answer["code"]) == (500, "internal-error")
    assert headers["Content-Type"] == "application/problem+json"
    assert "ZeroDivision" not in json.dumps(answer)
    assert "secret" not in json.dumps(answer)
    assert len(answer["incident"]) == 32
    logged = capfd.readouterr()
    assert answer["incident"] in logged.out + logged.err
