"""The meter's arithmetic and its shared map. No torch."""

from __future__ import annotations

import mmap
import os
import re
import signal
import time
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.device.errors import DeviceError
from relay.device.machine import Machine
from relay.device.meter import METER_BYTES, Meter, MeterSnapshot, new_meter_map, read_snapshot, stick_layout


@dataclass(frozen=True)
class _Dtype:
    itemsize: int


@dataclass(frozen=True)
class _Tensor:
    shape: tuple[int, ...]
    dtype: _Dtype


HALF, FLOAT = _Dtype(2), _Dtype(4)


@pytest.mark.parametrize(
    ("shape", "itemsize", "sticks", "padding"),
    [
        ((), 4, 1, 124),
        ((32,), 4, 1, 0),
        ((33,), 4, 2, 124),
        ((3, 64), 2, 3, 0),
        ((3, 65), 2, 6, 378),
        ((0, 7), 4, 0, 0),
        ((7, 0), 4, 0, 0),
    ],
)
def test_rows_lie_in_whole_sticks(shape: tuple[int, ...], itemsize: int, sticks: int, padding: int) -> None:
    assert stick_layout(shape, itemsize, 128) == (sticks, padding)


@given(st.lists(st.integers(0, 40), max_size=4), st.sampled_from([1, 2, 4, 8, 16]))
def test_sticks_hold_the_data_and_the_padding_exactly(shape: list[int], itemsize: int) -> None:
    sticks, padding = stick_layout(shape, itemsize, 128)
    elements = 1
    for extent in shape:
        elements *= extent
    assert sticks * 128 == elements * itemsize + padding


def test_a_kernel_is_counted_once_with_its_bytes_and_time() -> None:
    meter = Meter()
    before = meter.snapshot()
    meter.kernel([_Tensor((4, 32), FLOAT), _Tensor((32,), FLOAT)], [_Tensor((4, 32), FLOAT)])
    meter.transfer("h2d_bytes", 640)
    spent = meter.snapshot() - before
    assert spent.kernels == 1
    assert spent.engaged
    assert (spent.bytes_read, spent.bytes_written, spent.sticks, spent.padding_bytes) == (640, 512, 9, 0)
    assert spent.h2d_bytes == 640
    assert spent.modelled_us == pytest.approx(10.0, abs=0.1)  # two launches at 5 us, hardly any bytes


def test_comparisons_and_fallbacks_do_not_engage_the_device() -> None:
    meter = Meter()
    with meter.comparing():
        meter.kernel([_Tensor((4,), FLOAT)], [])
        meter.transfer("d2h_bytes", 4)
    meter.fallback()
    spent = meter.snapshot()
    assert (spent.kernels, spent.comparison_kernels, spent.fallbacks, spent.d2h_bytes) == (0, 1, 1, 0)
    assert not spent.engaged


def test_more_bytes_than_the_scratchpads_hold_is_a_spill() -> None:
    meter = Meter()
    meter.set_machine(Machine(cores=2, scratchpad_bytes=1024))
    meter.kernel([_Tensor((512,), HALF)], [_Tensor((512,), HALF)])  # exactly 2,048 bytes
    assert meter.snapshot().spills == 0
    meter.kernel([_Tensor((513,), HALF)], [_Tensor((512,), HALF)])
    assert meter.snapshot().spills == 1


def test_multiply_adds_dominate_when_there_are_many() -> None:
    meter = Meter()
    tensor = _Tensor((64, 64), HALF)
    meter.kernel([tensor], [tensor])
    small = meter.snapshot().modelled_ns
    meter.kernel([tensor], [tensor], macs=10**9)
    assert meter.snapshot().modelled_ns - small > 10 * small / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runner forks; this system cannot")
def test_the_parent_reads_what_a_killed_child_counted() -> None:
    shared = new_meter_map()
    meter = Meter(shared)
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child never comes back
        for _ in range(1000):
            meter.kernel([_Tensor((4,), FLOAT)], [])
        os.write(tell, b"x")
        while True:  # killed in the middle of counting
            meter.kernel([_Tensor((4,), FLOAT)], [])
    try:
        os.read(ready, 1)
        assert read_snapshot(shared).kernels >= 1000
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)
    after = read_snapshot(shared)
    time.sleep(0.01)
    assert read_snapshot(shared) == after == meter.snapshot()


def test_binding_another_map_leaves_the_first_alone() -> None:
    first, second = new_meter_map(), new_meter_map()
    meter = Meter(first)
    meter.fallback()
    meter.bind(second)
    meter.fallback()
    assert (read_snapshot(first).fallbacks, read_snapshot(second).fallbacks) == (1, 1)


def test_a_foreign_map_is_refused() -> None:
    foreign = mmap.mmap(-1, METER_BYTES)
    with pytest.raises(DeviceError, match="new_meter_map"):
        read_snapshot(foreign)
    with pytest.raises(DeviceError, match="new_meter_map"):
        Meter(foreign)


def test_snapshots_subtract_field_by_field() -> None:
    later, earlier = MeterSnapshot(kernels=5, h2d_bytes=7), MeterSnapshot(kernels=2, h2d_bytes=7)
    assert later - earlier == MeterSnapshot(kernels=3)
    assert (later - earlier).as_dict()["kernels"] == 3


def test_what_a_result_says_beside_kernels_and_time_is_what_the_relay_takes() -> None:
    from relay.web.workers import MeterName

    every = MeterSnapshot(**{f.name: 1 for f in fields(MeterSnapshot)})
    assert set(every.moved()) == set(MeterName.__args__)
    assert MeterSnapshot(kernels=3, sticks=2).moved() == {"sticks": 2}


def test_the_documented_layout_is_the_real_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "device.md").read_text()
    documented = {
        int(slot): name for slot, name in re.findall(r"\| (\d+) \| `(\w+)`", page) if not name.startswith("0x")
    }
    names = [f.name for f in fields(MeterSnapshot)]
    assert documented == {slot + 2: name for slot, name in enumerate(names)}
    shared = new_meter_map()
    Meter(shared).fallback()
    slots = memoryview(shared).cast("q")
    assert slots[0] == int("0x53505952454D5452", 16)
    assert [i for i in range(2, len(slots)) if slots[i]] == [3]
