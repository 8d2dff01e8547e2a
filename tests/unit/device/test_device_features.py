"""What a PrivateUse1 device must do for upstream's tests to run on it: one table, run on the device and on the CPU.

The CPU is the yardstick: a line that fails there is a wrong line, not a fault of the device.
"""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

nn, functional = torch.nn, torch.nn.functional
Feature = Callable[[str], None]
EVERYWHERE: dict[str, Feature] = {}
DEVICE_ONLY: dict[str, Callable[[], None]] = {}

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def feature(function: Feature) -> Feature:
    EVERYWHERE[function.__name__] = function
    return function


def only_device(function: Callable[[], None]) -> Callable[[], None]:
    DEVICE_ONLY[function.__name__] = function
    return function


def randn(*size: int, at: str, **options: Any) -> Any:
    return torch.randn(*size, **options).to(at)


def same(got: Any, want: Any) -> None:
    assert got.stride() == want.stride()  # before `cpu()`, which makes views with gaps contiguous
    torch.testing.assert_close(got.cpu(), want.cpu(), equal_nan=True)


# ---- making and moving


@feature
def factories(at: str) -> None:
    for make in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn):
        x = make(2, 3, device=at)
        assert (x.device.type, x.shape, x.is_contiguous()) == (at, (2, 3), True)
    same(torch.arange(5, device=at), torch.arange(5))
    same(torch.full((2,), 7, device=at), torch.full((2,), 7))
    same(torch.eye(3, device=at), torch.eye(3))
    same(torch.linspace(0, 1, 5, device=at), torch.linspace(0, 1, 5))
    same(torch.tril_indices(3, 3, device=at), torch.tril_indices(3, 3))
    same(torch.tensor([[1, 2], [3, 4]], device=at), torch.tensor([[1, 2], [3, 4]]))
    assert sorted(torch.randperm(5, device=at).tolist()) == [0, 1, 2, 3, 4]


@feature
def factories_refuse_nonsense(at: str) -> None:
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device=at)
    with pytest.raises(RuntimeError, match="must match"):
        torch.empty_strided((2,), (1, 1), device=at)


@feature
def every_dtype_goes_there_and_back(at: str) -> None:
    for dtype in (torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        x = torch.tensor([1, 2, 3]).to(dtype)
        assert torch.equal(x.to(at).cpu(), x)
        assert torch.empty(3, dtype=dtype, device=at).dtype is dtype
    x = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
    assert torch.equal(x.to(at).cpu().float(), x.float())
    assert torch.empty(3, dtype=torch.float8_e5m2, device=at).to(torch.float32).shape == (3,)


@feature
def strides_survive_the_way(at: str) -> None:
    x = torch.randn(4, 5)
    for view in (x.t(), x.expand(2, 4, 5), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)):
        assert view.to(at, copy=True).stride() == view.to("cpu", copy=True).stride()
        assert torch.equal(view.to(at).cpu(), view)


@feature
def norm_over_groups_of_channels_last(at: str) -> None:
    x = torch.randn(2, 6, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    on = x.detach().to(at).requires_grad_()
    out, normed = (torch.nn.functional.group_norm(value, 3) for value in (x, on))
    assert normed.is_contiguous(memory_format=torch.channels_last)
    same(normed.detach(), out.detach())
    out.square().sum().backward()
    normed.square().sum().backward()
    torch.testing.assert_close(on.grad.cpu(), x.grad)


@feature
def cast_on_the_way(at: str) -> None:
    x = torch.randn(3)
    same(x.to(at, torch.float64), x.double())
    same(x.to(at).half(), x.half())
    same(x.to(at).to("cpu", torch.float64, non_blocking=True), x.double())


@feature
def to_meta(at: str) -> None:
    assert randn(2, 3, at=at).to("meta").device.type == "meta"


@feature
def scalars(at: str) -> None:
    x = torch.tensor([3.5, -1.0], device=at)
    assert (x[0].item(), bool(x[1] < 0), int(x[0]), x.tolist()) == (3.5, True, 3, [3.5, -1.0])
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()


@feature
def empty_tensors(at: str) -> None:
    x = torch.empty(0, 3, device=at)
    same(x + 1, torch.empty(0, 3))
    same(x.sum(0), torch.zeros(3))
    same(torch.cat([x, x]), torch.empty(0, 3))


@feature
def every_kind_of_host_tensor_moves(at: str) -> None:
    x = torch.arange(12.0).view(3, 4)
    z = torch.complex(x, -x)
    for host in (x, x.t(), x[1:], x[:, 1], x[:0], x[0, 1], x.expand(2, 3, 4), z.conj(), z.conj().imag, z.t().conj()):
        same(host.to(at, copy=True), host.clone(memory_format=torch.preserve_format))
    same(torch._efficientzerotensor((2, 3)).to(at), torch.zeros(2, 3))
    lazy = torch._lazy_clone(x)
    assert torch._C._is_cow_tensor(lazy)
    same(lazy.to(at), x)
    assert at == "cpu" or torch._C._is_cow_tensor(lazy)
    if at != "cpu":
        with pytest.raises(NotImplementedError, match="no data"):
            torch.empty(2, device="meta").to(at)


@feature
def an_element_changed_in_place(at: str) -> None:
    x, z = randn(3, 4, at=at), torch.complex(randn(2, 3, at=at), randn(2, 3, at=at))
    want = x.cpu().clone()
    x[1] += 1
    want[1] += 1
    x[:, 2] *= 2
    want[:, 2] *= 2
    same(x, want)
    want = z.cpu().clone().conj_physical()
    z.copy_(z.conj())
    same(z, want)
    square = randn(3, 3, at=at)
    want = square.cpu().clone()
    square.copy_(square.clone().t())
    same(square, want.t().contiguous())
    x.copy_(x)
    x[1:].copy_(x[1:])


@feature
def negative_zero_and_repr(at: str) -> None:
    assert "3.5000" in repr(torch.tensor([3.5, 1.25], device=at))


# ---- views and storage


@feature
def views_share_memory(at: str) -> None:
    x = torch.zeros(4, 4, device=at)
    x[1] = 3
    x[:, 2].add_(1)
    x.t()[0, 3] = 9
    x.view(16)[0] = 5
    want = torch.zeros(4, 4)
    want[1] = 3
    want[:, 2].add_(1)
    want[3, 0] = 9
    want[0, 0] = 5
    same(x, want)


@feature
def views_know_their_base(at: str) -> None:
    x = torch.randn(3, 4, device=at)
    part = x[1:, ::2]
    assert (part._base is x, part.storage_offset(), part.stride()) == (True, 4, (4, 2))
    assert part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@feature
def view_operators(at: str) -> None:
    x = torch.randn(2, 3, 4)
    y = x.to(at)
    for op in (
        lambda t: t.transpose(0, 2),
        lambda t: t.permute(2, 0, 1),
        lambda t: t.unfold(2, 2, 1),
        lambda t: t.diagonal(0, 1, 2),
        lambda t: t.unsqueeze(1).squeeze(0),
        lambda t: t.as_strided((2, 2), (1, 3), 1),
        lambda t: t.movedim(0, 1),
        lambda t: t.view(torch.int32),
        lambda t: t.reshape(6, 4)[::2],
        lambda t: t.split(2, 2)[1],
        lambda t: t.unbind(1)[2],
    ):
        same(op(y), op(x))


@feature
def complex_views(at: str) -> None:
    x = torch.randn(3, dtype=torch.complex64)
    y = x.to(at)
    same(torch.view_as_real(y), torch.view_as_real(x))
    same(y.conj().resolve_conj(), x.conj().resolve_conj())
    same(y.conj().imag.resolve_neg(), x.conj().imag.resolve_neg())
    assert y.conj().is_conj()
    same(torch.dot(y.conj(), y), torch.dot(x.conj(), x))
    same((y.conj()[:, None] @ y[None]).sum(), (x.conj()[:, None] @ x[None]).sum())


@feature
def in_place(at: str) -> None:
    x = torch.ones(3, 4, device=at)
    where, version = x.data_ptr(), x._version
    assert x.mul_(2).add_(1).clamp_(0, 2.5) is x
    assert (x.data_ptr(), x._version > version) == (where, True)
    same(x, torch.full((3, 4), 2.5))


@feature
def in_place_metadata(at: str) -> None:
    x = torch.randn(2, 3)
    y = x.to(at, copy=True)
    x.t_()
    y.t_()
    same(y, x)
    y.squeeze_().unsqueeze_(0)
    same(y, x.unsqueeze(0))


@feature
def out_argument_is_written_in_place(at: str) -> None:
    a, b = torch.randn(3, 4, device=at), torch.randn(3, 4, device=at)
    out = torch.empty(3, 4, device=at)
    where = out.data_ptr()
    assert torch.add(a, b, out=out) is out
    assert out.data_ptr() == where
    same(out, a + b)


@feature
def out_argument_grows(at: str) -> None:
    a, b = torch.randn(30, 40, device=at), torch.randn(30, 40, device=at)
    out = torch.empty(0, device=at)
    torch.add(a, b, out=out)
    same(out, a + b)
    values, indices = torch.empty(0, device=at), torch.empty(0, dtype=torch.int64, device=at)
    torch.sort(a, out=(values, indices))
    same(values, a.sort()[0])
    same(indices, a.sort()[1])


@feature
def out_argument_is_a_view(at: str) -> None:
    base = torch.zeros(4, 4, device=at)
    torch.mul(torch.ones(2, 4, device=at), 3, out=base[1:3])
    assert base.sum(1).tolist() == [0, 12, 12, 0]


@feature
def out_argument_grows_beside_a_number(at: str) -> None:
    x = randn(3, 4, at=at)
    for op in (torch.add, torch.mul, torch.fmod, torch.remainder, torch.pow):
        for given in (x, x.t()):
            out = torch.empty(0, device=at)
            assert op(given, 3, out=out) is out
            same(out, op(given.cpu(), 3))


@feature
def what_is_written_may_not_lie_over_what_is_read(at: str) -> None:
    x = randn(6, at=at)
    square = randn(3, 3, at=at)
    for write in (
        lambda: torch.add(x[:3], 1, out=x[1:4]),
        lambda: torch.exp(x[:3], out=x[1:4]),
        lambda: torch.pow(x[:3], 42, out=x[1:4]),
        lambda: x[1:4].mul_(x[:3]),
        lambda: x[1:4].copy_(x[:3]),
        lambda: square.add_(square.t()),
        lambda: torch.cat([x[:2], x[2:4]], out=x[1:5]),
    ):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            write()
    same(x.clone().mul_(x), x.cpu() ** 2)
    y = x.clone()
    same(y.mul_(y), x.cpu() ** 2)  # itself, whole, it may be
    same(y[:3].copy_(y[3:]), y.cpu()[3:])
    same(torch.neg(y[:3], out=y[3:]), -y.cpu()[:3])


@feature
def is_set_to_and_copies_of_numbers(at: str) -> None:
    x = randn(2, 3, at=at)
    assert x.is_set_to(torch.empty(0, device=at).set_(x))
    assert not x.is_set_to(x.clone())
    same(x.copy_(float("inf")), torch.full((2, 3), float("inf")))


@feature
def resize_keeps_the_values(at: str) -> None:
    x = torch.arange(4, device=at)
    x.resize_(2, 3)
    assert x.flatten()[:4].tolist() == [0, 1, 2, 3]
    assert x.resize_(1).tolist() == [0]


@feature
def set_and_data(at: str) -> None:
    x, y = torch.randn(4, device=at), torch.randn(2, device=at)
    x.set_(y)
    assert x.data_ptr() == y.data_ptr()
    x.set_()
    assert x.numel() == 0
    x.data = y
    assert x.shape == (2,)
    z = torch.empty(0, device=at).set_(y.untyped_storage())
    same(z, y)


@feature
def storages(at: str) -> None:
    storage = torch.UntypedStorage(16, device=at)
    assert (storage.device.type, storage.nbytes(), storage.data_ptr() != 0) == (at, 16, True)
    x = torch.empty(0, dtype=torch.float32, device=at).set_(storage)
    x.fill_(2)
    assert torch.empty(0).set_(storage.cpu()).tolist() == [2, 2, 2, 2]
    assert storage.clone().device.type == at
    assert torch.UntypedStorage([1, 2, 3], device=at).cpu().tolist() == [1, 2, 3]


@feature
def storages_are_resized(at: str) -> None:
    x = torch.arange(4, device=at)
    part, storage = x[1:3], x.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(32)
    x.copy_(torch.arange(4))
    assert part.tolist() == [1, 2]  # a view sees the new memory
    assert storage.resize_(64).nbytes() == 64
    assert x.tolist() == [0, 1, 2, 3]
    with pytest.raises((RuntimeError, OverflowError)):
        storage.resize_(-1)


@feature
def storages_trade_their_memory(at: str) -> None:
    x, y = torch.arange(4, device=at), torch.zeros(4, dtype=torch.int64, device=at)
    x.untyped_storage()._swap_data_ptr_(y.untyped_storage())
    assert (x.tolist(), y.tolist()) == ([0, 0, 0, 0], [0, 1, 2, 3])


@feature
def lazy_clone(at: str) -> None:
    x = torch.randn(3, 4).to(at).t()
    y = x._lazy_clone()
    same(y, x)
    y.add_(1)
    assert not torch.equal(x, y)


@feature
def overlapping_memory(at: str) -> None:
    x = torch.zeros(1, device=at).expand(3)
    same(x + 1, torch.ones(3))
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)


@feature
def uninitialised_memory_is_filled_when_asked(at: str) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(4, device=at).isnan().all()
        assert (torch.empty(4, dtype=torch.int64, device=at) == torch.iinfo(torch.int64).max).all()
    finally:
        torch.use_deterministic_algorithms(False)


# ---- operators


@feature
def arithmetic(at: str) -> None:
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


@feature
def numbers_promote_as_numbers(at: str) -> None:
    whole = torch.tensor([1, 2], device=at)
    assert (whole + 1).dtype is torch.int64
    assert (whole + 1.5).dtype is torch.float32
    assert (whole.half() + 1.5).dtype is torch.float16
    assert (whole / 2).dtype is torch.float32
    assert (whole.half() * torch.tensor(2.0, dtype=torch.float64, device=at)).dtype is torch.float16


@feature
def mixed_devices(at: str) -> None:
    x = torch.ones(3, device=at)
    same(x + torch.tensor(2.0), torch.full((3,), 3.0))  # a scalar tensor of the host goes with every device
    if at != "cpu":
        with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
            x + torch.ones(3)
        with pytest.raises(RuntimeError, match="all tensors to be on the same device"):
            torch.ones(3) + x
    same(x[torch.tensor([0, 2])], torch.ones(2))


@feature
def indexing(at: str) -> None:
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


@feature
def sorting(at: str) -> None:
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


@feature
def reductions(at: str) -> None:
    a = torch.randn(3, 4)
    x = a.to(at)
    for op in (torch.sum, torch.mean, torch.prod, torch.std, torch.argmax, torch.any, torch.logcumsumexp):
        if op is torch.logcumsumexp:
            same(op(x, 1), op(a, 1))
        else:
            same(op(x), op(a))
    same(x.sum(1, keepdim=True, dtype=torch.float64), a.sum(1, keepdim=True, dtype=torch.float64))


@feature
def lists_of_tensors(at: str) -> None:
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    x, y = a.to(at, copy=True), b.to(at, copy=True)
    same(torch.cat([x, y], 1), torch.cat([a, b], 1))
    same(torch.stack([x, y]), torch.stack([a, b]))
    for got, want in zip(torch._foreach_add([x, y], 1.0), torch._foreach_add([a, b], 1.0), strict=True):
        same(got, want)
    torch._foreach_mul_([x, y], 2.0)
    same(x, a * 2)
    same(torch.einsum("ij,kj->ik", x, y), torch.einsum("ij,kj->ik", a * 2, b * 2))


@feature
def linear_algebra(at: str) -> None:
    a = torch.randn(4, 4)
    x = a.to(at)
    same(x @ x, a @ a)
    same(torch.linalg.svdvals(x), torch.linalg.svdvals(a))
    same(torch.linalg.solve(x, x), torch.linalg.solve(a, a))
    same(torch.baddbmm(x[None], x[None], x[None]), torch.baddbmm(a[None], a[None], a[None]))
    same(torch.fft.rfft(x), torch.fft.rfft(a))


@feature
def random_numbers_follow_the_seed(at: str) -> None:
    torch.manual_seed(5)
    first = torch.rand(4, device=at)
    torch.manual_seed(5)
    same(torch.rand(4, device=at), first)
    with torch.random.fork_rng(devices=[0], device_type=at) if at != "cpu" else torch.random.fork_rng(devices=[]):
        inside = torch.rand(4, device=at)
    same(torch.rand(4, device=at), inside)
    same(functional.dropout(torch.ones(8, device=at), 1.0), torch.zeros(8))


@feature
def generators(at: str) -> None:
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


# ---- autograd and layers


@feature
def autograd(at: str) -> None:
    a, w = torch.randn(5, 6), torch.randn(6, 2)
    x, v = a.to(at).requires_grad_(), w.to(at).requires_grad_()
    a.requires_grad_()
    w.requires_grad_()
    torch.relu(x @ v).pow(2).sum().backward()
    torch.relu(a @ w).pow(2).sum().backward()
    same(x.grad, a.grad)
    same(v.grad, w.grad)
    assert x.grad.device.type == at


@feature
def autograd_across_devices(at: str) -> None:
    x = torch.ones(3, requires_grad=True)
    (x.to(at) * 2).sum().cpu().backward()
    assert x.grad.tolist() == [2, 2, 2]


@feature
def autograd_catches_a_clobbered_input(at: str) -> None:
    x = torch.ones(3, device=at, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@feature
def gradcheck(at: str) -> None:
    x = torch.randn(2, 3, dtype=torch.float64, device=at, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sigmoid, (x,))
    assert torch.autograd.gradgradcheck(torch.tanh, (x,))


@feature
def hooks_and_custom_functions(at: str) -> None:
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


@feature
def forward_mode(at: str) -> None:
    a, t = torch.randn(3), torch.randn(3)
    got = torch.func.jvp(torch.sin, (a.to(at),), (t.to(at),))
    same(got[1], torch.func.jvp(torch.sin, (a,), (t,))[1])


@feature
def vmap_and_grad(at: str) -> None:
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


@pytest.mark.parametrize("where", ["spyre", "cpu"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer_forward_and_backward(name: str, where: str) -> None:
    torch.manual_seed(0)
    make, size = LAYERS[name]
    _layer(make(), *size, at=where)


@feature
def attention(at: str) -> None:
    q, k, v = (torch.randn(1, 2, 8, 4) for _ in range(3))
    got = functional.scaled_dot_product_attention(q.to(at), k.to(at), v.to(at), is_causal=True)
    same(got, functional.scaled_dot_product_attention(q, k, v, is_causal=True))


@feature
def training(at: str) -> None:
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


@feature
def embedding(at: str) -> None:
    table = nn.Embedding(5, 3).to(at)
    table(torch.tensor([1, 1, 4], device=at)).sum().backward()
    assert table.weight.grad.sum(1).tolist() == [0, 6, 0, 0, 3]


# ---- saving


@feature
def save_and_load(at: str) -> None:
    x = torch.randn(3, 4, device=at)
    file = io.BytesIO()
    torch.save({"x": x, "view": x.t()}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["x"].device.type == at
    assert loaded["view"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()
    same(loaded["view"], x.t())
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    assert torch.load(file, map_location=at).device.type == at


@feature
def copies_and_pickles(at: str) -> None:
    x = torch.randn(3, device=at, requires_grad=True)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (other.device.type, other.requires_grad, other.data_ptr() != x.data_ptr()) == (at, True, True)
        same(other.detach(), x.detach())


@feature
def state_dicts(at: str) -> None:
    here, there = nn.Linear(3, 2), nn.Linear(3, 2).to(at)
    there.load_state_dict(here.state_dict())
    same(there.weight.detach(), here.weight.detach())
    assert {v.device.type for v in there.state_dict().values()} == {at}


# ---- around it


@feature
def autocast_casts(at: str) -> None:
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


@feature
def autocast_keeps_gradients(at: str) -> None:
    layer = nn.Linear(3, 2).to(at)
    with torch.autocast(at, dtype=torch.bfloat16):
        layer(torch.randn(4, 3, device=at)).sum().backward()
    assert layer.weight.grad.dtype is torch.float32


@feature
def default_device(at: str) -> None:
    with torch.device(at):
        assert torch.ones(2).device.type == at
        assert nn.Linear(2, 2).weight.device.type == at


@feature
def compile_eager(at: str) -> None:
    a, b = torch.randn(3), torch.randn(3)
    for backend in ("eager", "aot_eager"):
        compiled = torch.compile(lambda x, y: (x * y).sin() + 1, backend=backend)
        same(compiled(a.to(at), b.to(at)), (a * b).sin() + 1)


@feature
def fake_tensors(at: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        x = torch.empty(2, 3, device=at)
        assert ((x @ x.t()).shape, (x + 1).device.type) == ((2, 2), at)
        assert mode.from_tensor(torch.ones(2)).device.type == "cpu"


@feature
def dispatch_modes(at: str) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    names: list[str] = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        torch.ones(2, device=at) + 1
    assert "aten.add.Tensor" in names


@feature
def warnings_come_once(at: str) -> None:
    x = torch.ones(3, device=at)
    out = torch.empty(2, device=at)
    with pytest.warns(UserWarning, match="resized") as seen:
        torch.add(x, x, out=out)
    assert len(seen) == 1


@feature
def comparisons(at: str) -> None:
    x = torch.randn(3, 4, device=at)
    torch.testing.assert_close(x + 1, 1 + x)
    assert torch.equal(x, x.clone())
    assert torch.allclose(x, x + 1e-9)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        torch.testing.assert_close(x, x + 1)


# ---- what only a device has


@only_device
def device_name_and_attributes() -> None:
    x = torch.ones(2, device="spyre")
    assert (str(x.device), x.is_spyre, x.is_cpu, x.get_device(), type(x)) == ("spyre:0", True, False, 0, torch.Tensor)
    assert torch.ones(2).spyre().device == x.device
    assert nn.Linear(2, 2).spyre().weight.device == x.device
    assert torch.device("spyre") != torch.device("cpu")


@only_device
def fresh_memory_is_aligned_to_a_stick() -> None:
    for x in (torch.empty(3, 5, device="spyre"), torch.randn(7).to("spyre"), torch.empty((2,) * 9, device="spyre")):
        assert x.data_ptr() % 128 == 0


@only_device
def numpy_is_refused_as_on_a_device() -> None:
    with pytest.raises(TypeError, match=r"Tensor\.cpu"):
        torch.ones(2, device="spyre").numpy()


@only_device
def accelerator() -> None:
    acc = torch.accelerator
    assert (str(acc.current_accelerator()), acc.is_available(), acc.device_count()) == ("spyre", True, 1)
    acc.synchronize()
    acc.empty_cache()
    acc.set_device_index(0)
    assert acc.current_device_index() == 0


@only_device
def device_module() -> None:
    assert (torch.spyre.device_count(), torch.spyre.current_device(), torch.spyre.is_available()) == (1, 0, True)
    assert torch.get_device_module("spyre") is torch.spyre
    with torch.spyre.device(0):
        torch.spyre.synchronize()
    with pytest.raises(RuntimeError, match="invalid device ordinal 1"):
        torch.spyre.set_device(1)
    assert torch.spyre.get_device_properties().cores == 32
    assert torch.spyre.get_rng_state().equal(torch.default_generator.get_state())
    torch.spyre.manual_seed_all(7)
    assert torch.spyre.initial_seed() == 7


@only_device
def streams_and_events() -> None:
    stream = torch.spyre.Stream()
    start, end = (torch.spyre.Event(enable_timing=True) for _ in range(2))
    before = torch.spyre.current_stream()
    with torch.spyre.stream(stream):
        assert torch.spyre.current_stream() is stream
        start.record()
        torch.ones(3, device="spyre") + 1
        stream.record_event(end)
    assert torch.spyre.current_stream() is before
    assert start.elapsed_time(end) > 0
    assert (stream.query(), end.query()) == (True, True)
    stream.wait_event(end)
    stream.synchronize()
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(torch.spyre.Event(enable_timing=True))
    with pytest.raises(ValueError, match="enable_timing"):
        torch.spyre.Event().elapsed_time(end)


@only_device
def generic_streams_and_events() -> None:
    stream, event = torch.Stream(device="spyre"), torch.Event(device="spyre")
    assert stream.device.type == "spyre"
    with stream:
        event.record(stream)
    stream.synchronize()
    event.synchronize()
    event.wait(stream)
    assert (stream.query(), event.query()) == (True, True)
    assert torch.accelerator.current_stream().device.type == "spyre"
    assert stream.record_event().query()


@only_device
def generic_events_measure_modelled_time() -> None:
    start, end = torch.Event(device="spyre", enable_timing=True), torch.Event(enable_timing=True)
    start.record()
    torch.ones(3, device="spyre") + 1
    end.record()
    assert start.elapsed_time(end) == pytest.approx(0.01, rel=0.1)  # two kernels of five microseconds each
    assert isinstance(start, torch.Event)
    assert issubclass(torch.spyre.Event, torch.Event)
    assert not isinstance(torch.Stream(device="spyre"), torch.Event)
    assert torch.Event("cpu").device.type == "cpu"
    with pytest.raises(NotImplementedError, match="cannot be shared between processes"):
        torch.Event(device="spyre", interprocess=True)


@only_device
def pinned_memory() -> None:
    x = torch.randn(3, 4).t()
    pinned = x.pin_memory()
    assert (pinned.is_pinned(), x.is_pinned(), pinned.stride()) == (True, False, x.stride())
    assert pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned()
    assert torch.equal(pinned.to("spyre", non_blocking=True).cpu(), x)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="spyre").pin_memory()


@only_device
def tensors_outlive_their_makers() -> None:
    """Memory is held by whoever can see it: an alias, a view, a storage; and freed while an exception is in flight."""
    view = torch.arange(1000, device="spyre")[900:]
    storage = torch.arange(4, device="spyre").untyped_storage()
    junk = [torch.zeros(1000, device="spyre") for _ in range(50)]
    del junk
    assert view[0].item() == 900
    assert torch.empty(0, dtype=torch.int64, device="spyre").set_(storage).tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="must match"):
        torch.ones(3, device="spyre") + torch.ones(4, device="spyre")


@only_device
def backward_runs_in_the_calling_thread() -> None:
    """A thread of the device's own would cost each backward two changes of thread, milliseconds on busy cores."""
    seen: list[int] = []
    x = torch.ones(2, device="spyre", requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(threading.get_ident()))
    y.sum().backward()
    assert seen == [threading.get_ident()]
    assert x.grad.tolist() == [2, 2]
    worker = threading.Thread(target=lambda: (x * 3).sum().backward())  # which has autograd's threads, as ever
    worker.start()
    worker.join(30)
    assert x.grad.tolist() == [5, 5]


@only_device
def foreign_autocast_leaves_it_alone() -> None:
    x = torch.ones(3, 3, device="spyre")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.float32


# ---- what it does not do, each with a reason in docs/device.md: a line that begins to hold must leave this list

NOT_MET: dict[str, tuple[Callable[[], Any], type[BaseException] | None, str]] = {
    "a clone that shares memory until it is written": (
        lambda: torch._C._is_cow_tensor(torch.ones(2, device="spyre")._lazy_clone()),
        None,
        "copies at once",
    ),
    "pin_memory=True in a factory": (
        lambda: torch.empty(2, pin_memory=True),
        NotImplementedError,
        "getPinnedMemoryAllocator",
    ),
    "graph-safe generator states": (
        lambda: torch.Generator("spyre").graphsafe_get_state(),
        NotImplementedError,
        "graphsafe_get_state is not supported",
    ),
    "DLPack to another library": (
        lambda: torch.ones(2, device="spyre").__dlpack_device__(),
        ValueError,
        "Unknown device type spyre",
    ),
}


@pytest.mark.parametrize("name", NOT_MET)
def test_what_is_not_met_says_so_and_is_documented(name: str) -> None:
    attempt, error, message = NOT_MET[name]
    assert name in (Path(__file__).parents[3] / "docs" / "device.md").read_text()
    if error is None:
        assert attempt() is False, message
        return
    with pytest.raises(error, match=message):
        attempt()


@pytest.mark.parametrize("where", ["spyre", "cpu"])
@pytest.mark.parametrize("name", EVERYWHERE)
def test_on_every_device(name: str, where: str) -> None:
    EVERYWHERE[name](where)


@pytest.mark.parametrize("name", DEVICE_ONLY)
def test_on_the_device(name: str) -> None:
    DEVICE_ONLY[name]()
