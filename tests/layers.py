"""Runs the layers of tests, quick ones first, and prints how long each took.

``python tests/layers.py`` runs all; ``python tests/layers.py unit integration`` some. A failing layer does not keep
the later ones from running; the exit code is 1 when any failed. REQUIRE_ALL=1 turns every skipped test into a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

SLOWEST = 10
"""Files named for each layer."""
ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

LINTS = {
    "ruff": [[BIN / "ruff", "check", "."], [BIN / "ruff", "format", "--check", "-q", "."]],
    "mypy": [[BIN / "mypy"]],
    "import-linter": [[BIN / "lint-imports"]],
}
# two processes, a file each: most tests wait for other processes. Those that measure or kill stay alone.
SIDE_BY_SIDE = ["-n", "2", "--dist", "loadfile"]
PYTEST = {
    "unit": [*SIDE_BY_SIDE, "tests/unit"],
    "integration": [*SIDE_BY_SIDE, "tests/integration"],
    "acceptance": ["tests/acceptance"],
    "chaos": ["tests/chaos"],
}


def main(wanted: list[str]) -> int:
    known = [*LINTS, *PYTEST]
    if wanted == ["lint"]:
        wanted = list(LINTS)
    unknown = [w for w in wanted if w not in known]
    if unknown:
        sys.stderr.write(f"no such layer: {', '.join(unknown)} (there are lint, {', '.join(known)})\n")
        return 2
    rows: list[tuple[str, str, float]] = []
    slow: dict[str, list[tuple[str, float]]] = {}
    passed = failed = skipped = 0
    for layer in [name for name in known if not wanted or name in wanted]:
        print(f"== {layer}", flush=True)
        began = time.monotonic()
        if layer in LINTS:
            codes = [_run(command) for command in LINTS[layer]]  # each of them prints what it has to say
            good = not any(codes)
            passed, failed = passed + good, failed + (not good)
            state = "ok" if good else "FAILED"
        else:
            good, counts, slowest = _pytest(PYTEST[layer])
            passed, failed, skipped = (
                passed + counts[0],
                failed + counts[1] + (not good and not counts[1]),
                skipped + counts[2],
            )
            slow[layer] = slowest
            state = f"{'ok' if good else 'FAILED'}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped"
        rows.append((layer, state, time.monotonic() - began))
    print("\nlayer            seconds  result")
    for layer, state, seconds in rows:
        print(f"{layer:<16} {seconds:7.1f}  {state}")
    print(f"{'all':<16} {sum(r[2] for r in rows):7.1f}")
    for layer, files in slow.items():
        print(f"{layer}, its slowest: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in files))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def _run(command: list[str | Path]) -> int:
    return subprocess.run([str(c) for c in command], cwd=ROOT, check=False).returncode


def _pytest(paths: list[str]) -> tuple[bool, tuple[int, int, int], list[tuple[str, float]]]:
    """Whether all is well; passed, failed and skipped; the files that took longest, with their seconds."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "--junit-xml", str(report), "-o", "junit_logging=no", *paths]
        code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
        if not report.exists():
            return False, (0, 1, 0), []
        root = ET.parse(report).getroot()
        files: dict[str, float] = defaultdict(float)
        for case in root.iter("testcase"):
            where = case.get("classname", "").split(".")
            module = [part for part in where if part.startswith("test_")] or where
            files[module[-1]] += float(case.get("time", 0))
        total = bad = skipped = 0
        for suite in root.iter("testsuite"):
            total += int(suite.get("tests", 0))
            bad += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
        slowest = sorted(files.items(), key=lambda file: -file[1])[:SLOWEST]
        return code == 0, (total - bad - skipped, bad, skipped), slowest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
