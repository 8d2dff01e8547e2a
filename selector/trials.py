"""Rules and models on trial: evaluated beside those in force, written down, never acted upon (docs/plan.md).

A module of a rule that says ``SHADOW = True`` is on trial. Its answers go where nobody acts on them, and a fault of it
ends nothing but its own trial.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType

from selector.model import Decision, OnTrial, Stage, TestId

SHOWN = 20
"""decisions of one subject that are kept with their reasons; the tests are kept all"""


def on_trial(rule: ModuleType) -> bool:
    """Whether a rule's module is marked."""
    return bool(getattr(rule, "SHADOW", False))


def name_of(rule: ModuleType) -> str:
    """``rule:areas``."""
    return f"rule:{rule.__name__.rpartition('.')[2]}"


@dataclass(slots=True)
class _Held:
    adds: list[TestId] = field(default_factory=list)
    drops: list[TestId] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    error: str = ""


class Differences:
    """What the subjects on trial of a stage would have decided otherwise."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._held: dict[str, _Held] = {}

    @contextmanager
    def watched(self, subject: str) -> Iterator[None]:
        """Takes the faults of what is on trial: the selection goes on without it, and its error is told."""
        held = self._held.setdefault(subject, _Held())
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - told with the trial; a rule that nobody acts on must end no run
            held.error = f"{type(exc).__name__}: {exc}"[:500]

    def otherwise(self, subject: str, test: TestId, decision: Decision, *, add: bool) -> None:
        """The subject would have kept (``add``) or dropped the test, and what is in force did the reverse."""
        held = self._held.setdefault(subject, _Held())
        (held.adds if add else held.drops).append(test)
        if len(held.decisions) < SHOWN:
            held.decisions.append(decision)

    def opinions(self) -> tuple[OnTrial, ...]:
        """One for each subject that was asked, silent ones included, by name."""
        return tuple(
            OnTrial(
                name, self.stage, tuple(sorted(one.adds)), tuple(sorted(one.drops)), tuple(one.decisions), one.error
            )
            for name, one in sorted(self._held.items())
        )
