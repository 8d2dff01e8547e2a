"""What becomes of a send, from what came back. Pure: the edge fills a Reply, this says sent, again, or parked.

Three questions decide. Did the other side perhaps act on it (then the row is *ambiguous*, and the next sender looks
before it sends)? Can another try go better? How long must we wait? docs/outbox.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

Kind = str
"""dispatch, check_run, hud, comment, cancel, rerun; other kinds are settled as those on GitHub are."""

BASE_S = 1.0
CAP_S = 300.0
AMBIGUOUS_MIN_S = 3.0
"""A run that GitHub has just made needs a moment to show up in its lists."""
SECONDARY_LIMIT_S = 60.0
"""What GitHub asks for when a secondary limit's answer names no time."""
LONGEST_WAIT_S = 3600.0
"""GitHub's windows are an hour; a header that asks for more is not believed."""
MAX_AGE_S: dict[str, float] = {
    "dispatch": 6 * 3600.0,
    "check_run": 3 * 86400.0,
    "hud": 14 * 86400.0,
    "comment": 86400.0,
    "cancel": 3600.0,
    "rerun": 3600.0,
}
"""After that nobody waits for it any more: it is parked, and an operator may send it again."""
OTHER_AGE_S = 3 * 86400.0

RENAMES = 3
"""A repository that is somewhere else each time it is looked for is not followed for ever."""

DASHBOARD = frozenset({"hud", "hud_recheck"})
"""Kinds of effects that go to the dashboard; all others go to GitHub."""
_HUD_REFUSALS = frozenset({400, 413, 422})
"""Only these say that the row itself is wrong; any other answer of the dashboard is our trouble, and the row waits."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A repository under the name it has now; ``id`` is GitHub's number of it."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from one try.

    ``status`` None: no answer. ``reached``: whether the request that has the effect may have left (False: it failed
    before, for example while connecting or while getting a token). ``retry_after`` in seconds, where the answer names
    one or means one. ``auth``: the answer came from GitHub's token or installation calls, not from the effect's.
    ``moved``: of a 3xx, whose new name could be found out. ``foreign``: it has not the shape of the service's own
    answers (a proxy's page, an object without its number), so nothing is known of what the service did.
    """

    status: int | None = None
    reached: bool = True
    retry_after: float | None = None
    detail: str = ""
    auth: bool = False
    moved: Moved | None = None
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Settlement:
    """``state`` is sent, due (again in ``delay_s`` seconds) or parked; ``code`` is stable (docs/reason-codes.md)."""

    state: Literal["sent", "due", "parked"]
    code: str
    delay_s: float = 0.0
    ambiguous: bool = False


def settle(kind: Kind, reply: Reply, *, attempts: int, age_s: float, jitter: float) -> Settlement:
    """What to do after the ``attempts``-th try (1-based) of an effect asked for ``age_s`` seconds ago.

    ``jitter`` in 0..1 spreads the wait over half of itself, so that what failed together does not return together.
    """
    if reply.status is not None and not reply.auth and not reply.foreign and _done(kind, reply.status):
        return Settlement("sent", "sent")
    code, again, ambiguous = _judge(kind, reply)
    if code == "renamed" and attempts <= RENAMES:
        return Settlement("due", code)
    if not again or code == "renamed":
        return Settlement("parked", code)
    if age_s > MAX_AGE_S.get(kind, OTHER_AGE_S):
        return Settlement("parked", "gave-up", ambiguous=ambiguous)
    delay = min(CAP_S, BASE_S * 2.0 ** min(attempts - 1, 20)) * (0.5 + 0.5 * jitter)
    if ambiguous:
        delay = max(delay, AMBIGUOUS_MIN_S)
    if reply.retry_after is not None:
        # jitter goes on top: the time that was asked for is a lower bound
        delay = max(delay, min(reply.retry_after, LONGEST_WAIT_S) + jitter)
    return Settlement("due", code, delay, ambiguous)


def _done(kind: Kind, status: int) -> bool:
    # a dispatch is accepted by 204 and by nothing else
    return status == 204 if kind == "dispatch" else 200 <= status < 300


def _judge(kind: Kind, reply: Reply) -> tuple[str, bool, bool]:
    """(code, worth another try, perhaps acted upon)"""
    status = reply.status
    if status is None:
        return ("no-answer", True, True) if reply.reached else ("not-sent", True, False)
    if status == 429 or (status == 403 and reply.retry_after is not None):
        return "rate-limited", True, False
    if status == 408 or status >= 500:
        # a gateway may give up on a request that its backend then performs
        return "server-error", True, reply.reached
    if reply.foreign or 200 <= status < 300:
        # whoever answered was not asked, or said something else than what was: perhaps it was done all the same
        return "unexpected-answer", True, reply.reached
    if kind in DASHBOARD:
        if status in _HUD_REFUSALS:
            return "refused", False, False
        return ("credentials" if status in (401, 403) else "unexpected-answer"), True, False
    if 300 <= status < 400:
        return ("moved", False, False) if reply.moved is None else ("renamed", True, False)
    if status == 401:
        return "credentials", True, False
    if reply.auth:
        return _refused_token(status, reply.detail), False, False
    if status == 409:
        return "conflict", True, False
    return {403: "forbidden", 404: "not-found", 410: "gone", 422: "refused"}.get(status, "refused"), False, False


def _refused_token(status: int, detail: str) -> str:
    if status == 422 and "repositor" in detail.casefold():
        return "not-installed"  # the installation is there, and this repository is not among those it was given
    return {404: "not-installed", 403: "installation-suspended", 422: "permission-missing"}.get(status, "refused")


def wait_asked(status: int, headers: Mapping[str, str], text: str, now: float) -> float | None:
    """Seconds that an answer asks to wait: Retry-After (seconds or a date), GitHub's exhausted quota, its secondary
    limits, which sometimes say so only in the text. None: it does not ask. Header names in lower case."""
    if status not in (403, 429, 503):
        return None
    after = headers.get("retry-after", "").strip()
    if after.isascii() and after.isdigit():
        return float(after)
    if after:
        try:
            return max(0.0, parsedate_to_datetime(after).timestamp() - now)
        except ValueError:
            return SECONDARY_LIMIT_S
    reset = headers.get("x-ratelimit-reset", "").strip()
    if headers.get("x-ratelimit-remaining", "").strip() == "0":
        return max(0.0, float(reset) - now) if reset.isascii() and reset.isdigit() else SECONDARY_LIMIT_S
    if "rate limit" in text.lower() or "abuse detection" in text.lower():
        return SECONDARY_LIMIT_S
    return None
