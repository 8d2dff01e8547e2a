"""Webhook bodies as immutable events. Pure: a body that is not what GitHub sends gets an error naming the field.

``kind_of`` reads the little that every body has, ``classify`` says whether we want it and what for, ``parse`` reads the
rest of what is routed; relay.domain.facts reads what is only noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from relay.domain.fields import ZERO_SHA, flag, mapping, number, optional, repo_name, sha, text, wrong
from relay.domain.refs import TAKEN_REFS, fits
from relay.errors import BadRequest

ROUTED_ACTIONS = frozenset({"opened", "reopened", "synchronize", "closed", "ready_for_review"})
NOTED_ACTIONS = frozenset({"edited", "converted_to_draft"})
LABEL_PREFIX = "ciflow/crcr/"
"""Labels that ask for a device's CI: ``ciflow/crcr/<device>``."""

INSTALLATION_EVENTS = frozenset({"installation", "installation_repositories", "installation_target"})
CHECK_EVENTS = frozenset({"check_run", "check_suite"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What every webhook says: ``repo`` is None for events of an installation, ``action`` where there is none.

    ``detail`` is a push's ref, the label that was set or removed, ``base`` where an edit changed the base branch, or
    the id of the App that made a check.
    """

    event: str
    action: str | None
    repo: str | None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Interest:
    """What a webhook is wanted for: its body is kept and ``route``d, what it says is ``note``d and its body is not
    kept, or ``ignore``d. ``code`` is stable (docs/reason-codes.md), ``reason`` a sentence for people."""

    what: Literal["route", "note", "ignore"]
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


@dataclass(frozen=True, slots=True)
class MergeGroupEvent:
    """A group of pull requests in upstream's merge queue, about to be tested: ``head_sha`` is their merge."""

    action: str
    upstream: str
    head_sha: str
    head_ref: str
    base_sha: str
    base_ref: str
    number: None = None
    title: None = None
    author: None = None
    head_repo: None = None
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "merge_group"


Event = PullRequestEvent | PushEvent | MergeGroupEvent


def kind_of(event: str, body: object) -> Kind:
    """The kind of a webhook of type ``event``. Raises BadRequest when even that cannot be read."""
    top = mapping(body, "body")
    repo = None
    if top.get("repository") is not None:
        repo = text(mapping(top["repository"], "repository"), "full_name", "repository", limit=255)
    action = text(top, "action", "", limit=64) if top.get("action") is not None else None
    return Kind(event, action, repo, _detail(event, action, top))


def _detail(event: str, action: str | None, top: Mapping[str, Any]) -> str | None:
    if event == "push":
        return text(top, "ref", "", limit=1024)
    if event == "pull_request" and action in ("labeled", "unlabeled"):
        if action == "unlabeled" and top.get("label") is None:
            return None  # the label itself was deleted
        return text(mapping(top.get("label"), "label"), "name", "label", limit=255)
    if event == "pull_request" and action == "edited":
        changes = top.get("changes")
        return "base" if isinstance(changes, dict) and isinstance(changes.get("base"), dict) else None
    if event in CHECK_EVENTS and action == "rerequested":
        app = mapping(top.get(event), event).get("app")
        return str(app["id"])[:32] if isinstance(app, dict) and isinstance(app.get("id"), int) else None
    return None


def classify(kind: Kind, upstream: str, *, app_id: str = "", refs: Iterable[str] = TAKEN_REFS) -> Interest:
    """What a webhook is wanted for, from the little that every webhook says.

    ``upstream`` is the repository whose events are taken; names of repositories are compared without case. ``app_id``
    is our App's: only its own checks are run again. ``refs``: globs of the pushes that are told.
    """
    event, action, repo, detail = kind.event, kind.action, kind.repo, kind.detail
    named = _named(event, action)
    if event == "ping":
        return Interest("ignore", "ping", "GitHub's test of the webhook's address: it arrived")
    if event in INSTALLATION_EVENTS:
        return Interest("note", "installation-noted", f"{named}: where the App is installed changed")
    if event == "repository":
        if action in ("renamed", "transferred"):
            return Interest("note", "repository-noted", f"{named}: {repo or 'a repository'} has a new name")
        return Interest("ignore", "event-not-used", f"{named} starts nothing here")
    if event not in ("pull_request", "push", "merge_group", *CHECK_EVENTS):
        return Interest("ignore", "event-unknown", f"{event} is not an event this relay knows")
    if repo is None or repo.casefold() != upstream.casefold():
        return Interest(
            "ignore", "not-upstream", f"{repo or 'no repository'} is not the upstream repository {upstream}"
        )
    if event in CHECK_EVENTS:
        return _check(kind, named, app_id)
    if event == "merge_group":
        if action != "checks_requested":
            return Interest("ignore", "action-ignored", f"{named} starts nothing")
        return Interest("route", "taken", f"{named} of {repo}")
    if event == "push":
        if not fits(detail or "", refs):
            return Interest("ignore", "push-ref-ignored", f"pushes to {detail} are told to nobody")
        return Interest("route", "taken", f"{named} of {repo}")
    return _pull_request_interest(kind, named)


def _check(kind: Kind, named: str, app_id: str) -> Interest:
    # all of upstream's checks arrive here; a name that looks like ours is anybody's
    if kind.action != "rerequested":
        return Interest("ignore", "event-not-used", f"{named} starts nothing here")
    if not app_id or kind.detail != app_id:
        return Interest("ignore", "check-not-ours", f"{named} of a check that another App made")
    return Interest("note", "rerun-noted", f"{named}: somebody wants our checks to run again")


def _pull_request_interest(kind: Kind, named: str) -> Interest:
    action, detail = kind.action, kind.detail
    if action in ("labeled", "unlabeled"):
        if not (detail or LABEL_PREFIX).startswith(LABEL_PREFIX):
            return Interest("ignore", "label-ignored", f"the label {detail} is not one of {LABEL_PREFIX}<device>")
        if action == "unlabeled":
            return Interest("note", "pull-request-noted", f"the label {detail or ''} was removed")
    elif action in NOTED_ACTIONS and detail != "base":
        return Interest("note", "pull-request-noted", f"{named} changes no code: it is remembered, and starts nothing")
    elif action not in ROUTED_ACTIONS and detail != "base":
        return Interest("ignore", "action-ignored", f"{named} changes no code and starts nothing")
    return Interest("route", "taken", f"{named} of {kind.repo}")


def worth_asking(event: str, action: object) -> bool:
    """Whether a delivery that never arrived, of which no more is known than this, may have been wanted."""
    if event in CHECK_EVENTS:
        return action == "rerequested"
    detail = "refs/heads/main" if event == "push" else LABEL_PREFIX if action in ("labeled", "unlabeled") else None
    kind = Kind(event, action if isinstance(action, str) else None, "o/r", detail)
    return classify(kind, "o/r").what != "ignore"


def parse(event: str, body: object) -> Event:
    """The whole event. Raises BadRequest naming the field's path, for example ``pull_request.head.sha``."""
    top = mapping(body, "body")
    if event == "pull_request":
        return pull_request(top)
    if event == "push":
        return _push(top)
    if event == "merge_group":
        return _merge_group(top)
    raise BadRequest(f"{event} carries nothing that is routed", "only pull_request, push and merge_group are parsed")


def pull_request(top: Mapping[str, Any]) -> PullRequestEvent:
    """A ``pull_request`` body. Raises BadRequest."""
    pr = mapping(top.get("pull_request"), "pull_request")
    head = mapping(pr.get("head"), "pull_request.head")
    base = mapping(pr.get("base"), "pull_request.base")
    head_repo = None
    if head.get("repo") is not None:
        where = "pull_request.head.repo"
        head_repo = text(mapping(head["repo"], where), "full_name", where, limit=255)
    author = None
    if pr.get("user") is not None:
        author = text(mapping(pr["user"], "pull_request.user"), "login", "pull_request.user", limit=255)
    label = None
    if top.get("action") in ("labeled", "unlabeled") and top.get("label") is not None:
        label = text(mapping(top.get("label"), "label"), "name", "label", limit=255)
    return PullRequestEvent(
        action=text(top, "action", "", limit=64),
        upstream=_upstream(top),
        number=number(pr, "number", "pull_request"),
        title=text(pr, "title", "pull_request", limit=4096, empty=True),
        body=text(pr, "body", "pull_request", empty=True) if pr.get("body") is not None else "",
        author=author,
        author_association=optional(pr, "author_association", "pull_request", "NONE").upper(),
        head_sha=sha(head, "sha", "pull_request.head"),
        base_sha=sha(base, "sha", "pull_request.base"),
        base_ref=text(base, "ref", "pull_request.base", limit=255),
        head_repo=head_repo,
        labels=_labels(pr.get("labels")),
        draft=flag(pr, "draft", "pull_request"),
        merged=flag(pr, "merged", "pull_request"),
        label=label,
    )


def _push(top: Mapping[str, Any]) -> PushEvent:
    pusher = None
    if top.get("pusher") is not None:
        pusher = optional(mapping(top["pusher"], "pusher"), "name", "pusher", "") or None
    after = sha(top, "after", "")
    return PushEvent(
        upstream=_upstream(top),
        ref=text(top, "ref", "", limit=1024),
        before=sha(top, "before", "") if top.get("before") is not None else ZERO_SHA,
        after=after,
        created=flag(top, "created", ""),
        deleted=flag(top, "deleted", "") or after == ZERO_SHA,
        forced=flag(top, "forced", ""),
        pusher=pusher,
    )


def _labels(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise wrong("pull_request.labels", "a list", value)
    names = []
    for index, item in enumerate(value):
        where = f"pull_request.labels[{index}]"
        names.append(text(mapping(item, where), "name", where, limit=255))
    return tuple(names)


def _merge_group(top: Mapping[str, Any]) -> MergeGroupEvent:
    group = mapping(top.get("merge_group"), "merge_group")
    return MergeGroupEvent(
        action=text(top, "action", "", limit=64),
        upstream=_upstream(top),
        head_sha=sha(group, "head_sha", "merge_group"),
        head_ref=text(group, "head_ref", "merge_group", limit=1024),
        base_sha=sha(group, "base_sha", "merge_group"),
        base_ref=text(group, "base_ref", "merge_group", limit=255),
    )


def _upstream(top: Mapping[str, Any]) -> str:
    return repo_name(mapping(top.get("repository"), "repository"), "repository")


def _named(event: str, action: str | None) -> str:
    return f"{event}.{action}" if action else event
