"""Everything in a device's configs that has to be kept true: entries with their reason, age, owner and end."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from selector.configs import ReuseConfigs
from selector.configs.check import everything
from selector.configs.tree import FileEntry, Item, TestEntry
from selector.model import Mode

SOON_DAYS = 30
BLAME_S = 10.0
QUIET = (Mode.MANDATORY_SUCCESS.value,)
STATES = ("dead", "expired", "expiring", "unexplained", "holds")


@dataclass(frozen=True, slots=True)
class Line:
    """Who wrote a line of a file, and when (seconds since the epoch)."""

    author: str
    at: float


def blame(path: Path) -> dict[int, Line]:
    """The lines of a file in a git checkout, by number; empty outside of one. Uncommitted lines are left out."""
    command = ["git", "-C", str(path.parent), "blame", "--line-porcelain", "--", path.name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=BLAME_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if done.returncode:
        return {}
    found: dict[int, Line] = {}
    number, sha, author, at = 0, "", "", 0.0
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if head := re.match(r"([0-9a-f]{40}) \d+ (\d+)", line):
            sha, number = head[1], int(head[2])
        elif line.startswith("author "):
            author = line.removeprefix("author ")
        elif line.startswith("author-time "):
            at = float(line.removeprefix("author-time "))
        elif line.startswith("\t") and sha.strip("0"):
            found[number] = Line(author, at)
    return found


def entries(
    configs: ReuseConfigs, *, today: date, dead: Mapping[str, str], lines: Mapping[str, Mapping[int, Line]]
) -> list[dict[str, Any]]:
    """What deviates from running and passing, and files as a whole, in the files' order. ``dead``: ``file.yaml:12`` of
    what is proposed to be removed -> why; ``lines``: file -> ``blame`` of it."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    for suite in configs.suites:
        about: FileEntry | None = None
        entry: TestEntry | None = None
        for thing in everything([suite]):
            if isinstance(thing, FileEntry):
                about, entry = thing, None
            elif isinstance(thing, TestEntry):
                entry = thing
            row = _row(thing, about, entry)
            place = str(thing.place)
            if row is None or place in seen:  # a sheet that several files extend is read with each
                continue
            seen.add(place)
            wrote = lines.get(thing.place.source, {}).get(thing.place.line)
            row |= {
                "place": place,
                "file": thing.place.source,
                "reason": thing.why.reason,
                "issue": thing.why.issue,
                "evidence": thing.why.evidence,
                "until": thing.why.until,
                "owner": wrote.author if wrote else None,
                "since": wrote.at if wrote else None,
                "dead": dead.get(place, ""),
            }
            row["state"] = _state(row, today)
            found.append(row)
    return found


def _row(thing: Any, about: FileEntry | None, entry: TestEntry | None) -> dict[str, Any] | None:
    if isinstance(thing, FileEntry):
        return {"what": "file", "names": [_path(thing)], "path": _path(thing), "mode": thing.unlisted.value}
    if isinstance(thing, TestEntry):
        names = [name.text for name in thing.names]
        return {"what": "tests", "names": names, "path": _path(about), "mode": thing.mode.value}
    assert isinstance(thing, Item)
    if not (thing.why.reason or thing.why.until or thing.why.issue):
        return None  # a word in a list: the entry around it says why
    names = [thing.name]
    return {"what": "item", "names": names, "path": _path(about), "mode": entry.mode.value if entry else ""}


def _path(file: FileEntry | None) -> str:
    return file.path.text.removeprefix("${TORCH_ROOT}/") if file else ""


def _state(row: Mapping[str, Any], today: date) -> str:
    if row["dead"]:
        return "dead"
    try:
        left = (date.fromisoformat(row["until"]) - today).days
    except ValueError:
        left = None  # none given, or a version
    if left is not None and left < 0:
        return "expired"
    if left is not None and left <= SOON_DAYS:
        return "expiring"
    if row["mode"] not in QUIET and not row["reason"] and not row["issue"]:
        return "unexplained"
    return "holds"


def counted(rows: Iterable[Mapping[str, Any]], key: str) -> dict[str, int]:
    """How many rows have which value of ``key``, most first; None counts as ``unknown``."""
    found: dict[str, int] = {}
    for row in rows:
        word = row[key] if row[key] is not None else "unknown"
        found[word] = found.get(word, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
