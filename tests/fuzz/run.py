"""``make fuzz``: each reader of foreign bytes under atheris for a bounded time, beginning from the kept corpora.

``python tests/fuzz/run.py [--seconds N] [--keep] [NAME…]``. What breaks a reader is written to .relay/fuzz and ends the
command with 1; put it into tests/data/fuzz/NAME, where the suite reads it ever after. ``--keep`` adds the smallest
inputs that reach new code to the corpora.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("webhook", "callback", "yaml", "log")
MAX_BYTES = 4096


def inside(name: str, options: list[str]) -> None:
    """One reader, in this process, until atheris ends it."""
    import atheris

    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "fuzz")]
    with atheris.instrument_imports(include=["relay.domain", "relay.web.ansi", "selector.configs", "json", "yaml"]):
        import targets
    atheris.Setup([sys.argv[0], *options], targets.TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/fuzz/run.py", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each reader")
    parser.add_argument("--keep", action="store_true", help="add what reaches new code to the corpora")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=", ".join(NAMES))
    args, options = parser.parse_known_args()
    if args.inside:
        inside(args.inside, [*options, *args.names])
        return 0
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"no such reader: {', '.join(sorted(unknown))} (there are {', '.join(NAMES)})")
    failed = []
    for name in args.names or NAMES:
        found = ROOT / ".relay" / "fuzz" / name
        found.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "--inside", name, f"-max_total_time={args.seconds}", "-timeout=20"]
        command += [f"-max_len={MAX_BYTES}", "-rss_limit_mb=2048", f"-artifact_prefix={found}/", "-print_final_stats=1"]
        kept = ROOT / "tests" / "data" / "fuzz" / name
        grown = found / "corpus"
        grown.mkdir(exist_ok=True)
        done = subprocess.run([*command, str(grown), str(kept)], capture_output=True, text=True, check=False)
        runs = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line or " DONE " in line]
        sys.stdout.write(f"{name}: {'broke' if done.returncode else 'held'} {' '.join(' '.join(runs).split())}\n")
        if done.returncode:
            failed.append(name)
            sys.stdout.write(done.stderr[-3000:] + "\n")
        elif args.keep:
            merge = [sys.executable, __file__, "--inside", name, "-merge=1", f"-max_len={MAX_BYTES}"]
            subprocess.run([*merge, str(kept), str(grown)], check=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
