"""Who can be asked. A mind takes a question and gives a sheet of the type that was asked for, or says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol

from selector.agents.budget import Meter
from selector.agents.desk import Desk
from selector.agents.sheets import AnySheet


@dataclass(frozen=True, slots=True)
class Question(Generic[AnySheet]):
    """``instructions`` are ours; ``prompt`` holds strangers' text between marks. ``tools``: names of the desk's methods
    that may be used; ``at_hand``: what is told in their place to a model that cannot use tools."""

    instructions: str
    prompt: str
    sheet: type[AnySheet]
    desk: Desk
    tools: tuple[str, ...] = ()
    at_hand: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Reply(Generic[AnySheet]):
    sheet: AnySheet
    transcript: tuple[dict[str, str], ...]
    abilities: str


class Mind(Protocol):
    @property
    def name(self) -> str:
        """The model's name, for records and for the keys of kept answers."""
        ...

    def ask(self, question: Question[AnySheet], meter: Meter) -> Reply[AnySheet]:
        """Raises Unanswered, within the seconds that the meter has left."""
        ...
