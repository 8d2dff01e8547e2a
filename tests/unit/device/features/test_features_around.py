"""Autocast, default devices, compilers, dispatch modes, warnings, comparisons."""

from __future__ import annotations

from typing import Any

import pytest
from device_values import same

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

nn = torch.nn
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_autocast_casts(at: str) -> None:
    x, y = torch.randn(3, 3, device=at), torch.randn(3, 3, device=at)
    with torch.autocast(at, dtype=torch.bfloat16):
        product = x @ y
        assert product.dtype is torch.bfloat16
        assert nn.Linear(3, 2).to(at)(x).dtype is torch.bfloat16
        assert (x + y).dtype is torch.float32
        assert torch.cat([product, x]).dtype is torch.float32
        with torch.autocast(at, enabled=False):
            assert (x @ y).dtype is torch.float32
    same(product, (x.bfloat16() @ y.bfloat16()))


def test_autocast_keeps_gradients(at: str) -> None:
    layer = nn.Linear(3, 2).to(at)
    with torch.autocast(at, dtype=torch.bfloat16):
        layer(torch.randn(4, 3, device=at)).sum().backward()
    assert layer.weight.grad.dtype is torch.float32


def test_default_device(at: str) -> None:
    with torch.device(at):
        assert torch.ones(2).device.type == at
        assert nn.Linear(2, 2).weight.device.type == at


def test_compile_eager(at: str) -> None:
    a, b = torch.randn(3), torch.randn(3)
    for backend in ("eager", "aot_eager"):
        compiled = torch.compile(lambda x, y: (x * y).sin() + 1, backend=backend)
        same(compiled(a.to(at), b.to(at)), (a * b).sin() + 1)


def test_fake_tensors(at: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.empty(2, 3, device=at)
        assert ((x @ x.t()).shape, (x + 1).device.type) == ((2, 2), at)
        assert mode.from_tensor(torch.ones(2)).device.type == "cpu"


def test_dispatch_modes(at: str) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    names: list[str] = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        torch.ones(2, device=at) + 1
    assert "aten.add.Tensor" in names


def test_warnings_come_once(at: str) -> None:
    x = torch.ones(3, device=at)
    out = torch.empty(2, device=at)
    with pytest.warns(UserWarning, match="resized") as seen:
        torch.add(x, x, out=out)
    assert len(seen) == 1


def test_comparisons(at: str) -> None:
    x = torch.randn(3, 4, device=at)
    torch.testing.assert_close(x + 1, 1 + x)
    assert torch.equal(x, x.clone())
    assert torch.allclose(x, x + 1e-9)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        torch.testing.assert_close(x, x + 1)
