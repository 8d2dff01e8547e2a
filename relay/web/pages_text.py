"""Words and numbers of the pages: pure functions from stored values to what people read. Jinja gets them as filters."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from markupsafe import Markup, escape

from relay.domain.words import plural

Map = dict[str, Any]

CHIPS: dict[str, tuple[str, str, str]] = {
    # word: (class, sign, label); the sign says it without colour
    "success": ("good", "✓", "success"),
    "failure": ("bad", "✕", "failure"),
    "neutral": ("mute", "–", "neutral"),
    "sending": ("live", "●", "sending"),
    "sent": ("live", "●", "sent"),
    "selecting": ("live", "●", "selecting"),
    "running": ("live", "●", "running"),
    "confirming": ("live", "●", "confirming"),
    "verifying": ("live", "●", "verifying"),
    "completed": ("mute", "✓", "completed"),
    "superseded": ("mute", "↷", "superseded"),
    "failed": ("bad", "✕", "failed"),
    # jobs of a downstream's CI
    "queued": ("mute", "○", "queued"),
    "in_progress": ("live", "●", "in progress"),
    "cancelled": ("mute", "⊘", "cancelled"),
    "skipped": ("mute", "↷", "skipped"),
    "timed_out": ("bad", "✕", "timed out"),
    "action_required": ("warn", "!", "action required"),
    "stale": ("mute", "–", "stale"),
    # outcomes
    "passed": ("good", "✓", "passed"),
    "error": ("bad", "✕", "error"),
    "crashed": ("bad", "✕", "crashed"),
    "self_skipped": ("mute", "↷", "self-skipped"),
    "xfailed": ("mute", "✓", "xfailed"),
    "xpassed": ("warn", "!", "xpassed"),
    # shards
    "leased": ("live", "●", "with a worker"),
    "done": ("good", "✓", "done"),
    # deliveries and effects
    "received": ("live", "●", "received"),
    "routed": ("good", "✓", "routed"),
    "ignored": ("mute", "–", "ignored"),
    "due": ("live", "●", "waiting"),
    "parked": ("bad", "!", "parked"),
    "dropped": ("mute", "–", "dropped"),
    "told": ("good", "✓", "sent"),  # of an effect; a dispatch that is sent still waits for its answer
    # kinds of failures
    "regression": ("bad", "✕", "regression"),
    "unconfirmed": ("warn", "?", "unconfirmed"),
    "pre-existing": ("mute", "–", "pre-existing"),
    "infrastructure": ("warn", "!", "infrastructure"),
    "conflict": ("warn", "?", "labs disagree"),
    "device-limit": ("warn", "!", "limit of the device"),
    "flaky": ("mute", "–", "flaky"),
    "broken-on-trunk": ("mute", "–", "broken on trunk"),
}


KIND_SAYS: dict[str, str] = {
    "regression": "passes without the change",
    "unconfirmed": "failed with the change, but not surely because of it",
    "pre-existing": "fails without the change too",
    "infrastructure": "the run's own surroundings, not the change",
    "conflict": "labs disagree about it",
    "device-limit": "the device cannot do this, whatever the change",
    "flaky": "fails now and then without the change as well",
    "broken-on-trunk": "trunk has it broken already",
}
"""What a kind of failure says of the base commit, in words."""


CARD_SAYS: dict[str, str] = {
    "good": "CI relay: fine",
    "bad": "CI relay: failing",
    "warn": "CI relay: worth a look",
    "live": "CI relay: running",
    "mute": "CI relay: does an upstream change break your accelerator?",
}
"""What the pictures of cards say (deploy/tools/cards.py draws them), by the page's look."""


def chip(word: str | None) -> tuple[str, str, str]:
    """(class, sign, label) of a state, conclusion or outcome; a word we do not know is shown as it is."""
    return CHIPS.get(word or "", ("mute", "·", word or "unknown"))


def standing(run: Map) -> str:
    """The word that says where a dispatch stands: its conclusion once it has one, else its state."""
    return str(run["conclusion"] or run["state"])


def duration(seconds: float | None) -> str:
    """``0.034`` → ``34 ms``, ``3.21`` → ``3.2 s``, ``75`` → ``1 min 15 s``, ``7260`` → ``2 h 1 min``."""
    if seconds is None:
        return "–"
    if seconds < 0.0005:
        return "0 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{round(seconds / 86400)} days"


def rough(seconds: float | None) -> str:
    """A mean: two figures are all it is worth. ``75`` → ``75 s``, ``1777`` → ``30 min``, ``9000`` → ``2.5 h``."""
    if seconds is None or seconds < 1:
        return duration(seconds)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def micros(us: float | None) -> str:
    """Microseconds of modelled device time."""
    if us is None:
        return "–"
    return f"{us:.0f} µs" if us < 1000 else duration(us / 1e6)


def size(count: float | None) -> str:
    """Bytes: ``812 B``, ``1.5 KB``, ``3.2 MB``, in steps of 1,000."""
    if count is None:
        return "–"
    for unit in ("B", "KB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 9.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def metered(meter: Map) -> str:
    """What the device counted for one variant, beside kernels and time."""
    said = []
    for name, value in meter.items():
        words = name.replace("_", " ").replace("h2d", "to the device").replace("d2h", "from it")
        said.append(f"{words.removesuffix(' bytes').removeprefix('bytes ')} {size(value)}" if "bytes" in name
                    else plural(value, words.removesuffix("s")))  # fmt: skip
    return ", ".join(said)


def ago(then: float, now: float) -> str:
    """``3 min ago``; ``in 3 h`` of what is more than a minute ahead (a little is two clocks that differ)."""
    if then - now > 60:
        return f"in {_about(then - now)}"
    seconds = max(0.0, now - then)
    return "just now" if seconds < 2 else f"{_about(seconds)} ago"


def _about(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def stamp(seconds: float) -> str:
    """``2026-11-29 18:36:02 UTC``"""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def breaks(name: str) -> Markup:
    """A test's name, a path or what names some, escaped: it may go on in the next line after each of their parts."""
    return Markup(re.sub(r"(::|/|_(?!_)|:(?=[^:\s])|\.(?=[A-Za-z_]{4}))(?=.)", r"\1<wbr>", str(escape(name))))


def tag(id: str) -> str:
    """The end of a run's id, by which people tell it from another: it begins with the time, as its neighbours do."""
    return id[-8:]


def short(sha: str | None) -> str:
    return (sha or "")[:10]


def https(url: str | None) -> str | None:
    """The URL where it may be a link: https with a host, no user part, no space or control character. Reports bring
    URLs from other people's CI; anything else is shown as text at most."""
    if not url or re.search(r"[\x00-\x20\x7f\\]", url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme == "https" and parts.hostname and "@" not in parts.netloc else None


def known(url: str | None, hosts: frozenset[str]) -> str | None:
    """The URL where it may be a link and leads to one of ``hosts`` or below one; of what nobody has held against the
    claims of whoever reported it."""
    if https(url) is None or url is None:
        return None
    host = (urlsplit(url).hostname or "").casefold()
    return url if any(host == one or host.endswith(f".{one}") for one in hosts) else None


CHANGED: dict[str, str] = {
    "body": "own statements",
    "decorator": "decorators",
    "helper": "a helper",
    "opinfo": "operator database",
    "new": "new",
    "gone": "gone",
    "renamed": "renamed",
    "cosmetic": "looks alone",
}
"""What of a test differs between two releases, by the kind of its change."""

STANDS: dict[str, tuple[str, str]] = {
    "regression": ("bad", "regression"),
    "newcomer-fails": ("warn", "new test fails"),
    "fails-on-both": ("mute", "fails on both"),
    "unknown": ("mute", "fails, before unknown"),
    "environment": ("mute", "the machine's fault"),
    "passes": ("good", "passes"),
    "fixed": ("good", "fixed"),
    "not-run": ("mute", "not run"),
}
"""Class and words of where a changed test stands on the new release."""

SIDES: dict[str, str] = {
    "head": "with the change",
    "base": "without it",
    "again": "with the change, again",
    "base-again": "without it, again",
    "trace": "traced",
}
"""What a shard runs, by its side: the commit, or the one it is compared with."""


def test_href(test: str) -> str:
    return "/test/" + quote(test, safe="/:")
