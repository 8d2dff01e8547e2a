"""What the reuse layer costs: instantiating a file of 10,000 and more variants under it, against upstream's own way.

``python tests/bench/reuse.py [--file FILE] [--rounds 21] [--config filter|include|op-dtypes|inputs|all] [--gc]``. Each
side is a process that imports everything and then forks a child a round, the sides in turn; a child runs the garbage
collector (which makes the memory its own), switches it off, as a worker does while it collects, and imports the file.
(``--gc`` leaves it on: one pass over all of torch's objects, a third of the time, then stands on both sides and dilutes
the figure.) The clock is the child's CPU time, user and system, during that
import: what else the machine does does not count, but for the caches and the clock rate it takes away, which only ever
add. So the figure compares each side's smallest round; the medians stand beside it. It is a figure per generated
variant: every config leaves the tests as they are, but for the few variants that ``include`` and ``inputs`` add, and
those of dtypes that configs have no name for, which ``filter`` and ``include`` leave out.

``filter`` lists all dtypes as supported, ``include`` adds a dtype to every test, ``op-dtypes`` lists dtypes for an op,
``inputs`` gives one op's calls.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from selector.configs.patterns import DTYPES

MADE_UP = """
import torch
from torch.testing._internal.common_utils import TestCase, parametrize
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_dtype import all_types_and_complex_and
from torch.testing._internal.common_methods_invocations import op_db, unary_ufuncs


class TestMany(TestCase):
    @ops(op_db)
    def test_one(self, device, dtype, op):
        pass

    @ops(op_db)
    def test_two(self, device, dtype, op):
        pass

    @parametrize("flag", [True, False])
    @ops(unary_ufuncs)
    def test_three(self, device, dtype, op, flag):
        pass

    @dtypes(*all_types_and_complex_and(torch.half, torch.bool))
    @parametrize("n", range(40))
    def test_four(self, device, dtype, n):
        pass


instantiate_device_type_tests(TestMany, globals())
"""
ENTRIES = {
    "filter": """
        - {names: ["TestMany::test_one"], mode: xfail, reason: listed}
        - {names: [".*::test_t.*"], mode: mandatory_success}
        - {names: ["Test.*::test_.*"], mode: xfail, reason: a pattern}""",
    # float32 is a dtype that every op of these lists has
    "include": """
        - {names: [".*"], edits: {dtypes: {include: [{name: float32}]}}}""",
    "op-dtypes": """
        - {names: [".*"], mode: xfail, reason: a pattern}""",
    "inputs": """
        - names: [".*"]
          edits: {ops: {include: [{name: add, sample_inputs_func: {args: [{tensor: {shape: [2]}}, {value: 1}]}}]}}""",
}
GLOBALS = {"op-dtypes": "supported_ops: [%s]", "filter": "supported_dtypes: [%s]"}
CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/*.py
      unlisted_test_mode: mandatory_success
      tests:%s
  global: {%s}
"""


def config_of(kind: str) -> str:
    """A config that leaves every test as it is."""
    words = ", ".join(f"{{name: {name}}}" for name in sorted(DTYPES))
    if kind == "op-dtypes":
        from torch.testing._internal.common_methods_invocations import op_db, python_ref_db

        names = sorted({op.name for op in (*op_db, *python_ref_db)} - {"add"})
        words = ", ".join([*(f"{{name: {name}}}" for name in names), f"{{name: add, dtypes: [{words}]}}"])
    block = GLOBALS.get(kind, GLOBALS["filter"] if kind != "inputs" else "")
    return CONFIG % (ENTRIES[kind], block % words if block else "")


PLAIN = "device_type_test_bases[:] = [b for b in device_type_test_bases if b is not PrivateUse1TestBase]\n"
PLAIN += "class Plain(PrivateUse1TestBase):\n    device_type = 'privateuse1'\nTEST_CLASS = Plain\n"
SIDE = r"""
import gc, importlib.util, json, os, sys, time, traceback
from pathlib import Path
file, ours, config = Path(sys.argv[1]), sys.argv[2] == "ours", Path(sys.argv[3]).read_text()
from relay import device
device.install()
import torch
from torch.testing._internal import common_device_type, common_methods_invocations, common_modules
from torch.testing._internal.common_utils import TestCase
sys.path.insert(0, str(file.parent))
if ours:
    from relay.reuse.policy import Reuse, activate
    from relay.reuse.registry import Registry
    from selector.configs import ConfigSource, load_configs
    reuse = Reuse(file.parent.parent, load_configs([ConfigSource("bench.yaml", config)]), None, Registry())
    activate(reuse)
spec = importlib.util.spec_from_file_location(file.stem, file)
module = importlib.util.module_from_spec(spec)
sys.modules[file.stem] = module

def measured():
    gc.collect()
    if sys.argv[4] != "gc":
        gc.disable()
    began = time.process_time()
    spec.loader.exec_module(module)
    spent = time.process_time() - began
    classes = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, TestCase)]
    made = sum(1 for c in classes if c is not TestCase for n in vars(c) if n.startswith("test"))
    print(json.dumps({"seconds": spent, "variants": made}), flush=True)

for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            measured()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the round's child failed")
"""


class Side:
    """One of the two, which measures a round when it is told to."""

    def __init__(self, file: Path, ours: bool, tmp: Path, config: str, collector: bool) -> None:
        import relay.reuse

        hook = Path(next(iter(relay.reuse.__path__))) / "torch_test_device.py"
        if not ours:
            hook = tmp / "plain_base.py"
            hook.write_text(PLAIN)
        (tmp / "bench.yaml").write_text(config)
        env = os.environ | {
            "TORCH_TEST_DEVICES": str(hook),
            "PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        told = [str(file), "ours" if ours else "theirs", str(tmp / "bench.yaml"), "gc" if collector else "no-gc"]
        command = [sys.executable, "-c", SIDE, *told]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self) -> dict[str, float]:
        """Seconds of CPU time, and how many variants came of it. Raises RuntimeError when the side cannot."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            if line.startswith('{"seconds"'):  # test files may print
                found: dict[str, float] = json.loads(line)
                return found
        raise RuntimeError("a side ended; what it said stands above")

    def end(self) -> None:
        self._process.communicate()


def measure(file: Path | None, rounds: int, kind: str = "filter", collector: bool = False) -> dict[str, float]:
    """CPU seconds of each side's smallest and middle round, and the layer's share of upstream's time, a variant."""
    config = config_of(kind)
    with tempfile.TemporaryDirectory() as folder:
        tmp = Path(folder)
        if file is None:
            file = tmp / "test" / "test_many.py"
            file.parent.mkdir()
            file.write_text(MADE_UP)
        sides = {ours: Side(file, ours, tmp, config, collector) for ours in (False, True)}
        pairs = []
        try:
            for number in range(rounds):
                order = (False, True) if number % 2 else (True, False)  # neither side is always the warm one
                both = {ours: sides[ours].round() for ours in order}
                pairs.append((both[False], both[True]))
        finally:
            for one in sides.values():
                one.end()
    theirs, ours = ([pair[i]["seconds"] for pair in pairs] for i in (0, 1))
    made = [int(side["variants"]) for side in pairs[0]]

    def percent(of: Callable[[list[float]], float]) -> float:
        return round(100 * ((of(ours) / made[1]) / (of(theirs) / made[0]) - 1), 2)

    return {
        "variants": made[0],
        "variants_ours": made[1],
        "upstream_s": round(min(theirs), 3),
        "ours_s": round(min(ours), 3),
        "layer_percent": percent(min),
        "layer_percent_of_medians": percent(statistics.median),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="a test file of upstream's, for example test/test_unary_ufuncs.py")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--config", choices=[*sorted(ENTRIES), "all"], default="filter")
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on")
    given = parser.parse_args()
    for kind in sorted(ENTRIES) if given.config == "all" else [given.config]:
        print(json.dumps({"config": kind, **measure(given.file, given.rounds, kind, given.gc)}), flush=True)
