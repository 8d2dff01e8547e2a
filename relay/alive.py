"""A file that a process touches while its main loop turns, for the health check of a container that answers no HTTP.

``RELAY_ALIVE_FILE`` names it. ``python -m relay.alive SECONDS`` fails when it is older: with room for the longest work
that the loop does itself (a selection, a shard), for meanwhile it is not touched.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

VARIABLE = "RELAY_ALIVE_FILE"
EVERY_S = 2.0


def path() -> Path | None:
    """The file, where the environment names one."""
    name = os.environ.get(VARIABLE, "")
    return Path(name) if name else None


def touch(file: Path | None) -> None:
    """The loop turns. A file that cannot be written fails the check, which is what it is for."""
    if file is not None:
        try:
            file.touch()
        except OSError as exc:
            sys.stderr.write(f"relay.alive: {file}: {exc.strerror}\n")


def main(argv: list[str]) -> int:
    """0: the file is younger than the seconds that are given."""
    file = path()
    if file is None or len(argv) != 1:
        sys.stderr.write(f"relay.alive: usage: {VARIABLE}=FILE python -m relay.alive SECONDS\n")
        return 2
    try:
        age = time.time() - file.stat().st_mtime
    except OSError as exc:
        sys.stderr.write(f"relay.alive: {file}: {exc.strerror}\n")
        return 1
    if age > float(argv[0]):
        sys.stderr.write(f"relay.alive: {file}: untouched for {age:.0f} s\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
