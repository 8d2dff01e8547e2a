"""The dashboard's intake, so that the relay can be its own: a posted body as a row, and how a later one joins it. Pure.

The wire is the public dashboard's (docs/hud.md). One thing is better: a status never goes back, so a start that arrives
after its end changes nothing of the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.domain.fields import MAX_ID
from relay.errors import BadRequest

MAX_BYTES = 2 * 1024 * 1024
ORDER = {"queued": 0, "in_progress": 1, "completed": 2}
TEXT, LONG = 255, 2048
_PAGE = "docs/hud.md shows a complete row"


def row_of(body: Any) -> dict[str, Any]:
    """The columns of ``hud_row`` that a body gives (None: it does not say). Raises BadRequest naming the field."""
    top = _map(body, "body")
    trusted = _map(top.get("trusted"), "trusted")
    callback = _map(_map(top.get("untrusted"), "untrusted").get("callback_payload"), "untrusted.callback_payload")
    where = "untrusted.callback_payload.workflow"
    flow = _map(callback.get("workflow"), where)
    metrics = _map(trusted.get("ci_metrics") or {}, "trusted.ci_metrics")
    repo = _text(trusted, "verified_repo", "trusted", TEXT)
    if "/" not in repo:
        raise BadRequest("trusted.verified_repo is not owner/repo", _PAGE, path="trusted.verified_repo")
    delivery = _text(callback, "delivery_id", "untrusted.callback_payload", 64)
    name, job = _text(flow, "name", where, LONG), _text(flow, "job_name", where, LONG)
    check = _text(flow, "check_run_id", where, 64)
    status = _text(flow, "status", where, 16)
    if status not in ORDER:
        raise BadRequest(f"{where}.status: {status!r} is none of {', '.join(ORDER)}", _PAGE, path=f"{where}.status")
    key = f"{repo}/{delivery}/{name}/{job}/{check}"
    if len(key) > 1024:
        raise BadRequest(f"the row's key has {len(key)} characters, at most 1024", _PAGE)
    return {
        "key": key,
        "repo": repo,
        "repo_key": repo.casefold(),
        "level": _maybe(trusted, "downstream_repo_level", 2),
        "event": _maybe(callback, "event_type", 64),
        "delivery_id": delivery,
        **_about(callback.get("payload")),
        "workflow": name,
        "job": job,
        "run_id": _maybe(flow, "run_id", 64),
        "attempt": _count(flow.get("run_attempt")),
        "check_run_id": check,
        "status": status,
        "conclusion": _maybe(flow, "conclusion", 32),
        "queue_s": _seconds(metrics, "queue_time"),
        "execution_s": _seconds(metrics, "execution_time"),
        "url": _link(flow, "url"),
        "artifact_url": _link(flow, "artifact_url"),
        "results": flow.get("test_results") if isinstance(flow.get("test_results"), dict) else None,
        "body": {name: value for name, value in flow.items() if value is not None},
    }


def join(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that change when ``new`` comes to a row: what it says is taken over, but nothing goes back to a
    status before the one that is known, and nothing known is lost."""
    ahead = ORDER[new["status"]] >= ORDER[known["status"]]
    told = {name: value for name, value in new.items() if value is not None and name != "body"}
    if ahead:
        return {**told, "body": {**known["body"], **new["body"]}}
    late = {name: value for name, value in told.items() if known.get(name) is None}
    late.pop("conclusion", None)
    return {**late, "body": {**new["body"], **known["body"]}}


def _about(payload: Any) -> dict[str, Any]:
    """Upstream repository, pull request and commit, from the relay's own record of the event."""
    found = _part(payload)
    pull = _part(found.get("pull_request"))
    head, repository = _part(pull.get("head")), _part(found.get("repository"))
    number = pull.get("number")
    sha = head.get("sha") or found.get("after") or found.get("head_sha")
    return {
        "upstream": repository.get("full_name") if isinstance(repository.get("full_name"), str) else None,
        "pr_number": number if type(number) is int and 0 < number < 2**31 else None,
        "head_sha": sha if isinstance(sha, str) and len(sha) == 40 else None,
    }


def _part(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _map(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest(f"{where} is not an object", _PAGE, path=where)
    return value


def _text(of: Mapping[str, Any], key: str, where: str, limit: int) -> str:
    value = of.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID:
        value = str(value)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{where}.{key} is missing", _PAGE, path=f"{where}.{key}")
    if len(value) > limit:
        raise BadRequest(f"{where}.{key} has more than {limit} characters", _PAGE, path=f"{where}.{key}")
    return value


def _maybe(of: Mapping[str, Any], key: str, limit: int) -> str | None:
    value = of.get(key)
    return str(value)[:limit] if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "" else None


def _count(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**31 else 1


def _seconds(of: Mapping[str, Any], key: str) -> float | None:
    value = of.get(key)
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9):
        return value
    raise BadRequest(f"trusted.ci_metrics.{key} is no number of seconds", _PAGE, path=f"trusted.ci_metrics.{key}")


def _link(of: Mapping[str, Any], key: str) -> str | None:
    value = of.get(key)
    return value[:LONG] if isinstance(value, str) and value.startswith("https://") else None
