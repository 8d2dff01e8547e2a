"""Whether a backend fails by itself: how many of its runs in a row failed, whatever pull request they were of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relay.store.dispatches import OPEN_STATES

Map = dict[str, Any]


def failing_since(runs: Sequence[Map]) -> Map | None:
    """``{runs, at, pulls, more}`` of the newest failures in a row among ``runs`` (``{word, pr, at}``, the oldest
    first): how many, when the first of them was asked for (seconds since the epoch), of how many pull requests, and
    whether there may be older ones (no known run ended otherwise). None: the newest that ended did not fail. A run that
    is open, neutral or cancelled says nothing either way."""
    row: list[Map] = []
    more = True
    for one in reversed(runs):
        if one["word"] == "success":
            more = False
            break
        if one["word"] == "failure":
            row.append(one)
    if not row:
        return None
    pulls = {one["pr"] for one in row if one["pr"] is not None}
    return {"runs": len(row), "at": row[-1]["at"], "pulls": len(pulls), "more": more}


def passing(runs: Sequence[Map]) -> int:
    """How many of the newest of ``runs`` (as ``failing_since`` takes them) passed in a row."""
    words = [one["word"] for one in reversed(runs) if one["word"] in ("success", "failure")]
    return next((n for n, word in enumerate(words) if word == "failure"), len(words))


def tell_rows(backends: Sequence[Map], key: str, whole: Callable[[Sequence[str]], Map]) -> None:
    """Gives each of ``backends`` its ``streak`` by its ``marks``, which are few: ``whole`` (downstream keys -> their
    rows, relay.store.views_backends.failing_rows) is asked once about all whose marks tell no pass. ``key``: where the
    name stands. And ``fails``: whether it needs somebody now."""
    for one in backends:
        one["streak"] = failing_since(one["marks"])
    long = {str(one[key]).casefold(): one for one in backends if one["streak"] and one["streak"]["more"]}
    known = whole(sorted(long))
    for name, one in long.items():
        one["streak"] = known.get(name, one["streak"])
    for one in backends:
        one["fails"] = _fails(one)


def _fails(backend: Map) -> bool:
    """The newest run that ended failed, or several in a row did, whatever neutral ones came after."""
    if backend["streak"] is None:
        return False
    ended = [mark["word"] for mark in backend["marks"] if mark["word"] not in OPEN_STATES]
    return backend["streak"]["runs"] > 1 or ended[-1:] == ["failure"]


def longest_first(backend: Map) -> tuple[int, float]:
    """To sort by: what has failed the longest first, the rest as it stood."""
    return (0, float(backend["streak"]["at"])) if backend["fails"] else (1, 0.0)
