"""Taking a webhook in: verify, classify, claim, commit. Nothing else happens before GitHub has its answer."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Engine

from relay.domain.events import classify, kind_of, parse
from relay.domain.facts import PullRequestFact, fact_of
from relay.domain.refs import TAKEN_REFS
from relay.errors import BadRequest, SignatureInvalid, SignatureMissing, Unavailable
from relay.services import allowlists, facts
from relay.services.secret_files import webhook_secrets
from relay.settings import Settings
from relay.steps import step
from relay.store import chores, deliveries

log = structlog.get_logger(__name__)
_EVENT = re.compile(r"[a-z][a-z0-9_]{0,63}")
_DELIVERY = re.compile(r"[!-~]{1,64}")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a webhook. ``code`` and ``reason`` say why it was ignored, or that it was noted."""

    delivery: str
    accepted: bool
    duplicate: bool = False
    code: str = ""
    reason: str = ""


def verify(body: bytes, header: str | None, secrets: Sequence[str]) -> None:
    """Checks ``X-Hub-Signature-256`` against every secret, in constant time. Raises SignatureMissing, SignatureInvalid,
    or Unavailable when no secret is configured."""
    if not secrets:
        raise Unavailable("no webhook secret is configured", "set webhook_secrets or webhook_secrets_file")
    if not header:
        raise SignatureMissing("the webhook has no X-Hub-Signature-256", "set a secret in the webhook's settings")
    given = header.strip().encode("utf-8", "surrogateescape")  # compare_digest refuses text that is not ASCII
    good = False
    for secret in secrets:
        wanted = b"sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()
        good |= hmac.compare_digest(wanted, given)
    if not good:
        raise SignatureInvalid(
            "the webhook's signature fits none of the configured secrets",
            "the secret in GitHub's webhook settings and webhook_secrets must be the same",
        )


def take_in(
    engine: Engine,
    settings: Settings,
    *,
    event: str | None,
    delivery_id: str | None,
    signature: str | None,
    body: bytes,
    now: float,
) -> Receipt:
    """Verifies a webhook and commits it. When this returns, the delivery is on disk; it blocks, so not for an event
    loop. Raises BadRequest, SignatureMissing, SignatureInvalid, Unavailable."""
    verify(body, signature, webhook_secrets(settings))
    if not delivery_id or not _DELIVERY.fullmatch(delivery_id):
        problem = "is missing" if not delivery_id else "is not 1 to 64 printable ASCII characters"
        raise BadRequest(f"X-GitHub-Delivery {problem}", "GitHub sends a unique id with each delivery")
    if not event or not _EVENT.fullmatch(event):
        problem = "is missing" if not event else "is not the name of an event"
        raise BadRequest(f"X-GitHub-Event {problem}", "GitHub sends it with each delivery, for example pull_request")
    value = decode(body)
    kind = kind_of(event, value)
    interest = classify(
        kind, settings.upstream_repo, app_id=settings.github_app_id, refs=settings.push_refs or TAKEN_REFS
    )
    came: dict[str, Any] = {
        "delivery_id": delivery_id,
        "event": event,
        "action": kind.action,
        "repo": kind.repo,
        "now": now,
    }
    if interest.what == "ignore":
        with engine.begin() as conn:
            fresh = deliveries.claim_ignored(conn, **came, code=interest.code, reason=interest.reason)
        return Receipt(delivery_id, False, not fresh, interest.code, interest.reason)
    # what cannot be routed or noted is refused now, while the sender can still hear of it
    fact = fact_of(event, value)
    if interest.what == "route":
        parse(event, value)
        packed = deliveries.pack(body)
    with engine.begin() as conn:
        if interest.what == "route":
            told_at = fact.told_at if isinstance(fact, PullRequestFact) and fact.told_at else None
            fresh = deliveries.claim(conn, **came, body=packed, told_at=told_at)
        else:
            reason = interest.reason
            fresh = deliveries.claim_ignored(conn, **came, code=interest.code, reason=reason, state="noted")
        if fresh and fact is not None:
            facts.note(conn, settings, delivery_id, fact, now)
        if fresh and event == "push" and allowlists.touched_by(settings, value):
            chores.make_due(conn, allowlists.CHORE, now)
    with step("webhook", delivery=delivery_id, root=fresh, began=now, webhook=event):
        log.info("delivery", action=kind.action, duplicate=not fresh)
    if interest.what == "note":
        return Receipt(delivery_id, True, not fresh, interest.code, interest.reason)
    return Receipt(delivery_id, True, not fresh)


def decode(body: bytes) -> Any:
    """The body as JSON. Raises BadRequest that says where it is broken."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except json.JSONDecodeError as exc:
        hint = f"line {exc.lineno}, column {exc.colno}"
        if body.startswith(b"payload="):
            hint = "set the webhook's content type to application/json"
        raise BadRequest(f"the body is not valid JSON: {exc.msg}", hint) from exc
    except UnicodeDecodeError as exc:
        raise BadRequest(f"the body is not UTF-8: byte {exc.start}", "JSON is sent as UTF-8") from exc
    except (RecursionError, ValueError) as exc:  # nested too deep, a number of too many digits, NaN
        raise BadRequest(f"the body cannot be read as JSON: {exc}") from exc


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
