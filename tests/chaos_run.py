"""The relay under chaos: fault after fault in one relay that lives on, and after each a look at every invariant.

    python tests/chaos_run.py --database postgresql --seed 1 --faults 12 --json report.json
    python tests/chaos_run.py --storm 10000 --json storm.json
    python tests/chaos_run.py --table report.json storm.json

Works unprivileged: it enters namespaces of its own first, where the kernel lets it, and says loudly what it cannot try
where it does not. ``--table`` writes reports into docs/chaos.md. Exit code 1: an invariant did not hold; 2: a fault
could not be tried.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from under_chaos import rounds, spaces, storm, table


def main() -> int:
    parser = argparse.ArgumentParser(description="The relay under chaos.")
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=0, help="so many, drawn by the seed (0: all)")
    parser.add_argument("--only", default="", help="those whose names contain this")
    parser.add_argument("--long", action="store_true", help="outages that last a minute")
    parser.add_argument("--storm", type=int, default=0, help="so many deliveries instead, repeated and in any order")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, nargs="+", help="writes these reports into docs/chaos.md")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it there")
    args = parser.parse_args()
    if args.table:
        table.write(args.table)
        return 0
    if not spaces.inside():
        problem = spaces.problem()
        if not problem:
            spaces.enter()
        print(f"NO NAMESPACES, so no cut networks and no small disks: {problem}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="chaos-", dir="/tmp") as made:
        folder = args.keep or Path(made)
        if args.storm:
            played = [storm.play(folder, args.database, args.seed, args.storm)]
            rounds.say(played[0])
        else:
            chosen = rounds.sample(args.database, args.seed, args.faults, args.only)
            played = rounds.play(folder, args.database, args.seed, chosen, args.long)
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps([one.as_map() for one in played], indent=1))
    return 1 if any(not one.good for one in played) else 2 if any(one.untried for one in played) else 0


if __name__ == "__main__":
    sys.exit(main())
