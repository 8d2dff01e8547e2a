"""Upstream's test files on the emulated device and on the CPU, side by side, variant by variant.

``python tests/bench/device_files.py --tree TREE [test/test_view_ops.py ...]`` runs each file on the project's own
runner with its classes made for both devices (the device without limits), and prints per file: the variants that both
have, how many pass on each, the seconds of those that pass on both, and every variant that the CPU passes and the
device does not, grouped by the reason that `REASONS` gives. What no reason covers is run once more, alone (a warning
that torch gives once a process may have been the CPU's); a variant that stays so is *unexplained*, and the exit status
is 1. Without files: the eleven that the device is held to.

The tree is any of upstream's that imports with the installed torch. ``--keep`` stores the result lines of a file in a
folder; of a file whose lines are there only what is unexplained is run again. A large file takes half an hour; with
``--parts N`` its tests are run in N goes, each kept as it ends; ``--prefix`` puts a command such as ``nice`` before
them.

``--time ROUNDS`` runs what passes on both again, each device in runs of its own, and prints the seconds of that: of
tests of operators, and of tests of thousands of tiny ones (which they are is counted in a go of its own; see
``device_ratio.py``). These are whole tests, as a worker runs them and waits for them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selector.discover import take
from selector.trees import DirTree

FILES = (
    "test/test_view_ops.py",
    "test/test_shape_ops.py",
    "test/test_indexing.py",
    "test/test_sort_and_select.py",
    "test/test_type_promotion.py",
    "test/test_tensor_creation_ops.py",
    "test/test_torch.py",
    "test/test_modules.py",
    "test/test_reductions.py",
    "test/test_binary_ufuncs.py",
    "test/test_unary_ufuncs.py",
)
CONFIG = """
test_suite_config:
  allow_empty: true
  global:
    devices: [cpu]
  files:
    - path: ${TORCH_ROOT}/**/test_*.py
      unlisted_test_mode: mandatory_success
"""
GOOD = ("passed", "xfailed")
PLACES = ("cpu", "spyre")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a variant that passes on the CPU does not on the device. Every pattern given must be found."""

    words: str
    message: str = ""
    variant: str = ""
    outcome: str = ""

    def covers(self, line: dict[str, Any]) -> bool:
        said = f"{line.get('message') or ''}\n{line.get('reason') or ''}"
        return (
            (not self.outcome or line["outcome"] == self.outcome)
            and (not self.variant or re.search(self.variant, f"{line['test']} {line['variant']}") is not None)
            and (not self.message or re.search(self.message, said) is not None)
        )


REASONS = (
    Reason("upstream runs it on the CPU only", r"(?i)^\s*only runs on (cpu|\[[^]]*cpu)", outcome="self_skipped"),
    Reason("upstream knows the memory of no such device", r"^\s*Unknown device type", outcome="self_skipped"),
    Reason("needs quantised tensors", r"with arguments from the 'Quantized(spyre|PrivateUse1)' backend"),
    Reason(
        "the CPU's kernel lacks ComplexHalf, which upstream expects of the CPU alone",
        r"not implemented for 'ComplexHalf'",
        r"test_pow_|test_complex_scalar_pow_tensor_",
    ),
    Reason(
        "the test indexes with a tensor of the host, which a device refuses (upstream spares CUDA that part)",
        r"to be on the same device.*aten::index_fill_",
        r"test_stable_sort_against_numpy_",
    ),
    Reason(
        "Module.to makes lazy parameters plain ones: torch keeps a parameter's class on a list of devices alone",
        r"weight should have at least three dimensions",
        r"_nn_Lazy",
    ),
    Reason(
        "Module.to makes new parameters: torch changes one in place on a list of devices alone",
        r"False is not true",
        r"test_to_nn_\w+_swap_False_",
    ),
    Reason("upstream has it for the CPU alone", r"map2?_ is only implemented on CPU tensors"),
    Reason("upstream asks for the CPU's class of the name", r"does not match \"`torch\.cpu\.amp\.GradScaler"),
    Reason(
        "the deprecated typed tensors and storages are the CPU's and CUDA's",
        variant=r"test_grad_scaling_state_dict_|test_tensor_storage_type_",
        outcome="failed",
    ),
    Reason(
        "upstream names what the CPU does and what CUDA does; this device does what the CPU does",
        variant=r"test_fmod_remainder_by_zero_integral_",
        outcome="failed",
    ),
    Reason(
        "a Python reference refuses a scalar of the host on any device but the CPU",
        r"Expected divisor \(b\) to be on the same device",
        r"test_type_promotion__refs_copysign_",
    ),
    Reason(
        "gradgradcheck of recurrent layers makes thousands of tiny operators each, and did not end in the time given",
        variant=r"test_gradgrad_nn_(GRU|LSTM)_",
        outcome="timed_out",
    ),
    Reason(
        "torch makes what a norm over groups is derived from contiguous on every device but the CPU",
        r"False is not true",
        r"test_memory_format_nn_GroupNorm_",
    ),
    Reason("needs sparse tensors", r"with arguments from the 'Sparse\w*(spyre|PrivateUse1)' backend"),
)


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of a variant that passes on both devices; ``key``: of the pair."""

    key: str
    cpu: float
    device: float


@dataclass
class Compared:
    """What became of one file. ``timed``: the variants that pass on both."""

    file: str
    both: int = 0
    passed: Counter[str] = field(default_factory=Counter)
    timed: list[Timed] = field(default_factory=list)
    only: Counter[str] = field(default_factory=Counter)
    better: list[str] = field(default_factory=list)
    worse: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)

    @property
    def unexplained(self) -> list[dict[str, Any]]:
        """Result lines of the device that no reason covers."""
        return self.worse.get("", [])


@dataclass(frozen=True, slots=True)
class How:
    """How files are run: where they are, seconds a variant, and the command before the runner's."""

    tree: Path
    variant_s: float
    prefix: tuple[str, ...] = ()


def tests_of(file: str, tree: Path) -> list[str]:
    """The tests that are to be seen in a file."""
    inventory = take(DirTree(tree, only=lambda path: path == file), processes=1)
    found = [str(test) for test, _, _ in inventory.tests(file)]
    if not found:
        sys.exit(f"{file}: no test is to be seen in {tree}")
    return found


def run(file: str, tests: Sequence[str], how: How, variants: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Result lines of the runner, and its last one, ``{"report": ...}``. ``variants``: keys; None: all of them."""
    spec = {
        "device": "spyre",
        "runtime": {"kind": "tests-only"},
        "configs": [{"name": "both.yaml", "text": CONFIG}],
        "tests": tests,
        "variants": variants,
        "limits": {"variant_s": how.variant_s, "shard_s": 86400.0, "memory_mb": 12288, "collect_s": 600.0},
    }
    with tempfile.TemporaryDirectory(prefix="device-files-") as folder:
        there = Path(folder)
        (there / "spec.json").write_text(json.dumps(spec))
        command = [*how.prefix, sys.executable, "-m", "relay.worker.runner", "--spec", str(there / "spec.json")]
        subprocess.run([*command, "--tree", str(how.tree.resolve()), "--out", str(there / "out")], check=False)
        lines = [json.loads(line) for line in (there / "out").read_text().splitlines()]
    if not lines or "report" not in lines[-1]:
        sys.exit(f"{file}: {lines[-1] if lines else 'the runner said nothing'}")
    return lines


def compare(file: str, lines: Sequence[dict[str, Any]]) -> Compared:
    """Pairs the variants of both devices by name; those of classes that are not made per device say nothing."""
    reports = [line["report"] for line in lines if "report" in line]
    pairs: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for line in lines:
        where, key = ("", "") if "report" in line else placed(line)
        if where:
            pairs[key][where] = line
    out = Compared(file, errors=[error["message"] for report in reports for error in report["errors"]])
    for key, pair in pairs.items():
        if len(pair) < 2:
            out.only[next(iter(pair))] += 1
            continue
        out.both += 1
        good = {where: line["outcome"] in GOOD for where, line in pair.items()}
        out.passed.update(where for where in pair if good[where])
        if all(good.values()):
            out.timed.append(Timed(key, *(pair[where]["seconds"] for where in PLACES)))
        if good["cpu"] and not good["spyre"]:
            words = next((reason.words for reason in REASONS if reason.covers(pair["spyre"])), "")
            out.worse[words].append(pair["spyre"])
        elif good["spyre"] and not good["cpu"]:
            out.better.append(key)
    return out


def placed(line: dict[str, Any]) -> tuple[str, str]:
    """(device, the variant without it); ("", "") for a class that is not made per device."""
    found = re.search(r"_(cpu|spyre)(?=_|$)", line["variant"])
    if found is None:
        return "", ""
    # the last one: a test's own name may hold the word
    *_, found = re.finditer(r"_(cpu|spyre)(?=_|$)", line["variant"])
    return found.group(1), f"{line['test']} {line['variant'][: found.start()]}{line['variant'][found.end() :]}"


def again(file: str, lines: list[dict[str, Any]], how: How) -> list[dict[str, Any]]:
    """The lines, with those that no reason covers run anew and alone."""
    unexplained = compare(file, lines).unexplained
    if not unexplained:
        return lines
    tests = [*dict.fromkeys(line["test"] for line in unexplained)]
    second = {key_of(line): line for line in run(file, tests, how, [*map(key_of, unexplained)])[:-1]}
    return [line if "report" in line else second.get(key_of(line), line) for line in lines]


def complete(file: str, kept: Path | None, how: How, parts: int, dry: bool) -> list[dict[str, Any]]:
    """All result lines of a file: those that are kept, and what is not there yet. ``dry``: runs nothing."""
    lines = [json.loads(text) for text in kept.read_text().splitlines()] if kept and kept.exists() else []
    if dry:
        return lines
    tests = tests_of(file, how.tree)
    for part in range(parts):
        mine = tests[part::parts]
        known = {test for line in lines if "report" in line for test in line["report"]["tests"]}
        todo = [test for test in mine if test not in known]
        if not todo:
            continue
        *more, last = run(file, todo, how)
        last["report"]["tests"] = todo
        more.append(last)
        write(kept, lines := again(file, lines + more, how))
    return lines


def write(kept: Path | None, lines: Iterable[dict[str, Any]]) -> None:
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("".join(json.dumps(line) + "\n" for line in lines))


def key_of(line: dict[str, Any]) -> str:
    """As the runner writes a variant."""
    return f"{line['test'].rpartition('::')[0]}::{line['variant']}"


def seconds(timed: Iterable[Timed]) -> str:
    """``CPU / device = ratio``, of their sums."""
    cpu, device = (sum(each) for each in zip((0.0, 0.0), *((one.cpu, one.device) for one in timed), strict=True))
    return f"{cpu:.1f} / {device:.1f} = {device / cpu:.2f}x" if cpu else "none"


def show(one: Compared, worst: int) -> None:
    print(
        f"{one.file}: {one.both} variants, passed cpu {one.passed['cpu']} spyre {one.passed['spyre']}; "
        f"seconds {seconds(one.timed)}; "
        f"made for one only: cpu {one.only['cpu']} spyre {one.only['spyre']}"
    )
    for error in one.errors:
        print(f"  not imported: {error.splitlines()[-1] if error else error}")
    if one.better:
        print(f"  {len(one.better)} pass on the device alone")
    for words, lines in sorted(one.worse.items(), key=lambda item: -len(item[1])):
        print(f"  {len(lines)} {words or 'UNEXPLAINED'}")
        for line in lines[: worst if not words else 0]:
            said = (line["message"] or line["reason"] or "").strip().splitlines()
            print(f"      {line['outcome']} {line['variant']}: {said[-1][:200] if said else ''}")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Upstream's files on the emulated device against the CPU.")
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("--tree", type=Path, required=True, help="upstream's root, or any folder with test files")
    parser.add_argument("--keep", type=Path, help="folder for the result lines")
    parser.add_argument("--dry", action="store_true", help="run nothing: compare what is kept")
    parser.add_argument("--parts", type=int, default=1, help="goes in which a file is run")
    parser.add_argument("--prefix", default="", help="a command to put before the runner's")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds a variant may take")
    parser.add_argument("--time", type=int, default=0, metavar="ROUNDS", help="time the devices, each apart, so often")
    parser.add_argument("--few", action="store_true", help="time tests of operators alone")
    parser.add_argument("--slowest", type=int, default=0, help="variants printed that lose most time")
    parser.add_argument("--worst", type=int, default=20, help="unexplained variants printed a file")
    args = parser.parse_args(argv)
    how = How(args.tree, args.timeout, tuple(args.prefix.split()))
    bad = 0
    for file in args.files:
        kept = args.keep / f"{Path(file).stem}.jsonl" if args.keep else None
        lines = complete(file, kept, how, args.parts, args.dry)
        result = compare(file, lines)
        show(result, args.worst)
        if args.time:
            from device_apart import time_by_kind

            counts = args.keep and args.keep / f"{Path(file).stem}.operators.json"
            time_by_kind(file, lines, how, args.time, kept=counts, few=args.few, slowest=args.slowest)
        bad += bool(result.unexplained or result.errors)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
