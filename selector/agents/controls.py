"""Tests of which the answer is known, asked among the others: who is wrong about them is not believed about any."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from random import Random

from selector.model import TestId
from selector.triage.subject import Subject

A_BATCH = 3
TRIED = 30


def chosen(
    controls: Sequence[Subject], seed: str, most: int = A_BATCH, fit: Callable[[Subject], bool] | None = None
) -> list[Subject]:
    """At most ``most`` of the controls, the same ones for the same seed. Text that somebody plants for a model does not
    know them; who knew them would still need a ground and a trusted run. Those that ``fit`` come first, as far as
    they are among the first TRIED."""
    drawn = _random(seed).sample(sorted(controls, key=lambda s: s.id), min(max(most, TRIED), len(controls)))
    return sorted(drawn, key=lambda s: not fit(s))[:most] if fit is not None else drawn[:most]


def mixed(subjects: Iterable[Subject], seed: str) -> list[Subject]:
    """In an order from which nothing follows."""
    found = sorted(subjects, key=lambda s: s.id)
    _random(seed + "order").shuffle(found)
    return found


def failed(dropped: Iterable[TestId], controls: Iterable[Subject]) -> bool:
    """Whether a control is among what is to be dropped."""
    return not {subject.id for subject in controls}.isdisjoint(dropped)


def _random(seed: str) -> Random:
    return Random(hashlib.blake2b(seed.encode(), digest_size=16).hexdigest())
