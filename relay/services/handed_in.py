"""Tables that the operator hands in by a setting, and that make a selection better: none of them is needed.

A table that cannot be read is said in the log and left out: no run must end for want of a hint. Each is read once for
as long as its file stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import structlog

from relay.settings import Settings
from selector.discover.measured import MeasuredLinks
from selector.discover.traced import Trace
from selector.errors import SelectorError
from selector.plan.learned import NAME, read_ranker
from selector.plan.ranking import Ranker
from selector.plan.times import TestTimes

log = structlog.get_logger(__name__)
T = TypeVar("T")


def links(settings: Settings) -> MeasuredLinks | None:
    """Which test files were measured to run which sources (``measured_links``)."""
    return _table(settings.measured_links, "measured links", _links)


def trace(settings: Settings) -> Trace | None:
    """Which tests were seen to run which functions and operators (``trace``)."""
    return _table(settings.trace, "trace", _trace)


def times(settings: Settings) -> TestTimes | None:
    """What test files take elsewhere (``test_times``)."""
    return _table(settings.test_times, "test times", _times)


def rankers(settings: Settings) -> dict[str, Ranker]:
    """The learned ranker (``ranker``), on trial."""
    found = _table(settings.ranker, "learned ranker", _ranker)
    return {} if found is None else {NAME: found}


def _table(path: Path | None, name: str, read: Callable[[Path, int, int], T]) -> T | None:
    if path is None:
        return None
    try:
        at = path.stat()
        return read(path, at.st_mtime_ns, at.st_size)
    except (OSError, UnicodeDecodeError, SelectorError) as exc:
        log.warning(f"{name} not used", path=str(path), error=str(exc))
        return None


@lru_cache(maxsize=1)
def _links(path: Path, changed_ns: int, size: int) -> MeasuredLinks:
    return MeasuredLinks.from_json(path.read_bytes())


@lru_cache(maxsize=1)
def _trace(path: Path, changed_ns: int, size: int) -> Trace:
    return Trace.from_bytes(path.read_bytes())


@lru_cache(maxsize=1)
def _times(path: Path, changed_ns: int, size: int) -> TestTimes:
    return TestTimes.from_json(path.read_bytes())


@lru_cache(maxsize=1)
def _ranker(path: Path, changed_ns: int, size: int) -> Ranker:
    return read_ranker(path.read_text(encoding="utf-8"), str(path))
