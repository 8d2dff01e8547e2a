"""Both releases' results side by side: a regression is told from a newcomer that never passed."""

from __future__ import annotations

import pytest

from selector.model import Mode, Outcome, TestId, VariantResult
from selector.verify.upgrade import STANDINGS, counts, stand

TEST = TestId("test/test_a.py", "TestA", "test_x")
OLD = TestId("test/test_b.py", "TestB", "test_was")
P, F, S, X = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.XFAILED


def result(test: TestId, outcome: Outcome, end: str = "_spyre", message: str = "", mode: Mode = Mode.MANDATORY_SUCCESS):
    return VariantResult(test, test.method + end, outcome, mode, message=message)


@pytest.mark.parametrize(
    ("was", "old", "new", "standing"),
    [
        pytest.param(TEST, P, F, "regression", id="it passed before"),
        pytest.param(TEST, X, F, "regression", id="it failed as expected before, and otherwise now"),
        pytest.param(OLD, P, F, "regression", id="it passed under another name"),
        pytest.param(None, None, F, "newcomer-fails", id="a new test that never passed"),
        pytest.param(TEST, F, F, "fails-on-both", id="it failed before"),
        pytest.param(TEST, None, F, "unknown", id="the old side was not run"),
        pytest.param(TEST, S, F, "unknown", id="the old side skipped it"),
        pytest.param(TEST, F, P, "fixed", id="it passes now"),
        pytest.param(TEST, P, P, "passes", id="as before"),
        pytest.param(None, None, P, "passes", id="a new test that passes"),
        pytest.param(TEST, P, S, "not-run", id="it skips itself now"),
        pytest.param(TEST, P, None, "not-run", id="no result"),
    ],
)
def test_where_a_test_stands(was, old, new, standing):
    before = [result(was or TEST, old)] if old else []
    now = [result(TEST, new)] if new else []
    (one,) = stand([TEST], {TEST: was} if was else {}, now, before)
    assert one.standing == standing
    assert counts([one]) == {s: int(s == standing) for s in STANDINGS}


def test_the_worst_variant_speaks_and_is_named():
    before = [result(TEST, P, "_a"), result(TEST, F, "_b"), result(TEST, P, "_c")]
    now = [result(TEST, F, "_a", "Error: a"), result(TEST, F, "_b"), result(TEST, P, "_c"), result(TEST, F, "_d")]
    (one,) = stand([TEST], {TEST: TEST}, now, before)
    assert (one.standing, one.variants, one.message) == ("regression", ("test_x_a",), "Error: a")


def test_a_variant_that_the_old_release_does_not_have_is_a_newcomer():
    (one,) = stand([TEST], {TEST: TEST}, [result(TEST, F, "_int8")], [result(TEST, P, "_int32")])
    assert one.standing == "newcomer-fails"


def test_an_environment_that_spoils_a_side_blames_nobody():
    gone = "ConnectionRefusedError: [Errno 111] Connection refused"
    (one,) = stand([TEST], {TEST: TEST}, [result(TEST, F, message=gone)], [result(TEST, P)])
    assert one.standing == "environment"
    (one,) = stand([TEST], {TEST: TEST}, [result(TEST, F)], [result(TEST, F, message=gone)])
    assert one.standing == "unknown"
