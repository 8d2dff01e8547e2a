"""Is a downstream ready for the next level, and does it still keep its own? Pure; docs/levels.md has the numbers.

Counted are the newest attempts of two weeks. Superseded and cancelled runs say nothing about a downstream and are left
out, of how often something passed as well as of how long it took.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

WINDOW_S = 14 * 86400.0
MIN_RUNS = 20
"""Fewer runs in two weeks prove nothing, neither good nor bad."""
OVERRUN_S = 3 * 3600.0
STEADY_S = 3 * 86400.0
"""So long a downstream must be below what its level keeps before a demotion is proposed, and so long it must meet what
its level asks before the proposal is taken back: in between nothing changes."""
LEFT_OUT = ("cancelled", "skipped", "stale", None)


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest attempt of a job, or a dispatch that nobody answered (then only ``conclusion`` is known). Seconds."""

    dispatch_id: str
    conclusion: str | None
    queue_s: float | None = None
    run_s: float | None = None
    end_to_end_s: float | None = None


@dataclass(frozen=True, slots=True)
class Asks:
    """Bounds: at least ``pass_rate``, below the others. Rates are parts of one, times seconds."""

    pass_rate: float
    queue_s: float
    overrun_rate: float
    end_to_end_s: float
    timeout_rate: float


ASKED: dict[str, Asks] = {
    "L3": Asks(0.90, 30 * 60.0, 0.01, 3 * 3600.0, 0.01),
    "L4": Asks(0.95, 30 * 60.0, 0.01, 3 * 3600.0, 0.01),
}
"""To come to a level. Those of level 3 are the public ones of its RFC."""
KEPT: dict[str, Asks] = {
    "L3": Asks(0.80, 60 * 60.0, 0.05, 6 * 3600.0, 0.05),
    "L4": Asks(0.90, 60 * 60.0, 0.05, 6 * 3600.0, 0.05),
}
"""To stay there: looser, so that a downstream near a bound is not moved to and fro."""
BELOW = {"L4": "L3", "L3": "L2"}
ABOVE = {"L1": "L2", "L2": "L3", "L3": "L4"}


@dataclass(frozen=True, slots=True)
class Readiness:
    """What two weeks show. A figure is None where nothing was measured. ``missing``: sentences, what the ``next`` level
    asks and is not there; empty and ``next`` not None: ready."""

    level: str
    next: str | None
    runs: int
    pass_rate: float | None
    queue_s: float | None
    overrun_rate: float | None
    end_to_end_s: float | None
    timeout_rate: float | None
    missing: tuple[str, ...]
    failing: tuple[str, ...]
    """what its own level keeps and is not there"""

    def as_map(self) -> dict[str, Any]:
        return asdict(self)


def measure(level: str, samples: Sequence[Sample]) -> Readiness:
    """What ``samples`` (of the newest attempts of WINDOW_S) show about a downstream at ``level``."""
    counted = [one for one in samples if one.conclusion not in LEFT_OUT]
    number = len(counted)
    queues = [one.queue_s for one in counted if one.queue_s is not None]
    runs = [one.run_s for one in counted if one.run_s is not None]
    whole: dict[str, float] = {}
    for one in counted:
        if one.end_to_end_s is not None:
            whole[one.dispatch_id] = max(whole.get(one.dispatch_id, 0.0), one.end_to_end_s)
    figures: dict[str, float | None] = {
        "pass_rate": _part(counted, "success", "neutral"),
        "queue_s": statistics.fmean(queues) if queues else None,
        "overrun_rate": sum(run > OVERRUN_S for run in runs) / len(runs) if runs else None,
        "end_to_end_s": statistics.median(whole.values()) if whole else None,
        "timeout_rate": _part(counted, "timed_out"),
    }
    following = ABOVE.get(level)
    missing: list[str] = []
    if following == "L2":
        missing.append("at level 1 nothing comes back, so nothing can be measured: a person moves it")
    elif following is not None:
        if number < MIN_RUNS:
            missing.append(f"{number} of the {MIN_RUNS} runs in 14 days that are needed to tell")
        missing += _short_of(ASKED[following], figures)
    failing = _short_of(KEPT[level], figures) if level in KEPT and number >= MIN_RUNS else []
    return Readiness(level, following, number, missing=tuple(missing), failing=tuple(failing), **figures)


def _part(samples: Sequence[Sample], *words: str) -> float | None:
    return sum(one.conclusion in words for one in samples) / len(samples) if samples else None


def _short_of(asks: Asks, figures: dict[str, float | None]) -> list[str]:
    """Sentences; what was not measured is not met."""
    found = []
    rate = figures["pass_rate"]
    if rate is None or rate < asks.pass_rate:
        found.append(f"pass rate {_percent(rate)}, asked for: at least {_percent(asks.pass_rate)}")
    for key, what in (("overrun_rate", "runs over 3 h"), ("timeout_rate", "timeouts")):
        value, bound = figures[key], float(getattr(asks, key))
        if value is None or value >= bound:
            found.append(f"{what} {_percent(value)}, asked for: below {_percent(bound)}")
    for key, what in (("queue_s", "mean wait for a start"), ("end_to_end_s", "median from event to answer")):
        value, bound = figures[key], float(getattr(asks, key))
        if value is None or value >= bound:
            found.append(f"{what} {_time(value)}, asked for: below {_time(bound)}")
    return found


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{100 * value:.3g} %"


def _time(value: float | None) -> str:
    """Seconds in the unit that fits: ``40 s``, ``30 min``, ``3.5 h``."""
    if value is None:
        return "not measured"
    if value < 99.5:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 99.5 * 60 else f"{value / 3600:.3g} h"


# ------------------------------------------------------------------------------------------------------------ demotion


@dataclass(frozen=True, slots=True)
class Standing:
    """How long a downstream has been below or above, and the level that is proposed for it (None: none). A person
    applies it: by a change of the allowlist."""

    level: str
    proposed: str | None = None
    reason: str | None = None
    below_since: float | None = None
    above_since: float | None = None


def judge(known: Standing | None, measured: Readiness, now: float) -> Standing:
    """The standing after one more look. A level that a person changed begins anew."""
    if known is None or known.level != measured.level:
        known = Standing(measured.level)
    if measured.level not in BELOW or measured.runs < MIN_RUNS:
        return Standing(measured.level, known.proposed, known.reason)
    good = not measured.failing and not _short_of(ASKED[measured.level], _figures(measured))
    below = (known.below_since if known.below_since is not None else now) if measured.failing else None
    above = (known.above_since if known.above_since is not None else now) if good else None
    proposed, reason = known.proposed, known.reason
    if proposed is None and below is not None and now - below >= STEADY_S:
        proposed, reason = BELOW[measured.level], "; ".join(measured.failing)
    elif proposed is not None and above is not None and now - above >= STEADY_S:
        proposed, reason = None, None
    return Standing(measured.level, proposed, reason, below, above)


def _figures(measured: Readiness) -> dict[str, float | None]:
    keys = ("pass_rate", "queue_s", "overrun_rate", "end_to_end_s", "timeout_rate")
    return {key: getattr(measured, key) for key in keys}


def checklist(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the next level asks beside what was measured (``measured`` as :meth:`Readiness.as_map` has it), a line each:
    ``{what, value, asked, met}``, in words. Empty where there is no next level, or nobody can measure for it."""
    asks = ASKED.get(str(measured.get("next")))
    return _lines(asks, measured) if asks is not None else []


def kept(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of what its own level keeps: whoever does not meet it for STEADY_S is proposed for the level below.
    Empty for levels that keep nothing."""
    asks = KEPT.get(str(measured.get("level")))
    return _lines(asks, measured) if asks is not None else []


def _lines(asks: Asks, measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    runs = int(measured["runs"])
    lines = [_line("runs in 14 days", str(runs), f"at least {MIN_RUNS}", runs >= MIN_RUNS)]
    value = measured["pass_rate"]
    met = value is not None and value >= asks.pass_rate
    lines.append(_line("passed", _percent(value), f"at least {_percent(asks.pass_rate)}", met))
    for key, what, told in (
        ("queue_s", "mean wait for a start", _time),
        ("end_to_end_s", "median from event to answer", _time),
        ("overrun_rate", "runs over 3 h", _percent),
        ("timeout_rate", "timed out", _percent),
    ):
        value, bound = measured[key], float(getattr(asks, key))
        lines.append(_line(what, told(value), f"below {told(bound)}", value is not None and value < bound))
    return lines


def _line(what: str, value: str, asked: str, met: bool) -> dict[str, Any]:
    return {"what": what, "value": value, "asked": asked, "met": met}
