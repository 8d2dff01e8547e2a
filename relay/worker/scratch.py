"""The temporary folders of a sandbox: what tests left in them is removed, so that it neither fills them for the next
batch nor lies in the way of the next collector."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from relay.worker import sandbox

SHARED = Path("/dev/shm")
FULL = 4
"""Less than one part in so many free: what is left in there may be in the way of others."""


class Scratch:
    """``folders`` as they are now; `clear` makes them so again."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._kept = {entry.path for folder in self._folders for entry in os.scandir(folder)}

    def clear(self, *, caches: bool = False) -> None:
        """Removes what came since; with ``caches`` not from a temporary folder that has room: what was compiled there
        is good for the next batch. What cannot be removed is named in the log, and stays."""
        for folder in self._folders:
            if caches and folder != SHARED and not crowded(folder):
                continue
            for entry in list(os.scandir(folder)):
                if entry.path in self._kept:
                    continue
                try:
                    if entry.is_dir(follow_symlinks=False):
                        sandbox.remove_tree(Path(entry.path))
                    else:
                        os.unlink(entry.path)
                except OSError as exc:
                    print(f"left in {folder}: {exc}", file=sys.stderr)  # noqa: T201 - the host's log


def folders(alone: bool) -> tuple[Path, ...]:
    """Those of this process. ``alone``: it has a file system of its own; else /dev/shm is everybody's."""
    own = Path(os.environ["TMPDIR"])
    return (own, SHARED) if alone and SHARED.is_dir() else (own,)


def crowded(folder: Path) -> bool:
    """Whether most of a folder's file system is taken."""
    disk = os.statvfs(folder)
    return disk.f_bavail * FULL < disk.f_blocks or disk.f_favail * FULL < disk.f_files
