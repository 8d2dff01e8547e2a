"""Answers about tests as they are kept between runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from selector.model import Evidence
from selector.triage.subject import Category


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a test: dropped (and confirmed), or kept, with what was shown for it."""

    drop: bool
    reason: str
    category: Category | None
    evidence: tuple[Evidence, ...]


def to_bytes(kept: Kept) -> bytes:
    return json.dumps(asdict(kept)).encode()


def from_bytes(kept: bytes | None) -> Kept | None:
    """None where nothing is kept, or what is cannot be read: it is asked anew and overwritten."""
    try:
        row = json.loads(kept or b"")
        category = Category(row["category"]) if row["category"] else None
        return Kept(bool(row["drop"]), str(row["reason"]), category, tuple(Evidence(**e) for e in row["evidence"]))
    except (ValueError, TypeError, KeyError):
        return None
