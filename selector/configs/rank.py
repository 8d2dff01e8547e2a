"""How specifically an entry names a variant; the most specific one governs."""

from __future__ import annotations

from dataclasses import dataclass

from selector.configs.tree import Edits, Suite, TestEntry

Rank = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that names a test, with how specifically it does."""

    rank: Rank
    path_rank: Rank
    order: int
    entry: TestEntry
    suite: Suite


def scope_score(edits: Edits, names: frozenset[str]) -> int:
    """2: an included item is one of ``names``; 1: the entry includes nothing; 0: it includes others only."""
    if not edits.include:
        return 1
    return 2 if any(item.name in names for item in edits.include) else 0


def rank_key(match: Match, ops: frozenset[str], dtypes: frozenset[str]) -> tuple[Rank, int, Rank, int]:
    """How specific an entry is for a variant; the greatest governs."""
    return (match.rank, entry_score(match.entry, ops, dtypes), match.path_rank, -match.order)


def entry_score(entry: TestEntry, ops: frozenset[str], dtypes: frozenset[str]) -> int:
    """How much an entry names of what a variant is: its op, its dtype, the machine it runs on."""
    return scope_score(entry.ops, ops) + scope_score(entry.dtypes, dtypes) + bool(entry.platforms)
