"""Autograd, its transforms, and layers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from device_values import same

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

nn = torch.nn
functional = torch.nn.functional
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_autograd(at: str) -> None:
    a, w = torch.randn(5, 6), torch.randn(6, 2)
    x, v = a.to(at).requires_grad_(), w.to(at).requires_grad_()
    a.requires_grad_()
    w.requires_grad_()
    torch.relu(x @ v).pow(2).sum().backward()
    torch.relu(a @ w).pow(2).sum().backward()
    same(x.grad, a.grad)
    same(v.grad, w.grad)
    assert x.grad.device.type == at


def test_autograd_across_devices(at: str) -> None:
    x = torch.ones(3, requires_grad=True)
    (x.to(at) * 2).sum().cpu().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_autograd_catches_a_clobbered_input(at: str) -> None:
    x = torch.ones(3, device=at, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradcheck(at: str) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, device=at, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sigmoid, (x,))
    assert torch.autograd.gradgradcheck(torch.tanh, (x,))


def test_hooks_and_custom_functions(at: str) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    seen: list[Any] = []
    x = torch.ones(2, device=at, requires_grad=True)
    x.register_hook(lambda g: seen.append(g.device.type))
    Double.apply(x).sum().backward()
    assert (x.grad.tolist(), seen) == ([2, 2], [at])


def test_forward_mode(at: str) -> None:
    a, t = torch.randn(3), torch.randn(3)
    got = torch.func.jvp(torch.sin, (a.to(at),), (t.to(at),))
    same(got[1], torch.func.jvp(torch.sin, (a,), (t,))[1])


def test_vmap_and_grad(at: str) -> None:
    a = torch.randn(3, 4)
    same(torch.vmap(torch.sum)(a.to(at)), torch.vmap(torch.sum)(a))
    same(torch.func.grad(lambda t: t.sin().sum())(a.to(at)), a.cos())


def _layer(module: Any, *size: int, at: str) -> None:
    """Output, gradient of the input and of every parameter, on the CPU and ``at``."""
    a = torch.randn(*size)
    x = a.to(at).requires_grad_()
    a.requires_grad_()
    there = copy.deepcopy(module).to(at)
    want, got = module(a), there(x)
    want, got = (want[0], got[0]) if isinstance(want, tuple) else (want, got)
    weight = torch.randn_like(want)
    want.backward(weight)
    got.backward(weight.to(at))
    for g, w in [(got, want), (x.grad, a.grad)] + [
        (p.grad, q.grad) for p, q in zip(there.parameters(), module.parameters(), strict=True)
    ]:
        torch.testing.assert_close(g.detach().cpu(), w.detach(), rtol=1e-4, atol=1e-4)


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(3, 4), (2, 3)),
    "Conv1d groups": (lambda: nn.Conv1d(4, 6, 3, groups=2), (2, 4, 9)),
    "Conv2d dilated": (lambda: nn.Conv2d(3, 4, 3, padding=2, dilation=2), (2, 3, 8, 8)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "ConvTranspose1d groups": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2), (2, 4, 7)),
    "ConvTranspose2d no bias": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, bias=False), (2, 4, 7, 5)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 6, 2), (2, 4, 3, 3, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (2, 3, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (2, 4, 5)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), (1, 2, 6, 6)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(2), (1, 2, 5, 5)),
    "GELU": (lambda: nn.GELU(), (3, 4)),
    "Softmax": (lambda: nn.Softmax(1), (3, 4)),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), (5, 2, 3)),
    "LSTM no bias": (lambda: nn.LSTM(3, 4, bias=False), (5, 2, 3)),
    "GRU": (lambda: nn.GRU(3, 4, 2, bidirectional=True), (5, 2, 3)),
    "GRU no bias": (lambda: nn.GRU(3, 4, bias=False), (5, 3)),
    "GRUCell": (lambda: nn.GRUCell(3, 4), (2, 3)),
    "RNN": (lambda: nn.RNN(3, 4), (5, 2, 3)),
    "Encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (5, 2, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_forward_and_backward(name: str, at: str) -> None:
    torch.manual_seed(0)
    make, size = LAYERS[name]
    _layer(make(), *size, at=at)


def test_attention(at: str) -> None:
    q, k, v = (torch.randn(1, 2, 8, 4) for _ in range(3))
    got = functional.scaled_dot_product_attention(q.to(at), k.to(at), v.to(at), is_causal=True)
    same(got, functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_training(at: str) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).to(at)
    images, labels = torch.randn(4, 3, 8, 8).to(at), torch.tensor([1, 2, 0, 4], device=at)
    for optimiser in (torch.optim.Adam(model.parameters(), 0.01), torch.optim.SGD(model.parameters(), 0.01, 0.9)):
        losses = []
        for _ in range(5):
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]


def test_embedding(at: str) -> None:
    table = nn.Embedding(5, 3).to(at)
    table(torch.tensor([1, 1, 4], device=at)).sum().backward()
    assert table.weight.grad.sum(1).tolist() == [0, 6, 0, 0, 3]


def test_a_lazy_layer_moves_before_it_knows_its_sizes(at: str) -> None:
    layer = nn.LazyConv1d(3, 2).to(at).to(torch.float64)
    assert (layer.weight.device.type, layer.bias.dtype) == (at, torch.float64)
    assert "LazyConv1d" in repr(layer)
    assert nn.LazyConv1d(3, 2, device=at)(torch.ones(2, 4, 5, device=at)).shape == (2, 3, 4)


class _Deaf(torch.Tensor):
    """Its attributes are no answer."""

    @property
    def shape(self) -> Any:
        raise RuntimeError("no shape")

    @property
    def dtype(self) -> Any:
        raise RuntimeError("no dtype")


def test_copies_do_not_ask_a_class_of_somebodys(at: str) -> None:
    there, back = torch.ones(3).as_subclass(_Deaf).to(at), torch.zeros(3).as_subclass(_Deaf)
    there.copy_(torch.arange(3.0).as_subclass(_Deaf))
    back.copy_(there)
    assert type(there) is type(there.to(torch.float64)) is _Deaf
    assert back.tolist() == there.cpu().tolist() == [0, 1, 2]
