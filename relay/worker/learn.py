"""Fits the weights of the learned ranker with torch. The relay itself reads the plain numbers that come of it.

A logistic regression: few features, few thousand examples, and weights that a person can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from relay.errors import RelayError
from relay.worker.replay.job import taken
from selector.plan.learned import CODE, FORMAT, NUMBERS, features
from selector.replay.training import Example

LEAST_FAULTS = 10
HELD_OUT = 0.25
"""Part of the faults that the metrics are of; the weights are fitted to the others."""
L2 = 1e-2
STEPS = 200


class TooLittle(RelayError):
    """There is nothing to learn from."""

    code = "learn-too-little"
    status = 409


@dataclass(frozen=True, slots=True)
class Fitted:
    """``value``: what `selector.plan.learned.read_ranker` reads."""

    value: dict[str, Any]


def fit(examples: Sequence[Example], origin: dict[str, Any], seed: str) -> Fitted:
    """Weights by all faults that are not held out; metrics by those that are. The same examples and seed give the same
    weights. Raises TooLittle."""
    faults = sorted({one.fault for one in examples})
    if len(faults) < LEAST_FAULTS:
        raise TooLittle(
            f"{len(faults)} faults that some test finds, of kinds that may be learned from",
            f"{LEAST_FAULTS} are needed",
        )
    held = {fault for fault in faults if taken(f"{seed} held", fault, HELD_OUT)}
    learned = [one for one in examples if one.fault not in held]
    tested = [one for one in examples if one.fault in held]
    codes = sorted({one.ranked.codes[0] for one in learned if one.ranked.codes})
    names = [*NUMBERS, *(CODE + code for code in codes)]
    torch.manual_seed(0)
    weights, bias = _fitted(learned, names)
    chances = _chances(tested, names, weights, bias)
    metrics = {
        "faults": len(held),
        "tests": len(tested),
        "log_loss": round(_log_loss(chances, tested), 4),
        "log_loss_of_the_mean": round(_log_loss([_rate(learned)] * len(tested), tested), 4),
        "auc": _auc(chances, tested),
    }
    return Fitted(
        {
            "format": FORMAT,
            "features": names,
            "weights": [round(w, 6) for w in weights],
            "bias": round(bias, 6),
            "metrics": metrics,
            "origin": {**origin, "faults": len(faults) - len(held), "tests": len(learned), "torch": torch.__version__},
        }
    )


def _fitted(examples: Sequence[Example], names: Sequence[str]) -> tuple[list[float], float]:
    x = torch.tensor([features(one.ranked, names) for one in examples], dtype=torch.float64)
    y = torch.tensor([float(one.failed) for one in examples], dtype=torch.float64)
    w = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    b = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([w, b], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(x @ w + b, y) + L2 * (w * w).sum() / len(y)
        value.backward()
        return value

    optimiser.step(loss)
    return w.detach().tolist(), float(b.detach()[0])


def _chances(examples: Sequence[Example], names: Sequence[str], weights: Sequence[float], bias: float) -> list[float]:
    if not examples:
        return []
    x = torch.tensor([features(one.ranked, names) for one in examples], dtype=torch.float64)
    found: list[float] = torch.sigmoid(x @ torch.tensor(weights, dtype=torch.float64) + bias).tolist()
    return found


def _rate(examples: Sequence[Example]) -> float:
    return sum(one.failed for one in examples) / len(examples)


def _log_loss(chances: Sequence[float], examples: Sequence[Example]) -> float:
    if not examples:
        return 0.0
    y = torch.tensor([float(one.failed) for one in examples], dtype=torch.float64)
    p = torch.tensor(chances, dtype=torch.float64).clamp(1e-9, 1 - 1e-9)
    return float(torch.nn.functional.binary_cross_entropy(p, y))


def _auc(chances: Sequence[float], examples: Sequence[Example]) -> float | None:
    """How often a test that failed is above one of the same fault that did not; None where there is no such pair."""
    above = pairs = 0.0
    by_fault: dict[str, list[tuple[float, bool]]] = {}
    for chance, one in zip(chances, examples, strict=True):
        by_fault.setdefault(one.fault, []).append((chance, one.failed))
    for rows in by_fault.values():
        good = torch.tensor([c for c, failed in rows if failed], dtype=torch.float64)
        bad = torch.tensor([c for c, failed in rows if not failed], dtype=torch.float64)
        if len(good) and len(bad):
            difference = good[:, None] - bad[None, :]
            above += float((difference > 0).sum()) + 0.5 * float((difference == 0).sum())
            pairs += difference.numel()
    return round(above / pairs, 4) if pairs else None
