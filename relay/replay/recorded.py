"""A model's answers for the faults of a replay, recorded by ``relay replay ask`` or by anybody else, and played back.

{"by": "who answered", "answers": {"<fault id>": {"suspects": ["<test id>"], "drop": [], "usd": 0.01, "seconds": 2.5}}}

``suspects``: tests that the model named where stage 1 could not map a file, best first; ``drop``: tests that rules were
not sure of, which it dropped and a critic agreed to drop.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from relay.errors import SettingsError
from selector.agents import Agent, RulesAgent
from selector.agents.port import CONFIRMS, DROPPED, Asked, Suspect
from selector.discover import Discovery
from selector.model import Change, TestId, Tree
from selector.replay.strategies import Recorded
from selector.triage.subject import Opinion, Ruling, Subject


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    suspects: list[str] = []
    drop: list[str] = []
    usd: Annotated[float, Field(ge=0.0)] = 0.0
    seconds: Annotated[float, Field(ge=0.0)] = 0.0


class _Run(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Annotated[str, Field(min_length=1)]
    answers: dict[str, _Answer]


def read_recorded(path: Path) -> dict[str, Recorded]:
    """Answers by fault id. Raises SettingsError that names the place."""
    try:
        run = _Run.model_validate(json.loads(path.read_text(encoding="utf-8")))
        return {
            fault: Recorded(_tests(answer.suspects), frozenset(_tests(answer.drop)), answer.usd, answer.seconds, run.by)
            for fault, answer in run.answers.items()
        }
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", "relay replay ask writes such a file") from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{path}: {place}: {first['msg']}", "relay replay ask writes such a file") from exc
    except ValueError as exc:
        raise SettingsError(f"{path}: {exc}", "relay replay ask writes such a file") from exc


def write_recorded(path: Path, by: str, answers: Mapping[str, Recorded]) -> None:
    """The file that `read_recorded` reads, replaced as a whole."""
    run = _Run(
        by=by,
        answers={
            fault: _Answer(
                suspects=[str(test) for test in one.suspects],
                drop=sorted(str(test) for test in one.drop),
                usd=round(one.usd, 6),
                seconds=round(one.seconds, 3),
            )
            for fault, one in answers.items()
        },
    )
    new = path.with_name(path.name + ".new")
    new.write_text(run.model_dump_json(indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def _tests(names: Iterable[str]) -> tuple[TestId, ...]:
    return tuple(dict.fromkeys(map(TestId.parse, names)))


@dataclass
class RecordedAgent(RulesAgent):
    """Says what was recorded. What comes of it is the selector's business, as with the model itself."""

    said: Recorded
    name = "recorded"

    def suspects(self, found: Discovery, change: Change, head: Tree) -> Sequence[Suspect]:
        """Those of the recorded tests that the tree has."""
        here = (test for test in self.said.suspects if found.inventory.find(test) is not None)
        return [Suspect(test, f"{self.said.by} suspected it", ()) for test in here]

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        """The rules' own, but for what was dropped."""
        return [
            replace(opinion, ruling=Ruling.IRRELEVANT, code=DROPPED, by=CONFIRMS)
            if one.subject.id in self.said.drop
            else opinion
            for one, opinion in zip(asked, super().answers(asked, controls), strict=True)
        ]


@dataclass
class Noting:
    """An agent that is asked, and a note of what came of it: ``suspected`` and ``dropped``."""

    inner: Agent
    suspected: tuple[TestId, ...] = ()
    dropped: frozenset[TestId] = frozenset()

    @property
    def name(self) -> str:
        return self.inner.name

    def suspects(self, found: Discovery, change: Change, head: Tree) -> Sequence[Suspect]:
        said = self.inner.suspects(found, change, head)
        self.suspected = tuple(one.test for one in said)
        return said

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        said = self.inner.answers(asked, controls)
        gone = {
            one.subject.id
            for one, opinion in zip(asked, said, strict=True)
            if opinion.ruling is Ruling.IRRELEVANT and opinion.by == CONFIRMS
        }
        self.dropped |= gone
        return said
