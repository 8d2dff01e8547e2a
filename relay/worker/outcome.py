"""From what a test process did to the outcome of a variant. Pure."""

from __future__ import annotations

import signal

from selector.model import Mode, Outcome

RAW = frozenset({"passed", "failed", "error", "self_skipped", "xfailed"})
"""What a test process may say. ``xfailed``: upstream's own ``expectedFailure`` failed as it should."""


def moded(mode: Mode, raw: str) -> Outcome:
    """The outcome under the config's mode.

    A variant that skips itself proves nothing in any mode: it stays ``self_skipped``, beside the mode it had.
    """
    outcome = Outcome(raw)
    if mode in (Mode.XFAIL, Mode.XFAIL_STRICT):
        if outcome in (Outcome.FAILED, Outcome.ERROR):
            return Outcome.XFAILED
        if outcome is Outcome.PASSED:
            return Outcome.XPASSED
    return outcome


def died(status: int, who: str = "the test process") -> str:
    """How a process ended: ``status`` as ``os.waitstatus_to_exitcode`` gives it (negative: minus the signal)."""
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"{who} was ended by {name}"
    return f"{who} exited with status {status} in the middle of its work"
