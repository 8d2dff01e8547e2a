"""Webhook bodies as immutable events. Pure: a body that is not what GitHub sends gets an error naming the field.

``kind_of`` reads the little that every body has, ``classify`` says whether we want it, ``parse`` reads the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.errors import BadRequest

ZERO_SHA = "0" * 40
_SHA = re.compile(r"[0-9a-f]{40}")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}")
MAX_NUMBER = 2**31 - 1

PULL_REQUEST_ACTIONS = frozenset({"opened", "reopened", "synchronize", "closed", "labeled"})
LABEL_PREFIX = "ciflow/crcr/"
"""Labels that ask for a device's CI: ``ciflow/crcr/<device>``."""

IDLE_EVENTS = frozenset(
    {
        "check_run",
        "check_suite",
        "installation",
        "installation_repositories",
        "installation_target",
        "merge_group",
        "ping",
        "repository",
    }
)
"""Events a GitHub App of this kind gets and that start nothing."""

TAKEN_REFS = (
    re.compile(r"refs/heads/(main|master|nightly|viable/strict|release/.+)"),
    re.compile(r"refs/tags/(v[0-9].*|ciflow/.+)"),
)
"""Pushes that are told to downstreams: trunk, releases, CI labels. Upstream's stacked-commit tool pushes thousands of
helper branches a week, of which nobody wants to hear."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What every webhook says: ``repo`` is None for events of an installation, ``action`` where there is none.

    ``detail`` is a push's ref or the label that was just added.
    """

    event: str
    action: str | None
    repo: str | None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Interest:
    """Whether a webhook is wanted; ``code`` is stable (docs/reason-codes.md), ``reason`` a sentence for people."""

    take: bool
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class PullRequestEvent:
    """A pull request of upstream. ``head_repo`` is None when the fork is gone, ``author`` when the account is.

    ``label`` is the one just added (action labeled); ``upstream`` is the repository as GitHub spells it.
    """

    action: str
    upstream: str
    number: int
    title: str
    body: str
    author: str | None
    author_association: str
    head_sha: str
    base_sha: str
    base_ref: str
    head_repo: str | None
    labels: tuple[str, ...]
    draft: bool
    merged: bool
    label: str | None = None

    @property
    def name(self) -> str:
        return "pull_request"


@dataclass(frozen=True, slots=True)
class PushEvent:
    """A push to upstream: ``after`` is the new tip, all zeros when the ref was deleted."""

    upstream: str
    ref: str
    before: str
    after: str
    created: bool
    deleted: bool
    forced: bool
    pusher: str | None

    @property
    def name(self) -> str:
        return "push"


Event = PullRequestEvent | PushEvent


def kind_of(event: str, body: object) -> Kind:
    """The kind of a webhook of type ``event``. Raises BadRequest when even that cannot be read."""
    top = _map(body, "body")
    repo = None
    if top.get("repository") is not None:
        repo = _text(_map(top["repository"], "repository"), "full_name", "repository", limit=255)
    action = _text(top, "action", "", limit=64) if top.get("action") is not None else None
    detail = None
    if event == "push":
        detail = _text(top, "ref", "", limit=1024)
    elif event == "pull_request" and action == "labeled":
        detail = _text(_map(top.get("label"), "label"), "name", "label", limit=255)
    return Kind(event, action, repo, detail)


def classify(event: str, action: str | None, repo: str | None, upstream: str, detail: str | None = None) -> Interest:
    """Whether a webhook is wanted at all, from the little that every webhook says.

    ``upstream`` is the repository whose events are taken; names of repositories are compared without case. ``detail``
    as in Kind.
    """
    if event == "ping":
        return Interest(False, "ping", "GitHub's test of the webhook's address: it arrived")
    if event in IDLE_EVENTS:
        return Interest(False, "event-not-used", f"{_named(event, action)} starts nothing here")
    if event not in ("pull_request", "push"):
        return Interest(
            False, "event-unknown", f"{event} is not an event this relay knows; it takes pull_request, push"
        )
    if repo is None or repo.casefold() != upstream.casefold():
        return Interest(False, "not-upstream", f"{repo or 'no repository'} is not the upstream repository {upstream}")
    if event == "pull_request" and action not in PULL_REQUEST_ACTIONS:
        return Interest(False, "action-ignored", f"{_named(event, action)} changes no code and starts nothing")
    if action == "labeled" and not (detail or "").startswith(LABEL_PREFIX):
        return Interest(False, "label-ignored", f"the label {detail} is not one of {LABEL_PREFIX}<device>")
    if event == "push" and not any(p.fullmatch(detail or "") for p in TAKEN_REFS):
        return Interest(False, "push-ref-ignored", f"pushes to {detail} are told to nobody")
    return Interest(True, "taken", f"{_named(event, action)} of {repo}")


def parse(event: str, body: object) -> Event:
    """The whole event. Raises BadRequest naming the field's path, for example ``pull_request.head.sha``."""
    top = _map(body, "body")
    if event == "pull_request":
        return _pull_request(top)
    if event == "push":
        return _push(top)
    raise BadRequest(f"{event} carries nothing that is routed", "only pull_request and push are parsed")


def is_sha(text: str) -> bool:
    """Whether ``text`` is a full commit id (40 lower-case hex digits)."""
    return _SHA.fullmatch(text) is not None


def is_repo(text: str) -> bool:
    """Whether ``text`` has the shape owner/name."""
    return _REPO.fullmatch(text) is not None and text.split("/")[1] not in (".", "..")


def _pull_request(top: Mapping[str, Any]) -> PullRequestEvent:
    pr = _map(top.get("pull_request"), "pull_request")
    head = _map(pr.get("head"), "pull_request.head")
    base = _map(pr.get("base"), "pull_request.base")
    head_repo = None
    if head.get("repo") is not None:
        where = "pull_request.head.repo"
        head_repo = _text(_map(head["repo"], where), "full_name", where, limit=255)
    author = None
    if pr.get("user") is not None:
        author = _text(_map(pr["user"], "pull_request.user"), "login", "pull_request.user", limit=255)
    label = None
    if top.get("action") == "labeled":
        label = _text(_map(top.get("label"), "label"), "name", "label", limit=255)
    return PullRequestEvent(
        action=_text(top, "action", "", limit=64),
        upstream=_repository(top),
        number=_number(pr, "number", "pull_request"),
        title=_text(pr, "title", "pull_request", limit=4096, empty=True),
        body=_text(pr, "body", "pull_request", empty=True) if pr.get("body") is not None else "",
        author=author,
        author_association=_optional(pr, "author_association", "pull_request", "NONE").upper(),
        head_sha=_sha(head, "sha", "pull_request.head"),
        base_sha=_sha(base, "sha", "pull_request.base"),
        base_ref=_text(base, "ref", "pull_request.base", limit=255),
        head_repo=head_repo,
        labels=_labels(pr.get("labels")),
        draft=_flag(pr, "draft", "pull_request"),
        merged=_flag(pr, "merged", "pull_request"),
        label=label,
    )


def _push(top: Mapping[str, Any]) -> PushEvent:
    pusher = None
    if top.get("pusher") is not None:
        pusher = _optional(_map(top["pusher"], "pusher"), "name", "pusher", "") or None
    after = _sha(top, "after", "")
    return PushEvent(
        upstream=_repository(top),
        ref=_text(top, "ref", "", limit=1024),
        before=_sha(top, "before", "") if top.get("before") is not None else ZERO_SHA,
        after=after,
        created=_flag(top, "created", ""),
        deleted=_flag(top, "deleted", "") or after == ZERO_SHA,
        forced=_flag(top, "forced", ""),
        pusher=pusher,
    )


def _labels(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong("pull_request.labels", "a list", value)
    names = []
    for index, item in enumerate(value):
        where = f"pull_request.labels[{index}]"
        names.append(_text(_map(item, where), "name", where, limit=255))
    return tuple(names)


def _repository(top: Mapping[str, Any]) -> str:
    name = _text(_map(top.get("repository"), "repository"), "full_name", "repository", limit=255)
    if not is_repo(name):
        raise BadRequest(f"repository.full_name: {name[:100]!r} is not owner/name", path="repository.full_name")
    return name


def _map(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return value


def _text(parent: Mapping[str, Any], key: str, where: str, *, limit: int = 0, empty: bool = False) -> str:
    path = f"{where}.{key}" if where else key
    value = parent.get(key)
    if not isinstance(value, str):
        raise _wrong(path, "a string", value)
    if not value and not empty:
        raise BadRequest(f"{path}: must not be empty", path=path)
    if limit and len(value) > limit:
        raise BadRequest(f"{path}: {len(value)} characters, at most {limit} are taken", path=path)
    return _clean(value)


def _optional(parent: Mapping[str, Any], key: str, where: str, default: str) -> str:
    return _text(parent, key, where, limit=255, empty=True) if parent.get(key) is not None else default


def _clean(text: str) -> str:
    # JSON can spell lone surrogates and NUL, which no database stores as text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "�")


def _number(parent: Mapping[str, Any], key: str, where: str) -> int:
    value = parent.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(f"{where}.{key}", "a whole number", value)
    if not 0 < value <= MAX_NUMBER:
        raise BadRequest(f"{where}.{key}: {value} is not the number of a pull request", path=f"{where}.{key}")
    return value


def _flag(parent: Mapping[str, Any], key: str, where: str) -> bool:
    value = parent.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(f"{where}.{key}" if where else key, "true or false", value)
    return value


def _sha(parent: Mapping[str, Any], key: str, where: str) -> str:
    path = f"{where}.{key}" if where else key
    value = _text(parent, key, where)
    if not is_sha(value):
        raise BadRequest(f"{path}: {value[:60]!r} is not a commit id (40 lower-case hex digits)", path=path)
    return value


def _wrong(path: str, wanted: str, value: object) -> BadRequest:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "nothing"}
    got = names.get(type(value), "a fraction" if isinstance(value, float) else "a number")
    return BadRequest(f"{path}: must be {wanted}, not {got}", "send the webhook body as GitHub made it", path=path)


def _named(event: str, action: str | None) -> str:
    return f"{event}.{action}" if action else event
