"""Namespaces of a sandbox: users, network, IPC, processes, and a file system that holds what was listed and no more.

Two steps, because the first process *born* in a new process namespace is its init: `leave` is called by a waiting
parent, `furnish` by the child that it forks next. When that child ends, the kernel ends everything in the namespace.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUSER, _NEWPID, _NEWNET, _NEWIPC = 0x00020000, 0x10000000, 0x20000000, 0x40000000, 0x08000000
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH, _AT_FDCWD, _AT_RECURSIVE = 2, -100, 0x8000
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
SCRATCH = Path("/tmp")
"""The private temporary folder inside: memory of its own, gone with the namespace."""
PROCESSES = 96
"""Processes and threads that may live in one process namespace, where the kernel has a limit for each (6.14). Each of
a fork bomb's is a copy of a process with torch in it, and hundreds of those take a minute to end."""
_RESERVED = 300
"""Numbers below are not given out again once the counter has passed them."""
ETC = (
    "alternatives", "fonts", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias",
    "localtime", "mime.types", "nsswitch.conf", "os-release", "passwd", "protocols", "services",
)  # fmt: skip
"""What a program needs of /etc; nothing that only a user with rights may read."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/sys/devices/system")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
STILL = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Parts of /proc that change the machine: root's namespace is not root, but its user id may be."""


@dataclass(frozen=True, slots=True)
class Room:
    """A sandbox's file system: folders to read, an empty folder of ours to build it on, MiB of scratch space, nodes of
    devices below /dev to read and write."""

    readable: tuple[Path, ...]
    stage: Path
    scratch_mb: int = 1024
    nodes: tuple[Path, ...] = ()


def leave(*, everything: bool) -> bool:
    """Puts this single-threaded process into a user, network and IPC namespace of its own; with ``everything`` also
    a mount namespace, and its next children into a process namespace. False where the kernel refuses.
    """
    if sys.platform != "linux":
        return False
    uid, gid = os.getuid(), os.getgid()
    flags = _NEWUSER | _NEWNET | _NEWIPC | ((_NEWNS | _NEWPID) if everything else 0)
    if _libc.unshare(flags) != 0:
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


def furnish(room: Room) -> None:
    """Gives the namespace's first process a root of its own. Raises OSError: then it must not go on.

    ``room.readable`` is there read-only under its own names, with the system's programs and libraries; /tmp and
    /dev/shm are private memory; /proc shows this namespace's processes only. Nothing else of the machine is there.
    """
    root = room.stage
    _mount("none", Path("/"), None, _REC | _PRIVATE)
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=16m")
    for name in ("proc", "dev", "tmp", "etc", "sys"):
        (root / name).mkdir()
    _mount("tmpfs", root / "tmp", "tmpfs", _NOSUID | _NODEV, f"mode=1777,size={room.scratch_mb}m")
    _mount("proc", root / "proc", "proc", _NOSUID | _NODEV)
    _devices(root / "dev", room)
    for system in SYSTEM:
        _copy_name(root, Path(system))
    for name in ETC:
        _copy_name(root, Path("/etc") / name)
    for path in sorted(set(room.readable)):
        if not any(path != other and path.is_relative_to(other) for other in (*map(Path, SYSTEM), *room.readable)):
            _bind(path, root / path.relative_to("/"))
    _limit_processes(root / "proc")
    for name in STILL:
        if (root / "proc" / name).exists():
            _bind(root / "proc" / name, root / "proc" / name)
    os.chdir(root)
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root of {platform.machine()} is not known")
    _check(_libc.syscall(number, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount of the old root")
    _mount("none", Path("/"), None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    os.chdir(SCRATCH)


def _devices(dev: Path, room: Room) -> None:
    _mount("tmpfs", dev, "tmpfs", _NOSUID, "mode=755,size=1m")
    for node in (*map(Path, DEVICES), *room.nodes):
        if Path("/dev", node).exists() and not (dev / node).exists():
            (dev / node).parent.mkdir(parents=True, exist_ok=True)
            (dev / node).touch()
            _mount(f"/dev/{node}", dev / node, None, _BIND)
    (dev / "shm").mkdir()
    _mount("tmpfs", dev / "shm", "tmpfs", _NOSUID | _NODEV, f"mode=1777,size={room.scratch_mb}m")
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"),
                         ("stderr", "/proc/self/fd/2")):  # fmt: skip
        (dev / name).symlink_to(target)


def _limit_processes(proc: Path) -> None:
    """Where the kernel knows limits a namespace: few processes, and no further user namespaces inside."""
    for name, value in (
        ("kernel/ns_last_pid", _RESERVED + 1),
        ("kernel/pid_max", _RESERVED + PROCESSES),
        ("user/max_user_namespaces", 0),
    ):
        try:
            (proc / "sys" / name).write_text(str(value))
        except OSError:
            continue  # older kernels: the supervisor counts processes, seccomp refuses namespaces


def _copy_name(root: Path, path: Path) -> None:
    """A link stays a link, anything else that is there is bound."""
    target = root / path.relative_to("/")
    if path.is_symlink():
        target.symlink_to(os.readlink(path))
    elif path.exists():
        _bind(path, target)


def _bind(source: Path, target: Path) -> None:
    """Binds a file or folder, with what is mounted below it, read-only."""
    if source != target:
        if stat.S_ISDIR(source.stat().st_mode):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
    _mount(str(source), target, None, _BIND | _REC)
    attributes = struct.pack("=QQQQ", _RDONLY | _NOSUID | _NODEV, 0, 0, 0)
    done = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes))
    )
    _check(done, f"making {source} read-only")


def _mount(source: str, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    done = _libc.mount(
        source.encode(), os.fsencode(target), kind and kind.encode(), ctypes.c_ulong(flags), data and data.encode()
    )
    _check(done, f"mounting {source} on {target}")


def _check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


MODULES = ("relay", "selector", "torch", "numpy", "pytest")


def packages(modules: Iterable[str] = MODULES) -> tuple[Path, ...]:
    """Folders that this interpreter and what it runs are read from: its own, and those of ``modules``."""
    import importlib.util

    found = [Path(sys.prefix), Path(sys.base_prefix)]
    for name in modules:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        # a package is a folder, a module a file
        own = next(iter(spec.submodule_search_locations or ()), spec.origin if spec.has_location else None)
        if own is not None:
            # what lies beside others is read with them; a checkout's neighbours (data, keys) are none of its business
            place = Path(own)
            found.append(place.parent if place.parent.name == "site-packages" else place)
    return tuple(dict.fromkeys(path.absolute() for path in found))
