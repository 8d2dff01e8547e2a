"""Counts what the device did. The counters live in a shared anonymous map so that a fork's parent can read them.

Layout of the map (version 1), little pieces of 8 bytes, signed, in the machine's byte order: slot 0 `MAGIC`, slot 1 the
version, then one slot for each field of `MeterSnapshot` in the order of its definition. Reading takes no lock: an
aligned 8-byte slot is read whole. ``kernels`` is told at once; bytes, sticks, transfers and time are added up here
first and told every few thousand kernels and by `Meter.tell`, for that is most of what counting costs: a child that
is killed takes with it what it had not told. One process may write to a map at a time; give children that run
side by side a map each (`Meter.bind`).
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from relay.device.errors import DeviceError
from relay.device.machine import Machine

MAGIC = 0x5350595245_4D5452  # "SPYRE" "MTR"
VERSION = 1
METER_BYTES = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class MeterSnapshot:
    """Running totals; subtract two for the figures of what ran between. Bytes are bytes, ``modelled_ns`` nanoseconds.

    ``kernels`` engaged the device; ``fallbacks`` ran on the CPU instead (and are no kernels); ``comparison_kernels``
    ran inside `relay.device.comparison`. ``refused_ops`` and ``refused_dtypes`` count refusals. ``h2d``, ``d2h``,
    ``d2d``: host to device, back, and within it. ``bytes_read``/``bytes_written`` are in whole sticks, of which
    ``padding_bytes`` hold nothing. ``spills``: kernels whose tensors together exceed the scratchpads.
    """

    kernels: int = 0
    fallbacks: int = 0
    comparison_kernels: int = 0
    refused_ops: int = 0
    refused_dtypes: int = 0
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    d2d_bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    sticks: int = 0
    padding_bytes: int = 0
    spills: int = 0
    allocations: int = 0
    allocated_bytes: int = 0
    modelled_ns: int = 0

    @property
    def modelled_us(self) -> float:
        """Modelled time in microseconds: an estimate (see `relay.device.machine`)."""
        return self.modelled_ns / 1000

    @property
    def engaged(self) -> bool:
        """Whether the device ran at least one kernel of its own."""
        return self.kernels > 0

    def __sub__(self, earlier: MeterSnapshot) -> MeterSnapshot:
        return MeterSnapshot(*(getattr(self, n) - getattr(earlier, n) for n in _FIELDS))

    def moved(self) -> dict[str, int]:
        """What a result says beside kernels and time: the counters above 0 of bytes, sticks, transfers and refusals."""
        return {n: value for n in _MOVED if (value := getattr(self, n))}

    def as_dict(self) -> dict[str, int]:
        """Field names to totals."""
        return {n: getattr(self, n) for n in _FIELDS}


_MOVED = (
    "bytes_read",
    "bytes_written",
    "sticks",
    "padding_bytes",
    "h2d_bytes",
    "d2h_bytes",
    "d2d_bytes",
    "spills",
    "fallbacks",
    "refused_ops",
    "refused_dtypes",
)
_FIELDS = tuple(f.name for f in fields(MeterSnapshot))
_SLOT = {name: 2 + i for i, name in enumerate(_FIELDS)}
_FIRST, _END = 2, 2 + len(_FIELDS)
_KERNELS, _FALLBACKS, _COMPARISONS = _SLOT["kernels"], _SLOT["fallbacks"], _SLOT["comparison_kernels"]
_READ, _WRITTEN, _STICKS = _SLOT["bytes_read"], _SLOT["bytes_written"], _SLOT["sticks"]
_PADDING, _SPILLS, _NS = _SLOT["padding_bytes"], _SLOT["spills"], _SLOT["modelled_ns"]
_H2D, _D2D = _SLOT["h2d_bytes"], _SLOT["d2d_bytes"]
_OF_A_KERNEL = (_READ, _WRITTEN, _STICKS, _NS, _PADDING, _SPILLS, _D2D)
_ALLOCS, _ALLOC_BYTES = _SLOT["allocations"], _SLOT["allocated_bytes"]


def new_meter_map() -> mmap.mmap:
    """A fresh map, shared with every process forked after this call."""
    shared = mmap.mmap(-1, METER_BYTES)
    with memoryview(shared) as raw, raw.cast("q") as slots:
        slots[0], slots[1] = MAGIC, VERSION
    return shared


def read_snapshot(shared: mmap.mmap) -> MeterSnapshot:
    """The totals in a map, without blocking and without a meter. `DeviceError` if it is not a meter's map."""
    with memoryview(shared) as raw, raw.cast("q") as slots:
        _check(slots)
        return MeterSnapshot(*slots[_FIRST:_END].tolist())


def _check(slots: memoryview) -> None:
    if len(slots) < _END or slots[0] != MAGIC or slots[1] != VERSION:
        raise DeviceError("this map is not a meter's map of this version; make it with relay.device.new_meter_map()")


class Cost:
    """What one kind of kernel or transfer adds to the counters: to each of ``slots`` an amount. ``times``: how often it
    did ``since`` the map was last told."""

    __slots__ = ("amounts", "since", "slots", "times")

    def __init__(self, slots: Sequence[int], amounts: Sequence[int]) -> None:
        self.slots = slots
        self.amounts = amounts
        self.times = 0
        self.since: object = None


_NOTHING = Cost((), ())
_MOST_TIMES, _MOST_KINDS = 255, 64
"""A map lags behind by at most so many kernels of a kind, and so many kinds of kernels."""


class Memo(dict[Any, Cost]):
    """See `Meter.memo`."""

    __slots__ = ("__weakref__",)
    MOST = 1024

    def keep(self, key: Any, cost: Cost) -> Cost:
        """Remembers a cost; at most MOST of them, for a test over thousands of shapes must not grow the process."""
        if len(self) >= self.MOST:
            self.clear()
        self[key] = cost
        return cost

    __hash__ = object.__hash__  # type: ignore[assignment]


class Comparing:
    """See `Meter.comparing`."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def __enter__(self) -> None:
        self._meter._comparing += 1

    def __exit__(self, *exc: object) -> None:
        self._meter._comparing -= 1


class Meter:
    """The writer's side. One per process (`METER`); `bind` chooses the map it writes to."""

    def __init__(self, shared: mmap.mmap | None = None) -> None:
        self._lock = threading.RLock()
        self._comparing = 0
        self._since, self._owed = object(), list[Cost]()
        self._memos: weakref.WeakSet[Memo] = weakref.WeakSet()
        self._transfers, self._allocations, self._sent = self.memo(), self.memo(), self.memo()
        self.bind(shared if shared is not None else new_meter_map())
        self.set_machine(Machine())
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        # Reentrant: a signal's handler may run an operator amid another's count.
        # A fork can happen while another thread holds the lock; nobody would ever release the child's copy of it.
        self._lock = threading.RLock()
        self._forget()  # the parent tells its map what it owes

    def _forget(self) -> None:
        self._since, self._owed = object(), []

    def bind(self, shared: mmap.mmap) -> None:
        """Count into ``shared`` from now on."""
        slots = memoryview(shared).cast("q")
        _check(slots)
        if self._owed:
            self._settle()
        self.map = shared
        self._slots = slots

    def set_machine(self, machine: Machine) -> None:
        """Use other figures for sticks, spills and modelled time."""
        self.machine = machine
        for memo in self._memos:
            memo.clear()
        # Read at every kernel, so worked out once.
        self._stick = int(machine.stick_bytes)
        self._scratchpads = machine.cores * machine.scratchpad_bytes
        self._launch_ns = machine.launch_us * 1000
        self._dram_gbps = machine.dram_gbps
        self._pcie_gbps = machine.pcie_gbps
        self._macs_per_ns = machine.macs_per_core_cycle * machine.cores * machine.clock_ghz

    def snapshot(self) -> MeterSnapshot:
        """The totals so far."""
        self.tell()
        return MeterSnapshot(*self._slots[_FIRST:_END].tolist())

    def tell(self) -> None:
        """Have the map know all that was counted, for another process that reads it."""
        with self._lock:
            self._settle()

    def comparing(self) -> Comparing:
        """Count kernels of this region as comparisons only: they say nothing about engagement or cost."""
        return Comparing(self)

    def memo(self) -> Memo:
        """A dict for `Cost`s, emptied when the machine changes."""
        memo = Memo()
        self._memos.add(memo)
        return memo

    def cost(self, inputs: Sequence[Any], outputs: Sequence[Any], macs: int = 0, copied: int = 0) -> Cost:
        """What a kernel over these tensors costs; ``macs``: its multiply-adds, where they dominate the bytes moved;
        ``copied``: bytes it copies within the device."""
        stick = self._stick
        read = written = padding = 0
        for tensor in inputs:
            more, unused = _layout(tensor.shape, tensor.dtype.itemsize, stick)
            read += more
            padding += unused
        for tensor in outputs:
            more, unused = _layout(tensor.shape, tensor.dtype.itemsize, stick)
            written += more
            padding += unused
        moved = (read + written) * stick
        ns = moved / self._dram_gbps
        if macs and macs / self._macs_per_ns > ns:
            ns = macs / self._macs_per_ns
        spills = 1 if moved > self._scratchpads else 0
        amounts = (read * stick, written * stick, read + written, int(self._launch_ns + ns), padding, spills, copied)
        return Cost(_OF_A_KERNEL, amounts)

    def add(self, cost: Cost) -> None:
        """A kernel ran."""
        with self._lock:
            self.add_alone(cost)

    def add_alone(self, cost: Cost) -> None:
        """`add` for a caller who knows that there is no other thread: the lock would cost as much as the counting."""
        if self._comparing:
            self._slots[_COMPARISONS] += 1
            return
        self._slots[_KERNELS] += 1
        if cost.since is not self._since or cost.times == _MOST_TIMES:  # `_owe`, written out
            self._owed_anew(cost)
        cost.times += 1

    def _owe(self, cost: Cost) -> None:
        if cost.since is not self._since or cost.times == _MOST_TIMES:
            self._owed_anew(cost)
        cost.times += 1

    def _owed_anew(self, cost: Cost) -> None:
        if cost.since is self._since or len(self._owed) == _MOST_KINDS:
            self._settle()
        # No call lies between: a signal's handler that raises comes before all of it, or after.
        cost.since = self._since
        cost.times = 0
        self._owed.append(cost)

    def _settle(self) -> None:
        """Tell the map what it was not told yet."""
        slots = self._slots
        totals = array("q", slots[_H2D:_END])  # what is told at once lies before it
        for cost in self._owed:
            for slot, amount in zip(cost.slots, cost.amounts, strict=True):
                totals[slot - _H2D] += cost.times * amount
        since, owed = object(), list[Cost]()
        told = memoryview(totals)
        slots[_H2D:_END] = told  # from here on without a call, as in `_owed_anew`
        self._since, self._owed = since, owed

    def kernel(self, inputs: Sequence[Any], outputs: Sequence[Any], macs: int = 0, copied: int = 0) -> None:
        """A kernel ran over these tensors (see `cost`)."""
        self.add(_NOTHING if self._comparing else self.cost(inputs, outputs, macs, copied))

    def fallback(self) -> None:
        """An operator ran on the CPU."""
        with self._lock:
            if not self._comparing:
                self._slots[_FALLBACKS] += 1

    def refused(self, field: str) -> None:
        """The device refused: ``field`` is ``refused_ops`` or ``refused_dtypes``."""
        with self._lock:
            self._slots[_SLOT[field]] += 1

    def transfer(self, field: str, size: int) -> None:
        """``size`` bytes went ``h2d_bytes`` or ``d2h_bytes``."""
        with self._lock:
            self.transfer_alone(field, size)

    def transfer_alone(self, field: str, size: int) -> None:
        """`transfer` for a caller who knows that there is no other thread."""
        if not self._comparing:
            key = (field, size)
            self._owe(self._transfers.get(key) or self._transfer_of(key))

    def _transfer_of(self, key: tuple[str, int]) -> Cost:
        field, size = key
        return self._transfers.keep(key, Cost((_SLOT[field], _NS), (size, self._transfer_ns(size))))

    def _transfer_ns(self, size: int) -> int:
        return int(self._launch_ns + size / self._pcie_gbps)

    def made(self, cost: Cost, size: int) -> None:
        """A kernel ran, into ``size`` bytes that the device gave out."""
        with self._lock:
            self.add_alone(cost)
            self._owe(self._allocations.get(size) or self._allocation_of(size))

    def sent(self, size: int) -> None:
        """``size`` bytes came from the host, into as many that the device gave out; as `transfer_alone`."""
        if self._comparing:
            self.allocation(size)
        else:
            self._owe(self._sent.get(size) or self._sent_of(size))

    def _sent_of(self, size: int) -> Cost:
        amounts = size, self._transfer_ns(size), 1, size
        return self._sent.keep(size, Cost((_H2D, _NS, _ALLOCS, _ALLOC_BYTES), amounts))

    def allocation(self, size: int) -> None:
        """The device gave out ``size`` bytes."""
        with self._lock:
            self._owe(self._allocations.get(size) or self._allocation_of(size))

    def _allocation_of(self, size: int) -> Cost:
        return self._allocations.keep(size, Cost((_ALLOCS, _ALLOC_BYTES), (1, size)))


def stick_layout(shape: Sequence[int], itemsize: int, stick: int) -> tuple[int, int]:
    """Sticks and padding bytes of a tensor of ``shape``: the last dimension lies in whole sticks, row by row. A scalar
    takes one stick, an empty tensor none."""
    if not shape:
        return 1, stick - itemsize
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    row = shape[-1] * itemsize
    if rows == 0 or row == 0:
        return 0, 0
    per_row = -(-row // stick)
    return rows * per_row, rows * (per_row * stick - row)


_layout = lru_cache(maxsize=4096)(stick_layout)  # a test over thousands of shapes must not grow the process
METER = Meter()
"""The meter of this process's device."""
