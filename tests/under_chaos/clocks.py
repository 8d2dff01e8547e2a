"""A wall clock that can be stepped while processes run, by a library that is loaded into them before the C library.

libfaketime does this too, but with it every short ``time.sleep`` of Python fails (0.9.10 on Debian 12: EINVAL).
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


def problem() -> str:
    """Why no clock can be stepped here; "" when one can."""
    return "" if shutil.which("gcc") else "gcc is not installed (on Debian: apt-get install g++)"


class Clock:
    """``env`` is for the processes that go by it; ``step`` sets them all, at once, that far from the true time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.step(0)
        self.env: dict[str, str] = {}
        if not problem():
            library = folder / "clock.so"
            made = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
            subprocess.run(made, check=True, capture_output=True, text=True)
            self.env = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        with self._file.open("r+b" if self._file.exists() else "wb") as out:
            out.write(struct.pack("=q", seconds))
