"""``make audit``: looks every pinned package up in a database of known vulnerabilities. Exit code 0: all were looked up
and none is known to be vulnerable; 1: some are; 3: some could not be looked up, which is said loudly, for "nothing was
found" and "nobody looked" must not read alike.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILES = ("relay.txt", "emulator.txt", "test.txt")
SERVICES = ("pypi", "osv")
SECONDS = 240


def judge(found: dict[str, Any] | None) -> tuple[int, list[str]]:
    """What pip-audit's JSON comes to: the exit code, and the lines to print. None: it gave none."""
    packages = found.get("dependencies", []) if found else []
    skipped = [one for one in packages if "skip_reason" in one]
    bad = [one for one in packages if one.get("vulns")]
    lines = [
        f"{one['name']} {one['version']}: {vuln['id']} (fixed in {', '.join(vuln['fix_versions']) or 'no release'})"
        for one in bad
        for vuln in one["vulns"]
    ]
    if bad:
        return 1, lines
    if not packages or skipped:
        names = ", ".join(one["name"] for one in skipped[:5])
        said = f"{len(skipped)} of {len(packages)} packages ({names}, …)" if packages else "any package"
        return 3, [f"NOT AUDITED: the database does not answer for {said}"]
    return 0, [f"{len(packages)} packages looked up, none is known to be vulnerable"]


def ask(path: Path, service: str) -> tuple[dict[str, Any] | None, str]:
    """pip-audit's answer about one file of pins, and the last thing that it complained about."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(path), "--require-hashes", "--disable-pip"]
    command += ["-s", service, "-f", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return dict(json.loads(done.stdout)), ""
    except subprocess.TimeoutExpired:
        return None, f"no answer in {SECONDS} s"
    except ValueError:
        return None, (done.stderr.strip().splitlines() or ["it said nothing"])[-1]


def main(names: Sequence[str]) -> int:
    worst = 0
    for name in names or FILES:
        for service in SERVICES:
            found, complaint = ask(ROOT / "deploy" / "requirements" / name, service)
            code, lines = judge(found)
            for line in lines:
                sys.stdout.write(f"{name} ({service}): {line}{': ' + complaint if complaint else ''}\n")
            if code != 3:
                break
        worst = max(worst, code) if 1 not in (worst, code) else 1
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
