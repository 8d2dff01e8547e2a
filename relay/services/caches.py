"""What this machine keeps on disk so as not to work it out again: parsed files, models' answers. All of it can be lost.

Each process that selects has a folder of its own where processes stand on machines of their own, so each looks after
what it finds there, not the pump.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from relay.settings import Settings
from selector.discover import DirectoryCache

log = structlog.get_logger(__name__)
DAY_S = 86400.0
KEEP_S = 30 * DAY_S
"""An entry that nothing has asked for in so long is forgotten: trunk has moved on."""
NAMES = ("inventory", "agents")


def cache(settings: Settings, name: str) -> DirectoryCache:
    """The cache called ``name``, one of NAMES."""
    return DirectoryCache(_folder(settings) / name)


def tidy(settings: Settings, now: float) -> int:
    """Forgets old entries, at most once a day however often it is called; -> how many."""
    mark = _folder(settings) / "looked-at"
    try:
        if now - mark.stat().st_mtime < DAY_S:
            return 0
    except FileNotFoundError:
        mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    gone = sum(cache(settings, name).forget(now - KEEP_S) for name in NAMES)
    if gone:
        log.info("old cache entries forgotten", number=gone)
    return gone


def _folder(settings: Settings) -> Path:
    return settings.data_dir / "cache"
