"""The labels of a tensor, where torch keeps them: its device and its dispatch keys, and the device of its storage.

Whoever runs the CPU's kernel over a tensor of the device has to show it as one of the CPU's. An alias through DLPack
costs an object, a storage and two trips into torch. Writing the CPU's labels over the device's for as long as the
kernel runs (the tensor is *lent*) costs a third of that, and the kernel sees the very tensor: its storage, its
overlaps, its growth. What comes out of it is labelled once, and stays where it lies.

Where the words are is found out when the device is installed (`relay.device.finding`). With a torch that keeps them
otherwise there are none, and every operator takes the long way.

A lent tensor is the CPU's to everybody who looks, and nobody does: a kernel calls no Python, and while there is another
thread of Python's (`others`) nothing is lent.
"""

from __future__ import annotations

from _thread import _count as others  # every thread of Python's but the first
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from operator import setitem
from typing import Any

import torch

from relay.device.shortage import raise_if_out_of_memory
from relay.device.words import CPU_KEYS, SHORTS, WORDS

__all__ = ["FOUND", "NOT_LENT", "SET", "Labels", "Loans", "both_lent", "lent", "others"]

_HALF = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Labels:
    """Where in `SHORTS`, counted from a tensor's (``_cdata >> 1``): ``device``; from its storage's: ``of_storage``, the
    same. What lies beside them is not ours, and kernels write to it: of a tensor whether it is contiguous, for one.

    Where in `WORDS`, counted from a tensor's (``_cdata >> 3``): ``keys``, ``storage``; from its storage's: ``count``
    (references to it, in the lowest 32 bits), ``data`` (where its bytes are), ``context`` (what frees them),
    ``nbytes``, ``allocator``, ``flags``.

    ``cpu`` and ``ours`` are a device as it is written there. ``to_cpu``, ``to_device``: the keys of a strided tensor of
    one, as those of the other. ``plain_hosts``: those of the CPU's without a bit that kernels heed (conj, neg).
    ``cpus_allocator`` and ``resizable`` (a bit of ``flags``): what memory has that torch's kernels may make larger.
    """

    device: int
    keys: int
    storage: int
    of_storage: int
    count: int
    data: int
    context: int
    nbytes: int
    allocator: int
    flags: int
    cpu: int
    ours: int
    to_cpu: dict[int, int]
    to_device: dict[int, int]
    plain_hosts: frozenset[int]
    cpus_allocator: int
    resizable: int

    def keep(self, result: torch.Tensor) -> bool:
        """Make a new tensor of the CPU one of the device, where it lies. False, and nothing done, if it is not a plain
        strided one, or something else lies in its memory."""
        at = result._cdata >> 3
        keys = self.to_device.get(WORDS[at + self.keys])
        storage = WORDS[at + self.storage] >> 3
        if keys is None or WORDS[storage + self.count] & _HALF != 1:
            return False
        WORDS[at + self.keys] = keys
        SHORTS[(at << 2) + self.device] = self.ours
        SHORTS[(storage << 2) + self.of_storage] = self.ours
        return True

    def mark(self, tensor: torch.Tensor) -> None:
        """Say again that the storage of a tensor of the device is the device's: torch makes copies on the CPU."""
        SHORTS[(WORDS[(tensor._cdata >> 3) + self.storage] >> 1) + self.of_storage] = self.ours

    def let_grow(self, tensor: torch.Tensor) -> None:
        """Let torch's kernels give the tensor's storage other memory, as they do on the CPU."""
        storage = WORDS[(tensor._cdata >> 3) + self.storage] >> 3
        WORDS[storage + self.allocator] = self.cpus_allocator
        WORDS[storage + self.flags] |= self.resizable


SET = deque[Any](maxlen=0).extend
"""Runs a map to its end. One call into C: a signal whose handler raises comes before it or after it, and not
between two words of a tensor."""


_Row = tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]
Lent = tuple[list[torch.Tensor], tuple[Any, ...], Iterable[None], Iterable[None]]
"""Tensors; their sizes and dtypes, one after the other; what lends them, and what gives them back, each to be given to
`SET` once."""


class Loans:
    """Lends the tensors of a call, as many as there are::

        tensors, sizes, lend, back = found
        try:
            SET(lend)
            ...
        finally:
            SET(back)

    A storage is lent with its tensor, for a view takes its device from there; and if a kernel gave it other memory,
    that is the device's again afterwards.
    """

    TENSORS, KINDS = 16, 64
    """What is written where is remembered of so many tensors at most, and so many kinds of calls."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._rows: dict[tuple[int, ...], _Row] = {}

    def find(self, values: Iterable[Any]) -> Lent | None:
        """The tensors among arguments, and in lists. None if there is none, or one that cannot be lent: it is not a
        plain strided one of the device. A number of the host, as a tensor, may come along with one of the device."""
        labels = self._labels
        at_device, at_keys, to_cpu = labels.device, labels.keys, labels.to_cpu
        at_storage, of_storage = labels.storage, labels.of_storage
        tensors: list[torch.Tensor] = []
        sizes: list[Any] = []
        places: list[int] = []
        kinds: list[int] = []
        for value in values:
            for tensor in value if type(value) is list else (value,):
                if not isinstance(tensor, torch.Tensor):
                    continue
                at = tensor._cdata >> 3
                keys = at + at_keys
                whose = WORDS[keys]
                if whose not in to_cpu:
                    if tensors and tensor.is_cpu and not tensor.dim():
                        continue
                    return None
                kinds.append(whose)
                places += ((at << 2) + at_device, keys, (WORDS[at + at_storage] >> 1) + of_storage)
                tensors.append(tensor)
                sizes += (tensor.shape, tensor.dtype)
        if not tensors:
            return None
        key = tuple(kinds)
        arrays, lent, back = self._rows.get(key) or self._row(key)
        return tensors, tuple(sizes), map(setitem, arrays, places, lent), map(setitem, arrays, places, back)

    def _row(self, kinds: tuple[int, ...]) -> _Row:
        """For tensors with these keys: the arrays that their places are in, what is to be written there to lend them,
        and what to give them back."""
        labels = self._labels
        lent = [(labels.cpu, labels.to_cpu[keys], labels.cpu) for keys in kinds]
        back = [(labels.ours, keys, labels.ours) for keys in kinds]
        made = (SHORTS, WORDS, SHORTS) * len(kinds), tuple(chain(*lent)), tuple(chain(*back))
        if len(kinds) <= self.TENSORS and len(self._rows) < self.KINDS:
            self._rows[kinds] = made
        return made


NOT_LENT = object()
"""See `lent`."""


def lent(labels: Labels | None, kernel: Callable[..., Any], first: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    """What a kernel of the CPU's (``redispatch_boxed``) makes of ``first``; `NOT_LENT`, without a call, if that is none
    that can be lent, or there are other threads."""
    if labels is None or others() > FOUND.bystanders:
        return NOT_LENT
    at = first._cdata >> 3
    keys = at + labels.keys
    whose = WORDS[keys]
    cpus = labels.to_cpu.get(whose)
    if cpus is None:
        return NOT_LENT
    device = (at << 2) + labels.device
    storage = (WORDS[at + labels.storage] >> 1) + labels.of_storage
    try:
        SHORTS[device] = labels.cpu
        WORDS[keys] = cpus
        SHORTS[storage] = labels.cpu
        return kernel(CPU_KEYS, first, *rest, **kwargs)
    except RuntimeError as error:
        raise_if_out_of_memory(error)
        raise
    finally:
        SHORTS[device] = labels.ours
        WORDS[keys] = whose
        SHORTS[storage] = labels.ours


def both_lent(
    labels: Labels, one: torch.Tensor, other: torch.Tensor, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """What the function gives while both are lent; one of them may be the host's. `NOT_LENT`, without a call, if that
    cannot be, or there are other threads."""
    if others() > FOUND.bystanders:
        return NOT_LENT
    of_storage, cpu, ours = labels.of_storage, labels.cpu, labels.ours
    at = one._cdata >> 3
    device = (at << 2) + labels.device
    keys = at + labels.keys
    whose = WORDS[keys]
    cpus = labels.to_cpu.get(whose)
    storage = (WORDS[at + labels.storage] >> 1) + of_storage
    at = other._cdata >> 3
    device_2 = (at << 2) + labels.device
    keys_2 = at + labels.keys
    whose_2 = WORDS[keys_2]
    cpus_2 = labels.to_cpu.get(whose_2)
    storage_2 = (WORDS[at + labels.storage] >> 1) + of_storage
    if cpus is None:
        if cpus_2 is None or not one.is_cpu:
            return NOT_LENT
        device, keys, storage, whose, cpus = device_2, keys_2, storage_2, whose_2, cpus_2
    elif cpus_2 is None:
        if not other.is_cpu:
            return NOT_LENT
        device_2, keys_2, storage_2, whose_2, cpus_2 = device, keys, storage, whose, cpus
    try:
        SHORTS[device] = cpu
        WORDS[keys] = cpus
        SHORTS[storage] = cpu
        SHORTS[device_2] = cpu
        WORDS[keys_2] = cpus_2
        SHORTS[storage_2] = cpu
        return function(*args, **kwargs)
    finally:
        SHORTS[device] = ours
        WORDS[keys] = whose
        SHORTS[storage] = ours
        SHORTS[device_2] = ours
        WORDS[keys_2] = whose_2
        SHORTS[storage_2] = ours


class _Found:
    """What `relay.device.finding.install` found. ``bystanders``: threads of Python's, beside the first, that never
    touch a tensor; below 0 nothing is lent."""

    __slots__ = ("_before", "_never", "bystanders", "labels")

    def __init__(self) -> None:
        self.labels: Labels | None = None
        self.bystanders = 0
        self._before = 0
        self._never = False

    def forked(self) -> None:
        """Of the threads that the parent had, none is in a child, where Python goes on counting them."""
        if self.bystanders >= 0:
            self.bystanders = others()

    def threads_of_autograd(self, on: bool) -> None:
        """Whether backward runs in threads of torch's own, which Python does not count."""
        if on and self.bystanders >= 0:
            self._before, self.bystanders = self.bystanders, -1
        elif not (on or self._never) and self.bystanders < 0:
            self.bystanders = self._before

    def no_more(self) -> None:
        """Lend nothing from now on: there may be a thread that Python counts only when it begins to run."""
        self._never, self.bystanders = True, -1


FOUND = _Found()
