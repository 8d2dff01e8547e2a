"""Making tensors, moving them between host and device, saving them."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
from device_values import randn, same

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

nn = torch.nn
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_factories(at: str) -> None:
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


def test_factories_refuse_nonsense(at: str) -> None:
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device=at)
    with pytest.raises(RuntimeError, match="must match"):
        torch.empty_strided((2,), (1, 1), device=at)


def test_every_dtype_goes_there_and_back(at: str) -> None:
    for dtype in (torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        x = torch.tensor([1, 2, 3]).to(dtype)
        assert torch.equal(x.to(at).cpu(), x)
        assert torch.empty(3, dtype=dtype, device=at).dtype is dtype
    x = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
    assert torch.equal(x.to(at).cpu().float(), x.float())
    assert torch.empty(3, dtype=torch.float8_e5m2, device=at).to(torch.float32).shape == (3,)


def test_strides_survive_the_way(at: str) -> None:
    x = torch.randn(4, 5)
    for view in (x.t(), x.expand(2, 4, 5), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)):
        assert view.to(at, copy=True).stride() == view.to("cpu", copy=True).stride()
        assert torch.equal(view.to(at).cpu(), view)


def test_norm_over_groups_of_channels_last(at: str) -> None:
    x = torch.randn(2, 6, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    on = x.detach().to(at).requires_grad_()
    out, normed = (torch.nn.functional.group_norm(value, 3) for value in (x, on))
    assert normed.is_contiguous(memory_format=torch.channels_last)
    same(normed.detach(), out.detach())
    out.square().sum().backward()
    normed.square().sum().backward()
    torch.testing.assert_close(on.grad.cpu(), x.grad)


def test_cast_on_the_way(at: str) -> None:
    x = torch.randn(3)
    same(x.to(at, torch.float64), x.double())
    same(x.to(at).half(), x.half())
    same(x.to(at).to("cpu", torch.float64, non_blocking=True), x.double())


def test_to_meta(at: str) -> None:
    assert randn(2, 3, at=at).to("meta").device.type == "meta"


def test_scalars(at: str) -> None:
    x = torch.tensor([3.5, -1.0], device=at)
    assert (x[0].item(), bool(x[1] < 0), int(x[0]), x.tolist()) == (3.5, True, 3, [3.5, -1.0])
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()


def test_empty_tensors(at: str) -> None:
    x = torch.empty(0, 3, device=at)
    same(x + 1, torch.empty(0, 3))
    same(x.sum(0), torch.zeros(3))
    same(torch.cat([x, x]), torch.empty(0, 3))


def test_every_kind_of_host_tensor_moves(at: str) -> None:
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


def test_an_element_changed_in_place(at: str) -> None:
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


def test_negative_zero_and_repr(at: str) -> None:
    assert "3.5000" in repr(torch.tensor([3.5, 1.25], device=at))


def test_save_and_load(at: str) -> None:
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


def test_copies_and_pickles(at: str) -> None:
    x = torch.randn(3, device=at, requires_grad=True)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (other.device.type, other.requires_grad, other.data_ptr() != x.data_ptr()) == (at, True, True)
        same(other.detach(), x.detach())


def test_state_dicts(at: str) -> None:
    here, there = nn.Linear(3, 2), nn.Linear(3, 2).to(at)
    there.load_state_dict(here.state_dict())
    same(there.weight.detach(), here.weight.detach())
    assert {v.device.type for v in there.state_dict().values()} == {at}
