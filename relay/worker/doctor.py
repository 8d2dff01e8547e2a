"""What a worker's machine lacks: torch, a sandbox, room. For ``relay doctor`` and for the worker's first log lines."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relay.worker import overlay, sandbox

FREE_BYTES = 4 << 30
TESTED = "2.13.0"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``level``: ``ok``, ``warning`` (works, but less well) or ``error`` (does not)."""

    level: str
    what: str
    hint: str = ""


def report(folder: Path | None = None) -> list[Finding]:
    """Looks at this machine as a worker needs it; takes some 50 ms and imports no torch. ``folder``: the worker's."""
    return [*_torch(), *_sandbox(), *_room(folder or Path(tempfile.gettempdir()))]


def isolation() -> sandbox.Isolation:
    """What the kernel gives a sandbox here, tried out."""
    with sandbox.private_tmp("relay-doctor-") as tmp:
        return sandbox.probe(tmp)


def _torch() -> Iterator[Finding]:
    try:
        version = importlib.metadata.version("torch").split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        yield Finding("error", "torch is not installed", "install the extra `emulator`: pip install .[emulator]")
        return
    if overlay.installed_site() is None:
        yield Finding("error", f"torch {version} is recorded as installed and is not there", "install it again")
    elif version != TESTED:
        yield Finding("warning", f"torch {version}: the emulated device is tested with {TESTED}", f"torch=={TESTED}")
    else:
        yield Finding("ok", f"torch {version}")


def _sandbox() -> Iterator[Finding]:
    found = isolation()
    if found.lacking:
        yield Finding(
            "warning",
            f"the sandbox of tests lacks {', '.join(found.lacking)}",
            "allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a container that may "
            "unshare); with RELAY_WORKER_TRUST=strict untrusted code is refused until then",
        )
    else:
        yield Finding("ok", "the sandbox is complete: network, processes, file system, rights, system calls")


def _room(folder: Path) -> Iterator[Finding]:
    place = folder
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK):
        yield Finding("error", f"{folder} cannot be written to", "set RELAY_WORKER_DIR to a folder of the worker's own")
        return
    free = shutil.disk_usage(place).free
    if free < FREE_BYTES:
        hint = "trees, overlays and logs need some"
        yield Finding("warning", f"{free / (1 << 30):.1f} GiB free in {folder}", hint)
    else:
        yield Finding("ok", f"{free >> 30} GiB free in {folder}")
