"""Keeps a mirror small: commits that nobody asked for in a while are let go, and git repacks what is left.

What is let go can be fetched again. Git itself keeps unreachable objects for two weeks, so that whoever reads a commit
at this moment keeps its files.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import structlog

from relay.mirror import command

log = structlog.get_logger(__name__)
USED = "relay-used"
"""folder of marks: a file a commit, as old as its last use"""
KEEP_DAYS = 30.0
EVERY_S = 86_400.0
_DAY_S = 86_400.0
_COMMITS = "refs/relay/commits/"
_GC_S = 3_600.0
_QUICK_S = 60.0


def used(git_dir: Path, *shas: str) -> None:
    """Notes that the commits are in use."""
    folder = git_dir / USED
    folder.mkdir(exist_ok=True)
    for sha in shas:
        (folder / sha).touch()


def is_due(git_dir: Path, now: float) -> bool:
    """Whether the last tidying is a day ago. ``now``: seconds since the epoch."""
    try:
        return now - (git_dir / USED / "tidied").stat().st_mtime >= EVERY_S
    except FileNotFoundError:
        return True


def tidy(git_dir: Path, now: float, lock: int, *, keep_days: float = KEEP_DAYS) -> int:
    """Lets go of commits unused for ``keep_days`` and collects what is unreachable. Returns how many were let go. The
    caller holds the mirror's lock, on the descriptor ``lock``."""
    began = time.monotonic()
    folder = git_dir / USED
    folder.mkdir(exist_ok=True)
    (folder / "tidied").touch()
    os.utime(folder / "tidied", (now, now))
    said = command.git(git_dir, "for-each-ref", "--format=%(refname)", _COMMITS, timeout_s=_QUICK_S)
    gone = []
    for ref in said.out.decode("ascii").split():
        mark = folder / ref.removeprefix(_COMMITS)
        if not mark.exists():
            mark.touch()  # of a mirror from before there were marks
            os.utime(mark, (now, now))
        elif now - mark.stat().st_mtime > keep_days * _DAY_S:
            gone.append(ref)
    if gone:
        orders = "".join(f"delete {ref}\n" for ref in gone).encode()
        told = command.git(git_dir, "update-ref", "--stdin", timeout_s=_QUICK_S, given=orders, pass_fds=(lock,))
        if told.code != 0:
            log.warning("old commits are kept", problem=told.problem)
            return 0
        for ref in gone:
            (folder / ref.removeprefix(_COMMITS)).unlink(missing_ok=True)
    options = ("gc.auto=2000", "gc.autoPackLimit=50", "gc.autoDetach=false", "gc.pruneExpire=2.weeks.ago")
    flags = [part for option in options for part in ("-c", option)]
    told = command.git(git_dir, *flags, "gc", "--auto", "--quiet", timeout_s=_GC_S, pass_fds=(lock,))
    if told.code != 0:
        log.warning("git gc failed", problem=told.problem)
    log.info("mirror tidied", let_go=len(gone), seconds=round(time.monotonic() - began, 3))
    return len(gone)
