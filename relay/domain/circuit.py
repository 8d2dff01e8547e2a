"""Whether anything is sent to an installation of the App now: what it answered, what its webhooks said, and how much
was sent this minute. Pure; docs/outbox.md tells the rules.

A place is an owner (one installation of the App) or a repository. Where an answer says that nothing can be done there
the place is closed: what is asked for meanwhile gets the same answer without a call. After a while one effect may try;
an installation's own webhook opens the place at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relay.domain.retry import Reply

OF_OWNER = frozenset({"installation-suspended", "rate-limited"})
OF_REPOSITORY = frozenset({"not-installed", "permission-missing"})
FIRST_WAIT_S = 60.0
LONGEST_WAIT_S = 3600.0
PROBE_S = 20.0
"""While one effect tries, the others wait this long: longer than its try can take."""
WINDOW_S = 60.0
_STATUS = {"not-installed": 404, "installation-suspended": 403, "permission-missing": 422}


@dataclass(frozen=True, slots=True)
class Circuit:
    """What is known of a place. ``code`` None: it is open. Times in seconds since the epoch."""

    key: str
    code: str | None
    reason: str | None
    until: float
    failures: int
    changed_at: float


@dataclass(frozen=True, slots=True)
class Installed:
    """What the App's webhooks said of an owner's installation, and when."""

    state: Literal["active", "suspended", "deleted"]
    heard_at: float


@dataclass(frozen=True, slots=True)
class Gate:
    """``open``: send. ``try``: one may, to find out. ``wait``: not before ``until``. ``refuse``: ``reply`` is what the
    call would be answered. ``key``: the place that says so, "" where none does."""

    what: Literal["open", "try", "wait", "refuse"]
    key: str = ""
    until: float = 0.0
    reply: Reply | None = None


OPEN = Gate("open")


def owner_of(target: str) -> str:
    return target.partition("/")[0].casefold()


def key_of(code: str, target: str) -> str | None:
    """The place that an effect's outcome ``code`` at ``target`` (owner/repo) closes; None: it closes nothing."""
    if code in OF_OWNER:
        return owner_of(target)
    return target.casefold() if code in OF_REPOSITORY else None


def close(known: Circuit | None, key: str, code: str, reason: str, now: float, asked_s: float | None) -> Circuit:
    """The place after one more answer ``code``; ``asked_s``: the wait that the answer asked for. A wait that somebody
    else was told is never shortened."""
    failures = known.failures + 1 if known is not None and known.code == code else 1
    wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - 1, 10)) if asked_s is None else asked_s
    until = now + wait
    if known is not None and known.code == code:
        until = max(until, known.until)
    return Circuit(key, code, reason, until, failures, now)


def gate(target: str, circuits: dict[str, Circuit], installed: Installed | None, now: float) -> Gate:
    """What becomes of an effect on ``target``. ``circuits`` by key; ``installed``: of the target's owner."""
    if installed is not None and installed.state != "active":
        code = "installation-suspended" if installed.state == "suspended" else "not-installed"
        detail = f"the App's installation at {owner_of(target)} is {installed.state}; its webhook opens it again"
        return Gate("refuse", owner_of(target), reply=_reply(code, detail))
    over = ""
    for key in (owner_of(target), target.casefold()):
        known = circuits.get(key)
        if known is None or known.code is None:
            continue
        if known.code == "rate-limited":
            if known.until > now:
                return Gate("wait", key, known.until)
            over = key  # nothing has to be found out
            continue
        if installed is not None and installed.heard_at >= known.changed_at:
            return Gate("try", key)  # the installation changed since
        if known.until <= now:
            return Gate("try", key)
        detail = f"not tried again before {known.until - now:.0f} s are over: {known.reason or known.code}"
        return Gate("refuse", key, known.until, _reply(known.code, detail))
    return Gate("open", over)


def _reply(code: str, detail: str) -> Reply:
    return Reply(_STATUS[code], reached=False, detail=detail, auth=True)


def grant(window_at: float, used: int, asked: int, now: float, limit: int) -> tuple[int, float, int]:
    """How many of ``asked`` calls may leave this minute under a budget of ``limit``; -> (granted, window_at, used)."""
    if now >= window_at + WINDOW_S or now < window_at:
        window_at, used = now, 0
    granted = max(0, min(asked, limit - used))
    return granted, window_at, used + granted
