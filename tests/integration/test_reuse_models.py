"""``relay run --model``: calls of models are built as written, run on the device and compared with the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from relay.cli import app
from selector.configs import ConfigSource, load_configs
from selector.configs.cases import cases_of

pytestmark = pytest.mark.torch

MODEL = """\
test_suite_config:
  files:
    - path: ${TORCH_DEVICE_ROOT}/tests/models/test_model_ops.py
      tests:
        - names: [TestOps::test_model_ops_db]
          tags: [model__small]
          edits:
            ops:
              include:
                - name: torch.add
                  sample_inputs_func: {args: [{tensor: {shape: [2, 3], dtype: torch.float16}}, {value: 2}]}
                - name: torch.add
                  sample_inputs_func:
                    args: [{tensor: {shape: [2], dtype: float32, init: full, init_args: {fill_value: 1.0}}}, {value: 1}]
                  kwargs: {alpha: 3}
                - name: torch.cat
                  sample_inputs_func:
                    args: [{tensor_list: [{shape: [1, 2]}, {shape: [2, 2]}]}]
                    kwargs: {dim: 0}
                - name: torch.Tensor.contiguous
                  sample_inputs_func: {args: [{tensor: {shape: [2, 2], stride: [1, 2], storage_offset: 3}}]}
                - name: torch.getitem
                  sample_inputs_func: {args: [{tensor: {shape: [4]}}, {py: "slice(1, None, 2)"}]}
                - name: torch.lgamma
                  sample_inputs_func: {args: [{tensor: {shape: [4]}}]}
                - name: torch.add
                  sample_inputs_func: {args: [{value: 1}]}
                - name: torch.load
                  sample_inputs_func: {args: [{value: secret}]}
                - name: operator.call
                  sample_inputs_func: {args: [{value: 1}]}
            modules:
              include:
                - name: Linear_1
                  module_path: torch.nn.Linear
                  constructor_inputs: {args: [{value: 3}, {value: 2}]}
                  forward_inputs: [{args: [{tensor: {shape: [5, 3]}}]}]
                - name: Foreign_1
                  module_path: os.PathLike
                  forward_inputs: {args: []}
"""
OTHER = MODEL.replace("model__small", "model__other").replace("shape: [2, 3], dtype: torch", "dtype: torch")
OTHER = OTHER.replace("dtype: torch.float16", "dtype: torch.float16, shape: [2, 3]")
SHEET = """
capability:
  {name: little, device: spyre, dtypes: [float32, float16, int64, bool], ops: [add, cat, addmm, copy, _copy_from]}
"""


def invoke(tmp: Path, model: str, text: str = MODEL) -> tuple[int, str, list[dict[str, Any]]]:
    (tmp / "device").mkdir()
    (tmp / "device/capability.yaml").write_text(SHEET)
    (tmp / "device/x.yaml").write_text("test_suite_config: {files: []}\n")
    (tmp / "models").mkdir()
    (tmp / "models/small.yaml").write_text(text)
    (tmp / "models/other.yaml").write_text(OTHER)
    command = ["run", "--model", model, "--cases", str(tmp / "models"), "--configs", str(tmp / "device")]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp / "out.jsonl")])
    out = tmp / "out.jsonl"
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return done.exit_code, done.output + str(done.exception or ""), lines


def test_calls_are_built_run_and_compared(tmp_path: Path) -> None:
    code, output, lines = invoke(tmp_path, "small")
    found = {(line["op"], line["entry"].rpartition(":")[2]): line for line in lines}
    outcome = {key[0] + ":" + key[1]: line["outcome"] for key, line in found.items()}
    passed = {key.rpartition(":")[0] for key, word in outcome.items() if word == "passed"}
    assert passed == {"torch.add", "torch.cat", "torch.Tensor.contiguous", "torch.getitem", "torch.nn.Linear"}, outcome
    assert [line["outcome"] for line in lines if line["op"] == "torch.lgamma"] == ["failed"]
    skipped = {line["op"]: line["reason"] for line in lines if line["outcome"] == "self_skipped"}
    assert set(skipped) == {"torch.add", "torch.load", "operator.call", "os.PathLike"}
    assert "does not run on the CPU either" in skipped["torch.add"]
    assert "not an operator" in skipped["torch.load"]
    assert code == 1
    assert "small" in output
    assert all("model__small" in line["tags"] for line in lines)


def test_calls_of_two_models_are_one_call_of_both() -> None:
    sources = [ConfigSource("small.yaml", MODEL), ConfigSource("other.yaml", OTHER)]
    cases = cases_of(load_configs(sources, compat=True))
    assert len(cases) == 11
    assert {case.models for case in cases} == {("small", "other")}
    with_alpha = [case for case in cases if case.kwargs == {"alpha": 3}]
    assert len(with_alpha) == 1  # kwargs one level too high belong to the call


def test_an_unknown_model_is_refused_and_the_known_are_named(tmp_path: Path) -> None:
    code, output, _ = invoke(tmp_path, "big")
    assert code != 0
    assert "other, small" in output


def test_a_file_outside_of_the_configs_folder_is_refused(tmp_path: Path) -> None:
    text = MODEL.replace("init: full, init_args: {fill_value: 1.0}", "init: file, init_args: {path: ../../secret.pt}")
    code, output, lines = invoke(tmp_path, "small", text)
    assert (code != 0, lines) == (True, [])
    assert "outside of the config's folder" in output
