"""Which waits are over: a downstream that was told and never answered, a job that began and never ended. Pure.

An end that a deadline makes is presumed (relay.domain.lifecycle): whatever is reported later takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.domain.allowlist_entry import Deadlines

START_S = 6 * 3600.0
"""From the dispatch to the first report, where the allowlist does not say: GitHub itself keeps a job queued for a day,
and nobody waits that long for an answer."""
RUN_S = 6 * 3600.0
"""From a job's start to its end: GitHub's own limit on hosted runners."""
NO_WORKER_S = 900.0
"""So long the shards of a run wait when no worker of their queue is alive any more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, as they hold for one downstream."""

    start_s: float
    run_s: float


def limits(own: Deadlines | None) -> Limits:
    """The downstream's own deadlines, else the relay's."""
    start = own.start_s if own is not None and own.start_s is not None else START_S
    run = own.run_s if own is not None and own.run_s is not None else RUN_S
    return Limits(start, run)


def start_missed(sent_at: float, own: Limits, now: float) -> bool:
    return now - sent_at > own.start_s


def end_missed(status: str, queued_at: float | None, started_at: float | None, own: Limits, now: float) -> bool:
    """A job that waits gets the time for a start, one that runs the time of a run."""
    if status == "in_progress" and started_at is not None:
        return now - started_at > own.run_s
    return status == "queued" and queued_at is not None and now - queued_at > own.start_s


def words(seconds: float) -> str:
    """``90 s``, ``30 min``, ``6 h``, ``5 d``"""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
