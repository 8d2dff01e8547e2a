"""How long the inventory and a selection of a full PyTorch tree take: ``python tests/bench/inventory.py [TREE]``.

TREE is a git repository; without it the source package in the cache (tests/pytorch_source.py). Prints, asserts nothing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import pytorch_source  # noqa: E402

from relay.cli.select import LocalRepository, selected  # noqa: E402
from relay.demo.realtree import build  # noqa: E402
from relay.mirror.git import GitTree, Mirror  # noqa: E402
from selector.discover import DirectoryCache, take  # noqa: E402


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tree", nargs="?", type=Path, help="a git repository; by default the source package")
    source = parser.parse_args(argv).tree or pytorch_source.cached()
    if source is None:
        sys.stderr.write("there is no tree: give one, or get one with python tests/pytorch_source.py\n")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="relay-bench-"))
    try:
        made = build(folder / "upstream.git", source)
        cache = DirectoryCache(folder / "cache")
        repository = LocalRepository(made.path)
        for name, commit in (
            ("inventory, cold", made.base_sha),
            ("inventory, nothing changed", made.base_sha),
            ("inventory, one file changed", made.head_sha),
        ):
            began, spent = time.perf_counter(), time.process_time()
            with GitTree(repository, commit) as tree:
                found = take(tree, cache)
            wall, cpu = time.perf_counter() - began, time.process_time() - spent
            print(f"{name:<32} {wall:7.2f} s, {cpu:6.2f} s of this process's CPU; {found.count} test methods")
        with GitTree(repository, made.base_sha) as tree:
            began, spent = time.perf_counter(), time.process_time()
            again = take(tree, cache, found)
        wall, cpu = time.perf_counter() - began, time.process_time() - spent
        print(f"{'inventory, kept in the process':<32} {wall:7.2f} s, {cpu:6.2f} s of this process's CPU")
        began, spent = time.perf_counter(), time.process_time()
        count = sum(1 for _ in again.tests())
        wall, cpu = time.perf_counter() - began, time.process_time() - spent
        print(
            f"{'inherited and made tests':<32} {wall:7.2f} s, {cpu:6.2f} s of this process's CPU; {count} tests in all"
        )
        configs = ROOT / "test_configs" / "spyre"
        for name in ("selection, first", "selection, warm"):
            began = time.perf_counter()
            picked = selected(made.path, "main", made.head_sha, configs, None, cache=folder / "cache")
            print(f"{name:<32} {time.perf_counter() - began:7.2f} s; {picked.counts['planned']} tests planned")
        mirror = Mirror(str(made.path), folder / "mirror.git")
        began = time.perf_counter()
        mirror.ensure(made.base_sha, made.head_sha)
        print(f"{'mirror, first fetch':<32} {time.perf_counter() - began:7.2f} s")
        began = time.perf_counter()
        size = sum(map(len, mirror.archive(made.head_sha, ["test"], without=("test/cpp", "test/dynamo_skips"))))
        print(f"{'tree for a worker':<32} {time.perf_counter() - began:7.2f} s; {size / 1e6:.1f} MB packed")
        subprocess.run(["uptime"], check=False)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
