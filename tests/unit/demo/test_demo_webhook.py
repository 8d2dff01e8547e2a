"""The demo's webhook has every field that GitHub's own has."""

import hashlib
import hmac
import json
from pathlib import Path

from relay.demo.upstream import EXPECT, DemoUpstream
from relay.demo.webhook import opened_event

UPSTREAM = DemoUpstream(
    path=Path("unused"),
    base_sha="b" * 40,
    head_sha="a" * 40,
    pr={
        "number": 7,
        "title": "A title with a tick `x` and ünïcode",
        "body": "Text",
        "author": "ada-example",
        "author_association": "CONTRIBUTOR",
        "base_ref": "main",
        "head_ref": "topic",
        "commits": 1,
        "additions": 3,
        "deletions": 2,
        "changed_files": 1,
    },
    expect=EXPECT,
)


def paths(value: object, at: str = "") -> set[str]:
    if isinstance(value, dict):
        return {p for key, inner in value.items() for p in {f"{at}.{key}", *paths(inner, f"{at}.{key}")}}
    return set()


def test_has_every_field_of_a_real_one(shared: Path) -> None:
    real = shared / "data/relay/webhook/pull_request_opened.json"
    _, body = opened_event(UPSTREAM, secret="s3cret")
    missing = paths(json.loads(real.read_bytes())) - paths(json.loads(body))
    assert not missing


def test_signature_is_over_the_exact_bytes() -> None:
    headers, body = opened_event(UPSTREAM, secret="s3cret", delivery="d-1")
    assert headers["X-Hub-Signature-256"] == "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert headers["X-GitHub-Delivery"] == "d-1"
    assert headers["X-GitHub-Event"] == "pull_request"


def test_two_events_are_two_deliveries() -> None:
    first, _ = opened_event(UPSTREAM, secret="s")
    second, _ = opened_event(UPSTREAM, secret="s")
    assert first["X-GitHub-Delivery"] != second["X-GitHub-Delivery"]
