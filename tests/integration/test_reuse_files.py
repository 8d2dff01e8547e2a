"""``init: file``: tensors beside the configs are given to upstream's own tests where ``relay run`` has the folder."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from relay.cli import app

pytestmark = pytest.mark.torch

SOURCE = """
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
import torch

EXP = [op for op in op_db if op.name == "exp"]


class TestFiles(TestCase):
    def see(self, device, dtype, op):
        (sample,) = op.sample_inputs(device, dtype)
        self.assertEqual(sample.input.device.type, torch.device(device).type)
        self.assertEqual(sample.input.cpu(), torch.tensor([1.0, 2.0, 4.0]))

    @ops(EXP, allowed_dtypes=(torch.float32,))
    def test_there(self, device, dtype, op):
        self.see(device, dtype, op)

    @ops(EXP, allowed_dtypes=(torch.float32,))
    def test_by_key(self, device, dtype, op):
        self.see(device, dtype, op)

    @ops(EXP, allowed_dtypes=(torch.float32,))
    def test_other_shape(self, device, dtype, op):
        self.see(device, dtype, op)

    @ops(EXP, allowed_dtypes=(torch.float32,))
    def test_absent(self, device, dtype, op):
        self.see(device, dtype, op)


instantiate_device_type_tests(TestFiles, globals())
"""
ENTRY = """
        - names: [TestFiles::{name}]
          edits: {{inputs: {{args: [{{tensor: {{shape: {shape}, init: file, init_args: {args}}}}}]}}}}"""
ENTRIES = (
    ("test_there", "[3]", "{path: values/one.pt}"),
    ("test_by_key", "[3]", "{path: values/named.pt, key: weight}"),
    ("test_other_shape", "[4]", "{path: values/one.pt}"),
    ("test_absent", "[3]", "{path: values/none.pt}"),
)
CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_files.py
      unlisted_test_mode: mandatory_success
      tests:"""
SHEET = "capability: {name: little, device: spyre, dtypes: [float32], ops: [exp, copy, _copy_from]}\n"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    tmp = tmp_path_factory.mktemp("files")
    (tmp / "tree" / "test").mkdir(parents=True)
    (tmp / "tree" / "test" / "test_files.py").write_text(SOURCE)
    configs = tmp / "configs"
    (configs / "values").mkdir(parents=True)
    value = torch.tensor([1.0, 2.0, 4.0])
    torch.save(value, configs / "values" / "one.pt")
    torch.save({"weight": value, "bias": value[:1]}, configs / "values" / "named.pt")
    (configs / "capability.yaml").write_text(SHEET)
    entries = "".join(ENTRY.format(name=name, shape=shape, args=args) for name, shape, args in ENTRIES)
    (configs / "x.yaml").write_text(CONFIG + entries + "\n")
    command = ["run", "test/test_files.py", "--tree", str(tmp / "tree"), "--configs", str(configs)]
    ended = CliRunner().invoke(app, [*command, "--out", str(tmp / "r.jsonl")])
    assert ended.exit_code == 1, ended.output
    lines = [json.loads(line) for line in (tmp / "r.jsonl").read_text().splitlines()]
    return {line["test"].rpartition("::")[2]: line for line in lines if "test" in line}


@pytest.mark.parametrize("test", ["test_there", "test_by_key"])
def test_a_file_beside_the_config_is_the_input(outcomes: dict[str, dict[str, Any]], test: str) -> None:
    assert outcomes[test]["outcome"] == "passed", outcomes[test]


def test_another_shape_than_the_config_says_is_an_error(outcomes: dict[str, dict[str, Any]]) -> None:
    line = outcomes["test_other_shape"]
    assert line["outcome"] in ("failed", "error")
    assert "holds torch.float32 of (3,), the config says torch.float32 of (4,)" in json.dumps(line)


def test_a_file_that_is_not_there_skips_the_test_and_is_named(outcomes: dict[str, dict[str, Any]]) -> None:
    line = outcomes["test_absent"]
    assert line["outcome"] == "self_skipped"
    assert "values/none.pt is not beside the config" in json.dumps(line)
