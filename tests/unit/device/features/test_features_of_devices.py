"""What only a device has: its module, streams, events, pinned memory. And what this one has not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

nn = torch.nn
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_device_name_and_attributes() -> None:
    x = torch.ones(2, device="spyre")
    assert (str(x.device), x.is_spyre, x.is_cpu, x.get_device(), type(x)) == ("spyre:0", True, False, 0, torch.Tensor)
    assert torch.ones(2).spyre().device == x.device
    assert nn.Linear(2, 2).spyre().weight.device == x.device
    assert torch.device("spyre") != torch.device("cpu")


def test_fresh_memory_is_aligned_to_a_stick() -> None:
    for x in (torch.empty(3, 5, device="spyre"), torch.randn(7).to("spyre"), torch.empty((2,) * 9, device="spyre")):
        assert x.data_ptr() % 128 == 0


def test_numpy_is_refused_as_on_a_device() -> None:
    with pytest.raises(TypeError, match=r"Tensor\.cpu"):
        torch.ones(2, device="spyre").numpy()


def test_accelerator() -> None:
    acc = torch.accelerator
    assert (str(acc.current_accelerator()), acc.is_available(), acc.device_count()) == ("spyre", True, 1)
    acc.synchronize()
    acc.empty_cache()
    acc.set_device_index(0)
    assert acc.current_device_index() == 0


def test_device_module() -> None:
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


def test_streams_and_events() -> None:
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


def test_generic_streams_and_events() -> None:
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


def test_generic_events_measure_modelled_time() -> None:
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


def test_pinned_memory() -> None:
    x = torch.randn(3, 4).t()
    pinned = x.pin_memory()
    assert (pinned.is_pinned(), x.is_pinned(), pinned.stride()) == (True, False, x.stride())
    assert pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned()
    assert torch.equal(pinned.to("spyre", non_blocking=True).cpu(), x)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="spyre").pin_memory()


def test_tensors_outlive_their_makers() -> None:
    """Memory is held by whoever can see it: an alias, a view, a storage; and freed while an exception is in flight."""
    view = torch.arange(1000, device="spyre")[900:]
    storage = torch.arange(4, device="spyre").untyped_storage()
    junk = [torch.zeros(1000, device="spyre") for _ in range(50)]
    del junk
    assert view[0].item() == 900
    assert torch.empty(0, dtype=torch.int64, device="spyre").set_(storage).tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="must match"):
        torch.ones(3, device="spyre") + torch.ones(4, device="spyre")


def test_backward_runs_in_the_calling_thread() -> None:
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


def test_foreign_autocast_leaves_it_alone() -> None:
    x = torch.ones(3, 3, device="spyre")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.float32


# each with a reason in docs/device.md: a line that begins to hold must leave this list

NOT_MET: dict[str, tuple[Callable[[], Any], type[BaseException], str]] = {
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
    assert name in (Path(__file__).parents[4] / "docs" / "device.md").read_text()
    with pytest.raises(error, match=message):
        attempt()
