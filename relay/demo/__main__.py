"""``python -m relay.demo``: what ``make demo`` runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from relay.demo.play import main as play
from relay.demo.realtree import Source
from relay.errors import RelayError


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 done, 1 the demo did not do what it must, 2 it could not start, 130 stopped before its end."""
    parser = argparse.ArgumentParser(prog="python -m relay.demo", description="Play a pull request through the relay.")
    parser.add_argument("--once", action="store_true", help="end when the verdict is there; 0 only if all is right")
    parser.add_argument(
        "--dir", type=Path, default=Path(".relay/demo"), help="folder of everything (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=None, help="port of the relay; default: 8460, or a free one")
    parser.add_argument(
        "--upstream", default="", help="a real PyTorch tree: a git repository, a folder of sources, or a URL"
    )
    parser.add_argument(
        "--pr-edit", type=Path, default=None, metavar="FILE", help="the PR of that tree, as a unified diff"
    )
    args = parser.parse_args(argv)
    if args.pr_edit is not None and not args.upstream:
        parser.error("--pr-edit needs --upstream")
    try:
        source = Source(args.upstream, args.pr_edit) if args.upstream else None
        return play(args.dir, args.once, args.port, source)
    except RelayError as exc:
        sys.stderr.write(f"demo: {exc.message}\n")
        if exc.hint:
            sys.stderr.write(f"  {exc.hint}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
