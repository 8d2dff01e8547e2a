"""Where records are kept between runs, by content: a file that did not change is never parsed again."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class InventoryCache(Protocol):
    """Bytes by key. A key names the content and the format, so an entry never goes stale; losing one costs time."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...


class MemoryCache:
    """For one process."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._entries.get(key)

    def put(self, key: str, value: bytes) -> None:
        self._entries[key] = value


USED_S = 86400.0
"""An entry that is read says so once a day: its file's time is when it was of use last."""


class DirectoryCache:
    """One file an entry under ``folder``, written so that a reader never sees half of one."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock

    def get(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                value, used = file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        now = self._clock()
        if now - used > USED_S:
            # forgotten at this moment, or somebody else's: it was of use all the same
            with contextlib.suppress(OSError):
                os.utime(path, (now, now))
        return value

    def put(self, key: str, value: bytes) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(value)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def forget(self, before: float) -> int:
        """Removes the entries that were of no use since then (epoch), and what writers that died left half written; ->
        how many. Safe beside readers and writers: an entry that is lost costs time."""
        gone = 0
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            for entry in os.scandir(folder) if folder.is_dir() else ():
                with contextlib.suppress(FileNotFoundError):  # another process forgets, too
                    if entry.stat().st_mtime < before:
                        os.unlink(entry.path)
                        gone += 1
        return gone

    def _path(self, key: str) -> Path:
        if not key or not all(c.isalnum() or c in "-_." for c in key) or key.startswith("."):
            raise ValueError(f"not a cache key: {key!r}")
        return self._folder / key[-2:] / key
