"""What the reuse layer costs: instantiating a file of 10,000 and more variants under it, against upstream's own way.

``python tests/bench/reuse.py [--file FILE] [--rounds 5] [--config filter|include|op-dtypes|inputs]``. Both sides run in
processes of their own, in turn, and import everything before the clock starts; CPU seconds of the file's import alone
are compared (the median of the rounds). Every config keeps what upstream has, so that both sides make the same tests:
``filter`` lists all dtypes as supported, ``include`` adds dtypes to every test that it has already, ``op-dtypes`` lists
dtypes for an op, ``inputs`` gives one op's calls.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
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
import gc, importlib.util, json, sys, time
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
gc.collect()
began = time.process_time()
spec.loader.exec_module(module)
spent = time.process_time() - began
classes = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, TestCase) and c is not TestCase]
made = sum(1 for c in classes for n in vars(c) if n.startswith("test"))
print(json.dumps({"seconds": spent, "variants": made}))
"""


def side(file: Path, ours: bool, tmp: Path, config: str) -> dict[str, float]:
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
    command = [sys.executable, "-c", SIDE, str(file), "ours" if ours else "theirs", str(tmp / "bench.yaml")]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(file: Path | None, rounds: int, kind: str = "filter") -> dict[str, float]:
    """Medians, in CPU seconds, and the layer's share of upstream's own time."""
    config = config_of(kind)
    with tempfile.TemporaryDirectory() as folder:
        tmp = Path(folder)
        if file is None:
            file = tmp / "test" / "test_many.py"
            file.parent.mkdir()
            file.write_text(MADE_UP)
        pairs = []
        for number in range(rounds):
            order = (False, True) if number % 2 else (True, False)  # neither side is always the warm one
            both = {ours: side(file, ours, tmp, config) for ours in order}
            pairs.append((both[False], both[True]))
    theirs, ours = ([pair[i]["seconds"] for pair in pairs] for i in (0, 1))
    return {
        "variants": pairs[0][0]["variants"],
        "variants_ours": pairs[0][1]["variants"],
        "upstream_s": round(statistics.median(theirs), 3),
        "ours_s": round(statistics.median(ours), 3),
        "layer_percent": round(100 * (statistics.median(ours) / statistics.median(theirs) - 1), 2),
        "layer_percent_of_minima": round(100 * (min(ours) / min(theirs) - 1), 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, help="a test file of upstream's, for example test/test_unary_ufuncs.py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--config", choices=sorted(ENTRIES), default="filter")
    given = parser.parse_args()
    print(json.dumps({"config": given.config, **measure(given.file, given.rounds, given.config)}))
