"""Parts of a commit as tar.gz: the same commit and paths give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from relay.errors import NotFound
from relay.mirror.tree import GitTree

CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Also:
    """Files of another commit that go into the same archive, below ``folder``. What it does not hold is left out."""

    tree: GitTree
    paths: tuple[str, ...]
    folder: str


def pack(
    tree: GitTree, paths: Iterable[str], *, without: Iterable[str] = (), also: Also | None = None
) -> Iterator[bytes]:
    """The files at or below ``paths`` as chunks of a tar.gz, but for those below ``without``; closes the trees at its
    end. Paths that the commit does not hold are left out; NotFound when it holds none of them. Links are not packed: a
    tree that is unpacked elsewhere must not point out of itself."""
    wanted = tuple(path.strip("/") for path in paths)
    exact = frozenset(wanted)
    below = tuple(f"{path}/" for path in wanted)
    left_out = tuple(f"{path.strip('/')}/" for path in without)
    names = sorted(
        name for name in tree.paths() if name in exact or (name.startswith(below) and not name.startswith(left_out))
    )
    if not names:
        _close(tree, also)
        raise NotFound(f"commit {tree.sha} has none of {', '.join(wanted) or 'the paths'}")
    return _stream(tree, names, also)


def _entries(tree: GitTree, names: list[str], also: Also | None) -> Iterator[tuple[str, GitTree, str]]:
    """(name in the archive, tree, path in the tree)."""
    if also is not None:
        for path in sorted(set(also.paths) & also.tree.paths().keys()):
            yield f"{also.folder}/{path}", also.tree, path
    for name in names:
        yield name, tree, name


def _close(tree: GitTree, also: Also | None) -> None:
    tree.close()
    if also is not None:
        also.tree.close()


def _stream(tree: GitTree, names: list[str], also: Also | None) -> Iterator[bytes]:
    sink = _Sink()
    try:
        with (
            gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, source, path in _entries(tree, names, also):
                content = source.read(path)
                info = tarfile.TarInfo(name)
                info.size = len(content)
                info.mode = 0o755 if source.executable(path) else 0o644
                tar.addfile(info, io.BytesIO(content))
                if sink.size >= CHUNK:
                    yield sink.take()
        yield sink.take()
    finally:
        _close(tree, also)


class _Sink(io.RawIOBase):
    """Collects what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(memoryview(data))  # type: ignore[arg-type]
        self._parts.append(part)
        self.size += len(part)
        return len(part)

    def take(self) -> bytes:
        taken, self._parts, self.size = b"".join(self._parts), [], 0
        return taken
