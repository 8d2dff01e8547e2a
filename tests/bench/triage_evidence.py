"""Kernel counts for ``relay triage eval --evidence``: runs the upstream files that decisions are about, limits lifted.

    python tests/bench/triage_evidence.py --decisions DIR --upstream DIR --out FILE [--seconds S] [FILE...]

Each file is run by ``relay run`` on the emulated device, with every limit to a device type lifted, as the older tool
does it; files that do not import, or that take longer than ``--seconds``, are named and left out. Results are appended
to FILE, one upstream file after the other; files that are there already are not run again. Hours for all of them,
seconds for one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SHEET = ROOT / "test_configs" / "spyre"
LIFTED = {
    "path": "${TORCH_ROOT}/test/**/test_*.py",
    "unlisted_test_mode": "mandatory_success",
    "bypass_device_restrictions": ["cuda", "cpu"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=Path, required=True)
    parser.add_argument("--upstream", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--variant", type=float, default=60.0)
    parser.add_argument("files", nargs="*", help="upstream files; default: all that the decisions are about")
    given = parser.parse_args()
    done = {json.loads(line)["test"].partition("::")[0] for line in _lines(given.out)}
    with tempfile.TemporaryDirectory() as folder:
        configs = _configs(Path(folder))
        for file in given.files or decided(given.decisions, given.upstream):
            if file not in done:
                said = _run(file, configs, given)
                print(f"{file}: {said}", flush=True)
    return 0


def decided(folder: Path, upstream: Path) -> list[str]:
    """The files of the tree that the decisions are about, the smallest first."""
    found = set()
    for path in folder.rglob("*.yaml"):
        for entry in yaml.safe_load(path.read_text())["test_suite_config"]["files"]:
            found.add(entry["path"].partition("}/")[2])
    there = [file for file in found if (upstream / file).is_file()]
    return sorted(there, key=lambda file: (upstream / file).stat().st_size)


def _configs(folder: Path) -> Path:
    (folder / "capability.yaml").write_text((SHEET / "capability.yaml").read_text())
    value = yaml.safe_load((SHEET / "upstream.yaml").read_text())
    value["test_suite_config"]["files"] = [LIFTED, {**LIFTED, "path": "${TORCH_ROOT}/test/test_*.py"}]
    (folder / "upstream.yaml").write_text(yaml.safe_dump(value))
    return folder


def _run(file: str, configs: Path, given: argparse.Namespace) -> str:
    results = configs / "results.jsonl"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "relay.cli", "run", file, "--tree", str(given.upstream), "--configs", str(configs)]
    command += ["--timeout", str(given.variant), "--out", str(results)]
    try:
        code = subprocess.run(command, check=False, capture_output=True, text=True, timeout=given.seconds).returncode
    except subprocess.TimeoutExpired:
        return f"left out, not done after {given.seconds:.0f} s"
    lines = _lines(results)
    with given.out.open("a", encoding="utf-8") as out:
        for line in lines:
            row = json.loads(line)
            kept = {key: row[key] for key in ("test", "variant", "outcome", "kernels")}
            out.write(json.dumps(kept) + "\n")
    return f"{len(lines)} variants" if code in (0, 1) else f"{len(lines)} variants, exit code {code}"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


if __name__ == "__main__":
    raise SystemExit(main())
