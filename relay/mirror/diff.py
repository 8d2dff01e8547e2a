"""What a pull request changes, as ``selector.model.FileChange`` values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relay.errors import UpstreamGone
from relay.mirror import command
from relay.mirror.tree import Blobs
from selector.model import ChangeStatus, FileChange

TIMEOUT_S = 120.0
MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_CHANGE_BYTES = 128 * 1024 * 1024
_GITLINK = "160000"
_ABSENT = "000000"
_STATUS: dict[str, ChangeStatus] = {"A": "added", "D": "removed", "R": "renamed"}


@dataclass(frozen=True, slots=True)
class _Side:
    mode: str
    id: str


@dataclass(frozen=True, slots=True)
class _Record:
    status: str
    old: _Side
    new: _Side
    old_path: str
    path: str


def changes(
    git_dir: Path,
    base: str,
    head: str,
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
    max_change_bytes: int = MAX_CHANGE_BYTES,
) -> tuple[FileChange, ...]:
    """The files that differ between two commits, renames detected.

    A file of which one side is larger than ``max_file_bytes`` (or that comes after ``max_change_bytes`` in all) has no
    contents and counts as binary: it is not looked into, so whoever selects must treat it as not understood.
    """
    said = command.git(
        git_dir,
        *("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M", "-l1000", "--no-ext-diff", base, head),
        timeout_s=TIMEOUT_S,
    )
    if said.code != 0:
        raise UpstreamGone(f"{base}..{head} cannot be compared: {said.problem}")
    records = list(_records(said.out))
    sizes = _sizes(git_dir, [side.id for r in records for side in (r.old, r.new) if _is_blob(side)])
    found = []
    left = max_change_bytes
    with Blobs(git_dir) as blobs:
        for record in records:
            cost = [sizes[side.id] for side in (record.old, record.new) if _is_blob(side)]
            fits = all(size <= max_file_bytes for size in cost) and sum(cost) <= left
            if fits:
                left -= sum(cost)
            found.append(_change(record, blobs, fits))
    return tuple(found)


def changed_paths(git_dir: Path, base: str, head: str) -> tuple[str, ...]:
    """The paths that differ between two commits, by their folders alone: no file is read."""
    flags = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff")
    said = command.git(git_dir, *flags, base, head, timeout_s=TIMEOUT_S)
    if said.code != 0:
        raise UpstreamGone(f"{base}..{head} cannot be compared: {said.problem}")
    return tuple(name.decode("utf-8", "surrogateescape") for name in said.out.split(b"\0") if name)


def _change(record: _Record, blobs: Blobs, fits: bool) -> FileChange:
    submodule = _GITLINK in (record.old.mode, record.new.mode)
    old = _content(record.old, blobs) if fits else None
    new = _content(record.new, blobs) if fits else None
    return FileChange(
        path=record.path,
        status=_STATUS.get(record.status[0], "modified"),
        old_path=record.old_path if record.old_path != record.path else None,
        old=old,
        new=new,
        binary=not fits or any(b"\0" in content for content in (old, new) if content is not None),
        submodule=submodule,
    )


def _content(side: _Side, blobs: Blobs) -> bytes | None:
    if side.mode == _ABSENT:
        return None
    if side.mode == _GITLINK:
        return side.id.encode()
    return blobs.read(side.id)


def _is_blob(side: _Side) -> bool:
    return side.mode not in (_ABSENT, _GITLINK)


def _records(out: bytes) -> Iterator[_Record]:
    """``:<mode> <mode> <id> <id> <status>`` NUL ``<path>`` NUL [``<new path>`` NUL, for renames]."""
    fields = iter(out.split(b"\0"))
    for field in fields:
        if not field:
            continue
        old_mode, new_mode, old_id, new_id, status = field.decode("ascii").removeprefix(":").split()
        old_path = path = next(fields).decode("utf-8", "backslashreplace")
        if status[0] in "RC":
            path = next(fields).decode("utf-8", "backslashreplace")
        yield _Record(status, _Side(old_mode, old_id), _Side(new_mode, new_id), old_path, path)


def _sizes(git_dir: Path, ids: list[str]) -> dict[str, int]:
    if not ids:
        return {}
    given = "".join(f"{i}\n" for i in ids).encode()
    said = command.git(git_dir, "cat-file", "--batch-check", timeout_s=TIMEOUT_S, given=given)
    sizes = {}
    for line in said.out.decode("ascii").splitlines():
        words = line.split()
        if len(words) != 3:
            raise UpstreamGone(f"{git_dir}: blob {words[0]} is missing", "is the mirror damaged, or a partial clone?")
        sizes[words[0]] = int(words[2])
    return sizes
