"""Where memory is made and written: sizes that nobody can hold, what a refusal leaves behind, and ``out=`` of any size
in any place. The CPU is the yardstick; the short way and the long one count the same."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

import relay.device as device  # noqa: E402
from relay.device import written as written_module  # noqa: E402

pytestmark = pytest.mark.torch
HUGE = [2**60] * 20


def _outcome(work: Callable[[], Any]) -> tuple[object, ...]:
    """What comes of it: values, sizes and strides on the host, or the exception and its first words; and the number
    that is drawn next."""
    torch.manual_seed(0)
    try:
        made = work()
    except (RuntimeError, TypeError, ValueError, OverflowError, struct.error) as error:
        return type(error).__name__, str(error).split(" with sizes")[0].split("\n")[0], torch.rand(1).item()
    return made.dtype, made.shape, made.stride(), made.cpu().reshape(-1).tolist(), torch.rand(1).item()


def _spent(work: Callable[[], Any]) -> device.MeterSnapshot:
    before = device.METER.snapshot()
    _outcome(work)
    return device.METER.snapshot() - before


IMPOSSIBLE: dict[str, Callable[[str], Any]] = {
    "empty": lambda on: torch.empty(HUGE, device=on),
    "empty of nothing": lambda on: torch.empty([*HUGE, 0], device=on),
    "zeros": lambda on: torch.zeros(HUGE, device=on),
    "zeros of nothing": lambda on: torch.zeros([*HUGE, 0], device=on),
    "new": lambda on: torch.ones(1, device=on).new_ones(HUGE),
    "a number too large": lambda on: torch.empty(2**62, 4, device=on),
    "float8": lambda on: torch.empty([2**60] * 3, device=on, dtype=torch.float8_e5m2),
    "strides": lambda on: torch.empty_strided((2**40,), (2**40,), device=on),
    "strides backwards": lambda on: torch.empty_strided((2,), (-1,), device=on),
    "one stride backwards": lambda on: torch.empty_strided((2, 2), (3, -1), device=on),
    "strides backwards of float8": lambda on: torch.empty_strided((3,), (-1,), device=on, dtype=torch.float8_e5m2),
    "strides backwards of nothing": lambda on: torch.empty_strided((0,), (-1,), device=on),
    "negative": lambda on: torch.zeros(-1, -5, device=on),
    "negative, empty": lambda on: torch.empty(3, -1, -5, device=on),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("limit", [None, 1 << 20])
def test_sizes_that_no_memory_has_are_refused_as_on_the_cpu(name: str, limit: int | None) -> None:
    torch.zeros(1, device="spyre")
    torch.ones(1, device="spyre")
    want = _outcome(lambda: IMPOSSIBLE[name]("cpu"))
    with device.use_policy(device.Policy(memory_bytes=limit)):
        torch.zeros(1, device="spyre")
        assert _outcome(lambda: IMPOSSIBLE[name]("spyre")) == want


def test_a_resize_beyond_all_numbers_is_an_error_and_changes_nothing() -> None:
    x = torch.ones(2, device="spyre")
    with pytest.raises(RuntimeError):
        x.resize_(2**60, 2**60)
    assert x.tolist() == [1, 1]


REFUSED: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(3, dtype=torch.float64, device="spyre"),
    "randn": lambda: torch.randn(3, dtype=torch.float64, device="spyre"),
    "randint": lambda: torch.randint(9, (3,), device="spyre"),
    "randperm": lambda: torch.randperm(9, device="spyre"),
    "rand_like": lambda: torch.rand_like(torch.empty(3, device="spyre"), dtype=torch.float64),
    "large rand": lambda: torch.rand(300, device="spyre"),
    "large randn": lambda: torch.randn(300, device="spyre"),
    "large randperm": lambda: torch.randperm(300, dtype=torch.int32, device="spyre"),
    "large rand_like": lambda: torch.rand_like(torch.empty(1, device="spyre").expand(300)),
    "large arange": lambda: torch.arange(300, dtype=torch.int32, device="spyre"),
    "zeros": lambda: torch.zeros(7, dtype=torch.float64, device="spyre"),
    "new_full": lambda: torch.empty(3, device="spyre").new_full((2,), 3, dtype=torch.float64),
}
WRONG: dict[str, Callable[[], Any]] = {
    "full beyond its dtype": lambda: torch.full((2,), 300, dtype=torch.uint8, device="spyre"),
    "arange the wrong way": lambda: torch.arange(0, 3, -1, device="spyre"),
    "randint of nothing": lambda: torch.randint(5, 2, (3,), device="spyre"),
    "randperm beyond its dtype": lambda: torch.randperm(300, dtype=torch.int8, device="spyre"),
    "randn of integers": lambda: torch.randn(3, dtype=torch.int32, device="spyre"),
    "rand_like of integers": lambda: torch.rand_like(torch.empty(3, device="spyre"), dtype=torch.int32),
    "float8": lambda: torch.zeros(5, dtype=torch.float8_e4m3fn, device="spyre"),
    "float8 like": lambda: torch.ones_like(torch.empty(5, device="spyre"), dtype=torch.float8_e5m2),
}


def _prime() -> None:
    """The first call of a writer takes the long way."""
    for _ in range(2):
        torch.zeros(2, device="spyre"), torch.ones(2, device="spyre"), torch.rand(2, device="spyre")
        torch.randn(2, device="spyre"), torch.arange(2, dtype=torch.int32, device="spyre")
        torch.randint(2, (2,), dtype=torch.int32, device="spyre"), torch.randperm(2, dtype=torch.int32, device="spyre")


@pytest.mark.parametrize("name", [*REFUSED, *WRONG])
def test_a_refused_factory_draws_counts_and_says_as_in_the_long_way(
    name: str, long_way: Callable[[bool], None]
) -> None:
    narrow = device.Policy(dtypes=frozenset({"float32", "int32"}), memory_bytes=64)
    work, policy = (REFUSED[name], narrow) if name in REFUSED else (WRONG[name], device.Policy())
    with device.use_policy(policy):
        long_way(True)
        want, spent = _outcome(work), _spent(work)
        long_way(False)
        _prime()
        assert _outcome(work) == want
        assert _spent(work) == spent
    assert name not in REFUSED or want[0] in ("UnsupportedDtype", "DeviceOutOfMemory")


def test_what_was_let_in_elsewhere_lets_no_factory_through() -> None:
    wide = torch.zeros(7, dtype=torch.float64, device="spyre")
    with device.use_policy(device.Policy(dtypes=frozenset({"float32"}))):
        for _ in range(2):
            torch.zeros(7, device="spyre")
            wide.zero_()
            with pytest.raises(device.UnsupportedDtype, match="Double"):
                torch.zeros(7, dtype=torch.float64, device="spyre")
            wide.uniform_()
            with pytest.raises(device.UnsupportedDtype, match="Double"):
                torch.rand_like(wide)


def _spd(x: Any) -> Any:
    return x[:3, :3] @ x[:3, :3].t() + 3 * torch.eye(3, device=x.device)


OUT: dict[str, Callable[..., Any]] = {
    "add": lambda x, **out: torch.add(x, 1, **out),
    "two tensors": lambda x, **out: torch.mul(x, x.flip(0), **out),
    "sum": lambda x, **out: torch.sum(x, 1, **out),
    "mean": lambda x, **out: torch.mean(x, 0, **out),
    "cumsum": lambda x, **out: torch.cumsum(x, 0, **out),
    "cat": lambda x, **out: torch.cat([x, x], 1, **out),
    "masked_select": lambda x, **out: torch.masked_select(x, x > 0, **out),
    "channels last": lambda x, **out: torch.neg(x.view(1, 2, 2, 3).to(memory_format=torch.channels_last), **out),
    "one twice": lambda x, **out: torch.cat([x.view(1, 2, 2, 3).to(memory_format=torch.channels_last)] * 2, **out),
    "cholesky": lambda x, **out: torch.linalg.cholesky(_spd(x), **out),
    "mm": lambda x, **out: torch.mm(x, x.t(), **out),
}
PLACES: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "as large": lambda shape, memory: (memory[: shape.numel()].view(shape), memory),
    "amid others": lambda shape, memory: (memory[3 : 3 + shape.numel()].view(shape), memory),
    "too small, room": lambda shape, memory: (memory[3:5], memory),
    "nothing, room": lambda shape, memory: (memory[3:3], memory),
    "too small, no room": lambda shape, memory: ((few := memory[:2].clone()), few.view(2, 1)),
    "too small, little room": lambda shape, memory: ((few := memory[:4].clone())[1:3], few),
    "too large": lambda shape, memory: (memory.view(10, 8), memory),
    "too large, amid others": lambda shape, memory: (memory[7:77], memory),
    "another dtype": lambda shape, memory: (memory.double()[3:5], memory),
    "by columns": lambda shape, memory: (memory.view(8, 10).t(), memory),
    "in steps": lambda shape, memory: (memory[::2], memory),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("small", [0, 1 << 12])
def test_out_of_any_size_in_any_place_is_written_as_on_the_cpu(
    name: str, small: int, long_way: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_module, "_SMALL", small)  # 0: every one with elements is as a large one
    source = torch.randn(3, 4, generator=torch.Generator().manual_seed(len(name)))

    def written(on: str, place: str) -> list[Any]:
        x = source.to(on)
        out, around = PLACES[place](OUT[name](x).shape, torch.full((80,), 77.0, device=on))
        try:
            assert OUT[name](x, out=out) is out
        except RuntimeError as error:  # a dtype that the operator does not write
            return [out, around, torch.tensor(list(str(error).split("\n")[0].encode()))]
        said = [out.storage_offset(), out.untyped_storage().nbytes(), out.is_contiguous(), *out.stride()]
        return [out, around, torch.tensor(said)]

    for place in PLACES:
        want = written("cpu", place)
        counts = []
        for long in (True, False):
            long_way(long)
            written("spyre", place)
            before = device.METER.snapshot()
            got = written("spyre", place)
            counts.append(device.METER.snapshot() - before)
            for one, other in zip(got, want, strict=True):
                torch.testing.assert_close(one.cpu(), other, check_stride=one is got[0], msg=f"{name}, {place}, {long}")
        assert counts[0] == counts[1], place


def test_what_a_kernel_leaves_of_an_out_stays() -> None:
    x, one = torch.randn(3, 2, 4), torch.ones(2)
    for on in ("spyre", "cpu"):
        kept = torch.arange(7.0, 207.0).to(on)
        a, b = x.to(on), [one.to(on) for _ in range(4)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.ops.aten.native_batch_norm.out(
                a, *b, False, 0.1, 1e-5, out=torch.empty_like(a), save_mean=kept, save_invstd=kept.clone()
            )
        assert kept.tolist() == [*range(7, 207)], on  # of a batch norm that does not train there is no mean to save


@pytest.mark.parametrize("on", ["cpu", "spyre"])
def test_a_resize_takes_the_views_of_the_memory_along(on: str) -> None:
    x = torch.arange(4.0, device=on)
    view, late = x[1:3], x[2:4]
    x.resize_(9)
    x[1] = 70
    assert view.tolist() == [70, 2]
    late.resize_(20)
    late[0] = 80
    assert x[:4].tolist() == [0, 70, 80, 3]
    assert x.untyped_storage().data_ptr() == late.untyped_storage().data_ptr()
    nothing = torch.empty(0, device=on)
    also = nothing.view(0, 1)
    nothing.resize_(2).fill_(3)
    assert also.resize_(2, 1).tolist() == [[3], [3]]
    nothing = torch.empty(0, device=on)
    also = nothing.view(0, 1)
    torch.add(x[:2], 1, out=nothing)
    nothing.fill_(4)
    assert also.resize_(2, 1).tolist() == [[4], [4]]


@pytest.mark.parametrize("on", ["cpu", "spyre"])
def test_a_storage_grows_for_a_tensor_that_is_set_beyond_its_end(on: str) -> None:
    x = torch.arange(4.0, device=on)
    y = torch.empty(0, device=on).set_(x.untyped_storage(), 2, (3, 2), (2, 1))
    assert y.view(-1)[:2].tolist() == [2, 3]
    y.fill_(9)
    assert x.tolist() == [0, 1, 9, 9]
    assert x.untyped_storage().nbytes() == 32
    for offset, size, stride in (
        (-1, (1,), (1,)),
        (0, (-1,), (1,)),
        (0, (2,), (-1,)),
        (0, (2,), (1, 1)),
        (0, HUGE, ()),
    ):
        with pytest.raises(RuntimeError):
            y.set_(x.untyped_storage(), offset, tuple(size), stride)
    assert x.untyped_storage().nbytes() == 32
