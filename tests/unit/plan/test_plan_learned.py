"""The learned ranker: plain weights from a file, on trial beside the others, never in the way of what must run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from selector.model import TestId
from selector.plan.learned import RankerError, features, read_ranker
from selector.plan.ranking import Ranked
from selector.plan.shadow import orders

NEAR = Ranked(TestId("test/a.py", "T", "test_near"), False, 0.9, 1.0, codes=("op-reference",), limited=True)
FAR = Ranked(TestId("test/a.py", "T", "test_far"), False, 0.2, 1.0, codes=("import",))
EDITED = Ranked(TestId("test/a.py", "T", "test_edited"), True, 0.1, 9.0, codes=("edited-test",))
GOOD: dict[str, Any] = {"format": 1, "features": ["weight", "code:op-reference"], "weights": [2.0, 1.0], "bias": -1.0}


def weights(**changed: Any) -> str:
    return json.dumps({**GOOD, **changed})


def test_a_chance_is_the_logistic_of_the_weighted_features() -> None:
    ranker = read_ranker(weights(), "w.json")
    assert ranker.chance(NEAR) == pytest.approx(1 / (1 + 2.718281828 ** -(-1 + 1.8 + 1.0)))
    assert ranker.chance(FAR) == pytest.approx(1 / (1 + 2.718281828 ** -(-1 + 0.4)))


def test_weights_decide_the_order_and_what_must_run_comes_first() -> None:
    found = orders([FAR, NEAR, EDITED], 100.0, more={"learned": read_ranker(weights(), "w.json")})
    assert found["learned"] == (EDITED.test, NEAR.test, FAR.test)
    turned = read_ranker(weights(weights=[-2.0, -1.0]), "w.json")
    assert orders([FAR, NEAR, EDITED], 100.0, more={"learned": turned})["learned"] == (EDITED.test, FAR.test, NEAR.test)
    assert {"expected-value", "weight"} < found.keys()


def test_no_value_is_too_large_for_it() -> None:
    ranker = read_ranker(weights(weights=[1e6, 1.0]), "w.json")
    assert 0.0 < ranker.chance(NEAR) <= 1.0
    assert ranker.chance(Ranked(NEAR.test, False, -1e6, 1.0)) >= 0.0


def test_features_by_name() -> None:
    names = ("weight", "limited", "touched", "broke-rate", "log-seconds", "code:import")
    assert features(NEAR, names) == [0.9, 1.0, 0.5, 0.0, 0.0, 0.0]
    seen = Ranked(FAR.test, False, 0.2, 1.0, touched=True, broke=1, runs=4, codes=("import",))
    assert features(seen, names) == [0.2, 0.0, 1.0, 0.25, 0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "w.json"),
        (weights(format=2), "format 2"),
        (weights(weights=[1.0]), "2 features and 1 weights"),
        (weights(features=["weight", "mood"]), "unknown features: mood"),
        (weights(bias=None), "bias"),
        (weights(extra=1), "extra"),
        ('{"format": 1, "features": ["weight"], "weights": [NaN], "bias": 0}', "weights.0"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(text: str, said: str) -> None:
    with pytest.raises(RankerError) as error:
        read_ranker(text, "w.json")
    assert "w.json" in error.value.message
    assert said in error.value.message
