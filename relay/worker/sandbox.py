"""What a process that runs upstream's code is put into. Linux system calls through ctypes; each says whether it took.

An upstream pull request is hostile code: it gets no secrets, no network, no rights, its own session, and limits.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x08000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
FILE_BYTES = 2 << 30
"""Largest file a test process may write."""


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


def leave_network() -> bool:
    """Moves this single-threaded process into a network of its own that holds nothing but loopback.

    False where the kernel does not let an unprivileged user do it (the report then says so).
    """
    if sys.platform != "linux":
        return False
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError:
        return False
    _loopback_up()
    return True


def _loopback_up() -> None:
    """Upstream's distributed tests talk to themselves; without it they fail for our reason, not theirs."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        try:
            flags = struct.unpack_from("h", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)[0]
            fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
        except OSError as exc:
            print(f"loopback stays down: {exc}", file=sys.stderr)  # noqa: T201 - the host's log


def network_available() -> bool:
    """Whether a child can be cut off from the network, tried in a child."""
    pid = os.fork()
    if pid == 0:
        hide_process(False)  # the maps of a new namespace are written through /proc/self
        os._exit(0 if leave_network() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def limit(memory_mb: int) -> None:
    """Limits of one test process: memory on top of what it has mapped now, file size, no core file."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _lower(resource.RLIMIT_AS, mapped + memory_mb * (1 << 20))
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


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
        shutil.rmtree(path, onerror=writable)


def sweep(folder: Path, prefix: str) -> None:
    """Removes the folders ``<prefix><pid>-…`` of processes that are gone: killed before they could tidy up."""
    for left in folder.glob(f"{prefix}*"):
        pid = left.name[len(prefix) :].partition("-")[0]
        if pid.isdecimal() and not alive(int(pid)):
            remove_tree(left)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and whose parent has not noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def make_read_only(root: Path) -> None:
    """Takes the write permission of everybody from a tree; links are left alone."""
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o444)
        os.chmod(folder, 0o555)


def end_children(spare: frozenset[int] = frozenset()) -> None:
    """Kills and reaps every child of this process (adopted orphans among them) that is not spared."""
    for _ in range(50):
        found = [pid for pid in _children(os.getpid()) if pid not in spare]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
