"""Whatever fits, or does not fit, the API's description is answered without a fault of ours: requests made from
/openapi.json, with good signatures and tokens where those are asked for, so that they come past the door."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import secrets
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from inbound_service import SECRET, WORKER_KEY
from outbound_servers import HUD_KEY
from schemathesis import GenerationMode

from relay.demo.webhook import sign

L4 = "example-org/backend-ci"
EXAMPLES = 12
EVENTS = ("pull_request", "push", "merge_group", "check_run", "check_suite", "installation", "repository", "star")


@pytest.fixture(scope="module")
def operations(service):
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    return {operation.label: operation for operation in (found.ok() for found in schema.get_all_operations())}


def test_the_description_holds_no_request_that_breaks_the_relay(service, operations):
    assert {"POST /github/webhook", "POST /github/callback"} <= set(operations)
    answers = Counter()
    for operation in operations.values():
        # what the description allows, and what it does not
        for mode in GenerationMode:
            told = functools.partial(_note, service, answers, mode)

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            def fuzz(case):
                told(case)  # noqa: B023 (it is called before the loop goes on)

            # of some operations every request is one that the description allows
            with contextlib.suppress(Unsatisfiable):
                fuzz()
    asked = Counter()
    for (path, mode, _), number in answers.items():
        asked[path, mode] += number
    for path in ("/github/webhook", "/github/callback"):
        assert [asked[path, mode] >= EXAMPLES // 2 for mode in GenerationMode] == [True, True], asked
    assert {path for path, _, _ in answers} == {operation.path for operation in operations.values()}
    assert 202 in {status for path, _, status in answers if path == "/github/webhook"}
    assert 400 in {status for path, _, status in answers if path == "/github/callback"}


def _note(service, answers, mode, case):
    answers[case.path, mode, ask(service, case)] += 1


def ask(service, case):
    """Sends one request; -> the status of its answer, which is no fault of ours."""
    request = case.as_transport_kwargs(base_url=service.url)
    raw = json.dumps(request["json"]).encode() if "json" in request else request.get("data") or b""
    raw = raw if isinstance(raw, bytes) else str(raw).encode("utf-8", "replace")
    headers = {"content-type": "application/json"}
    if case.path == "/github/webhook":
        body = json.loads(raw) if raw.startswith(b"{") else None
        if isinstance(body, dict):
            body |= {"repository": body.get("repository", {"full_name": "pytorch/pytorch"})}
            body.setdefault("action", random.choice(("opened", "rerequested", "labeled", "created", "renamed")))
            raw = json.dumps(body).encode()
        headers |= {
            "X-GitHub-Event": random.choice(EVENTS),
            "X-GitHub-Delivery": f"fuzz-{secrets.token_hex(8)}",
            "X-Hub-Signature-256": sign(SECRET, raw),
        }
    elif case.path == "/github/callback":
        headers["Authorization"] = f"Bearer {service.token(L4, run_id='55')}"
    else:
        headers |= {"Authorization": f"Bearer {WORKER_KEY}", "x-hud-internal-bot": HUD_KEY}
    query = request.get("params")
    answer = service.http.request(case.method, request["url"], params=query, content=raw, headers=headers)
    assert answer.status_code < 500, (case.path, raw[:500], answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"]
    return answer.status_code
