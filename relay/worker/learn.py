"""Fits the weights of the learned ranker with torch. The relay itself reads the plain numbers that come of it.

A logistic regression: few features, few thousand examples, and weights that a person can read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from selector.plan.learned import CODE, FORMAT, NUMBERS, features
from selector.plan.learning import LEAST, Example, TooLittle

L2 = 1e-2
STEPS = 200


@dataclass(frozen=True, slots=True)
class Fitted:
    """``value``: what `selector.plan.learned.read_ranker` reads."""

    value: dict[str, Any]


def fit(examples: Sequence[Example], held: Collection[str], unit: str, origin: dict[str, Any]) -> Fitted:
    """Weights by all changes that are not ``held`` out; metrics by those that are. ``unit``: what the changes are, in
    the plural. The same examples give the same weights. Raises TooLittle."""
    changes = {one.change for one in examples}
    if len(changes) < LEAST:
        raise TooLittle(f"{len(changes)} {unit} that some planned test finds", f"{LEAST} are needed")
    learned = [one for one in examples if one.change not in held]
    tested = [one for one in examples if one.change in held]
    if not learned:
        raise TooLittle(f"all {len(changes)} {unit} are held out", "none is left to learn from")
    codes = sorted({one.ranked.codes[0] for one in learned if one.ranked.codes})
    names = [*NUMBERS, *(CODE + code for code in codes)]
    torch.manual_seed(0)
    weights, bias = _fitted(learned, names)
    chances = _chances(tested, names, weights, bias)
    metrics = {
        unit: len(changes & set(held)),
        "tests": len(tested),
        "log_loss": round(_log_loss(chances, tested), 4),
        "log_loss_of_the_mean": round(_log_loss([_rate(learned)] * len(tested), tested), 4),
        "auc": _auc(chances, tested),
        "auc_in_force": _auc([one.ranked.chance for one in tested], tested),
    }
    return Fitted(
        {
            "format": FORMAT,
            "features": names,
            "weights": [round(w, 6) for w in weights],
            "bias": round(bias, 6),
            "metrics": metrics,
            "origin": {**origin, unit: len(changes - set(held)), "tests": len(learned), "torch": torch.__version__},
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
    """How often a test that failed is above one of the same change that did not; None where there is no such pair."""
    above = pairs = 0.0
    by_change: dict[str, list[tuple[float, bool]]] = {}
    for chance, one in zip(chances, examples, strict=True):
        by_change.setdefault(one.change, []).append((chance, one.failed))
    for rows in by_change.values():
        good = torch.tensor([c for c, failed in rows if failed], dtype=torch.float64)
        bad = torch.tensor([c for c, failed in rows if not failed], dtype=torch.float64)
        if len(good) and len(bad):
            difference = good[:, None] - bad[None, :]
            above += float((difference > 0).sum()) + 0.5 * float((difference == 0).sum())
            pairs += difference.numel()
    return round(above / pairs, 4) if pairs else None
