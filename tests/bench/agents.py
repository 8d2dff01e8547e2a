"""Measures of agents.

python tests/bench/agents.py misbehaviour
    the table of docs/agents.md: what a misbehaving model does, and what comes of it
python tests/bench/agents.py asks --configs DIR --upstream DIR [--sheet FILE] [--evidence FILE]... [--cache DIR]
    what a scripted model adds over rules on the tests that rules are not sure of, against public decisions
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("misbehaviour")
    asks = what.add_parser("asks")
    asks.add_argument("--configs", type=Path, required=True)
    asks.add_argument("--upstream", type=Path, required=True)
    asks.add_argument("--sheet", type=Path, default=Path("test_configs/spyre/capability.yaml"))
    asks.add_argument("--evidence", type=Path, action="append", default=[])
    asks.add_argument("--cache", type=Path)
    given = parser.parse_args()
    if given.what == "misbehaviour":
        import agent_lab

        print(agent_lab.table())
        return 0
    import agent_asks

    agent_asks.run(given)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
