"""Common files on two torches: where each test stands, a regression told from a newcomer that never passed.

``python tests/bench/both_torches.py [--file test/test_view_ops.py] [--cls TestViewOps]`` builds the second environment
(``tests/torch_release.py``, 5.3 GB, in the user's cache), runs the class of the tree of ``tests/pytorch_source.py`` on
the emulated device under the installed torch, and, edited as a newer release might be, under 2.14.1; prints a line of
JSON. The edit: the class's first test that passed before fails, and a test is added that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parents[1]))

import pytorch_source  # noqa: E402
import torch_release  # noqa: E402

from relay.cli.config_patch import read_runs  # noqa: E402
from selector.model import TestId, VariantResult  # noqa: E402
from selector.verify.upgrade import counts, stand  # noqa: E402

NEW = "2.14.1"
BROKEN = '        self.fail("edited by the bench")\n'
ADDED = "    def test_added_by_the_bench(self, device):\n        torch.ones(2, device=device).cpu()\n" + BROKEN + "\n"


def ran(python: Path | str, tree: Path, tests: str, out: Path) -> tuple[list[VariantResult], float]:
    began = time.perf_counter()
    command = [str(python), "-m", "relay.cli", "run", "--tree", str(tree), "--out", str(out), tests]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    if not out.is_file():
        raise SystemExit(done.stderr or done.stdout)
    runs = read_runs([out])
    return [one for some in runs.values() for run in some for one in run.results], time.perf_counter() - began


def edited(tree: Path, to: Path, file: str, cls: str, broken: str) -> None:
    """A copy of the tree's tests beside which the rest is linked; the file of it is another."""
    shutil.copytree(tree / "test", to / "test", symlinks=True)
    for other in tree.iterdir():
        if other.name not in ("test", ".git"):
            (to / other.name).symlink_to(other)
    text = (to / file).read_text(encoding="utf-8")
    start = text.index(f"class {cls}(")
    method = re.compile(rf"^    def {broken}\(.*?\).*?:\n", re.M | re.S).search(text, start)
    assert method is not None, broken
    text = text[: method.end()] + BROKEN + text[method.end() :]
    body = text.index("\n", start) + 1
    (to / file).unlink()
    (to / file).write_text(text[:body] + ADDED + text[body:], encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default="test/test_view_ops.py")
    parser.add_argument("--cls", default="TestViewOps")
    args = parser.parse_args()
    try:
        tree, python = pytorch_source.fetch(), torch_release.runner(NEW)
    except (pytorch_source.CannotHave, torch_release.CannotHave) as exc:
        print(f"SKIPPED: {exc}", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory(prefix="relay-both-") as name:
        tmp = Path(name)
        old, old_s = ran(sys.executable, tree, f"{args.file}::{args.cls}", tmp / "old.jsonl")
        passed = sorted({one.test for one in old if one.outcome.value == "passed"})
        first = next(t for t in passed if all(o.outcome.value == "passed" for o in old if o.test == t))
        edited(tree, tmp, args.file, args.cls, first.method)
        new, new_s = ran(python, tmp, f"{args.file}::{args.cls}", tmp / "new.jsonl")
        tests = sorted({one.test for one in new})
        stood = stand(tests, {one.test: one.test for one in old}, new, old)
    told = {s: [str(o.test) for o in stood if o.standing == s] for s in ("regression", "newcomer-fails")}
    wanted = TestId(args.file, args.cls, "test_added_by_the_bench")
    print(
        json.dumps(
            {
                "old": {"torch": "installed", "variants": len(old), "wall_s": round(old_s, 1)},
                "new": {"torch": NEW, "variants": len(new), "wall_s": round(new_s, 1)},
                "standings": {k: n for k, n in counts(stood).items() if n},
                **told,
            }
        )
    )
    assert str(first) in told["regression"], "a test that passed on the old torch"
    assert told["newcomer-fails"] == [str(wanted)], "a test that never passed"
    return 0


if __name__ == "__main__":
    sys.exit(main())
