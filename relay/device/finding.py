"""Where torch keeps a tensor's labels (`relay.device.labels`).

That is not torch's promise, so it is looked up on tensors of the device, of the CPU, and on memory of somebody else's:
each word is known by what torch says of the tensor, and has to be the only one that fits. Then it is tried out.
"""

from __future__ import annotations

import _thread
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from relay.device.labels import FOUND, SET, Labels, Loans
from relay.device.words import CPU, WORDS

_SEARCHED = range(1, 32)
"""Words of a tensor that are looked at: all of them, and what lies behind it."""
_OF_A_STORAGE = range(1, 12)
_HALF = 0xFFFF_FFFF


class NoLabels(LookupError):
    """This torch keeps the labels of a tensor elsewhere, or otherwise."""


def _word(start: int, index: int) -> int:
    return int(WORDS[(start >> 3) + index])


def _only(found: Sequence[Any], what: str) -> Any:
    if len(found) != 1:
        raise NoLabels(f"{len(found)} words of a tensor look like its {what}")
    return found[0]


def _device_bits(tensor: torch.Tensor) -> int:
    kinds = torch._C._autograd.DeviceType
    index = -1 if tensor.device.index is None else tensor.device.index
    return int(kinds.CPU if tensor.is_cpu else kinds.PrivateUse1) | (index & 0xFF) << 8


def _keys(tensor: torch.Tensor) -> int:
    return int(torch._C._dispatch_keys(tensor).raw_repr())


def find(make: Callable[[], torch.Tensor]) -> Labels:
    """Where this torch keeps the labels. ``make``: a new float32 tensor of the device of sizes (2, 3), as
    ``torch.empty(2, 3)`` is one of the CPU. NoLabels where it cannot be told for certain."""
    with torch.inference_mode(False):
        both = ours, cpus = make(), torch.empty(2, 3, device=CPU)
    bits = [_device_bits(tensor) for tensor in both]
    keys = _only([i for i in _SEARCHED if all(_word(t._cdata, i) == _keys(t) for t in both)], "keys")
    storages = [t.untyped_storage()._cdata for t in both]
    lies = [i for i in _SEARCHED if [_word(t._cdata, i) for t in both] == storages]
    storage = _only(lies, "storage")
    fields = [
        (i, shift)
        for i in _SEARCHED
        for shift in (0, 16, 32, 48)  # what lies behind the last field of a word is anybody's
        if [_word(t._cdata, i) >> shift & 0xFFFF for t in both] == bits
    ]
    device, shift = _only(fields, "device")
    lies = [i for i in _OF_A_STORAGE if [_word(s, i) & 0xFFFF for s in storages] == bits]
    of_storage = _only(lies, "storage's device")
    before = [_word(storages[1], i) & _HALF for i in _OF_A_STORAGE]
    view = cpus.view(6)
    lies = [i for i, count in zip(_OF_A_STORAGE, before, strict=True) if _word(storages[1], i) & _HALF == count + 1]
    count = _only(lies, "references")
    del view
    addresses = [t.untyped_storage().data_ptr() for t in both]
    data = _only([i for i in _OF_A_STORAGE if [_word(s, i) for s in storages] == addresses], "address")
    context = _only([i for i in _OF_A_STORAGE if i != data and _word(storages[1], i) == addresses[1]], "context")
    sizes = [t.untyped_storage().nbytes() for t in both]
    nbytes = _only([i for i in _OF_A_STORAGE if [_word(s, i) for s in storages] == sizes], "bytes")
    grows = torch.empty(2, 3, device=CPU)
    stays = torch.frombuffer(bytearray(24), dtype=torch.float32)  # memory of somebody else
    owned, foreign = [grows.untyped_storage()._cdata, storages[1]], [stays.untyped_storage()._cdata, storages[0]]
    lies = [
        i
        for i in _OF_A_STORAGE
        if _word(owned[0], i) == _word(owned[1], i) != 0 and not any(_word(s, i) for s in foreign)
    ]
    allocator = _only([i for i in lies if _word(owned[0], i) >> 16], "allocator")
    flags, resizable = _only(
        [
            (i, 1 << bit)
            for i in _OF_A_STORAGE
            for bit in (0, 8, 16, 24)
            if [_word(s, i) & _HALF for s in (*owned, *foreign)] == [1 << bit, 1 << bit, 0, 0]
        ],
        "flags",
    )
    to_cpu = {_keys(ours): _keys(cpus)}
    with torch.inference_mode():
        to_cpu[_keys(make())] = _keys(torch.empty(2, 3, device=CPU))
    plain_hosts = frozenset(to_cpu.values())
    # A kernel that is given a tensor with such a bit heeds it.
    for key in (torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative):
        bit = torch._C.DispatchKeySet(key).raw_repr()
        to_cpu |= {here | bit: there | bit for here, there in to_cpu.items()}
    found = Labels(
        device=4 * device + shift // 16,
        keys=keys,
        storage=storage,
        of_storage=4 * of_storage,
        count=count,
        data=data,
        context=context,
        nbytes=nbytes,
        allocator=allocator,
        flags=flags,
        cpu=bits[1],
        ours=bits[0],
        to_cpu=to_cpu,
        to_device={there: here for here, there in to_cpu.items()},
        plain_hosts=plain_hosts,
        cpus_allocator=_word(owned[0], allocator),
        resizable=resizable,
    )
    with torch.inference_mode(False):
        _try_out(found, ours)
    return found


def _try_out(found: Labels, ours: torch.Tensor) -> None:
    """Lend it, keep one of the CPU's, and see what torch says of them."""

    def said(tensor: torch.Tensor) -> tuple[Any, ...]:
        return tensor.device, tensor.untyped_storage().device, _keys(tensor)

    as_ours, as_cpus = said(ours), said(torch.empty(2, 3, device=CPU))
    loan = Loans(found).find([ours])
    if loan is None:
        raise NoLabels("a tensor of the device does not look like one")
    *_, lend, back = loan
    try:
        SET(lend)
        seen = [said(ours), said(ours.view(6))]
    finally:
        SET(back)
    fresh = torch.empty(2, 3, device=CPU)  # a storage that Python has seen has one more that refers to it
    kept = found.keep(fresh) and said(fresh) == as_ours
    found.let_grow(ours)
    if not (seen == [as_cpus, as_cpus] and kept and said(ours) == as_ours and ours.untyped_storage().resizable()):
        raise NoLabels("tensors do not take labels")


def install(make: Callable[[], torch.Tensor]) -> None:
    """`find` them for this process, if this torch has them, and have it known when nothing may be lent."""
    try:
        FOUND.labels = find(make)
    except NoLabels as missing:
        warnings.warn(f"the device is slower with this torch: {missing}", RuntimeWarning, stacklevel=2)
        return
    os.register_at_fork(after_in_child=FOUND.forked)
    set_threads, start = torch._C._set_multithreading_enabled, _thread.start_new_thread

    @functools.wraps(set_threads)
    def set_multithreading_enabled(on: bool) -> None:
        FOUND.threads_of_autograd(on)
        set_threads(on)

    @functools.wraps(start)
    def start_new_thread(*args: Any, **kwargs: Any) -> int:  # `threading` has another name for it, and waits
        FOUND.no_more()
        return start(*args, **kwargs)

    torch._C._set_multithreading_enabled = set_multithreading_enabled
    _thread.start_new_thread = start_new_thread
