"""A worker's cache of upstream trees: read-only folders, one a commit and set of overlaid files, a few of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from relay.errors import RelayError
from relay.worker import sandbox

KEEP = 4
MEMBERS = 200_000
UNPACKED_BYTES = 4 << 30


class TreeUnusable(RelayError):
    """A packed tree that cannot be unpacked, or holds what a tree must not."""

    code = "worker-tree-unusable"
    status = 502


class Trees:
    """The folder of one worker process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        sandbox.sweep(folder, "new-")

    def get(self, commit: str, files: tuple[str, ...], fetch: Callable[[Path, str | None], str | None]) -> Path:
        """The tree of a commit; ``fetch(path, etag)`` downloads it, or answers None: the cached one is right."""
        digest = hashlib.sha256("\n".join((commit, *sorted(files))).encode()).hexdigest()[:24]
        place, note = self._folder / digest, self._folder / f"{digest}.etag"
        cached = place.is_dir() and note.is_file()
        with sandbox.private_tmp("new-", self._folder) as tmp:
            packed = tmp / "tree.tar.gz"
            etag = fetch(packed, note.read_text() if cached else None)
            if etag is None:
                if not cached:
                    raise TreeUnusable(f"the relay sent no tree of {commit}")
                os.utime(place)
                return place
            fresh = tmp / "tree"
            _unpack(packed, fresh)
            sandbox.make_read_only(fresh)
            note.unlink(missing_ok=True)  # first, and written last: a note speaks of a whole tree
            if place.is_dir():
                sandbox.remove_tree(place)
            fresh.chmod(0o755)  # a read-only folder cannot be renamed into another one
            fresh.rename(place)
            place.chmod(0o555)
            note.write_text(etag)
        self._evict(place)
        return place

    def _evict(self, spare: Path) -> None:
        trees = sorted(
            (p for p in self._folder.iterdir() if p.is_dir() and not p.name.startswith("new-") and p != spare),
            key=lambda p: p.stat().st_mtime,
            reverse=True,
        )
        for old in trees[KEEP - 1 :]:
            old.with_name(f"{old.name}.etag").unlink(missing_ok=True)
            sandbox.remove_tree(old)


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> None:
    """Writes one member. The relay packs plain files only, so a link, a device or a name that leads outside is refused
    (tarfile's own filters came with Python 3.11.4, and older ones are about)."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isreg() or member.isdir()):
        raise TreeUnusable(f"the tree holds something that is not a plain file inside it: {member.name!r}")
    place = to / name
    if member.isdir():
        place.mkdir(parents=True, exist_ok=True)
        return
    content = tar.extractfile(member)
    assert content is not None  # it is a regular file
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as out:
        shutil.copyfileobj(content, out)
    place.chmod(0o755 if member.mode & 0o100 else 0o644)


def _unpack(packed: Path, to: Path) -> None:
    to.mkdir()
    try:
        with tarfile.open(packed, "r:gz") as tar:
            size = 0
            for members, member in enumerate(tar, 1):
                size += max(0, member.size)
                if members > MEMBERS or size > UNPACKED_BYTES:
                    raise TreeUnusable(f"the tree has more than {MEMBERS} files or {UNPACKED_BYTES} bytes")
                _put(tar, member, to)
    except (tarfile.TarError, EOFError, OSError, UnicodeError) as exc:
        raise TreeUnusable(f"the tree cannot be unpacked: {exc}") from exc
