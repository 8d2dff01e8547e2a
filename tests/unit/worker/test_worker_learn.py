"""`relay learn`: weights find what separates failing tests, and are the same for the same examples."""

from __future__ import annotations

import json

import pytest

from relay.worker.learn import TooLittle, fit
from selector.model import TestId
from selector.plan.learned import read_ranker
from selector.plan.ranking import Ranked
from selector.replay.training import Example


def example(fault: int, number: int, *, near: bool) -> Example:
    test = TestId("test/a.py", "T", f"test_{number}")
    ranked = Ranked(test, False, 0.9 if near else 0.1, 1.0, codes=("op-reference" if near else "import",))
    return Example(f"fault-{fault}", ranked, failed=near)


EXAMPLES = [example(fault, number, near=number == 0) for fault in range(40) for number in range(6)]


def test_what_fails_gets_the_greater_chance() -> None:
    value = fit(EXAMPLES, {"replay": "1"}, "1").value
    ranker = read_ranker(json.dumps(value), "fitted")
    assert ranker.chance(EXAMPLES[0].ranked) > 0.8
    assert ranker.chance(EXAMPLES[1].ranked) < 0.2
    assert ranker.metrics["auc"] == 1.0
    assert ranker.metrics["log_loss"] < ranker.metrics["log_loss_of_the_mean"]
    assert 0 < ranker.metrics["faults"] < 40
    assert ranker.origin["faults"] + ranker.metrics["faults"] == 40


def test_metrics_are_of_faults_that_were_not_fitted() -> None:
    # labels of the held-out faults alone are turned round: what was learned of the others must then be wrong of them
    held = {f"fault-{f}" for f in range(40)} - _fitted_faults()
    turned = [Example(e.fault, e.ranked, not e.failed) if e.fault in held else e for e in EXAMPLES]
    auc = fit(turned, {}, "1").value["metrics"]["auc"]
    assert auc == 0.0


def _fitted_faults() -> set[str]:
    from relay.worker.learn import HELD_OUT
    from relay.worker.replay.job import taken

    return {f"fault-{f}" for f in range(40) if not taken("1 held", f"fault-{f}", HELD_OUT)}


def test_the_same_examples_give_the_same_weights() -> None:
    assert fit(EXAMPLES, {}, "1").value == fit(list(EXAMPLES), {}, "1").value


def test_too_few_faults() -> None:
    with pytest.raises(TooLittle, match="1 faults"):
        fit(EXAMPLES[:6], {}, "1")
