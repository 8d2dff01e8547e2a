"""A ranker that was learned: the chance that a test fails, from weights that `relay learn` fitted and wrote down.

    chance = 1 / (1 + exp(-(bias + sum of weight x feature)))

Plain numbers, no torch. It is on trial like any other ranker (`selector.plan.shadow`) and orders by chance a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from selector.errors import SelectorError
from selector.plan.ranking import LEAST_SECONDS, NOT_KNOWN, Ranked

NAME = "learned"
FORMAT = 1
NUMBERS = ("weight", "log-seconds", "limited", "touched", "broke-rate", "log-mates")
CODE = "code:"
"""features of this beginning are 1 where the test's strongest reason has this code"""


class RankerError(SelectorError):
    """A file of weights that cannot be read."""

    code = "ranker-weights"


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    features: tuple[str, ...]
    weights: tuple[Annotated[float, Field(allow_inf_nan=False)], ...]
    bias: Annotated[float, Field(allow_inf_nan=False)]
    metrics: dict[str, Any] = {}
    origin: dict[str, Any] = {}

    @model_validator(mode="after")
    def _fits(self) -> _File:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format} is not {FORMAT}, which this version reads")
        if len(self.features) != len(self.weights):
            raise ValueError(f"{len(self.features)} features and {len(self.weights)} weights")
        unknown = [name for name in self.features if name not in NUMBERS and not name.startswith(CODE)]
        if unknown:
            raise ValueError(f"unknown features: {', '.join(unknown)}")
        return self


@dataclass(frozen=True, slots=True)
class Learned:
    """A ranker (`selector.plan.ranking.Ranker`). ``metrics``: what it reached on records that it was not fitted to;
    ``origin``: what it was fitted to."""

    features: tuple[str, ...]
    weights: tuple[float, ...]
    bias: float
    metrics: dict[str, Any]
    origin: dict[str, Any]

    def chance(self, one: Ranked) -> float:
        """0..1."""
        total = self.bias + sum(w * x for w, x in zip(self.weights, features(one, self.features), strict=True))
        return 1.0 / (1.0 + exp(-min(max(total, -60.0), 60.0)))

    def __call__(self, one: Ranked) -> tuple[float, ...]:
        return (-self.chance(one) / max(one.seconds, LEAST_SECONDS),)


def features(one: Ranked, names: Sequence[str]) -> list[float]:
    """The values of the named features of a test."""
    touched = NOT_KNOWN if one.touched is None else float(one.touched)
    known = {
        "weight": one.weight,
        "log-seconds": log(max(one.seconds, LEAST_SECONDS)),
        "limited": float(one.limited),
        "touched": touched,
        "broke-rate": one.broke / one.runs if one.runs else 0.0,
        "log-mates": log(max(one.mates, 1)),
    }
    strongest = CODE + (one.codes[0] if one.codes else "")
    return [known[name] if name in known else float(name == strongest) for name in names]


def read_ranker(text: str, source: str) -> Learned:
    """Reads what `relay learn` wrote. Raises RankerError that names the place."""
    try:
        found = _File.model_validate(json.loads(text))
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RankerError(f"{source}: {place}: {first['msg']}", "relay learn writes such a file") from exc
    except ValueError as exc:
        raise RankerError(f"{source}: no JSON: {exc}", "relay learn writes such a file") from exc
    return Learned(found.features, found.weights, found.bias, found.metrics, found.origin)
