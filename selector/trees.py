"""Trees that lie in a folder, and the difference of two trees."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from selector.errors import TreeError
from selector.model import FileChange, Tree

_SKIPPED = frozenset({".git", "__pycache__", ".hg", ".venv", "node_modules"})


class DirTree:
    """A folder as a tree, as it is when it is first listed: later changes to its files are not seen.

    ``only``: the paths that count; the others are not read at all.
    """

    def __init__(self, path: Path | str, only: Callable[[str], bool] | None = None) -> None:
        self.root = Path(path)
        self._only = only
        if not self.root.is_dir():
            raise TreeError(f"{self.root} is not a folder", "give the root of an upstream checkout")
        self._paths: dict[str, str] | None = None

    def paths(self) -> dict[str, str]:
        if self._paths is None:
            self._paths = self._list()
        return self._paths

    def _list(self) -> dict[str, str]:
        found: dict[str, str] = {}
        root = str(self.root)
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in _SKIPPED)
            inside = folder[len(root) :].strip(os.sep).replace(os.sep, "/")
            for name in sorted(files):
                full = f"{folder}{os.sep}{name}"
                path = f"{inside}/{name}" if inside else name
                counts = self._only is None or self._only(path)
                if counts and not name.endswith(".pyc") and os.path.isfile(full):
                    found[path] = _content(full)
        return dict(sorted(found.items()))

    def read(self, path: str) -> bytes:
        full = self.root / path
        if ".." in path.split("/") or not full.is_file():
            raise KeyError(path)
        return full.read_bytes()


class OnlyTree:
    """The paths of another tree that count: of a sparse or partial one the others are never asked for."""

    def __init__(self, tree: Tree, only: Callable[[str], bool]) -> None:
        self._tree, self._only = tree, only
        self._paths: dict[str, str] | None = None

    def paths(self) -> dict[str, str]:
        if self._paths is None:
            self._paths = {path: content for path, content in self._tree.paths().items() if self._only(path)}
        return self._paths

    def read(self, path: str) -> bytes:
        if path not in self.paths():
            raise KeyError(path)
        return self._tree.read(path)


class MemoryTree:
    """A tree of given contents (for tests, and for a change that exists nowhere else)."""

    def __init__(self, files: Mapping[str, bytes | str]) -> None:
        self._files = {path: data.encode() if isinstance(data, str) else data for path, data in sorted(files.items())}
        self._paths = {path: hashlib.blake2b(data, digest_size=20).hexdigest() for path, data in self._files.items()}

    def paths(self) -> dict[str, str]:
        return self._paths

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


def _content(full: str) -> str:
    """Git's own id of the content: what was parsed for a commit is known in a checkout of it, and the other way."""
    try:
        with open(full, "rb") as file:
            data = file.read()
    except OSError as exc:
        raise TreeError(f"{full} cannot be read: {exc.strerror}", "mend its permissions, or leave it out") from exc
    return git_id(data)


class LaidTree:
    """A tree with some files in place of its own, or beside them. ``None`` takes a file away."""

    def __init__(self, under: Tree, files: Mapping[str, bytes | None]) -> None:
        self._under, self._files = under, dict(files)
        self._paths: dict[str, str] | None = None

    def paths(self) -> dict[str, str]:
        if self._paths is None:
            laid = {path: git_id(data) for path, data in self._files.items() if data is not None}
            kept = {path: content for path, content in self._under.paths().items() if path not in self._files}
            self._paths = dict(sorted({**kept, **laid}.items()))
        return self._paths

    def read(self, path: str) -> bytes:
        if path not in self._files:
            return self._under.read(path)
        data = self._files[path]
        if data is None:
            raise KeyError(path)
        return data


def git_id(data: bytes) -> str:
    """Git's own id of a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
