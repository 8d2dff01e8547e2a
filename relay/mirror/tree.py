"""One commit's files, read from the mirror by blob id: what a path is called never reaches git's command line."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol

from relay.errors import UpstreamGone
from relay.mirror import command

LIST_TIMEOUT_S = 120.0
FILE_MODES = ("100644", "100755", "100664")


class Repository(Protocol):
    @property
    def path(self) -> Path: ...


class Blobs:
    """Reads blobs through one ``git cat-file --batch`` process. Safe to use from several threads; close it."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, blob: str) -> bytes:
        """The blob's content. KeyError when the mirror does not hold it."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(f"{blob}\n".encode())
                process.stdin.flush()
            except BrokenPipeError as exc:
                raise UpstreamGone(f"{self._git_dir}: git cat-file ended", "is the mirror damaged?") from exc
            header = process.stdout.readline().split()
            if len(header) == 2 and header[1] == b"missing":
                raise KeyError(blob)
            if len(header) != 3:
                raise UpstreamGone(f"{self._git_dir}: git cat-file said {header!r}", "is the mirror damaged?")
            size = int(header[2])
            content = _exactly(process.stdout, size + 1)
            return content[:size]

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()
            process.wait()

    def __enter__(self) -> Blobs:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            args = command.arguments(self._git_dir, ["cat-file", "--batch"])
            self._process = command.start(args, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return self._process


class GitTree:
    """A commit as ``selector.model.Tree``: regular files only, no links, no submodules. A context manager.

    Paths that are not UTF-8 are spelled with backslash escapes.
    """

    def __init__(self, repo: Repository, sha: str) -> None:
        self.sha = sha
        self._git_dir = repo.path
        self._blobs = Blobs(repo.path)
        self._paths: dict[str, str] | None = None
        self._modes: dict[str, str] = {}

    def paths(self) -> dict[str, str]:
        """path -> blob id. Raises UpstreamGone when the mirror does not hold the commit."""
        if self._paths is None:
            listed = command.git(
                self._git_dir, "ls-tree", "-r", "-z", "--full-tree", f"{self.sha}^{{commit}}", timeout_s=LIST_TIMEOUT_S
            )
            if listed.code != 0:
                raise UpstreamGone(f"{self._git_dir}: commit {self.sha} is not there: {listed.problem}")
            self._paths = dict(self._parse(listed.out))
        return self._paths

    def read(self, path: str) -> bytes:
        """A file's content. KeyError when the commit has no such file."""
        return self._blobs.read(self.paths()[path])

    def executable(self, path: str) -> bool:
        """Whether a file has the executable bit."""
        self.paths()
        return self._modes[path] == "100755"

    def close(self) -> None:
        self._blobs.close()

    def __enter__(self) -> GitTree:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _parse(self, out: bytes) -> Iterable[tuple[str, str]]:
        for record in out.split(b"\0"):
            if not record:
                continue
            meta, _, raw = record.partition(b"\t")
            mode, _kind, blob = meta.decode("ascii").split()
            if mode in FILE_MODES:
                path = raw.decode("utf-8", "backslashreplace")
                self._modes[path] = mode
                yield path, blob


def _exactly(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise UpstreamGone("git cat-file ended in the middle of a file", "is the mirror damaged?")
    return content
