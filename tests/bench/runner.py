"""The runner against one ``pytest`` process a shard: ``python tests/bench/runner.py [small|large|isolation]``.

Test files in upstream's style are written on the fly, so that no tree is needed; both sides run the same files on the
same emulated device and the same machine, taking turns. A ratio is what counts: seconds depend on who else is at work.

* ``small``: 20 files of 10 variants, a shard each. Asked for: at least 5 times the variants a second.
* ``large``: one file of some 20,000 variants, 4 shards of 50, in one lease and in four. Asked for: at least 9 times.
* ``isolation``: 50 variants a fork against all in one process, in turns: upstream's files in ``--tree``, and without it
  2,000 variants of two milliseconds, of which a fork takes the largest part. Asked for: under 10 % more time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from device_files import tests_of

from relay.worker import sandbox
from relay.worker.runners import Runners
from relay.worker.running import Order

SMALL = """
import torch
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.testing._internal.common_device_type import instantiate_device_type_tests, dtypes, ops
from torch.testing._internal.common_methods_invocations import unary_ufuncs


class TestSmall{n}(TestCase):
    @dtypes(torch.float32, torch.float16, torch.int64, torch.int32)
    def test_add(self, device, dtype):
        x = torch.ones(4, 5, device=device, dtype=dtype)
        self.assertEqual((x + x).cpu(), torch.full((4, 5), 2, dtype=dtype))

    @dtypes(torch.float32, torch.float16, torch.int64, torch.int32)
    def test_view(self, device, dtype):
        x = torch.arange(12, device=device).to(dtype)
        self.assertEqual(x.view(3, 4).t().reshape(-1).sum().cpu(), torch.arange(12).to(dtype).sum())

    @ops(unary_ufuncs[{n}:{n} + 2], allowed_dtypes=(torch.float32,))
    def test_unary(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            op(sample.input, *sample.args, **sample.kwargs)


instantiate_device_type_tests(TestSmall{n}, globals())
if __name__ == "__main__":
    run_tests()
"""
LARGE = """
import torch
from torch.testing._internal.common_utils import TestCase, run_tests, parametrize
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops, OpDTypes
from torch.testing._internal.common_methods_invocations import op_db


class TestLarge(TestCase):
    @ops(op_db, dtypes=OpDTypes.supported)
    @parametrize("way", [0, 1, 2, 3])
    def test_shape(self, device, dtype, op, way):
        x = torch.ones(3, device=device)
        self.assertEqual((x + way).shape, x.shape)


instantiate_device_type_tests(TestLarge, globals())
if __name__ == "__main__":
    run_tests()
"""
MANY = """
import torch
from torch.testing._internal.common_utils import TestCase, run_tests, parametrize
from torch.testing._internal.common_device_type import instantiate_device_type_tests


class TestMany(TestCase):
    @parametrize("n", range(2000))
    def test_work(self, device, n):
        x = torch.ones(16, 16, device=device)
        for _ in range(10):
            x = x * 0.5 + n
        self.assertEqual(x.cpu().shape, (16, 16))


instantiate_device_type_tests(TestMany, globals())
"""
OF_UPSTREAM = tuple(
    f"test/test_{name}.py" for name in ("view_ops", "indexing", "shape_ops", "sort_and_select", "type_promotion")
)
PLUGIN = """
import os
from relay.worker.host import import_torch
os.environ["TMPDIR"] = os.getcwd()
import_torch()
"""


class Bench:
    def __init__(self, folder: Path) -> None:
        self.tree, self.folder = folder / "tree", folder
        (self.tree / "test").mkdir(parents=True)
        (folder / "plugin").mkdir()
        (folder / "plugin" / "bench_device.py").write_text(PLUGIN)
        self.runners = Runners(folder / "worker")

    def write(self, name: str, text: str) -> None:
        (self.tree / "test" / name).write_text(text)

    def ours(
        self,
        tests: list[str],
        variants: list[str] | None = None,
        batch: int = 0,
        head: str | None = None,
        strict: bool = True,
    ) -> tuple[float, int]:
        """Seconds and results of one shard on the runner; ``strict``: all of them have to pass."""
        spec = self.folder / "spec.json"
        shard = {"device": "spyre", "runtime": {"kind": "tests-only"}, "tests": tests, "variants": variants,
                 "limits": {"variant_s": 60, "shard_s": 900}}  # fmt: skip
        spec.write_text(json.dumps({"shard": shard}))
        began = time.monotonic()
        if batch:
            out = self.folder / "out"
            command = [sys.executable, "-m", "relay.worker.runner", "--spec", spec, "--tree", self.tree, "--out", out]
            subprocess.run([*command, "--batch", str(batch)], check=True, env=sandbox.environment(self.folder))
            data = out.read_bytes()
        else:
            read, write = os.pipe()
            with open(self.folder / "log", "wb") as log:
                running = self.runners.run(Order(spec, self.tree, write, log.fileno(), head))
            os.close(write)
            with open(read, "rb") as lines:
                data = lines.read()
            running.wait(5)
            self.runners.done(running)
        seconds = time.monotonic() - began
        *lines, last = map(json.loads, data.splitlines())
        assert "report" in last, last
        bad = [line for line in lines if line["outcome"] in ("failed", "error", "crashed", "timed_out")]
        assert not (strict and bad), bad[:2]
        self.report = last["report"]
        return seconds, len(lines)

    def theirs(self, arguments: list[str]) -> tuple[float, int]:
        """Seconds and results of one pytest process."""
        began = time.monotonic()
        env = {**sandbox.environment(self.folder), "PYTHONPATH": f"{self.folder / 'plugin'}:{Path.cwd()}"}
        # the script, not `python -m pytest`: that would put runpy's frames under each test, which slow upstream's down
        # no asserts rewritten, as in ours: where they are not cached yet, those of torch's imports take half a minute
        command = [str(Path(sys.executable).with_name("pytest")), "-q", "--assert=plain", "--rootdir=.",
                   "-p", "no:cacheprovider", "-p", "bench_device",
                   "-W", "ignore", "--no-header", "--tb=no", "-rN"]  # fmt: skip
        command += arguments
        done = subprocess.run(command, cwd=self.tree / "test", env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        seconds = time.monotonic() - began
        last = done.stdout.strip().splitlines()[-1].split()
        return seconds, sum(int(n) for n, what in pairwise(last) if what.startswith(("passed", "skip")))

    def warm(self) -> None:
        """Waits for the warm process, which a worker starts long before its first shard."""
        self.write("test_warm_up.py", SMALL.format(n=0))
        self.runners.start()
        self.ours(["test/test_warm_up.py::TestSmall0::test_add"])


def small(bench: Bench, files: int) -> None:
    bench.warm()
    ours, theirs, variants = [], [], 0
    for n in range(files):
        bench.write(f"test_small_{n}.py", SMALL.format(n=n))
        tests = [f"test/test_small_{n}.py::TestSmall{n}::{name}" for name in ("test_add", "test_view", "test_unary")]
        seconds, count = bench.ours(tests)
        ours.append(seconds)
        seconds, other = bench.theirs([f"test_small_{n}.py"])
        theirs.append(seconds)
        assert count == other, (count, other)
        variants += count
    show(f"small: {files} files, {variants} variants", sum(ours), sum(theirs), statistics.median(ours), 5)


def large(bench: Bench, shards: int) -> None:
    bench.write("test_large.py", LARGE)
    tests = ["test/test_large.py::TestLarge::test_shape"]
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "--assert=plain", "--rootdir=.",
         "-p", "no:cacheprovider", "-p", "bench_device",
         "-W", "ignore", "test_large.py"],
        cwd=bench.tree / "test", capture_output=True, text=True,
        env={**sandbox.environment(bench.folder), "PYTHONPATH": f"{bench.folder / 'plugin'}:{Path.cwd()}"},
    )  # fmt: skip
    ids = [line for line in listing.stdout.splitlines() if "::" in line]
    print(f"large: the file has {len(ids)} variants")
    bench.warm()
    chosen = ids[:: max(1, len(ids) // (50 * shards))][: 50 * shards]
    key = "test/test_large.py::TestLarge::"
    theirs = 0.0
    for n in range(shards):
        theirs += bench.theirs(chosen[n * 50 : n * 50 + 50])[0]
    ours, _ = bench.ours(tests, [key + one.rpartition("::")[2] for one in chosen])
    show(f"large: {shards} shards of 50 in one lease (collected once)", ours, theirs, ours / shards, 9)
    print(f"  timings: {bench.report['timings']}")
    for head, how in ((None, "another head each: collected anew"), ("one", "of one head: collected once")):
        apart = sum(
            bench.ours(tests, [key + one.rpartition("::")[2] for one in chosen[n * 50 : n * 50 + 50]], head=head)[0]
            for n in range(shards)
        )
        show(f"large: {shards} leases of 50, {how}", apart, theirs, apart / shards, 9)


def isolation(bench: Bench, rounds: int, tree: Path | None) -> None:
    if tree is None:
        bench.write("test_many.py", MANY)
        files = {"2,000 variants of 2 ms": ["test/test_many.py::TestMany::test_work"]}
    else:
        files = {file: tests_of(file, tree) for file in OF_UPSTREAM}
        bench.tree = tree
    apart, together = 0.0, 0.0
    for name, tests in files.items():
        runs: dict[int, list[float]] = {50: [], 100_000: []}
        for turn in range(rounds):
            for batch in sorted(runs, reverse=turn % 2 == 1):
                _, count = bench.ours(tests, batch=batch, strict=tree is None)
                runs[batch].append(bench.report["timings"]["run_s"])
        forks, one = map(statistics.median, runs.values())
        print(f"isolation, {name} ({count}): 50 a fork {forks:.2f} s, one process {one:.2f} s: {forks / one - 1:+.1%} "
              f"{list(runs.values())}", flush=True)  # fmt: skip
        apart, together = apart + forks, together + one
    print(f"isolation: {apart / together - 1:+.1%} (asked for: under +10 %)")


def show(what: str, ours: float, theirs: float, each: float, wanted: float) -> None:
    print(f"{what}: ours {ours:.2f} s ({each:.2f} s a shard), pytest {theirs:.2f} s: {theirs / ours:.1f}x "
          f"(asked for: {wanted}x)", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="The runner against one pytest process a shard.")
    parser.add_argument("what", nargs="*", default=["small", "large", "isolation"])
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tree", type=Path, help="a PyTorch tree, for isolation on upstream's files")
    args = parser.parse_args()
    for what in args.what:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder))
            try:
                if what == "small":
                    small(bench, args.files)
                elif what == "large":
                    large(bench, args.shards)
                else:
                    isolation(bench, args.rounds, args.tree)
            finally:
                bench.runners.close()


if __name__ == "__main__":
    main()
