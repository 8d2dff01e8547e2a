"""A model's answers that were recorded for the faults of a replay; `selector.replay.strategies` applies them.

{"by": "who answered", "answers": {"<fault id>": {"add": ["<test id>"], "drop": [], "usd": 0.01, "seconds": 2.5}}}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from relay.errors import SettingsError
from selector.model import TestId
from selector.replay.strategies import Recorded


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    add: list[str] = []
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
            fault: Recorded(_tests(answer.add), _tests(answer.drop), answer.usd, answer.seconds, run.by)
            for fault, answer in run.answers.items()
        }
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", "docs/selection.md shows a recorded run") from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{path}: {place}: {first['msg']}", "docs/selection.md shows a recorded run") from exc
    except ValueError as exc:
        raise SettingsError(f"{path}: {exc}", "docs/selection.md shows a recorded run") from exc


def _tests(names: list[str]) -> frozenset[TestId]:
    return frozenset(map(TestId.parse, names))
