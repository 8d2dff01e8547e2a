"""Whether the disk of a worker's folder has room for a shard: trees, overlays, logs. A worker without takes none; what
waits in the database may go to another one meanwhile, and to this one when there is room again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)
LEAST_MB = 64
"""A packed tree of upstream's tests, the folder it is unpacked into, and a shard's logs fit into it."""
LOOK_S = 0.5


def lacking(folder: Path) -> str:
    """Why no shard can be run here now, for people; "" where there is room."""
    try:
        disk = os.statvfs(folder)
    except FileNotFoundError:
        return ""  # it is made with the first shard
    free = disk.f_bavail * disk.f_frsize >> 20
    return f"its disk is full: {free} MB are free, {LEAST_MB} are needed" if free < LEAST_MB else ""


def wait(folder: Path, stop: threading.Event) -> bool:
    """Returns when there is room: True; False when the worker stops first."""
    why = lacking(folder)
    if why:
        log.warning("no shard is taken", why=why)
    while why:
        if stop.wait(LOOK_S):
            return False
        if not (why := lacking(folder)):
            log.info("shards are taken again")
    return True
