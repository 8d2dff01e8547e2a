"""Attacks by HTTP against the running relay (docs/attacks.md): each is refused by name, or changes nothing."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
import time
import zlib

import jwt
import pytest
import redis
from inbound_service import AUDIENCE, SECRET, UPSTREAM, report

from relay.demo.ledger import Key
from relay.demo.webhook import sign

L4, L2 = "example-org/backend-ci", "torch-spyre/torch-spyre"
_runs = itertools.count(900_000)
LOOK_S = 2.2


@pytest.fixture(scope="module")
def delivery(service):
    made = service.dispatched(L4)
    service.wait(lambda: service.dispatches(made, L2))
    return made


@pytest.fixture
def run():
    return str(next(_runs))


def refused(answer, status, code):
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text


def jobs(service, run):
    return service.rows("select name from job where run_id = ?", run)


# ----------------------------------------------------------------------------------------------------------- webhook


def test_a_webhook_that_is_signed_by_nobody_or_by_an_old_secret_is_not_read(service):
    raw = json.dumps(service.event()).encode()
    before = service.rows("select count(*) from delivery")
    for given in ("", "sha256=", "sha256=" + "0" * 64, sign("retired secret", raw), sign(SECRET, raw + b" "),
                  sign(SECRET, raw).upper(), sign(SECRET, raw).replace("sha256", "sha1"), sign("", raw)):  # fmt: skip
        answer = service.webhook(raw, **{"X-Hub-Signature-256": given})
        assert answer.status_code in (400, 401), (given, answer.text)
        assert answer.json()["code"] in ("signature-missing", "signature-invalid")
    assert service.rows("select count(*) from delivery") == before


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 200_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"action": "\xff\xfe"}',
        b"\xef\xbb\xbf{}",
        '{"action": "opened"}'.encode("utf-16"),
        b'{"number": ' + b"9" * 100_000 + b"}",
        b'{"number": 1e400, "action": NaN}',
        zlib.compress(b"a" * 10_000_000),
    ],
    ids=["lists", "maps", "not utf-8", "bom", "utf-16", "a number of 100,000 digits", "no number", "packed"],
)
def test_a_body_made_to_break_the_parser_is_a_400_and_the_relay_goes_on(service, raw):
    assert service.webhook(raw).status_code == 400
    assert service.callback(L4, raw, service.token(L4)).status_code == 400
    assert service.http.get(f"{service.url}/healthz").status_code == 200


def test_a_packed_body_is_not_unpacked(service):
    """A zip bomb: 1 MB that says it is 1 GB. The bytes that are signed are the bytes that are read."""
    packed = zlib.compress(b" " * 100_000_000)
    assert len(packed) < 200_000
    for coding in ("gzip", "deflate", "br", "gzip, gzip"):
        answer = service.webhook(packed, **{"Content-Encoding": coding})
        refused(answer, 400, "bad-request")
        answer = service.callback(L4, packed, service.token(L4), **{"Content-Encoding": coding})
        refused(answer, 400, "bad-request")


def test_a_body_over_the_limit_is_refused_by_what_it_says_and_by_what_it_is(service):
    parts = (b" " * 65536 for _ in range(26 * 1024 * 1024 // 65536))
    headers = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "big", "X-Hub-Signature-256": "sha256=" + "0" * 64}
    refused(service.http.post(f"{service.url}/github/webhook", content=parts, headers=headers), 413, "body-too-large")


def test_a_delivery_sent_again_with_another_body_changes_nothing(service):
    """Replay: the id was claimed, so a second body under it is never routed."""
    id = f"delivery-{secrets.token_hex(8)}"
    first = service.event()
    assert service.webhook(first, delivery=id).status_code == 202
    other = service.event(number=first["number"], sha="d" * 40)
    assert service.webhook(other, delivery=id).json().get("duplicate") is True
    service.wait(lambda: service.dispatches(id, L4))
    (sent,) = service.dispatches(id, L4)
    assert sent["body"]["client_payload"]["payload"]["pull_request"]["head"]["sha"] != "d" * 40


# ----------------------------------------------------------------------------------------------------------- tokens


def test_a_token_by_another_algorithm_or_key_is_refused(service, delivery, run):
    """Algorithm confusion: none, HMAC with the public key as its secret, a key that the token brings along."""
    jwks = service.http.get(f"{service.world.url}/.well-known/jwks").json()["keys"]
    kid = jwks[0]["kid"]
    now = int(time.time())
    claims = {"iss": service.world.url, "aud": AUDIENCE, "repository": L4, "run_id": run, "run_attempt": "1",
              "iat": now, "exp": now + 300, "jti": secrets.token_hex(8)}  # fmt: skip
    stranger = Key.make()

    def encoded(part):
        return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()

    public = jwt.PyJWK(jwks[0], algorithm="RS256").key
    numbers = public.public_numbers()
    secret = numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")
    tokens = {
        "none": f"{encoded({'alg': 'none', 'kid': kid})}.{encoded(claims)}.",
        "hmac of the public key": jwt.encode(claims, secret, "HS256", headers={"kid": kid}),
        "another key, a known id": jwt.encode(claims, stranger.private, "RS256", headers={"kid": kid}),
        "an unknown id": jwt.encode(claims, stranger.private, "RS256", headers={"kid": "mine"}),
        "a path for an id": jwt.encode(claims, stranger.private, "RS256", headers={"kid": "../../dev/null"}),
        "a key of its own": jwt.encode(
            claims, stranger.private, "RS256",
            headers={"kid": kid, "jku": "https://evil.example/jwks", "jwk": {"kty": "RSA"}},
        ),
        "another algorithm": jwt.encode(claims, stranger.private, "RS512", headers={"kid": kid}),
        "another audience": service.token(L4, run, aud="sigstore"),
        "no audience": service.token(L4, run, aud=None),
        "many audiences, none ours": service.token(L4, run, aud=["a", "b"]),
        "another issuer": service.token(L4, run, iss="https://token.actions.githubusercontent.com.evil.example"),
        "of yesterday": service.token(L4, run, iat=now - 90_000, exp=now - 86_400),
    }  # fmt: skip
    calls = len(service.world.hub.asgi.calls)
    for what, token in tokens.items():
        answer = service.callback(L4, report(delivery, run_id=run), token)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), what
    assert jobs(service, run) == []
    assert not [c for c in service.world.hub.asgi.calls[calls:] if "evil" in c["path"]]


@pytest.mark.parametrize(
    "name",
    [
        "torch-\u017fpyre/torch-spyre",  # a long s, which case folding makes an s
        "torch-spyre/torch-\u0455pyre",  # Cyrillic
        "torch-spyre/torch-spyre\u200b",
        "torch\u2010spyre/torch-spyre",
        "torch-spyre/torch-spyre/../../evil/evil",
        "torch-spyre%2ftorch-spyre/x",
        " torch-spyre/torch-spyre",
        "torch-spyre/torch-spyre\n",
        "\uff54orch-spyre/torch-spyre",
    ],
)
def test_a_name_that_only_looks_like_a_listed_one_speaks_for_nobody(service, delivery, run, name):
    answer = service.callback(L2, report(delivery, run_id=run), service.token(name, run))
    assert answer.status_code in (401, 403), answer.text
    assert jobs(service, run) == []


def test_case_makes_no_second_repository(service, delivery, run):
    answer = service.callback(L2, report(delivery, run_id=run), service.token("TORCH-Spyre/torch-SPYRE", run))
    assert answer.json()["recorded"] is True
    own = service.rows("select dispatch.downstream from job join dispatch on job.dispatch_id = dispatch.id "
                       "where run_id = ?", run)  # fmt: skip
    assert own == [(L2,)]


def test_a_fork_speaks_for_itself_and_not_for_its_parent(service, delivery, run):
    """Its tokens name the fork; a run of the parent's own workflow is bound to refs where they are set."""
    fork = "mallory/torch-spyre"
    refused(service.callback(fork, report(delivery, run_id=run)), 403, "repository-unknown")
    careful = "example-org/careful"
    file = f"{careful}/.github/workflows/ci.yml"
    for ref, workflow in (
        ("refs/pull/7/merge", f"{file}@refs/pull/7/merge"),
        ("refs/heads/main", "mallory/careful/.github/workflows/ci.yml@refs/heads/main"),
        ("refs/heads/main/../evil", f"{file}@refs/heads/main"),
        ("refs/heads/Main", f"{file}@refs/heads/Main"),
    ):
        token = service.token(careful, run, ref=ref, job_workflow_ref=workflow)
        refused(service.callback(careful, report(delivery, run_id=run), token), 403, "forbidden")
    assert jobs(service, run) == []


def test_another_repositorys_run_cannot_be_taken_over(service, delivery, run):
    """Two downstreams, one run id: each has a job of its own, and none in what was not sent to it."""
    assert service.callback(L4, report(delivery, run_id=run)).json()["recorded"] is True
    assert service.callback(L2, report(delivery, conclusion="failure", run_id=run)).json()["recorded"] is True
    joined = "job join dispatch on job.dispatch_id = dispatch.id"
    query = f"select dispatch.downstream, job.conclusion from {joined} where run_id = ?"
    assert sorted(service.rows(query, run)) == [(L4, "success"), (L2, "failure")]
    refused(service.callback("example-org/queue-only", report(delivery, run_id=run)), 404, "dispatch-unknown")


def test_addresses_of_a_report_are_never_asked_and_lead_only_where_the_token_is_from(service, delivery, run):
    """SSRF: the relay asks none of a report's addresses; what is no https is refused, what is elsewhere not shown."""
    inside = (
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "https://user:pass@github.com/x",
        "https://a b/",
        "https://[::1",
        "//127.0.0.1/",
        "data:text/html,x",
    )
    for number, url in enumerate(inside):
        for field in ("url", "artifact_url"):
            body = report(delivery, run_id=run)
            body["workflow"][field] = url
            answer = service.callback(L4, body, service.token(L4, run))
            assert (answer.status_code, answer.json()["path"]) == (400, f"workflow.{field}"), (number, answer.text)
    calls = len(service.world.hub.asgi.calls)
    elsewhere = f"https://localhost:{service.world.url.rpartition(':')[2]}/secret"
    body = report(delivery, run_id=run, url=elsewhere, artifact_url=elsewhere)
    body["workflow"]["triage_verdict"] = {
        "schema_version": 1, "category": "infra", "confidence": "low", "summary": "x",
        "evidence": [{"job": "tests", "log_url": elsewhere}],
    }  # fmt: skip
    assert service.callback(L4, body).json()["recorded"] is True
    (shown,) = service.rows("select url from job where run_id = ?", run)[0]
    assert shown.endswith(f"/{L4}/actions/runs/{run}")
    (id,) = service.rows("select dispatch_id from job where run_id = ?", run)[0]
    page = service.http.get(f"{service.url}/run/{id}")
    assert page.status_code == 200, page.text
    service.wait(lambda: service.hud(delivery))
    assert not [c for c in service.world.hub.asgi.calls[calls:] if c["path"].startswith("/secret")]


@pytest.mark.parametrize(
    "suspect",
    [None, {}, {"pr": 7}, {"commit": "a" * 40}, {"reason": "<script>"}, {"pr": None, "commit": None, "reason": None}],
)
def test_a_report_that_leaves_out_what_it_may_breaks_no_page(service, delivery, run, suspect):
    verdict = {"schema_version": 1, "category": "infra", "confidence": "low", "summary": "</script><img src=x>"}
    if suspect is not None:
        verdict["suspected_upstream"] = suspect
    body = report(delivery, run_id=run, triage_verdict=verdict)
    assert service.callback(L4, body).json()["recorded"] is True
    (id,) = service.rows("select dispatch_id from job where run_id = ?", run)[0]
    for path in (f"/run/{id}", f"/run/{id}.json", f"/crcr/{L4}"):
        answer = service.http.get(f"{service.url}{path}")
        assert answer.status_code == 200, answer.text
        assert path.endswith(".json") or "<img src=x>" not in answer.text


# --------------------------------------------------------------------------------------------- queries and addresses

SQL = ("' OR '1'='1", "'; DROP TABLE dispatch; --", '" OR ""="', "%' UNION SELECT jti, answer FROM seen_token --",
       "1) OR 1=1 --", "\\'; SELECT pg_sleep(9); --", "%", "_" * 40)  # fmt: skip


@pytest.mark.parametrize("text", SQL)
def test_sql_in_an_address_or_a_name_is_text(service, delivery, run, text):
    tables = "select name from sqlite_master where type = 'table'"
    before, known = service.rows(tables), service.rows("select count(*) from dispatch")
    for path in ("/search", "/quality", "/config", "/crcr", f"/crcr/{L4}", "/outbox", "/queues"):
        answer = service.http.get(f"{service.url}{path}", params={"q": text, "find": text, "state": text, "page": text})
        assert answer.status_code < 500, (path, answer.text)
        assert "token-replayed" not in answer.text
        assert "completed-start-unknown" not in answer.text
    for path in (f"/pr/{text}", f"/run/{text}.json", f"/test/{text}", f"/crcr/x/{text}", f"/badge/{text}"):
        assert 400 <= service.http.get(f"{service.url}{path.replace('%', '%25')}").status_code < 500, path
    assert service.callback(L4, report(delivery, run_id=run, job_name=text, name=text)).json()["recorded"] is True
    assert jobs(service, run) == [(text,)]
    assert service.rows(tables) == before
    assert service.rows("select count(*) from dispatch") >= known


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../../../etc/passwd",
        "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/static/..%2f..%2f..%2fetc%2fpasswd",
        "/static//etc/passwd",
        "/static/....//....//etc/passwd",
        "/static/%00app.css",
        "/test/..%2F..%2F..%2Fetc%2Fpasswd",
        "/test/test/../../../../etc/passwd::T::t",
        "/run/..%2F..%2Frelay.sqlite3/log",
        "/run/x/log?shard=../../../../etc/passwd",
        "/worker/leases/..%2F..%2Fetc/tree",
    ],
)
def test_a_path_in_an_address_leads_out_of_nothing(service, path):
    import http.client
    from urllib.parse import urlsplit

    there = urlsplit(service.url)
    raw = http.client.HTTPConnection(there.hostname, there.port, timeout=30)  # a client that tidies no path
    raw.request("GET", path)
    answer = raw.getresponse()
    text = answer.read().decode(errors="replace")
    raw.close()
    assert 400 <= answer.status < 500, (path, answer.status)
    assert "root:" not in text
    assert "SQLite format" not in text


def test_graphql_has_no_door_and_no_query_is_made_of_text(service):
    """The relay speaks REST to GitHub and offers none: there is nothing to inject into."""
    query = {"query": "mutation { addComment(input: {}) { clientMutationId } }"}
    for path in ("/graphql", "/api/graphql", "/github/graphql"):
        assert service.http.post(f"{service.url}{path}", json=query).status_code in (404, 405)
    title = 'x") { viewer { login } } mutation { a'
    event = service.event()
    event["pull_request"]["title"] = title
    id = f"delivery-{secrets.token_hex(8)}"
    assert service.webhook(event, delivery=id).status_code == 202
    service.wait(lambda: service.dispatches(id, L4))
    assert not [c for c in service.world.hub.asgi.calls if "graphql" in c["path"]]


# --------------------------------------------------------------------------------------------- the allowlist, as YAML

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{n}: &{n} [{','.join(['*' + p] * 9)}]\n" for p, n in itertools.pairwise("abcdefghijklmno")
)
HOSTILE_LISTS = {
    "aliases": BOMB + "L1: *o\n",
    "itself": "L1: &a [*a]\n",
    "a tag": "L1: !!python/object/apply:os.system ['touch /tmp/relay-was-here']\n",
    "homoglyph": "L4:\n  - torch-\u0455pyre/torch-spyre\n",
    "long s": "L4:\n  - torch-\u017fpyre/torch-spyre\n",
    "invisible": "L4:\n  - torch-spyre/torch-spyre\u200b\n",
    "twice by case": "L2:\n  - torch-spyre/torch-spyre\nL4:\n  - TORCH-SPYRE/Torch-Spyre\n",
}


def test_a_hostile_allowlist_is_refused_by_its_place_and_the_last_good_one_stays(service):
    path = ".github/allowlist.yml"
    good, error = service.texts[path], "select error from chore where name = 'allowlist'"
    stored = service.rows("select count(*) from allowlist_version")
    try:
        seen = None
        for what, text in HOSTILE_LISTS.items():
            service.texts[path] = text
            service.webhook({"ref": "refs/heads/main", "repository": {"full_name": UPSTREAM}}, "push")
            said = service.wait(lambda seen=seen: (now := service.rows(error)[0][0]) not in (None, seen) and now)
            assert "allowlist" in said, (what, said)
            seen = said
        assert service.rows("select count(*) from allowlist_version") == stored
        assert service.dispatched(L4)
    finally:
        service.texts[path] = good
    service.wait(lambda: service.rows(error)[0][0] is None)


# ----------------------------------------------------------------------------------------------------------- secrets


def test_no_secret_is_in_an_answer_a_log_or_a_row(service, delivery, run):
    """After all that was tried above: errors that quote input, logs of every process, and the database."""
    token = service.token(L4, run)
    service.callback(L4, report(delivery, run_id=run), token)
    service.webhook(b"{", Authorization=f"Bearer {token}")
    answers = [
        service.callback(L4, b"{", token).text,
        service.webhook(service.event(), secret="guessed secret").text,
        service.http.get(f"{service.url}/worker/leases/x/tree", headers={"authorization": "Bearer guess-42"}).text,
        service.http.get(f"{service.url}/metrics").text,
        service.http.get(f"{service.url}/openapi.json").text,
    ]
    logs = "".join(p.read_text(errors="replace") for p in (service.folder / "logs").rglob("*") if p.is_file())
    assert len(logs) > 500
    pem = service.world.hub.ledger.app_key.pem.splitlines()[1]
    held = [SECRET, "second secret", "hud-key", "worker key", pem, token, token.rpartition(".")[2], "guess-42"]
    for kept in (*answers, logs, (service.folder / "relay.sqlite3").read_bytes().decode("latin-1")):
        assert [one for one in held if one in kept] == []


def test_messages_of_the_broker_carry_ids_and_nothing_else(service):
    """Every command that the broker gets while a pull request goes its way, read as the broker's own operator would."""
    (socket,) = service.folder.rglob("s.sock")
    mark = f"title-{secrets.token_hex(8)}"
    event = service.event(labels=[mark])
    event["pull_request"]["title"] = event["pull_request"]["body"] = mark
    id = f"delivery-{secrets.token_hex(8)}"
    heard: list[str] = []
    with redis.Redis(unix_socket_path=str(socket)) as broker, broker.monitor() as monitor:
        assert service.webhook(event, delivery=id).status_code == 202
        service.wait(lambda: service.dispatches(id, L4))
        end = f"end-{mark[6:]}"
        broker.echo(end)
        for command in monitor.listen():
            heard.append(command["command"])
            if end in heard[-1]:
                break
    said = "\n".join(heard[:-1])
    assert "relay.route" in said
    assert "relay.send" in said
    pem = service.world.hub.ledger.app_key.pem.splitlines()[1]
    held = [SECRET, "second secret", "hud-key", "worker key", pem, mark, event["pull_request"]["head"]["sha"], "ghs_"]
    assert [one for one in held if one in said] == []
