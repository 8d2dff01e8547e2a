"""Upgrades of real pairs: totals, changes by kind, what is to be evaluated, and wall time, cold and warm.

``python tests/bench/upgrade_pairs.py [--pair NAME] [--xpu DIR] [--tests N]`` prints a line of JSON a pair. Pairs:

* ``source``: whole trees of 1.13.1 and 2.6.0 (``tests/pytorch_source.py``);
* ``torch``: the shared test library of the installed torch and of 2.14.1 (``tests/torch_release.py``), under one and
  the same test file, with both op databases;
* ``xpu``: ``test/xpu`` of two branches of a git repository of intel/torch-xpu-ops (``--xpu``), each over the shared
  library of its torch;
* ``many``: a made tree of which every one of ``--tests`` tests (40,000) is changed: peak memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

import pytorch_source  # noqa: E402
import torch_release  # noqa: E402

ROOT = HERE.parents[2]
DATA = ROOT / "tests" / "data" / "opdb"
NEW = "2.14.1"
OPDBS = ["--opdb-from", str(DATA / "torch-2.13.0.json"), "--opdb-to", str(DATA / f"torch-{NEW}.json")]
BRANCHES = ("release/2.13", "release/2.14")
_RUN = """
import resource, sys, time
from pathlib import Path
from relay.cli.upgrade import Request, upgraded
import json
began = time.perf_counter()
value = upgraded(Request(**{k: Path(v) if k not in ("old", "new") else v for k, v in json.loads(sys.argv[1]).items()}))
seconds = time.perf_counter() - began
peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
json.dump([value, seconds, cpu, peak], sys.stdout)
"""


def measured(old: Path, new: Path, cache: Path, *, opdbs: bool) -> tuple[dict[str, Any], dict[str, float]]:
    """The report, and seconds of wall and CPU and MiB of a process of its own."""
    asked = {"old": str(old), "new": str(new), "configs": str(ROOT / "test_configs" / "spyre"), "cache": str(cache)}
    if opdbs:
        asked |= {"opdb_old": OPDBS[1], "opdb_new": OPDBS[3]}
    command = [sys.executable, "-c", _RUN, json.dumps(asked)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    value, seconds, cpu, peak = json.loads(done.stdout)
    return value, {"wall_s": round(seconds, 2), "cpu_s": round(cpu, 2), "peak_mib": round(peak / 1024)}


def line(name: str, old: Path, new: Path, *, opdbs: bool = False) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="relay-pairs-") as cache:
        value, cold = measured(old, new, Path(cache), opdbs=opdbs)
        again, warm = measured(old, new, Path(cache), opdbs=opdbs)
    assert again["kept"]
    assert again["kinds"] == value["kinds"]
    return {
        "pair": name,
        "total": value["total"],
        "kinds": {kind: n for kind, n in value["kinds"].items() if n},
        "evaluate": value["evaluate"],
        "relevant": value["relevant"],
        "entries": _aspects(value["entries"]),
        "variants": value["variants"]["between"],
        "cold": cold,
        "warm": warm,
        "steps": value["seconds"],
    }


def _aspects(entries: list[dict[str, Any]]) -> dict[str, int]:
    alone = [tuple(entry["aspects"]) for entry in entries]
    return {"differ": len(alone), "only skips": alone.count(("skips",))}


def libraries() -> tuple[Path, Path]:
    """Folders that hold the package torch: the installed one, and the new release unpacked."""
    try:
        return Path(next(p for p in sys.path if (Path(p) / "torch" / "version.py").is_file())), torch_release.unpacked(
            NEW
        )
    except torch_release.CannotHave as exc:
        raise SystemExit(f"SKIPPED: torch {NEW} cannot be had here: {exc}") from exc


def with_library(library: Path, to: Path) -> None:
    shutil.copytree(library / "torch" / "testing", to / "torch" / "testing", ignore=shutil.ignore_patterns("*.pyc"))


def torch_pair(tmp: Path) -> dict[str, Any]:
    sides = []
    tests = ROOT / "tests" / "unit" / "upgrade" / "test_upgrade_variants.py"
    made = tests.read_text(encoding="utf-8").split('FILE = """')[1].split('"""')[0]
    body = "    @ops(op_db)\n    def test_every(self, device, dtype, op):\n        self.assertTrue(op is not None)\n"
    for name, library in zip(("old", "new"), libraries(), strict=True):
        with_library(library, tmp / name)
        (tmp / name / "test").mkdir()
        (tmp / name / "test" / "test_ops.py").write_text(made.format(tests=body), encoding="utf-8")
        sides.append(tmp / name)
    return line("torch", sides[0], sides[1], opdbs=True)


def xpu_pair(repository: Path, tmp: Path) -> dict[str, Any]:
    sides = []
    for branch, library in zip(BRANCHES, libraries(), strict=True):
        to = tmp / branch.replace("/", "-")
        to.mkdir()
        packed = subprocess.run(
            ["git", "-C", repository, "archive", branch, "test/xpu"], capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", to], input=packed.stdout, check=True)
        with_library(library, to)
        sides.append(to)
    found = line("xpu", sides[0], sides[1], opdbs=True)
    return {**found, "copies": copies(*sides)}


def copies(old: Path, new: Path) -> dict[str, Any]:
    """Of the files that both branches have and that write tests of their own: how many of those tests differ.
    ``made``: files that write none, and make theirs of another file's, with how many."""
    from selector.discover import take
    from selector.discover.fingerprints import Prints
    from selector.trees import DirTree

    inventories = [take(DirTree(side, only=lambda p: p.endswith(".py"))) for side in (old, new)]
    prints = [Prints(inventory) for inventory in inventories]
    files, made, both, own, deep, changed = set(), {}, 0, 0, 0, 0
    for path in sorted(inventories[0].ids.keys() & inventories[1].ids.keys()):
        if not path.startswith("test/"):
            continue
        known = [inv.known(path) for inv in inventories]
        sides = [{t for t, one in tests.items() if one.how == "written"} for tests in known]
        if not any(sides) and all(known):
            made[path] = len(known[0].keys() & known[1].keys())
        for test in sides[0] & sides[1]:
            was, now = (p.of(test) for p in prints)
            files.add(path)
            both += 1
            own += (was.body, was.decorators) != (now.body, now.decorators)
            deep += was.deep != now.deep
            changed += inventories[0].ids[path] != inventories[1].ids[path]
    counts = {"files": len(files), "tests": both, "own_ast": own, "with_helpers": deep, "in_changed_files": changed}
    return {**counts, "made": made}


def many_pair(tests: int, tmp: Path) -> dict[str, Any]:
    each = 400
    for name, extra in (("old", ""), ("new", " + 1")):
        (tmp / name / "test").mkdir(parents=True)
        for n in range(-(-tests // each)):
            bodies = "".join(
                f"    def test_{i}(self, device):\n        x = torch.ones({i + 1}, device=device){extra}\n"
                f"        y = x * {n}\n        self.assertEqual(y.numel(), {i + 1})\n\n"
                for i in range(min(each, tests - n * each))
            )
            text = (
                "import torch\nfrom torch.testing._internal.common_device_type import instantiate_device_type_tests\n"
                "from torch.testing._internal.common_utils import TestCase\n\n\n"
                f"class TestMade(TestCase):\n{bodies}\ninstantiate_device_type_tests(TestMade, globals())\n"
            )
            (tmp / name / "test" / f"test_made_{n}.py").write_text(text, encoding="utf-8")
    return line("many", tmp / "old", tmp / "new")


def lines(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="relay-pairs-") as name:
        tmp = Path(name)
        if args.pair in ("source", "all"):
            try:
                trees = [pytorch_source.fetch(version) for version in ("1.13.1", "2.6.0")]
            except pytorch_source.CannotHave as exc:
                print(f"SKIPPED: no source package: {exc}", file=sys.stderr)
            else:
                yield line("source", *trees)
        if args.pair in ("torch", "all"):
            (tmp / "torch").mkdir()
            yield torch_pair(tmp / "torch")
        if args.pair in ("xpu", "all") and args.xpu is not None:
            (tmp / "xpu").mkdir()
            yield xpu_pair(args.xpu, tmp / "xpu")
        if args.pair in ("many", "all"):
            yield many_pair(args.tests, tmp / "many")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", choices=("source", "torch", "xpu", "many", "all"), default="all")
    parser.add_argument("--xpu", type=Path, help="a git repository of intel/torch-xpu-ops, bare or not")
    parser.add_argument("--tests", type=int, default=40_000)
    for found in lines(parser.parse_args()):
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
