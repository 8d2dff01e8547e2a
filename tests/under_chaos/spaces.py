"""Namespaces of the kernel: the whole harness in a network and a mount namespace of its own, in which it may cut lines
and mount small disks without being root, and a laboratory's network beside it that hangs on one cable."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

INSIDE = "RELAY_CHAOS_INSIDE"
HERE, LAB = "10.77.0.1", "10.77.0.2"
PLAIN = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all", "--"]
"""before a command of the product: what the harness may do in its namespaces is not the product's to use"""


def _unshare() -> list[str]:
    own = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", "--net", "--mount", *own, "--"]


def problem() -> str:
    """Why this kernel or machine does not let us have namespaces; "" when it does."""
    for tool in ("unshare", "setpriv", "nsenter", "ip"):
        if shutil.which(tool) is None and shutil.which(tool, path="/usr/sbin:/sbin") is None:
            return f"{tool} is not installed"
    probe = "ip link set lo up && ip link add c0 type veth peer name c1 && mount -t tmpfs -o size=64k none /mnt"
    tried = subprocess.run([*_unshare(), "sh", "-c", probe], capture_output=True, text=True, env=_env(), check=False)
    return "" if tried.returncode == 0 else f"{' '.join(_unshare()[:-1])}: {tried.stderr.strip()[-300:]}"


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


def inside() -> bool:
    return os.environ.get(INSIDE) == "1"


def enter() -> None:
    """Starts this program again in namespaces of its own, in place of this process."""
    command = [*_unshare(), sys.executable, *sys.argv]
    os.execvpe(command[0], command, {**_env(), INSIDE: "1"})


def loopback() -> None:
    _run("ip", "link", "set", "lo", "up")


def small_disk(folder: Path, size: str) -> None:
    """Mounts a disk of ``size`` at ``folder``, open to everybody."""
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "none", str(folder))


def remove_disk(folder: Path) -> None:
    """Takes a disk away, whoever still has a file of it open."""
    _run("umount", "--lazy", str(folder))


def fill(folder: Path) -> Path:
    """Takes all the room that is left; -> the file to remove."""
    ballast = folder / "ballast"
    block = b"\0" * (1 << 16)
    with ballast.open("wb", buffering=0) as out:
        while True:
            try:
                out.write(block)
            except OSError:
                if len(block) == 1:
                    return ballast
                block = block[: max(1, len(block) // 16)]


class Lab:
    """A network of its own with one cable to here. ``enter`` is what goes before a command that runs in it."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(["unshare", "--net", "--", "sleep", "infinity"])
        self.enter = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--"]
        here = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self._holder.pid}/ns/net") == here:
            pass  # a few microseconds, until it has left ours
        _run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "wall", "netns", str(self._holder.pid))
        _run("ip", "address", "add", f"{HERE}/24", "dev", "cable")
        _run("ip", "link", "set", "cable", "up")
        for words in (["address", "add", f"{LAB}/24", "dev", "wall"], ["link", "set", "wall", "up"],
                      ["link", "set", "lo", "up"]):  # fmt: skip
            _run(*self.enter, "ip", *words)

    def cut(self) -> None:
        """Pulls the cable: packets go nowhere and nobody is told."""
        _run(*self.enter, "ip", "link", "set", "wall", "down")
        _run("ip", "link", "set", "cable", "down")

    def mend(self) -> None:
        _run("ip", "link", "set", "cable", "up")
        _run(*self.enter, "ip", "link", "set", "wall", "up")

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=_env(), check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
