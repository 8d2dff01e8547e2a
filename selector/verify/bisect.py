"""Which commit of trunk broke a test: the first bad one between one that passed and one that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["good", "bad", "broken"]
"""broken: the commit says nothing, whatever is done (the test is not there, its file cannot be imported)"""


@dataclass(frozen=True, slots=True)
class Found:
    """``first_bad`` broke it; ``last_good`` is the newest commit before it that passed; ``between`` commits that say
    nothing lie between the two: it may be any of them."""

    first_bad: str
    last_good: str
    between: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """The commit to be run next."""

    commit: str


@dataclass(frozen=True, slots=True)
class Lost:
    """It cannot be found; ``reason`` says why."""

    reason: str


def step(commits: Sequence[str], known: Mapping[str, State]) -> Found | Probe | Lost:
    """One step of the search. ``commits``: trunk's first parents, oldest first, the last one bad.

    What is stored already counts; a run is asked for only where it halves what is left. Without a good commit the
    search goes back, farther each time. A test that passes between two failures is taken to have broken last where it
    passed last.
    """
    if not commits or known.get(commits[-1]) != "bad":
        return Lost("the newest commit is not known to fail")
    goods = [i for i, commit in enumerate(commits) if known.get(commit) == "good"]
    if not goods:
        return _back(commits, known)
    low = goods[-1]
    high = next(i for i in range(low + 1, len(commits)) if known.get(commits[i]) == "bad")
    unknown = [i for i in range(low + 1, high) if commits[i] not in known]
    if unknown:
        middle = (low + high) / 2
        return Probe(commits[min(unknown, key=lambda i: abs(i - middle))])
    return Found(commits[high], commits[low], tuple(commits[low + 1 : high]))


def _back(commits: Sequence[str], known: Mapping[str, State]) -> Probe | Lost:
    last, back = len(commits) - 1, 1
    while back <= last:
        commit = commits[last - back]
        if commit not in known:
            return Probe(commit)
        back *= 2
    oldest = next((commit for commit in commits if commit not in known), None)
    if commits[0] not in known and oldest is not None:
        return Probe(oldest)
    return Lost("it fails as far back as trunk is known")
