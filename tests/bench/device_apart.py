"""How long upstream's files take on either device, each in runs of its own: ``device_files.py --time``."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_files import GOOD, PLACES, How, Timed, compare, key_of, placed, run, seconds
from device_ratio import THOUSANDS


def counted(file: str, timed: Sequence[Timed], how: How, kept: Path | None) -> dict[str, int]:
    """By the key of a variant: how many operators the CPU runs for it, as far as `device_ratio.THOUSANDS`."""
    keys = {one.key: one.key.rpartition("::")[0].rpartition("::")[2] for one in timed}
    names = {key: f"{cls} {key.partition(' ')[2]}" for key, cls in keys.items()}
    known: dict[str, int] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    missing = sorted({name for name in names.values() if name not in known})
    if missing:
        script = Path(__file__).with_name("device_ratio.py")
        command = [*how.prefix, sys.executable, str(script), "--count", "--tree", str(how.tree), file]
        asked = json.dumps(missing)
        run = subprocess.run(command, input=asked, stdout=subprocess.PIPE, check=True, text=True)
        known |= json.loads(run.stdout.splitlines()[-1])
        if kept:
            kept.write_text(json.dumps(known))
    return {key: known[name] for key, name in names.items()}


@dataclass
class Apart:
    """What tests took, each device in runs of its own: the variants' seconds, and the runs', without imports and
    collection, but with what a worker does between two tests. Medians over the rounds."""

    timed: list[Timed]
    runs: dict[str, float]

    def __str__(self) -> str:
        cpu, device = (self.runs[where] for where in PLACES)
        return f"({len(self.timed)}) {seconds(self.timed)}, as runs {cpu:.1f} / {device:.1f} = {device / cpu:.2f}x"


def apart(file: str, lines: Sequence[dict[str, Any]], keys: Set[str], how: How, rounds: int) -> Apart:
    """Runs the variants with these keys again.

    In a run of both devices the CPU's classes come first, and what a forked process does once (what a module imports
    when it is first needed, memory that the first test asks for) would be theirs alone.
    """
    chosen: dict[str, list[dict[str, Any]]] = {where: [] for where in PLACES}
    for line in lines:
        where, key = ("", "") if "report" in line else placed(line)
        if where and key in keys:
            chosen[where].append(line)
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    runs: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds):
        for where in sorted(chosen, reverse=bool(turn % 2)):
            tests = [*dict.fromkeys(line["test"] for line in chosen[where])]
            *more, last = run(file, tests, how, [*map(key_of, chosen[where])])
            runs[where].append(last["report"]["timings"]["run_s"])
            for line in more:
                if line["outcome"] in GOOD:
                    took[(where, placed(line)[1])].append(line["seconds"])
    every = [key for key in sorted(keys) if all(took[(where, key)] for where in PLACES)]
    timed = [Timed(key, *(statistics.median(took[(where, key)]) for where in PLACES)) for key in every]
    return Apart(timed, {where: statistics.median(runs[where]) for where in PLACES})


def time_by_kind(
    file: str, lines: Sequence[dict[str, Any]], how: How, rounds: int, *, kept: Path | None, few: bool, slowest: int
) -> None:
    """Times what passes on both, and prints it: tests of operators, and, unless only the ``few`` are asked for, of
    thousands of tiny ones. ``kept``: a file for what `counted` finds; ``slowest``: variants printed that lose most."""
    counts = counted(file, compare(file, lines).timed, how, kept)
    for name, many in (("tests of operators", False), ("tests of thousands of tiny ones", True)):
        keys = {key for key, count in counts.items() if (count >= THOUSANDS) is many}
        if not keys or (many and few):
            continue
        found = apart(file, lines, keys, how, rounds)
        print(f"  {name} {found}", flush=True)
        for one in sorted(found.timed, key=lambda one: one.cpu - one.device)[:slowest]:
            print(f"      {1000 * one.cpu:.1f} / {1000 * one.device:.1f} ms, {counts[one.key]} operators: {one.key}")
