"""Trees that lie in a folder, and the difference of two trees."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from selector.errors import TreeError
from selector.model import FileChange, Tree

_SKIPPED = frozenset({".git", "__pycache__", ".hg", ".venv", "node_modules"})


class DirTree:
    """A folder as a tree; contents are hashed once and again only when size or time of a file change."""

    def __init__(self, path: Path | str) -> None:
        self.root = Path(path)
        if not self.root.is_dir():
            raise TreeError(f"{self.root} is not a folder", "give the root of an upstream checkout")
        self._memo: dict[str, tuple[tuple[int, int, int], str]] = {}

    def paths(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f not in _SKIPPED)
            for name in sorted(files):
                full = os.path.join(folder, name)
                if os.path.isfile(full) and not name.endswith(".pyc"):
                    path = os.path.relpath(full, self.root).replace(os.sep, "/")
                    found[path] = self._content(path, full)
        self._memo = {path: self._memo[path] for path in found}
        return found

    def read(self, path: str) -> bytes:
        full = self.root / path
        if ".." in path.split("/") or not full.is_file():
            raise KeyError(path)
        return full.read_bytes()

    def _content(self, path: str, full: str) -> str:
        try:
            stat = os.stat(full)
            mark = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            known = self._memo.get(path)
            if known is None or known[0] != mark:
                with open(full, "rb") as file:
                    known = self._memo[path] = (mark, hashlib.file_digest(file, "sha1").hexdigest())
        except OSError as exc:
            raise TreeError(f"{full} cannot be read: {exc.strerror}", "mend its permissions, or leave it out") from exc
        return known[1]


class MemoryTree:
    """A tree of given contents (for tests, and for a change that exists nowhere else)."""

    def __init__(self, files: Mapping[str, bytes | str]) -> None:
        self._files = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}

    def paths(self) -> dict[str, str]:
        return {path: hashlib.blake2b(data, digest_size=20).hexdigest() for path, data in sorted(self._files.items())}

    def read(self, path: str) -> bytes:
        return self._files[path]


def diff_trees(base: Tree, head: Tree) -> tuple[FileChange, ...]:
    """What differs, in order of path. A removed and an added file of equal content are one rename."""
    old, new = base.paths(), head.paths()
    removed = sorted(old.keys() - new.keys())
    added = sorted(new.keys() - old.keys())
    by_content: dict[str, list[str]] = {}
    for path in removed:
        by_content.setdefault(old[path], []).append(path)
    changes: list[FileChange] = []
    moved: set[str] = set()
    for path in added:
        sources = by_content.get(new[path])
        if sources:
            source = sources.pop(0)
            moved.add(source)
            data = head.read(path)
            changes.append(FileChange(path, "renamed", source, base.read(source), data, binary=_is_binary(data)))
        else:
            data = head.read(path)
            changes.append(FileChange(path, "added", None, None, data, binary=_is_binary(data)))
    for path in removed:
        if path not in moved:
            data = base.read(path)
            changes.append(FileChange(path, "removed", path, data, None, binary=_is_binary(data)))
    for path in sorted(old.keys() & new.keys()):
        if old[path] != new[path]:
            before, after = base.read(path), head.read(path)
            binary = _is_binary(before) or _is_binary(after)
            changes.append(FileChange(path, "modified", path, before, after, binary=binary))
    return tuple(sorted(changes, key=lambda change: change.path))


def _is_binary(data: bytes) -> bool:
    return b"\0" in data
