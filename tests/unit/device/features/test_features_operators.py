"""Operators: arithmetic, indexing, reductions, random numbers."""

from __future__ import annotations

import pickle

import pytest
from device_values import same

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

functional = torch.nn.functional
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_arithmetic(at: str) -> None:
    a, b = torch.randn(3, 4), torch.randn(4)
    x, y = a.to(at), b.to(at)
    same(x + y, a + b)
    same(x - 2, a - 2)
    same(2 - x, 2 - a)
    same(x * True, a * True)
    same(x / torch.tensor(3.0), a / 3.0)
    same(x**2, a**2)
    same(torch.where(x > 0, x, 0.0), torch.where(a > 0, a, 0.0))
    same(torch.add(x, y, alpha=3), torch.add(a, b, alpha=3))


def test_numbers_promote_as_numbers(at: str) -> None:
    whole = torch.tensor([1, 2], device=at)
    assert (whole + 1).dtype is torch.int64
    assert (whole + 1.5).dtype is torch.float32
    assert (whole.half() + 1.5).dtype is torch.float16
    assert (whole / 2).dtype is torch.float32
    assert (whole.half() * torch.tensor(2.0, dtype=torch.float64, device=at)).dtype is torch.float16


def test_mixed_devices(at: str) -> None:
    x = torch.ones(3, device=at)
    same(x + torch.tensor(2.0), torch.full((3,), 3.0))  # a scalar tensor of the host goes with every device
    if at != "cpu":
        with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
            x + torch.ones(3)
        with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
            torch.ones(3) + x
    same(x[torch.tensor([0, 2])], torch.ones(2))


def test_indexing(at: str) -> None:
    a = torch.randn(4, 5)
    x, index = a.to(at), torch.tensor([0, 3])
    same(x[index.to(at)], a[index])
    same(x[x > 0], a[a > 0])
    same(x[..., None, 1:3], a[..., None, 1:3])
    x[index.to(at), 1] = 7
    a[index, 1] = 7
    x[x < 0] = 0
    a[a < 0] = 0
    same(x, a)
    same(x.gather(1, torch.zeros(4, 1, dtype=torch.int64, device=at)), a[:, :1].contiguous())
    same(x.index_select(0, index.to(at)), a.index_select(0, index))
    same(x.nonzero(), a.nonzero())


def test_sorting(at: str) -> None:
    a = torch.randn(3, 7)
    x = a.to(at)
    for op in (
        lambda t: t.sort(),
        lambda t: t.topk(2),
        lambda t: t.max(1),
        lambda t: t.median(1),
        lambda t: t.aminmax(),
    ):
        for got, want in zip(op(x), op(a), strict=True):
            same(got, want)
    assert type(x.sort()) is type(a.sort())
    same(torch.unique(x.round()), torch.unique(a.round()))


def test_reductions(at: str) -> None:
    a = torch.randn(3, 4)
    x = a.to(at)
    for op in (torch.sum, torch.mean, torch.prod, torch.std, torch.argmax, torch.any, torch.logcumsumexp):
        if op is torch.logcumsumexp:
            same(op(x, 1), op(a, 1))
        else:
            same(op(x), op(a))
    same(x.sum(1, keepdim=True, dtype=torch.float64), a.sum(1, keepdim=True, dtype=torch.float64))


def test_lists_of_tensors(at: str) -> None:
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    x, y = a.to(at, copy=True), b.to(at, copy=True)
    same(torch.cat([x, y], 1), torch.cat([a, b], 1))
    same(torch.stack([x, y]), torch.stack([a, b]))
    for got, want in zip(torch._foreach_add([x, y], 1.0), torch._foreach_add([a, b], 1.0), strict=True):
        same(got, want)
    torch._foreach_mul_([x, y], 2.0)
    same(x, a * 2)
    same(torch.einsum("ij,kj->ik", x, y), torch.einsum("ij,kj->ik", a * 2, b * 2))


def test_linear_algebra(at: str) -> None:
    a = torch.randn(4, 4)
    x = a.to(at)
    same(x @ x, a @ a)
    same(torch.linalg.svdvals(x), torch.linalg.svdvals(a))
    same(torch.linalg.solve(x, x), torch.linalg.solve(a, a))
    same(torch.baddbmm(x[None], x[None], x[None]), torch.baddbmm(a[None], a[None], a[None]))
    same(torch.fft.rfft(x), torch.fft.rfft(a))


def test_random_numbers_follow_the_seed(at: str) -> None:
    torch.manual_seed(5)
    first = torch.rand(4, device=at)
    torch.manual_seed(5)
    same(torch.rand(4, device=at), first)
    with torch.random.fork_rng(devices=[0], device_type=at) if at != "cpu" else torch.random.fork_rng(devices=[]):
        inside = torch.rand(4, device=at)
    same(torch.rand(4, device=at), inside)
    same(functional.dropout(torch.ones(8, device=at), 1.0), torch.zeros(8))


def test_generators(at: str) -> None:
    first, second = torch.Generator(device=at), torch.Generator(device=at)
    first.manual_seed(3)
    second.set_state(first.get_state())
    assert (first.device.type, isinstance(first, torch.Generator)) == (at, True)
    for draw in (
        lambda g: torch.randn(3, generator=g, device=at),
        lambda g: torch.randperm(4, generator=g, device=at),
        lambda g: torch.randint(0, 9, (3,), generator=g, device=at),
        lambda g: torch.empty(3, device=at).uniform_(generator=g),
        lambda g: torch.multinomial(torch.ones(4, device=at), 2, generator=g),
        lambda g: torch.bernoulli(torch.full((4,), 0.5, device=at), generator=g),
    ):
        same(draw(first), draw(second))
    third = pickle.loads(pickle.dumps(first)) if at != "cpu" else first.clone_state()
    assert third.device.type == at
    same(torch.rand(3, generator=third, device=at), torch.rand(3, generator=first, device=at))
