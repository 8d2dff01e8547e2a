"""What is noted of webhooks that start nothing by themselves: where the App is, what repositories are called, what a
pull request's labels are, whose checks are to run again. Pure; every error names the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from relay.domain.events import PullRequestEvent, pull_request
from relay.domain.fields import ident, is_repo, mapping, optional, repo_name, sha, text, wrong
from relay.errors import BadRequest

MAX_REPOSITORIES = 10_000


@dataclass(frozen=True, slots=True)
class PullRequestFact:
    """A pull request as a delivery tells it; ``told_at`` is GitHub's own time of it (ISO 8601, "" where unsaid)."""

    event: PullRequestEvent
    open: bool
    told_at: str


@dataclass(frozen=True, slots=True)
class RepositoryFact:
    """What a repository is called now, and what it was called before (None: not said)."""

    id: int
    name: str
    old_name: str | None = None
    installation: int | None = None


@dataclass(frozen=True, slots=True)
class InstallationFact:
    """An installation of the App: its state, and the repositories that came to it or left it."""

    id: int
    account: str
    state: Literal["active", "suspended", "deleted"]
    permissions: Mapping[str, str]
    added: tuple[RepositoryFact, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RerunFact:
    """Somebody pressed "re-run" at a check run (``check_run_id``) or at a suite (None: all our checks of the commit).

    The number is looked up in our own record: names and external ids are anybody's to write.
    """

    head_sha: str
    check_run_id: str | None
    requested_by: str | None


Fact = PullRequestFact | RepositoryFact | InstallationFact | RerunFact


def fact_of(event: str, body: object) -> Fact | None:
    """What is to be noted of a webhook that classify wants noted or routed; None: nothing. Raises BadRequest."""
    top = mapping(body, "body")
    if event == "pull_request":
        return _pull_request(top)
    if event == "repository":
        return _repository(top)
    if event in ("installation", "installation_repositories", "installation_target"):
        return _installation(top, event)
    if event in ("check_run", "check_suite"):
        return _rerun(top, event)
    return None


def _pull_request(top: Mapping[str, Any]) -> PullRequestFact:
    event = pull_request(top)
    raw = mapping(top["pull_request"], "pull_request")
    is_open = optional(raw, "state", "pull_request", "open") == "open" and event.action != "closed"
    told_at = optional(raw, "updated_at", "pull_request", "")
    return PullRequestFact(event, is_open, told_at[:32])


def _repository(top: Mapping[str, Any]) -> RepositoryFact:
    raw = mapping(top.get("repository"), "repository")
    name = repo_name(raw, "repository")
    owner, _, short = name.partition("/")
    changes = mapping(top.get("changes"), "changes")
    old = None
    if isinstance(changes.get("repository"), dict):
        was = mapping(mapping(changes["repository"].get("name"), "changes.repository.name"), "changes.repository.name")
        old = f"{owner}/{text(was, 'from', 'changes.repository.name', limit=100)}"
    elif isinstance(changes.get("owner"), dict):
        came = mapping(changes["owner"].get("from"), "changes.owner.from")
        who = came.get("user") or came.get("organization")
        where = "changes.owner.from.user"
        old = f"{text(mapping(who, where), 'login', where, limit=100)}/{short}"
    if old is not None and not is_repo(old):
        raise BadRequest(f"changes: {old[:100]!r} is not owner/name", path="changes")
    installation = top.get("installation")
    number = ident(mapping(installation, "installation"), "id", "installation") if installation is not None else None
    return RepositoryFact(ident(raw, "id", "repository"), name, old, number)


def _installation(top: Mapping[str, Any], event: str) -> InstallationFact:
    raw = mapping(top.get("installation"), "installation")
    account = raw.get("account")
    if account is None and event == "installation_target":
        account = top.get("account")
    login = text(mapping(account, "installation.account"), "login", "installation.account", limit=255)
    action = optional(top, "action", "", "")
    state: Literal["active", "suspended", "deleted"] = "active"
    if event == "installation" and action == "deleted":
        state = "deleted"
    elif (event == "installation" and action == "suspend") or raw.get("suspended_at") is not None:
        state = "suspended" if action != "unsuspend" else "active"
    number = ident(raw, "id", "installation")
    permissions = mapping(raw.get("permissions") or {}, "installation.permissions")
    return InstallationFact(
        id=number,
        account=login,
        state=state,
        permissions={str(k)[:64]: str(v)[:16] for k, v in list(permissions.items())[:200]},
        added=tuple(
            RepositoryFact(ident(one, "id", where), repo_name(one, where), None, number)
            for where, one in (*_items(top, "repositories"), *_items(top, "repositories_added"))
        ),
        removed=tuple(ident(one, "id", where) for where, one in _items(top, "repositories_removed")),
    )


def _items(top: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    listed = top.get(key)
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise wrong(key, "a list", listed)
    return [(f"{key}[{n}]", mapping(one, f"{key}[{n}]")) for n, one in enumerate(listed[:MAX_REPOSITORIES])]


def _rerun(top: Mapping[str, Any], event: str) -> RerunFact:
    raw = mapping(top.get(event), event)
    sender = top.get("sender")
    who = optional(mapping(sender, "sender"), "login", "sender", "") if sender is not None else ""
    number = str(ident(raw, "id", "check_run")) if event == "check_run" else None
    return RerunFact(sha(raw, "head_sha", event), number, who or None)
