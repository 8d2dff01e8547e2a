"""What tests print: files that the supervisor opened and reads by descriptor, so that no name can lead elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from relay.worker import protocol


class Log:
    """A file that processes append to and that is unlinked from the start."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / name
        path.unlink(missing_ok=True)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        path.unlink()

    def size(self) -> int:
        """Bytes so far."""
        return os.fstat(self.fd).st_size

    def tail(self, start: int, limit: int = protocol.LOG_TAIL) -> str | None:
        """The last ``limit`` bytes from ``start`` on, as text; None when there are none."""
        end = self.size()
        begin = max(start, end - limit)
        if begin >= end:
            return None
        text = os.pread(self.fd, end - begin, begin).decode("utf-8", "replace").replace("\x00", "")
        return text.strip() or None

    def empty(self) -> None:
        """Forgets what was printed: the disk is not for it."""
        os.ftruncate(self.fd, 0)


class Logs:
    """The two logs of a host: its own and its collectors', and the tests'."""

    def __init__(self, folder: Path) -> None:
        self.host, self.tests = Log(folder, "host.log"), Log(folder, "tests.log")

    def size(self) -> int:
        return self.host.size() + self.tests.size()

    def empty(self) -> None:
        self.host.empty()
        self.tests.empty()

    def close(self) -> None:
        os.close(self.host.fd)
        os.close(self.tests.fd)
