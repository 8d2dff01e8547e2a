"""Upstream's own machinery on the device: its device-generic tests, and its database of operators."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

pytestmark = pytest.mark.torch

BASE = """
device_type_test_bases[:] = [b for b in device_type_test_bases if b is not PrivateUse1TestBase]


class SpyreTestBase(PrivateUse1TestBase):
    device_type = "privateuse1"


TEST_CLASS = SpyreTestBase
"""

PLUGIN = """
import relay.device as device

device.install()
device.comparing()
"""

GENERIC = """
import torch
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCPU, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase

NAMES = ("add", "sigmoid", "cumsum", "sort", "cat", "where", "mm")
SOME = [op for op in op_db if op.name in NAMES and not op.variant_test_name]


class TestSmall(TestCase):
    @ops(SOME, allowed_dtypes=(torch.float32, torch.int64))
    def test_forward(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            self.assertTrue(sample.input.device.type == "spyre" if isinstance(sample.input, torch.Tensor) else True)
            got = op(sample.input, *sample.args, **sample.kwargs)
            sample = sample.transform(lambda t: t.cpu() if isinstance(t, torch.Tensor) else t)
            self.assertEqual(got, op(sample.input, *sample.args, **sample.kwargs), exact_device=False)

    @dtypes(torch.float16, torch.float64)
    def test_values(self, device, dtype):
        x = make_tensor((3, 4), device=device, dtype=dtype)
        self.assertEqual((x + x).device.type, "spyre")
        self.assertEqual(x + x, 2 * x)

    def test_fails_when_it_should(self, device):
        self.assertEqual(torch.ones(2, device=device), torch.zeros(2, device=device))

    @onlyCPU
    def test_not_for_a_device(self, device):
        raise AssertionError("ran")


instantiate_device_type_tests(TestSmall, globals())
"""

# Run in one process over every operator: forward on every dtype named, and backward in float32, against the CPU.
SWEEP = """
import collections, itertools, sys, warnings
warnings.simplefilter("ignore")
import relay.device as device
device.install()
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = (torch.float32, torch.int64, torch.complex64)
# Values that cannot agree: uninitialised memory and draws of another shape of kernel.
VALUES_FREE = ("empty", "rand", "dropout", "normal", "bernoulli", "multinomial", "uniform", "lowrank")
# What no PrivateUse1 device without sparse tensors does, and a split that takes its indices from the host.
REFUSED = {"to_sparse", "sparse.sampled_addmm", "sparse.mm", "tensor_split"}

def moved(tree, to):
    def one(v):
        if isinstance(v, torch.Tensor) and v.layout is torch.strided:
            return v.detach().clone().to(to).requires_grad_(v.requires_grad)
        return v
    return tree_map(one, tree)

def attempt(f):
    torch.manual_seed(0)
    try:
        return f(), None
    except Exception as error:
        return None, error

def tensors(tree):
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor) and t.layout is torch.strided]

faults, samples = collections.Counter(), 0
for op in op_db:
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        grads = dtype is torch.float32 and op.supports_autograd
        inputs, error = attempt(lambda: list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grads), 2)))
        for s in inputs or []:
            here, there = moved((s.input, s.args, s.kwargs), "cpu"), moved((s.input, s.args, s.kwargs), "spyre")
            if "device" in there[2]:
                there[2]["device"] = "spyre"
            if op.name == "to":
                there = here  # its samples name the device to move to
            want, error = attempt(lambda: op(here[0], *here[1], **here[2]))
            got, refusal = attempt(lambda: op(there[0], *there[1], **there[2]))
            samples += 1
            if (error is None) != (refusal is None):
                if op.name not in REFUSED:
                    faults[f"{op.full_name} {dtype}: {refusal or error}"[:300]] += 1
                continue
            if error is not None or any(word in op.name for word in VALUES_FREE):
                continue
            for g, w in zip(tensors(got), tensors(want)):
                try:
                    torch.testing.assert_close(g.detach().cpu(), w.detach(), equal_nan=True, rtol=1e-3, atol=1e-3)
                    assert w.numel() < 2 or g.stride() == w.stride(), (g.stride(), w.stride())
                except AssertionError as error:
                    faults[f"{op.full_name} {dtype}: {error}"[:300]] += 1
            if not grads:
                continue
            pairs = [[t for t in tensors(x) if t.requires_grad and t.is_floating_point()] for x in (got, want)]
            leaves = [[t for t in tensors(x) if t.requires_grad] for x in (there, here)]
            if not pairs[0] or op.name == "to":
                continue
            (gs, refusal), (ws, error) = (
                attempt(lambda o=o, l=l: torch.autograd.grad([t.abs().sum() for t in o], l, allow_unused=True))
                for o, l in zip(pairs, leaves)
            )
            if (error is None) != (refusal is None):
                faults[f"{op.full_name} backward: {refusal or error}"[:300]] += 1
            for g, w in zip(gs or [], ws or []):
                if w is not None and w.layout is torch.strided:
                    try:
                        torch.testing.assert_close(g.cpu(), w, equal_nan=True, rtol=1e-3, atol=1e-3)
                    except AssertionError as error:
                        faults[f"{op.full_name} backward: {error}"[:300]] += 1
for fault, times in faults.items():
    print(times, fault)
print("samples", samples)
sys.exit(bool(faults) or samples < 2000)
"""


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def test_device_generic_classes_instantiate_and_run_on_the_device(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(BASE)
    (tmp_path / "device_plugin.py").write_text(PLUGIN)
    (tmp_path / "test_small.py").write_text(GENERIC)
    report = tmp_path / "report.xml"
    options = ["-q", "-p", "device_plugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--junitxml", str(report), str(tmp_path / "test_small.py")],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=_environment(
            TORCH_TEST_DEVICES=str(tmp_path / "base.py"),
            PYTORCH_TESTING_DEVICE_ONLY_FOR="privateuse1",
            PYTHONPATH=os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])]),
        ),
        check=False,
    )
    cases = {c.attrib["name"]: [child.tag for child in c] for c in ET.parse(report).iter("testcase")}
    assert cases, done.stdout + done.stderr
    failed = [name for name, tags in cases.items() if "failure" in tags or "error" in tags]
    assert failed == ["test_fails_when_it_should_spyre"], done.stdout
    assert "test_forward_add_spyre_float32" in cases
    assert "test_values_spyre_float16" in cases
    assert cases["test_not_for_a_device_spyre"] == ["skipped"]
    assert len([n for n in cases if n.startswith("test_forward")]) >= 12


def test_every_operator_of_the_installed_database_agrees_with_the_cpu(tmp_path: Path) -> None:
    script = (
        tmp_path / "sweep.py"
    )  # a file: samples look up the source of their callers, very slowly where there is none
    script.write_text(SWEEP)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(script)],
        capture_output=True,
        text=True,
        timeout=600,
        env=_environment(PYTHONPATH=str(Path(__file__).parents[3])),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
