"""Whether a backend fails by itself: how many of its runs in a row failed, whatever pull request they were of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
