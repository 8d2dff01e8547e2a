"""A real upstream file under a real config: every variant has an outcome, and every outcome is there.

``python tests/bench/real_run.py [--file test/test_view_ops.py] [--config FILE]`` runs all of it in the tree of
``tests/pytorch_source.py`` and prints a line of JSON. No upstream file crashes, hangs and breaks its own set-up, so a
class of ours that does is put behind its end, as a pull request would, in a copy of the file; a config
of ours says what is expected of that class.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
FILE = "test/test_view_ops.py"
CONFIG = ROOT / "tests/data/spyre-configs/test_view_ops_config.yaml"
TROUBLE = """

class TestAdded(TestCase):
    def test_added_crashes(self, device):
        import os, signal
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_added_hangs(self, device):
        import time
        time.sleep(600)

    def test_added_fails(self, device):
        self.assertEqual(torch.ones(1, device=device), torch.zeros(1, device=device))

    def test_added_is_mended(self, device):
        self.assertEqual(torch.ones(1, device=device) + 1, torch.full((1,), 2.0, device=device))

    def test_added_skips_itself(self, device):
        self.skipTest("nothing to show here")


class TestAddedBroken(TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("the class cannot be set up")

    def test_added_has_no_set_up(self):
        pass


instantiate_device_type_tests(TestAdded, globals())
"""
ADDED = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/FILE
      unlisted_test_mode: mandatory_success
      tests:
        - {names: [TestAdded::test_added_is_mended], mode: xfail_strict, reason: was broken until now}
"""
OUTCOMES = {"passed", "failed", "error", "skipped", "self_skipped", "xfailed", "xpassed", "crashed", "timed_out"}


def lay(tree: Path, tmp: Path, file: str, config: Path) -> tuple[Path, Path]:
    """(a copy of the tree with the file and our class behind it, the device's folder)."""
    copied = tmp / "tree"
    (copied / file).parent.mkdir(parents=True)
    (copied / file).write_text((tree / file).read_text(encoding="utf-8") + TROUBLE, encoding="utf-8")
    device = tmp / "device"
    device.mkdir()
    shutil.copyfile(ROOT / "test_configs/spyre/capability.yaml", device / "capability.yaml")
    shutil.copyfile(config, device / config.name)
    (device / "added.yaml").write_text(ADDED.replace("FILE", file))
    return copied, device


def run(tree: Path, tmp: Path, file: str, config: Path, *tests: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of ``relay run`` and its result lines; ``tests``: ``Class`` or ``Class::method``, none: all."""
    from typer.testing import CliRunner

    from relay.cli import app

    copied, device = lay(tree, tmp, file, config)
    words = [f"{file}::{test}" for test in tests] or [file]
    given = ["--tree", str(copied), "--configs", str(device), "--timeout", "10", "--out", str(tmp / "r.jsonl")]
    done = CliRunner().invoke(
        app, ["run", *words, *given, "--junit", str(tmp / "r.xml"), "--ctrf", str(tmp / "r.json")]
    )
    if not (tmp / "r.jsonl").exists():
        raise SystemExit(done.output)
    return done.exit_code, [json.loads(line) for line in (tmp / "r.jsonl").read_text().splitlines()]


if __name__ == "__main__":
    import pytorch_source

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default=FILE)
    parser.add_argument("--config", type=Path, default=CONFIG)
    given = parser.parse_args()
    source = pytorch_source.cached()
    if source is None:
        raise SystemExit("python tests/pytorch_source.py gets the tree first")
    with tempfile.TemporaryDirectory() as folder:
        code, lines = run(source, Path(folder), given.file, given.config)
    counts = Counter(line["outcome"] for line in lines)
    print(json.dumps({"exit": code, "variants": len(lines), **counts, "missing": sorted(OUTCOMES - set(counts))}))
