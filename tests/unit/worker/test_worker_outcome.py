from __future__ import annotations

import pytest

from relay.worker.outcome import RAW, died, moded
from selector.model import Mode, Outcome


@pytest.mark.parametrize(
    ("mode", "raw", "outcome"),
    [
        (Mode.MANDATORY_SUCCESS, "passed", Outcome.PASSED),
        (Mode.MANDATORY_SUCCESS, "failed", Outcome.FAILED),
        (Mode.MANDATORY_SUCCESS, "xfailed", Outcome.XFAILED),
        (Mode.MANDATORY_SUCCESS, "self_skipped", Outcome.SELF_SKIPPED),
        (Mode.XFAIL, "failed", Outcome.XFAILED),
        (Mode.XFAIL, "error", Outcome.XFAILED),
        (Mode.XFAIL, "passed", Outcome.XPASSED),
        (Mode.XFAIL, "self_skipped", Outcome.SELF_SKIPPED),
        (Mode.XFAIL_STRICT, "passed", Outcome.XPASSED),
        (Mode.XFAIL_STRICT, "failed", Outcome.XFAILED),
        (Mode.XFAIL_STRICT, "self_skipped", Outcome.SELF_SKIPPED),
    ],
)
def test_outcomes_under_modes(mode: Mode, raw: str, outcome: Outcome) -> None:
    assert raw in RAW
    assert moded(mode, raw) is outcome


def test_how_a_process_ended_is_told_in_words() -> None:
    assert "SIGSEGV" in died(-11)
    assert "signal 64" in died(-64) or "SIGRTMAX" in died(-64)
    assert "status 3" in died(3, "the test host")
    assert died(3, "the test host").startswith("the test host")
