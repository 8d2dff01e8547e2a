"""What may go wrong with reports, a kind a test, by HTTP against the running relay and a local token issuer."""

from __future__ import annotations

import itertools
import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import jwt
import pytest
from inbound_service import report

from relay.demo.ledger import Key

L4, L3, L2 = "example-org/backend-ci", "example-org/labelled", "torch-spyre/torch-spyre"
VLLM = {"organization_id": "018b5ec5", "pipeline_id": "018cdabc", "organization_slug": "vllm", "pipeline_slug": "ci"}
_runs = itertools.count(5_000)


def refused(answer, status, code):
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["hint"]
    return answer.json()


def taken(answer, code=None):
    assert (answer.status_code, answer.json()["recorded"]) == (200, True), answer.text
    assert code is None or answer.json()["code"] == code
    return answer.json()


@pytest.fixture(scope="module")
def delivery(service):
    """One that every downstream was told."""
    made = service.dispatched(L4)
    for repo in (L3, L2, "example-org/careful", "Ascend/pytorch"):
        service.wait(lambda repo=repo: service.dispatches(made, repo))
    return made


@pytest.fixture
def run():
    return str(next(_runs))


def states(service, run):
    return service.rows("select name, attempt, status, conclusion, start_known from job where run_id = ?", run)


def test_a_lost_start_a_late_start_and_a_report_sent_twice(service, delivery, run):
    taken(service.callback(L4, report(delivery, conclusion="failure", run_id=run)), "completed-start-unknown")
    taken(service.callback(L4, report(delivery, "in_progress", run_id=run)), "late-start")
    taken(service.callback(L4, report(delivery, conclusion="failure", run_id=run)), "duplicate")
    assert states(service, run) == [("tests", 1, "completed", "failure", 0)]


def test_an_older_attempt_that_ends_late_does_not_take_the_newer_ones_place(service):
    made, run = service.dispatched(L4), str(next(_runs))
    for attempt, conclusion in (("2", "success"), ("1", "failure")):
        body = report(made, conclusion=conclusion, run_id=run, run_attempt=attempt)
        taken(service.callback(L4, body))
    query = "select state, conclusion from dispatch where delivery_id = ? and downstream = ?"
    assert service.rows(query, made, L4) == [("completed", "success")]


def test_two_legs_of_a_matrix_under_one_name_keep_the_worse_end(service, delivery, run):
    for conclusion, leg in (("failure", "1"), ("success", "2")):
        taken(service.callback(L4, report(delivery, conclusion=conclusion, run_id=run, check_run_id=leg)))
    assert states(service, run)[0][3] == "failure"


@pytest.mark.parametrize("name", [":nvidia: (B200) 1/2", "310", "007", "a/b:c", "тест"])
def test_names_are_taken_as_they_are(service, delivery, run, name):
    taken(service.callback(L4, report(delivery, run_id=run, job_name=name)))
    assert states(service, run)[0][0] == name


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"conclusion": ""}, "workflow.conclusion"),
        ({"conclusion": "passed"}, "workflow.conclusion"),
        ({"status": "done"}, "workflow.status"),
        ({"run_id": None}, "workflow.run_id"),
        ({"run_id": ["5"]}, "workflow.run_id"),
        ({"run_attempt": "first"}, "workflow.run_attempt"),
        ({"url": "javascript:alert(1)"}, "workflow.url"),
        ({"artifact_url": "javascript:alert(1)"}, "workflow.artifact_url"),
        ({"test_results": [1]}, "workflow.test_results"),
        ({"name": "a\u0000b"}, "workflow.name"),
    ],
)
def test_a_wrong_field_is_named_before_anything_happens_and_the_token_stays_good(service, delivery, run, change, path):
    token = service.token(L4, run)
    bad = report(delivery, run_id=run)
    bad["workflow"] |= change
    assert refused(service.callback(L4, bad, token), 400, "bad-request")["path"] == path
    assert states(service, run) == []
    taken(service.callback(L4, report(delivery, run_id=run), token))


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'"x"', b"{", b"\xff", b'{"workflow": "x"}', b"[" * 50_000])
def test_bodies_that_are_none_are_400(service, raw):
    refused(service.callback(L4, raw, service.token(L4)), 400, "bad-request")


def test_a_body_of_megabytes_is_413_and_an_echo_of_a_megabyte_is_not_kept(service, delivery, run):
    body = report(delivery, run_id=run)
    body["payload"] = {"filler": "x" * 1_400_000}
    taken(service.callback(L4, body))
    body["payload"] = {"filler": "x" * 2_200_000}
    refused(service.callback(L4, body), 413, "body-too-large")
    (told,) = [b for b in service.wait(lambda: hud_of(service, delivery, run)) if True][:1]
    assert len(json.dumps(told)) < 5_000


def hud_of(service, delivery, run):
    return [b for b in service.hud(delivery) if b["untrusted"]["callback_payload"]["workflow"]["run_id"] == run]


def test_what_the_echo_says_of_commit_number_and_labels_is_not_believed_and_a_label_set_later_is(service):
    number = 77_001
    made, run = service.dispatched(L3, number=number), str(next(_runs))
    body = report(made, run_id=run)
    body["payload"] = {
        "pull_request": {"number": 1, "head": {"sha": "f" * 40}, "labels": [{"name": "ciflow/crcr/npu"}]}
    }
    taken(service.callback(L3, body))
    told = service.wait(lambda: hud_of(service, made, run))[0]["untrusted"]["callback_payload"]["payload"]
    assert told["pull_request"]["number"] == number
    assert told["pull_request"]["head"]["sha"] != "f" * 40
    checks = "select count(*) from outbox where kind = 'check_run' and job_id is not null and payload like ?"
    assert service.rows(checks, f"%{L3}%") == [(0,)]
    label = {"name": "ciflow/crcr/npu"}
    labeled = service.event("labeled", number=number, label=label, labels=["ciflow/crcr/npu"], told_at="2026-08-02")
    assert service.webhook(labeled).status_code == 202
    taken(service.callback(L3, report(made, run_id=run, run_attempt="2")))
    assert service.rows(checks, f"%{L3}%")[0][0] >= 1


def test_a_run_speaks_for_itself_alone_and_from_where_the_allowlist_lets_it(service, delivery, run):
    refused(service.callback(L4, report(delivery, run_id=run), service.token(L4, "1")), 403, "forbidden")
    refused(service.callback(L4, report(delivery, run_id=run), service.token(L4, run, "2")), 403, "forbidden")
    careful = "example-org/careful"
    file = f"{careful}/.github/workflows/ci.yml@refs/heads/main"
    for claims in (
        {"ref": "refs/heads/feature", "job_workflow_ref": file},
        {"ref": "refs/heads/main", "job_workflow_ref": file.replace("ci.yml", "evil.yml")},
        {},
    ):
        answer = service.callback(careful, report(delivery, run_id=run), service.token(careful, run, **claims))
        refused(answer, 403, "forbidden")
    good = service.token(careful, run, ref="refs/heads/main", job_workflow_ref=file)
    taken(service.callback(careful, report(delivery, run_id=run), good))


def test_a_token_is_good_for_one_body(service, delivery, run):
    token = service.token(L4, run)
    first = taken(service.callback(L4, report(delivery, "in_progress", run_id=run), token))
    assert service.callback(L4, report(delivery, "in_progress", run_id=run), token).json() == first
    refused(service.callback(L4, report(delivery, run_id=run), token), 409, "token-replayed")


def test_who_reports_is_answered_by_what_is_known_of_him(service, delivery, run):
    one = service.callback("example-org/one", report(delivery, run_id=run))
    assert (one.status_code, one.json()["recorded"], one.json()["code"]) == (200, False, "level-1")
    taken(service.callback("ASCEND/PyTorch", report(delivery, run_id=run)))
    refused(service.callback("nobody/knows", report(delivery, run_id=run)), 403, "repository-unknown")
    refused(service.callback(L2, report("never-sent", run_id=run)), 404, "dispatch-unknown")


def test_a_flood_without_good_tokens_reaches_neither_github_nor_the_database(service):
    stranger = Key.make()
    calls, used = len(service.world.hub.asgi.calls), "select count(*) from seen_token"
    tokens, now = service.rows(used), int(time.time())
    claims = {"aud": "pytorch-cross-repo-ci-relay", "repository": L4, "iat": now, "exp": now + 300}

    def forged(issuer, alg="RS256", key=stranger.private):
        headers = {"kid": secrets.token_hex(4)}
        return jwt.encode({**claims, "iss": issuer, "jti": secrets.token_hex(8)}, key, algorithm=alg, headers=headers)

    for number in range(60):
        issuer = service.world.url if number % 2 else "https://evil.example"
        token = forged(issuer) if number % 3 else forged(issuer, "HS256", "x" * 64)
        refused(service.callback(L4, report("x"), token), 401, "unauthorized")
    for header in ("", "Basic eA==", "Bearer", "Bearer x.y.z"):
        answer = service.http.post(f"{service.url}/github/callback", content=b"{}", headers={"authorization": header})
        refused(answer, 401, "unauthorized")
    for _ in range(20):
        assert service.webhook(service.event(), secret="guessed").status_code == 401
    new = [c["path"] for c in service.world.hub.asgi.calls[calls:]]
    assert new.count("/.well-known/jwks") <= 1
    assert not [p for p in new if "access_tokens" in p or "compare" in p]
    assert service.rows(used) == tokens


@pytest.mark.parametrize(
    ("over", "good"),
    [({"exp": -30}, True), ({"iat": 30, "nbf": 30}, True), ({"exp": -90}, False), ({"iat": 90}, False)],
)
def test_clocks_may_differ_by_a_minute(service, delivery, run, over, good):
    now = int(time.time())
    token = service.token(L4, run, **{name: now + seconds for name, seconds in over.items()})
    assert (service.callback(L4, report(delivery, run_id=run), token).status_code == 200) == good


def test_what_is_refused_for_its_number_is_not_counted(service, delivery):
    repo = "Ascend/pytorch"
    answers = []
    with ThreadPoolExecutor(12) as many:  # one after the other, a busy machine asks more slowly than the bucket fills
        while not answers or answers[-1].status_code != 429:
            assert len(answers) < 600
            asked = many.map(lambda _: service.callback(repo, report("none", run_id="1")), range(24))
            answers += sorted(asked, key=lambda answer: answer.status_code)
    assert refused(answers[-1], 429, "rate-limited")
    for _ in range(10):  # a client that does not wait changes nothing for itself
        service.callback(repo, report("none", run_id="1"))
    time.sleep(int(answers[-1].headers["retry-after"]))
    taken(service.callback(repo, report(delivery, run_id=str(next(_runs)))))
    taken(service.callback(L4, report(delivery, run_id=str(next(_runs)))))


@pytest.mark.parametrize("how", [{"status": 503}, {"status": 401}, {"drop": True}])
def test_a_dashboard_that_fails_is_nobodys_fault_and_loses_nothing(service, delivery, run, how):
    service.world.fail(path="/api/crcr/results", **how)
    taken(service.callback(L2, report(delivery, run_id=run)))
    service.wait(lambda: hud_of(service, delivery, run))


def test_a_triage_verdict_is_shown_and_a_broken_one_costs_no_result(service, delivery, run, shared):
    verdict = json.loads((shared / "data/relay/callback/triage_verdict_8673.json").read_text())
    taken(service.callback(L4, report(delivery, conclusion="failure", run_id=run, triage_verdict=verdict)))
    (id,) = service.rows("select dispatch_id from job where run_id = ?", run)[0]
    shown = service.http.get(f"{service.url}/run/{id}.json").json()
    assert verdict in [job.get("triage") for job in shown["jobs"]]
    assert verdict["summary"] in service.http.get(f"{service.url}/run/{id}").text
    bad = {**verdict, "category": "somebody"}
    answer = taken(service.callback(L4, report(delivery, run_id=run, job_name="other", triage_verdict=bad)))
    assert answer["triage_verdict"]["recorded"] is False
    assert "category" in answer["triage_verdict"]["reason"]


# ------------------------------------------------------------------------------------------------- self-reports


def nightly(sha, event="nightly", **flow):
    body = report(sha, **flow)
    echo = {"repository": {"full_name": "pytorch/pytorch"}, "head_sha": sha, "pull_request": {"number": 5}}
    return {**body, "event_type": event, "payload": echo}


def new_commit(service, ref="main"):
    sha = secrets.token_hex(20)
    service.world.hub.contained.setdefault(("pytorch/pytorch", ref), set()).add(sha)
    return sha


def test_a_nightly_counts_once_a_job_and_writes_no_pull_request(service, run):
    sha = new_commit(service)
    code = "completed-start-unknown"
    taken(service.callback(L2, nightly(sha, run_id=run)), code)
    taken(service.callback(L2, nightly(sha, run_id=run)), "duplicate")
    taken(service.callback(L2, nightly(sha, run_id=run, job_name="other", check_run_id="")), code)
    taken(service.callback(L2, nightly(sha, "periodic", run_id=run)), code)
    told = service.wait(lambda: len(found := service.hud(sha)) == 3 and found)
    kinds = sorted(b["untrusted"]["callback_payload"]["event_type"] for b in told)
    assert kinds == ["nightly", "nightly", "periodic"]
    for body in told:
        assert "pull_request" not in body["untrusted"]["callback_payload"]["payload"]
        assert body["trusted"]["ci_metrics"] == {"queue_time": None, "execution_time": None}
    asked = [c for c in service.world.hub.asgi.calls if f"...{sha}" in c["path"]]
    assert len(asked) == 1


def test_a_commit_that_upstream_does_not_have_is_not_taken(service, run):
    fork = new_commit(service, "a-branch-that-does-not-count")
    for sha in (secrets.token_hex(20), fork, "e" * 40):
        refused(service.callback(L2, nightly(sha, run_id=run)), 422, "commit-unknown")
    refused(service.callback("example-org/queue-only", nightly(new_commit(service), run_id=run)), 403, "forbidden")
    assert states(service, run) == []


def test_while_github_cannot_be_asked_nothing_is_believed_and_nothing_is_lost(service, run):
    sha = new_commit(service)
    service.world.fail(path=".*/compare/.*", status=502)
    token = service.token(L2, run)
    answer = service.callback(L2, nightly(sha, run_id=run), token)
    refused(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    taken(service.callback(L2, nightly(sha, run_id=run), token))


def test_another_provider_speaks_for_the_repository_it_is_mapped_to(service, shared):
    """Buildkite's tokens, and the body of its shipped reporter: ids that are no numbers, links of its own."""
    sha, repo = new_commit(service), "vllm-project/vllm"
    body = json.loads((shared / "data/relay/callback/action_buildkite_shipped.json").read_text().replace("e" * 40, sha))

    def token(**claims):
        return service.buildkite.hub.ledger.mint({"aud": "pytorch-cross-repo-ci-relay", **VLLM, **claims})

    refused(service.callback(repo, body, token(build_branch="pull/7/head")), 403, "forbidden")
    refused(service.callback(repo, body, token(pipeline_id="another", repository=repo)), 403, "repository-unknown")
    refused(service.callback(repo, body, token(build_branch="main", build_id="another")), 403, "forbidden")
    taken(service.callback(repo, body, token(build_branch="main", build_id=body["workflow"]["run_id"])))
    (told,) = service.wait(lambda: service.hud(sha))
    assert told["trusted"]["verified_repo"] == repo
    flow = told["untrusted"]["callback_payload"]["workflow"]
    assert (flow["run_id"], flow["url"]) == (body["workflow"]["run_id"], "https://buildkite.com/vllm/ci/builds/1")
