"""The emulated device's processor time beside the CPU's, file by file of upstream's: a figure in a minute.

``python tests/bench/device_ratio.py --tree TREE [--sample N] [--rounds K] [test/test_view_ops.py ...]`` imports each
file in a process of its own, as the runner does, with its classes made for both devices (the device without limits). Of
the variants that both have, a seeded sample of N is run on one and the other in turn, K times over; the first go only
warms up, and finds those that pass on both, which alone count. A figure is the processor time of a variant's set up,
test and tear down; of a variant, the median of its rounds; of a file, the sum over its variants. Printed are the
ratio of the sums, its spread over the rounds, and the middle of the variants' own ratios: in a file with one test of
ten seconds the sums say what that test does. Without files: those of ``device_files.py``, and all of them together,
each counted by its variants.

Two things are asked for: at most 1.3 of tests of operators, and at most 5 of tests of thousands of tiny operators. A
variant is one of *thousands* if the CPU runs 1,000 operators or more for it, counted by the dispatcher in a go of its
own; the ratio of either kind is printed beside that of all.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import io
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import unittest
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

HERE = Path(__file__).parent
PLACES = ("cpu", "spyre")
THOUSANDS = 1000
Timed = dict[str, list[float]]


class TooLong(BaseException):
    """A variant took more than it may, or more is known than was asked: not an Exception, which a test would take for
    its own."""


def imported(file: Path) -> ModuleType:
    """The test file with its classes made for both devices, in this process."""
    from relay.worker import host, stacks

    host.import_torch()
    stacks.remember_frames_without_module()  # as the runner has it: what a test costs beside its operators counts, too
    stacks.keep_no_stacks_of_calls_put_off()
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu,privateuse1"
    sys.path.insert(0, str(file.parent))
    _renamed()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _renamed() -> None:
    """Helpers that the files of torch 2.6 import, under the names that they had then."""
    from torch.testing._internal import common_cuda, common_methods_invocations, common_mkldnn

    for module, old, home, new in (
        (common_cuda, "tf32_is_not_fp32", common_mkldnn, "tf32_is_not_fp32"),
        (common_mkldnn, "bf32_on_and_off", common_mkldnn, "reduced_f32_on_and_off"),
        (common_methods_invocations, "binary_ufuncs_and_refs", common_methods_invocations, "binary_ufuncs"),
    ):
        if not hasattr(module, old) and hasattr(home, new):
            setattr(module, old, getattr(home, new))


def pairs_of(module: ModuleType) -> dict[str, dict[str, tuple[Any, str]]]:
    """By variant: its class and method on each device."""
    from device_files import placed

    pairs: dict[str, dict[str, tuple[Any, str]]] = defaultdict(dict)
    for cls in vars(module).values():
        if not (isinstance(cls, type) and issubclass(cls, unittest.TestCase) and hasattr(cls, "device_type")):
            continue
        base = cls.__name__.removesuffix("CPU").removesuffix("SPYRE").removesuffix("PRIVATEUSE1")
        for method in unittest.defaultTestLoader.getTestCaseNames(cls):
            where, key = placed({"test": base, "variant": method})
            if where:
                pairs[key][where] = cls, method
    return {key: pair for key, pair in pairs.items() if len(pair) == len(PLACES)}


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    def late(_: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def once(cls: Any, method: str, limit: float, clock: Callable[[], float] = time.process_time) -> float | None:
    """Seconds of the test; None if it did not pass."""
    case, result = cls(method), unittest.TestResult()
    try:
        with at_most(limit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            began = clock()
            case.run(result)
            spent = clock() - began
    except TooLong:
        return None
    return spent if result.wasSuccessful() and not result.skipped else None


def operators(cls: Any, method: str, limit: float) -> int:
    """How many operators the dispatcher is asked for during the test; THOUSANDS of them end it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            Counting.seen += 1
            if Counting.seen >= THOUSANDS:
                raise TooLong
            return func(*args, **(kwargs or {}))

    with Counting():
        once(cls, method, limit)
    return Counting.seen


def counted(file: str, tree: Path, keys: Sequence[str], limit: float) -> dict[str, int]:
    """`operators` of these variants, on the CPU."""
    warnings.simplefilter("ignore")
    pairs = pairs_of(imported(tree / file))
    for cls in {pairs[key]["cpu"][0] for key in keys}:
        cls.setUpClass()
    return {key: operators(*pairs[key]["cpu"], limit) for key in keys}


def timed(pairs: dict[str, dict[str, tuple[Any, str]]], rounds: int, limit: float) -> dict[str, Timed]:
    """Seconds by variant and device, a figure a round, of those that pass on both."""
    classes = {cls for pair in pairs.values() for cls, _ in pair.values()}
    for cls in classes:
        cls.setUpClass()
    out: dict[str, Timed] = {}
    for key, pair in pairs.items():
        if all(once(*pair[at], limit) is not None for at in PLACES):
            out[key] = {at: [] for at in PLACES}
    gc.collect()
    gc.freeze()
    for turn in range(rounds):
        for key, found in out.items():
            for at in PLACES if turn % 2 else PLACES[::-1]:
                if (spent := once(*pairs[key][at], limit)) is not None:
                    found[at].append(spent)
    return {key: found for key, found in out.items() if all(found.values())}


def one(file: str, tree: Path, sample: int, rounds: int, limit: float, only: str) -> dict[str, Any]:
    """What a file's process says."""
    warnings.simplefilter("ignore")
    pairs = {key: pair for key, pair in pairs_of(imported(tree / file)).items() if only in key}
    chosen = random.Random(6).sample(sorted(pairs), min(sample, len(pairs)))
    found = timed({key: pairs[key] for key in chosen}, rounds, limit)
    counts = {key: operators(*pairs[key]["cpu"], 20 * limit) for key in found}
    return {"file": file, "variants": len(pairs), "sampled": len(chosen), "found": found, "operators": counts}


@dataclass(frozen=True, slots=True)
class Line:
    """A file's figures: seconds a device, of variants of either kind."""

    tests: dict[str, float]
    thousands: dict[str, float]

    @staticmethod
    def of(middle: dict[str, dict[str, float]], counts: dict[str, int]) -> Line:
        """From the seconds of a variant, and its operators."""
        many = {key for key, count in counts.items() if count >= THOUSANDS}
        sums = [
            {at: sum(one[at] for key, one in middle.items() if (key in many) is kind) for at in PLACES}
            for kind in (False, True)
        ]
        return Line(*sums)

    def ratios(self) -> str:
        both = {at: self.tests[at] + self.thousands[at] for at in PLACES}
        rows = (("all", both), ("tests of operators", self.tests), ("of thousands of tiny ones", self.thousands))
        return ", ".join(f"{name} {at['spyre'] / at['cpu']:.2f}x" for name, at in rows if at["cpu"])

    def times(self, factor: float) -> Line:
        return Line(*({at: factor * one[at] for at in PLACES} for one in (self.tests, self.thousands)))

    def __add__(self, other: Line) -> Line:
        pairs = ((self.tests, other.tests), (self.thousands, other.thousands))
        return Line(*({at: one[at] + two[at] for at in PLACES} for one, two in pairs))


def say(said: dict[str, Any], worst: int) -> Line:
    """Prints a file's line; its figures, brought to all of its variants."""
    found: dict[str, Timed] = said["found"]
    counts: dict[str, int] = said["operators"]
    middle = {key: {at: statistics.median(timed[at]) for at in PLACES} for key, timed in found.items()}
    line = Line.of(middle, counts)
    if not found:
        print(f"{said['file']}: nothing of {said['sampled']} passed on both")
        return line
    turns = [
        sum(t["spyre"][i] for t in found.values()) / sum(t["cpu"][i] for t in found.values())
        for i in range(min(len(t[at]) for t in found.values() for at in PLACES))
    ]
    own = sorted(one["spyre"] / one["cpu"] for one in middle.values())
    print(
        f"{said['file']}: {line.ratios()} (all by round: {min(turns):.2f} to {max(turns):.2f}; variants: median "
        f"{own[len(own) // 2]:.2f}, 90 % below {own[len(own) * 9 // 10]:.2f}); {len(found)} of {said['sampled']} "
        f"sampled of {said['variants']}, cpu {sum(one['cpu'] for one in middle.values()):.2f} s",
        flush=True,
    )
    gaps = sorted(middle, key=lambda key: middle[key]["cpu"] - middle[key]["spyre"])
    for key in gaps[:worst]:
        cpu, spyre = (1000 * middle[key][at] for at in PLACES)
        print(f"    {cpu:.1f} / {spyre:.1f} ms, {counts[key]} operators: {key}")
    return line.times(said["variants"] / said["sampled"])


def main(argv: Sequence[str] | None = None) -> int:
    from device_files import FILES

    parser = argparse.ArgumentParser(description="The device's processor time beside the CPU's, file by file.")
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("--tree", type=Path, required=True, help="upstream's root")
    parser.add_argument("--sample", type=int, default=200, help="variants a file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds a variant may take on a device")
    parser.add_argument("--only", default="", help="variants whose name holds this")
    parser.add_argument("--worst", type=int, default=0, help="variants printed that lose most")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help="print the operators of variants, whose keys are read")
    args = parser.parse_args(argv)
    if args.count:
        said = counted(args.files[0], args.tree, json.load(sys.stdin), args.timeout)
        print("\n" + json.dumps(said))
        return 0
    if args.one:
        said = one(args.files[0], args.tree, args.sample, args.rounds, args.timeout, args.only)
        print("\n" + json.dumps(said))
        return 0
    together = Line(dict.fromkeys(PLACES, 0.0), dict.fromkeys(PLACES, 0.0))
    for file in args.files:
        given = [f"--{name}={getattr(args, name)}" for name in ("tree", "sample", "rounds", "timeout", "only")]
        command = [sys.executable, __file__, file, "--one", *given]
        run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        together += say(json.loads(run.stdout.splitlines()[-1]), args.worst)
    print(f"together, by variants: {together.ratios()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
