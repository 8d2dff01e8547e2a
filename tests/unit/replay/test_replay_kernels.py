"""Kernels that go wrong for a replay: every form of an operator, whether or not it ran before."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no kernel of the emulated device is tested here")

pytestmark = pytest.mark.torch

BROKEN = """
import torch

from relay import device
from relay.worker.replay.kernels import break_kernel

device.install()
{before}
x = torch.tensor([1.0, 2.0, 3.0], device="spyre")
forms = {{
    "structured": lambda: x * 2,
    "of two tensors": lambda: x * x,
    "in place": lambda: x.clone().mul_(2),
    "out=": lambda: torch.mul(x, 2, out=torch.empty_like(x)),
    "with two results": lambda: x.sort().values,
    "by its kernel alone": lambda: torch.isin(x, x),
    "a factory's": lambda: torch.full((3,), 7.0, device="spyre"),
    "of a list": lambda: torch.cat([x, x]),
}}
if {ran}:
    good = {{name: form() for name, form in forms.items()}}
    assert all(bool(result.cpu().any()) for result in good.values())
for op in ("mul", "sort", "isin", "fill", "cat"):
    assert break_kernel(op, "native-zero") >= 1, op
print([name for name, form in forms.items() if form().cpu().any()])
"""


@pytest.mark.parametrize("before", ["", "device.prepare()"])
@pytest.mark.parametrize("ran", [False, True])
def test_every_form_of_a_broken_operator_goes_wrong(before: str, ran: bool) -> None:
    code = BROKEN.format(before=before, ran=ran)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == "[]"
