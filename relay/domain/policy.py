"""What a webhook means for each downstream: the routing policy. Pure; codes are listed in docs/reason-codes.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from relay.domain.allowlist import Allowlist, Entry
from relay.domain.events import LABEL_PREFIX, Event, MergeGroupEvent, PullRequestEvent, PushEvent
from relay.domain.refs import fits

Action = Literal["dispatch", "ignore", "supersede", "cancel"]


@dataclass(frozen=True, slots=True)
class PriorRun:
    """A dispatch of the same pull request. ``open``: not ended; ``newer``: its delivery came after the one at hand."""

    id: str
    downstream_key: str
    executor: str
    head_sha: str
    open: bool
    newer: bool


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """One thing to do, or not to do. ``entry`` is the downstream it is about (None: all of them), ``run`` the id of
    the dispatch that is superseded (a newer one takes its place) or cancelled (nobody wants it any more)."""

    action: Action
    code: str
    reason: str
    entry: Entry | None = None
    run: str | None = None


def route(event: Event, allowlist: Allowlist, runs: Sequence[PriorRun]) -> tuple[RouteDecision, ...]:
    """Decides for every entry of the allowlist, in its order. ``runs`` are this pull request's dispatches so far:
    the open ones, and those that newer deliveries made."""
    if isinstance(event, PushEvent):
        return tuple(_push(event, allowlist))
    if isinstance(event, MergeGroupEvent):
        return tuple(_merge_group(event, allowlist))
    if event.action == "labeled":
        return tuple(_labeled(event, allowlist, runs))
    # of edits only those of the base branch are routed: the change is then another one
    if event.action not in ("opened", "reopened", "synchronize", "closed", "edited", "ready_for_review"):
        return (RouteDecision("ignore", "action-ignored", f"pull_request.{event.action} starts nothing"),)
    decisions: list[RouteDecision] = []
    for entry in allowlist.entries:
        decisions += _closed(event, entry, runs) if event.action == "closed" else _pushed(event, entry, runs)
    return tuple(decisions)


def _pushed(event: PullRequestEvent, entry: Entry, runs: Sequence[PriorRun]) -> Iterator[RouteDecision]:
    """New code on a pull request: the downstream's older runs of it end, a new one begins."""
    mine = [run for run in runs if run.downstream_key == entry.key]
    if "pull_request" not in entry.events:
        yield _not_listening(entry)
        return
    if event.action == "ready_for_review" and entry.drafts:
        yield RouteDecision("ignore", "action-ignored", f"{entry.repo} was told of #{event.number} as a draft", entry)
        return
    if any(run.newer for run in mine):
        yield _overtaken(event, entry)
        return
    for run in mine:
        if run.open:
            reason = f"#{event.number} moved on to {event.head_sha[:12]}"
            yield RouteDecision("supersede", "superseded", reason, entry, run.id)
    if event.draft and not entry.drafts:
        reason = f"#{event.number} is a draft, and {entry.repo} hears of them when they are ready for review"
        yield RouteDecision("ignore", "draft", reason, entry)
        return
    if _held(event, entry):
        reason = (
            f"{event.author or 'the author'} ({event.author_association}) is not trusted by {entry.repo}: "
            f"the label {LABEL_PREFIX}{entry.device} runs this commit"
        )
        yield RouteDecision("ignore", "author-not-trusted", reason, entry)
        return
    yield RouteDecision("dispatch", "dispatched", f"#{event.number} {event.action} at {event.head_sha[:12]}", entry)


def _closed(event: PullRequestEvent, entry: Entry, runs: Sequence[PriorRun]) -> Iterator[RouteDecision]:
    """GitHub executors are told, and cancel by their own concurrency group; what still runs is not waited for any
    more, and our own workers stop at once."""
    mine = [run for run in runs if run.downstream_key == entry.key]
    running = [run for run in mine if run.open]
    ended = f"#{event.number} was {'merged' if event.merged else 'closed'}"
    if "pull_request" not in entry.events:
        yield _not_listening(entry)
    elif any(run.newer for run in mine):
        yield _overtaken(event, entry)
    elif entry.executor == "github":
        for run in running:
            yield RouteDecision("cancel", "pull-request-closed", ended, entry, run.id)
        yield RouteDecision("dispatch", "closed-told", f"{ended}: {entry.repo} cancels what it still runs", entry)
    else:
        for run in running:
            yield RouteDecision("cancel", "pull-request-closed", ended, entry, run.id)
        if not running:
            yield RouteDecision("ignore", "nothing-to-cancel", f"{ended}, and nothing of it runs", entry)


def _labeled(event: PullRequestEvent, allowlist: Allowlist, runs: Sequence[PriorRun]) -> Iterator[RouteDecision]:
    """A person vouches for this commit. Later pushes by the same author need the label again."""
    device = (event.label or "").removeprefix(LABEL_PREFIX)
    asked = [e for e in allowlist.entries if e.device == device and "pull_request" in e.events]
    if not asked or not (event.label or "").startswith(LABEL_PREFIX):
        yield RouteDecision("ignore", "label-ignored", f"no downstream answers to the label {event.label}")
        return
    for entry in asked:
        mine = [run for run in runs if run.downstream_key == entry.key]
        if not _held(event, entry):
            yield RouteDecision("ignore", "label-not-needed", f"{entry.repo} runs this author's changes anyway", entry)
        elif any(run.newer for run in mine):
            yield _overtaken(event, entry)
        elif any(run.open and run.head_sha == event.head_sha for run in mine):
            yield RouteDecision("ignore", "already-running", f"{event.head_sha[:12]} runs already", entry)
        else:
            for run in mine:
                if run.open:
                    yield RouteDecision("supersede", "superseded", f"#{event.number} moved on", entry, run.id)
            yield RouteDecision("dispatch", "dispatched", f"{event.label} was set on #{event.number}", entry)


def _push(event: PushEvent, allowlist: Allowlist) -> Iterator[RouteDecision]:
    if event.deleted:
        yield RouteDecision("ignore", "push-deleted", f"{event.ref} was deleted: there is nothing to test")
        return
    for entry in allowlist.entries:
        if "pull_request" not in entry.events:
            yield _not_listening(entry)
        elif entry.executor == "workers":
            yield RouteDecision("ignore", "push-not-run", "our workers run pull requests only", entry)
        elif entry.pushes is not None and not fits(event.ref, entry.pushes):
            reason = f"{entry.repo} hears of pushes to {', '.join(entry.pushes)} only"
            yield RouteDecision("ignore", "push-ref-ignored", reason, entry)
        else:
            yield RouteDecision("dispatch", "dispatched", f"{event.ref} is at {event.after[:12]}", entry)


def _merge_group(event: MergeGroupEvent, allowlist: Allowlist) -> Iterator[RouteDecision]:
    """Upstream's merge queue, for who asks for it: nobody hears of it by default."""
    for entry in allowlist.entries:
        if "merge_group" not in entry.events:
            yield _not_listening(entry)
        elif entry.executor == "workers":
            yield RouteDecision("ignore", "push-not-run", "our workers run pull requests only", entry)
        else:
            yield RouteDecision("dispatch", "dispatched", f"the merge queue is at {event.head_sha[:12]}", entry)


def _held(event: PullRequestEvent, entry: Entry) -> bool:
    """Whether the entry lets this author's code onto our workers only with a label."""
    if entry.executor != "workers" or entry.trust is None:
        return False
    return not entry.trusts(event.author, event.author_association)


def _not_listening(entry: Entry) -> RouteDecision:
    return RouteDecision("ignore", "events-exclude", f"{entry.repo} listens to {', '.join(entry.events)} only", entry)


def _overtaken(event: PullRequestEvent, entry: Entry) -> RouteDecision:
    reason = f"a later delivery about #{event.number} was routed before this one"
    return RouteDecision("ignore", "overtaken", reason, entry)
