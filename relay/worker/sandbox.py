"""What a process that runs upstream's code is put into. Linux system calls through ctypes; each says whether it took.

An upstream pull request is hostile code: it gets no secrets, no network, no rights, its own session, and limits.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from relay.worker import namespaces, seccomp

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
FILE_BYTES = 2 << 30
"""Largest file a test process may write."""
OPEN_FILES = 4096
"""Files that a test process may have open."""


def _prctl(option: int, value: int) -> bool:
    return sys.platform == "linux" and bool(_libc.prctl(option, value, 0, 0, 0) == 0)


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when ``parent`` (its pid) ends, however it ends; at once if it already has."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def hide_process(hidden: bool = True) -> bool:
    """Keeps other processes of the same user from reading this one's memory, environment and descriptors."""
    return _prctl(_PR_SET_DUMPABLE, 0 if hidden else 1)


def adopt_orphans() -> bool:
    """Processes that test code leaves behind become children of this one, which can then end them."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def drop_rights() -> bool:
    """No set-uid program and no capability helps from here on, not even inside a namespace of our own."""
    took = _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    header = struct.pack("=Ii", 0x20080522, 0)
    return took and bool(_libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24))) == 0)


@dataclass(frozen=True, slots=True)
class Isolation:
    """What the kernel gives a sandbox of ours here. ``lacking`` is empty where it gives everything."""

    network: bool
    """A network of its own that holds loopback only (and users and IPC of its own)."""
    processes: bool
    """Processes and a file system of its own: /proc, /tmp, and nothing of the machine but what is listed."""
    rights: bool
    """No new privileges, no capabilities."""
    calls: bool
    """System calls that only attacks need are refused."""

    @property
    def lacking(self) -> tuple[str, ...]:
        """The parts that are missing, as words for people."""
        words = (
            (self.network, "a network of its own"),
            (self.processes, "processes and a file system of its own"),
            (self.rights, "no new privileges"),
            (self.calls, "a filter of system calls"),
        )
        return tuple(word for there, word in words if not there)

    def as_report(self) -> dict[str, object]:
        """For the runner's report."""
        return {"network": "none" if self.network else "open", "processes": "own" if self.processes else "shared",
                "lacking": list(self.lacking)}  # fmt: skip


def probe(stage: Path) -> Isolation:
    """Tries the sandbox in child processes; ``stage`` is an empty folder of ours. Takes some 20 ms."""
    room = namespaces.Room(namespaces.packages(), stage)
    full = _succeeds(lambda: _waits(lambda: namespaces.furnish(room), everything=True))
    network = full or _succeeds(lambda: namespaces.leave(everything=False))
    rights = _succeeds(drop_rights)
    return Isolation(network, full, rights, rights and _succeeds(lambda: drop_rights() and seccomp.install()))


def _waits(inside: Callable[[], object], *, everything: bool) -> bool:
    return namespaces.leave(everything=everything) and _succeeds(inside)


def _succeeds(work: Callable[[], object]) -> bool:
    """Whether ``work`` in a forked child neither raises nor returns False."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            hide_process(False)  # the maps of a new namespace are written through /proc/self
            status = 1 if work() is False else 0
        except OSError as exc:
            print(f"relay: sandbox: {exc}", file=sys.stderr)  # noqa: T201 - the runner's log
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def limit(memory_mb: int) -> None:
    """Limits of one test process: memory on top of what it has mapped now, file size, no core file."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _lower(resource.RLIMIT_AS, mapped + memory_mb * (1 << 20))
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)  # what lies in sockets and pipes is nobody's memory
    _lower(resource.RLIMIT_MSGQUEUE, 0)


def _lower(which: int, value: int) -> None:
    soft, hard = (value if now == resource.RLIM_INFINITY else min(now, value) for now in resource.getrlimit(which))
    resource.setrlimit(which, (soft, hard))


def rss_mb(pid: int) -> float:
    """Resident memory of a process in MiB; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)
    except (OSError, ValueError, IndexError):
        return 0.0


def environment(tmp: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a process that runs upstream's code: built up, never filtered down."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp),
        "TMPDIR": str(tmp),
        "XDG_CACHE_HOME": str(tmp / ".cache"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        # else every message ends in a command line of its own, and equal failures look different
        "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
        "MKL_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **(extra or {}),
    }


@contextmanager
def private_tmp(prefix: str = "relay-shard-", parent: Path | None = None) -> Iterator[Path]:
    """A folder only this user can enter, removed afterwards whatever lies in it."""
    tmp = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))
    try:
        yield tmp
    finally:
        remove_tree(tmp)


def remove_tree(path: Path) -> None:
    """Removes a folder, read-only parts included."""

    def writable(function: object, name: str, _: object) -> None:
        os.chmod(os.path.dirname(name), stat.S_IRWXU)
        if os.path.isdir(name) and not os.path.islink(name):
            os.chmod(name, stat.S_IRWXU)
            shutil.rmtree(name, onerror=writable)
        elif os.path.lexists(name):
            os.unlink(name)

    if path.exists():
        try:
            shutil.rmtree(path, onerror=writable)
        except RecursionError:  # folders in folders, as deep as a hostile test likes
            subprocess.run(["rm", "-rf", "--", str(path)], check=False, stdin=subprocess.DEVNULL)


def sweep(folder: Path, prefix: str) -> None:
    """Removes the folders ``<prefix><pid>-…`` of processes that are gone: killed before they could tidy up."""
    for left in folder.glob(f"{prefix}*"):
        pid = left.name[len(prefix) :].partition("-")[0]
        if pid.isdecimal() and not alive(int(pid)):
            remove_tree(left)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and whose parent has not noticed does not."""
    return _state(pid) not in ("Z", "")


def _state(pid: int) -> str:
    """The letter that the kernel has for what the process does; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def stopped(pid: int) -> bool:
    """Whether a signal has stopped the process."""
    return _state(pid) == "T"


def make_read_only(root: Path) -> None:
    """Takes the write permission of everybody from a tree; links are left alone."""
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o444)
        os.chmod(folder, 0o555)


def end_children() -> None:
    """Kills and reaps every child of this process (adopted orphans among them)."""
    for _ in range(50):
        found = children(os.getpid())
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue


def children(pid: int) -> list[int]:
    """Children of every thread of a process; none when it is gone."""
    found: list[int] = []
    try:
        for task in os.scandir(f"/proc/{pid}/task"):
            found += map(int, Path(task.path, "children").read_text().split())
    except OSError:
        return found
    return found


def family(pid: int, most: int = 1 << 20) -> dict[int, int]:
    """Processes below one, each with its parent, nearest first; stops looking at ``most`` of them."""
    found: dict[int, int] = {}
    rows = [pid]
    for one in rows:  # grows while it is read
        if len(found) >= most:
            break
        below = [child for child in children(one) if child not in found]
        found.update(dict.fromkeys(below, one))
        rows += below
    return found


def descendants(pid: int, most: int = 1 << 20) -> list[int]:
    """Processes below one, nearest first; stops looking at ``most`` of them."""
    return list(family(pid, most))


def by_inner_pid(pids: Iterable[int], inner: int) -> int | None:
    """Which of these processes has the number ``inner`` in its own process namespace."""
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text(errors="replace")
        except OSError:
            continue
        numbers = status.partition("NSpid:")[2].partition("\n")[0].split() or [str(pid)]
        if int(numbers[-1]) == inner:
            return pid
    return None
