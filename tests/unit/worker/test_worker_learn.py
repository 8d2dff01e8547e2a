"""`relay learn`: weights find what separates failing tests, and are the same for the same examples."""

from __future__ import annotations

import json

import pytest

from relay.worker.learn import fit
from selector.model import TestId
from selector.plan.learned import read_ranker
from selector.plan.learning import Example, TooLittle
from selector.plan.ranking import Ranked


def example(fault: int, number: int, *, near: bool) -> Example:
    test = TestId("test/a.py", "T", f"test_{number}")
    ranked = Ranked(test, False, 0.9 if near else 0.1, 1.0, codes=("op-reference" if near else "import",))
    return Example(f"fault-{fault}", ranked, failed=near)


EXAMPLES = [example(fault, number, near=number == 0) for fault in range(40) for number in range(6)]
HELD = frozenset(f"fault-{fault}" for fault in range(0, 40, 4))


def test_what_fails_gets_the_greater_chance() -> None:
    value = fit(EXAMPLES, HELD, "faults", {"replay": "1"}).value
    ranker = read_ranker(json.dumps(value), "fitted")
    assert ranker.chance(EXAMPLES[0].ranked) > 0.8
    assert ranker.chance(EXAMPLES[1].ranked) < 0.2
    assert ranker.metrics["auc"] == 1.0
    assert ranker.metrics["log_loss"] < ranker.metrics["log_loss_of_the_mean"]
    assert (ranker.metrics["faults"], ranker.origin["faults"]) == (10, 30)
    assert (ranker.metrics["tests"], ranker.origin["tests"]) == (60, 180)
    assert ranker.metrics["auc_in_force"] == 1.0, "the greater weight is the greater chance in force, too"


def test_metrics_are_of_faults_that_were_not_fitted() -> None:
    # labels of the held-out faults alone are turned round: what was learned of the others must then be wrong of them
    turned = [Example(e.change, e.ranked, not e.failed) if e.change in HELD else e for e in EXAMPLES]
    auc = fit(turned, HELD, "faults", {}).value["metrics"]["auc"]
    assert auc == 0.0


def test_the_same_examples_give_the_same_weights() -> None:
    assert fit(EXAMPLES, HELD, "faults", {}).value == fit(list(EXAMPLES), HELD, "faults", {}).value


def test_too_few_faults() -> None:
    with pytest.raises(TooLittle, match="1 faults"):
        fit(EXAMPLES[:6], HELD, "faults", {})


def test_nothing_is_left_to_learn_from() -> None:
    with pytest.raises(TooLittle, match="all 40 changes are held out"):
        fit(EXAMPLES, {one.change for one in EXAMPLES}, "changes", {})
