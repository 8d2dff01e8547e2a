"""The situations that a verdict must tell apart, played on the emulated device: ``python tests/bench/situations.py``.

Each is a change to a small upstream, run by the real worker against the real web process; the table shows the check
run's conclusion, the reason code and why. Exit status 1 when one comes out otherwise than it must. ``--only REGEX``
plays those whose names fit; ``--rounds N`` plays those in which chance has a part N times; ``--markdown``
prints the table of docs/verify.md; ``--part K/N`` plays a part.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import structlog
from situation_lab import lab
from situation_table import SITUATIONS, judgements, play, prepare, problems, reason


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th, from the K-th on")
    args = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    wrong = 0
    part, parts = (int(text) for text in args.part.split("/"))
    if args.markdown:
        print("| # | Situation | Check | Code | Failures shown | Why |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="situations-") as folder, lab(Path(folder)) as here:
        base = prepare(here)
        for number, situation in enumerate(SITUATIONS, 1):
            if not re.search(args.only, situation.name) or number % parts != part % parts:
                continue
            seen: collections.Counter[str] = collections.Counter()
            judged: set[str] = set()
            began, rounds = time.monotonic(), args.rounds if situation.chance else 1
            for _ in range(rounds):
                row = play(here, base, situation)
                seen[f"{row.conclusion} {row.code}"] += 1
                judged |= judgements(here, row)
                for problem in problems(here, situation, row):
                    wrong += 1
                    print(f"{number}. {situation.name}: {problem}", file=sys.stderr)
            if not set(situation.judged) <= judged:
                wrong += 1
                print(f"{number}. {situation.name}: no round showed {situation.judged}: {judged}", file=sys.stderr)
            kinds = collections.Counter(cause["kind"] for cause in (row.verdict or {}).get("causes", ()))
            shown = ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "none"
            why = reason(here, row) or row.summary
            took = (time.monotonic() - began) / rounds
            if args.markdown:
                ends = seen.items() if rounds > 1 else [(f"{row.conclusion} {row.code}", 0)]
                checks = ", ".join(f"{end.split()[0]}{f' ({n} of {rounds})' if n else ''}" for end, n in ends)
                codes = ", ".join(f"`{end.split()[1]}`" for end, _ in ends)
                print(f"| {number} | {situation.name} | {checks} | {codes} | {shown} | {why.replace('|', '/')} |")
            else:
                ends = ", ".join(f"{end}{f' x{n}' if rounds > 1 else ''}" for end, n in seen.items())
                print(f"{number:2}. {situation.name}: {ends} [{shown}] ({took:.1f} s)\n      {why}", flush=True)
    print(f"{wrong} wrong", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
