"""The body of a repository_dispatch: the webhook as it came while that fits, cut in a fixed order where it does not.

GitHub refuses a client_payload of more than 65,535 characters, so a pull request with a long text would be tested by
nobody. docs/outbox.md describes the order of the cuts; what was cut is named in ``relay.cut``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

LIMIT = 65_535
TEXT_KEPT = 1_000
COMMITS_KEPT = 20
SHORT = 200

Json = dict[str, Any]


def encode(value: object) -> str:
    """The compact JSON that is measured and sent. Lone surrogates, which UTF-8 cannot carry, stay escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def client_payload(
    event: str, delivery_id: str, body: Json, dispatch_key: str, extra: Json | None = None, limit: int = LIMIT
) -> Json:
    """``{event_type, delivery_id, payload, relay: {dispatch_key, …extra}}`` of at most ``limit`` characters.

    ``payload`` is ``body`` itself where it fits. Otherwise the cuts of CUTS are made one after the other until it does,
    and ``relay.cut`` lists what they touched.
    """
    result: Json = {
        "event_type": event,
        "delivery_id": delivery_id,
        "payload": body,
        "relay": {"dispatch_key": dispatch_key, **(extra or {})},
    }
    if len(encode(result)) <= limit:
        return result
    trimmed = copy.deepcopy(body)
    cut: list[str] = []
    result["payload"] = trimmed
    result["relay"]["cut"] = cut
    for step in CUTS:
        cut.extend(step(trimmed))
        if len(encode(result)) <= limit:
            return result
    result["payload"] = _skeleton(body)
    result["relay"]["cut"] = ["payload: all but ids, names and links"]
    return result


def _texts(body: Json) -> Iterator[str]:
    for parent, name in ((body.get("pull_request"), "pull_request"), (body.get("repository"), "repository")):
        for key in ("body", "description"):
            if isinstance(parent, dict) and isinstance(parent.get(key), str) and len(parent[key]) > TEXT_KEPT:
                parent[key] = parent[key][:TEXT_KEPT]
                yield f"{name}.{key}: cut to {TEXT_KEPT} characters"


def _commits(body: Json) -> Iterator[str]:
    commits = body.get("commits")
    if not isinstance(commits, list) or not commits:
        return
    kept = ("id", "tree_id", "timestamp", "url", "distinct", "message")
    total = len(commits)
    commits[:] = [
        {key: _short(commit[key]) for key in kept if key in commit}
        for commit in commits[:COMMITS_KEPT]
        if isinstance(commit, dict)
    ]
    yield "commits[]: without authors and file lists, messages shortened"
    if total > COMMITS_KEPT:
        yield f"commits: the first {COMMITS_KEPT} of {total}"


def _repositories(body: Json) -> Iterator[str]:
    pull = body.get("pull_request")
    if not isinstance(pull, dict):
        return
    for side in ("head", "base"):
        parent = pull.get(side)
        if isinstance(parent, dict) and isinstance(parent.get("repo"), dict):
            parent["repo"] = _repository(parent["repo"])
            yield f"pull_request.{side}.repo: ids, names and links only"


def _people(body: Json) -> Iterator[str]:
    touched = False
    stack: list[Any] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, dict) and "login" in value and len(value) > 4:
                    node[key] = {k: value[k] for k in ("login", "id", "node_id", "type") if k in value}
                    touched = True
                else:
                    stack.append(value)
    if touched:
        yield "accounts: login, id and type only"


def _long_strings(body: Json) -> Iterator[str]:
    touched = False
    stack: list[Any] = [body]
    while stack:
        node = stack.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in list(items):
            if isinstance(value, str) and len(value) > SHORT:
                node[key] = value[:SHORT]
                touched = True
            elif isinstance(value, (dict, list)):
                stack.append(value)
    if touched:
        yield f"strings: cut to {SHORT} characters"


CUTS: tuple[Callable[[Json], Iterator[str]], ...] = (_texts, _commits, _repositories, _people, _long_strings)
"""In this order, the least useful to a downstream first."""


def _repository(repo: Json) -> Json:
    kept = ("id", "node_id", "name", "full_name", "private", "fork", "html_url", "url", "clone_url", "default_branch")
    short = {key: _short(repo[key]) for key in kept if key in repo}
    owner = repo.get("owner")
    if isinstance(owner, dict):
        short["owner"] = {key: _short(owner[key]) for key in ("login", "id", "type") if key in owner}
    return short


def _skeleton(body: Json) -> Json:
    """What every downstream workflow reads: which commit, of which repository, of which pull request."""
    kept = ("action", "number", "ref", "before", "after", "created", "deleted", "forced", "base_ref", "compare")
    out: Json = {key: _short(body[key]) for key in kept if _scalar(body.get(key))}
    if isinstance(body.get("repository"), dict):
        out["repository"] = _repository(body["repository"])
    for key in ("sender", "installation"):
        if isinstance(body.get(key), dict):
            out[key] = {k: _short(body[key][k]) for k in ("login", "id") if k in body[key]}
    pull = body.get("pull_request")
    if isinstance(pull, dict):
        names = ("id", "node_id", "number", "state", "draft", "merged", "title", "html_url", "url", "merge_commit_sha")
        out["pull_request"] = {key: _short(pull[key]) for key in names if _scalar(pull.get(key))}
        for side in ("head", "base"):
            parent = pull.get(side)
            if isinstance(parent, dict):
                small: Json = {key: _short(parent[key]) for key in ("sha", "ref", "label") if _scalar(parent.get(key))}
                if isinstance(parent.get("repo"), dict):
                    small["repo"] = _repository(parent["repo"])
                out["pull_request"][side] = small
        labels = pull.get("labels")
        if isinstance(labels, list):
            named = (
                label["name"] for label in labels if isinstance(label, dict) and isinstance(label.get("name"), str)
            )
            out["pull_request"]["labels"] = [{"name": _short(name)} for name in list(named)[:50]]
    return out


def _scalar(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:SHORT]
    return value if _scalar(value) else None
