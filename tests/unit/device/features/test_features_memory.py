"""Views, in-place operators, out= arguments and storages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from device_values import randn, same

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_views_share_memory(at: str) -> None:
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


def test_views_know_their_base(at: str) -> None:
    x = torch.randn(3, 4, device=at)
    part = x[1:, ::2]
    assert (part._base is x, part.storage_offset(), part.stride()) == (True, 4, (4, 2))
    assert part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_view_operators(at: str) -> None:
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


def test_complex_views(at: str) -> None:
    x = torch.randn(3, dtype=torch.complex64)
    y = x.to(at)
    same(torch.view_as_real(y), torch.view_as_real(x))
    same(y.conj().resolve_conj(), x.conj().resolve_conj())
    same(y.conj().imag.resolve_neg(), x.conj().imag.resolve_neg())
    assert y.conj().is_conj()
    same(torch.dot(y.conj(), y), torch.dot(x.conj(), x))
    same((y.conj()[:, None] @ y[None]).sum(), (x.conj()[:, None] @ x[None]).sum())


def test_in_place(at: str) -> None:
    x = torch.ones(3, 4, device=at)
    where, version = x.data_ptr(), x._version
    assert x.mul_(2).add_(1).clamp_(0, 2.5) is x
    assert (x.data_ptr(), x._version > version) == (where, True)
    same(x, torch.full((3, 4), 2.5))


def test_in_place_metadata(at: str) -> None:
    x = torch.randn(2, 3)
    y = x.to(at, copy=True)
    x.t_()
    y.t_()
    same(y, x)
    y.squeeze_().unsqueeze_(0)
    same(y, x.unsqueeze(0))


def test_out_argument_is_written_in_place(at: str) -> None:
    a, b = torch.randn(3, 4, device=at), torch.randn(3, 4, device=at)
    out = torch.empty(3, 4, device=at)
    where = out.data_ptr()
    assert torch.add(a, b, out=out) is out
    assert out.data_ptr() == where
    same(out, a + b)


def test_out_argument_grows(at: str) -> None:
    a, b = torch.randn(30, 40, device=at), torch.randn(30, 40, device=at)
    out = torch.empty(0, device=at)
    torch.add(a, b, out=out)
    same(out, a + b)
    values, indices = torch.empty(0, device=at), torch.empty(0, dtype=torch.int64, device=at)
    torch.sort(a, out=(values, indices))
    same(values, a.sort()[0])
    same(indices, a.sort()[1])


def test_out_argument_is_a_view(at: str) -> None:
    base = torch.zeros(4, 4, device=at)
    torch.mul(torch.ones(2, 4, device=at), 3, out=base[1:3])
    assert base.sum(1).tolist() == [0, 12, 12, 0]


def test_out_argument_grows_beside_a_number(at: str) -> None:
    x = randn(3, 4, at=at)
    for op in (torch.add, torch.mul, torch.fmod, torch.remainder, torch.pow):
        for given in (x, x.t()):
            out = torch.empty(0, device=at)
            assert op(given, 3, out=out) is out
            same(out, op(given.cpu(), 3))


def test_what_is_written_may_not_lie_over_what_is_read(at: str) -> None:
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


def test_is_set_to_and_copies_of_numbers(at: str) -> None:
    x = randn(2, 3, at=at)
    assert x.is_set_to(torch.empty(0, device=at).set_(x))
    assert not x.is_set_to(x.clone())
    same(x.copy_(float("inf")), torch.full((2, 3), float("inf")))


def test_resize_keeps_the_values(at: str) -> None:
    x = torch.arange(4, device=at)
    x.resize_(2, 3)
    assert x.flatten()[:4].tolist() == [0, 1, 2, 3]
    assert x.resize_(1).tolist() == [0]


def test_set_and_data(at: str) -> None:
    x, y = torch.randn(4, device=at), torch.randn(2, device=at)
    x.set_(y)
    assert x.data_ptr() == y.data_ptr()
    x.set_()
    assert x.numel() == 0
    x.data = y
    assert x.shape == (2,)
    z = torch.empty(0, device=at).set_(y.untyped_storage())
    same(z, y)


def test_storages(at: str) -> None:
    storage = torch.UntypedStorage(16, device=at)
    assert (storage.device.type, storage.nbytes(), storage.data_ptr() != 0) == (at, 16, True)
    x = torch.empty(0, dtype=torch.float32, device=at).set_(storage)
    x.fill_(2)
    assert torch.empty(0).set_(storage.cpu()).tolist() == [2, 2, 2, 2]
    assert storage.clone().device.type == at
    assert torch.UntypedStorage([1, 2, 3], device=at).cpu().tolist() == [1, 2, 3]


def test_storages_are_resized(at: str) -> None:
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


def test_storages_trade_their_memory(at: str) -> None:
    x, y = torch.arange(4, device=at), torch.zeros(4, dtype=torch.int64, device=at)
    x.untyped_storage()._swap_data_ptr_(y.untyped_storage())
    assert (x.tolist(), y.tolist()) == ([0, 0, 0, 0], [0, 1, 2, 3])


def _are_cow(*tensors: torch.Tensor) -> list[bool]:
    return [torch._C._is_cow_tensor(tensor) for tensor in tensors]


MADE = {
    "sent": lambda at: torch.randn(3, 4).to(at),
    "empty": lambda at: torch.empty(3, 4, device=at).copy_(torch.arange(12.0).view(3, 4)),
    "of a kernel": lambda at: (torch.randn(3, 4, device=at) + 1) * 2,
    "in bytes": lambda at: torch.arange(12, dtype=torch.uint8, device=at).view(3, 4),
    "grown": lambda at: torch.add(*torch.ones(2, 3, 4, device=at), out=torch.empty(0, device=at)),
}


@pytest.mark.parametrize("name", MADE)
def test_lazy_clone(name: str, at: str) -> None:
    """Memory is shared until one of both is written to, and then belongs to whoever is left."""
    MADE[name](at)
    x = MADE[name](at).t()
    want = x.cpu().clone()
    before = torch._C._data_address(x)
    y = x._lazy_clone()
    assert (_are_cow(x, y), y.stride(), y.device) == ([True, True], x.stride(), x.device)
    assert torch._C._data_address(y) == torch._C._data_address(x) == before
    same(x + y, want + want)
    view = y[1:]
    assert _are_cow(x, y, view) == [True, True, True]
    view.add_(1)
    assert _are_cow(x, y, view) == [True, False, False]
    assert torch._C._data_address(y) != before
    same(x, want)
    changed = want.clone()
    changed[1:] += 1
    same(y, changed)
    x.mul_(2)
    assert (_are_cow(x), torch._C._data_address(x)) == ([False], before)
    same(x, want * 2)
    assert {str(t.untyped_storage().device) for t in (x, y, view)} == {str(x.device)}


def test_a_lazy_clone_of_memory_that_came_the_long_way(at: str, long_way: Callable[[bool], None]) -> None:
    long_way(True)
    x = torch.ones(3, device=at) + 1
    long_way(False)
    y = x._lazy_clone()
    assert _are_cow(x, y) == [True, True]
    y += x
    assert (x.tolist(), y.tolist()) == ([2, 2, 2], [4, 4, 4])


def test_a_lazy_clone_whose_address_is_asked_for_is_a_copy_on_its_device(at: str) -> None:
    for ask in (
        lambda t: t.data_ptr(),
        lambda t: t.untyped_storage().data_ptr(),
        lambda t: (torch.utils.dlpack.to_dlpack(t), t.data_ptr())[1],
        lambda t: (
            t.untyped_storage().byteswap(torch.float32),
            t.untyped_storage().byteswap(torch.float32),
            t.data_ptr(),
        )[2],
    ):
        x = torch.arange(4.0).to(at)
        y = x._lazy_clone()
        asked = ask(y)
        assert (_are_cow(y), torch._C._data_address(y)) == ([False], asked)
        assert y.untyped_storage().device == x.device == y[1:].device
        same(y[1:] + 1, torch.arange(2.0, 5))
        same(x, torch.arange(4.0))


def test_a_lazy_clone_written_through_out_and_the_long_way(at: str, long_way: Callable[[bool], None]) -> None:
    for long in (False, True):
        long_way(long)
        x = torch.arange(4.0).to(at)
        y, z = x._lazy_clone(), x._lazy_clone()
        torch.add(x, 1, out=y)
        z.copy_(y)
        z[0] = 9
        assert (x.tolist(), y.tolist(), z.tolist()) == ([0, 1, 2, 3], [1, 2, 3, 4], [9, 2, 3, 4])
        assert {str(t.untyped_storage().device) for t in (x, y, z)} == {str(x.device)}


def test_a_lazy_clone_has_a_gradient(at: str) -> None:
    x = torch.ones(3).to(at).requires_grad_()
    (x._lazy_clone() * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_overlapping_memory(at: str) -> None:
    x = torch.zeros(1, device=at).expand(3)
    same(x + 1, torch.ones(3))
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)


def test_uninitialised_memory_is_filled_when_asked(at: str) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(4, device=at).isnan().all()
        assert (torch.empty(4, dtype=torch.int64, device=at) == torch.iinfo(torch.int64).max).all()
    finally:
        torch.use_deterministic_algorithms(False)
