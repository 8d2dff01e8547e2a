"""Whatever fits, or does not fit, the API's description is answered without a fault of ours: requests made from
/openapi.json, with good signatures and tokens where those are asked for, so that they come past the door."""

from __future__ import annotations

import json
import random
import secrets

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from inbound_service import SECRET, WORKER_KEY
from outbound_servers import HUD_KEY

from relay.demo.webhook import sign

L4 = "example-org/backend-ci"
EVENTS = ("pull_request", "push", "merge_group", "check_run", "check_suite", "installation", "repository", "star")


@pytest.fixture
def api(service):
    return schemathesis.openapi.from_url(f"{service.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_description_holds_no_request_that_breaks_the_relay(case, service):
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
