"""Where records are kept between runs, by content: a file that did not change is never parsed again."""

from __future__ import annotations

import os
import tempfile
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


class DirectoryCache:
    """One file an entry under ``folder``, written so that a reader never sees half of one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None

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

    def _path(self, key: str) -> Path:
        if not key or not all(c.isalnum() or c in "-_." for c in key) or key.startswith("."):
            raise ValueError(f"not a cache key: {key!r}")
        return self._folder / key[-2:] / key
