"""Words that pages and commands share."""

from __future__ import annotations


def plural(n: float, one: str, many: str = "") -> str:
    """``1 test``, ``3,000 tests``; ``many`` defaults to ``one`` with an s."""
    return f"{n:,.0f} {one if n == 1 else many or one + 's'}"
