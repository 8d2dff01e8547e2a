"""Memory of the device: real PrivateUse1 tensors over host memory.

Fresh memory is torch's own, labelled as the device's (`relay.device.labels`) and aligned to a stick, 128 bytes; results
of kernels are as torch's CPU allocator aligns (64 bytes). With a torch whose labels are not known all of it goes
through DLPack, and is as that aligns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import torch

from relay.device.dlpack import DL_CPU, DL_DTYPES, DL_EXT, EXPORT, IMPORT, device_word, flip
from relay.device.errors import UnsupportedLayout
from relay.device.labels import FOUND, Labels
from relay.device.meter import METER
from relay.device.policy import CURRENT
from relay.device.shortage import DeviceOutOfMemory, raise_if_out_of_memory
from relay.device.words import BYTES, CPU, CPU_KEYS, SHORTS, WORDS

NAME = "spyre"
STICK = 128
_libc = ctypes.CDLL(None)
_free = _libc.free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None
_aligned_alloc = _libc.aligned_alloc
_aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_aligned_alloc.restype = ctypes.c_void_p
_profiling = torch._C._autograd._profiler_enabled
_typed_empty = torch._C._acc.create_empty_tensor
_storage_at = torch._C._construct_storage_from_data_pointer
_below_autograd = torch._C._AutoDispatchBelowAutograd
_set = torch.ops.aten.set_.source_Storage_storage_offset._handle.redispatch_boxed
_as_strided = torch.ops.aten.as_strided.default._handle.redispatch_boxed

STRIDED = (None, torch.strided)
"""What a call may say of the layout."""
MOST = 2**63 - 1
"""The largest size, stride or number of bytes that torch knows."""


def allocate(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised device tensor, aligned to a stick: memory of torch's, which torch can make larger and share."""
    try:
        made = torch.empty_strided(size, stride, dtype=dtype, device=CPU)
    except (RuntimeError, TypeError):
        refuse_size(size, stride, dtype)
        raise
    labels = FOUND.labels
    if labels is None:
        METER.allocation(made.untyped_storage().nbytes())
        return flip(made, DL_EXT)
    return owned(labels, made, filled=False)


def owned(labels: Labels, made: torch.Tensor, filled: bool) -> torch.Tensor:
    """`place`, counted as given out; what is not plain (under somebody's transform) comes through DLPack."""
    if WORDS[(made._cdata >> 3) + labels.keys] not in labels.to_device:
        return flip(made, DL_EXT)
    METER.allocation(place(labels, made, filled))
    return made


def place(labels: Labels, made: torch.Tensor, filled: bool) -> int:
    """Make a new plain tensor of the CPU, which nobody else has seen, one of the device: aligned, with its elements if
    it is ``filled``. Returns the bytes of its storage."""
    at = made._cdata >> 3
    ours = labels.to_device[WORDS[at + labels.keys]]
    storage = WORDS[at + labels.storage] >> 3
    address = WORDS[storage + labels.data]
    nbytes: int = WORDS[storage + labels.nbytes]
    # Torch's is aligned to half a stick, by the same C library, and goes back to it. Its profiler knows it by address.
    if address % STICK and not _profiling():
        block = _aligned_alloc(STICK, -(-nbytes // STICK) * STICK)
        if not block:
            raise DeviceOutOfMemory(nbytes, CURRENT.policy.memory_bytes)
        if filled:
            BYTES[block : block + nbytes] = BYTES[address : address + nbytes]
        WORDS[storage + labels.data] = WORDS[storage + labels.context] = block
        _free(address)
    WORDS[at + labels.keys] = ours  # as `Labels.keep`, of what nobody else has seen
    SHORTS[(at << 2) + labels.device] = labels.ours
    SHORTS[(storage << 2) + labels.of_storage] = labels.ours
    return nbytes


def refuse_size(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> None:
    """Raise what torch says of a tensor whose bytes no number can tell (strides below 0 count as very large ones): it
    finds out before it asks for them."""
    try:
        if all(step <= MOST for step in stride):
            torch.empty_strided(size, stride, dtype=dtype, device=CPU)
        else:
            torch.empty(size, dtype=dtype, device=CPU)
    except RuntimeError as error:
        raise_if_out_of_memory(error)
        raise


def allocate_bytes(nbytes: int) -> torch.Tensor:
    """A one-dimensional uint8 device tensor of ``nbytes``."""
    return allocate((nbytes,), (1,), torch.uint8)


@lru_cache(maxsize=4096)
def span(size: Sequence[int], stride: Sequence[int]) -> int:
    """Elements between the first and the last one, both included; 0 for an empty tensor."""
    reach = 1
    for extent, step in zip(size, stride, strict=True):
        if extent == 0:
            return 0
        reach += (extent - 1) * step
    return reach


@lru_cache(maxsize=4096)
def contiguous_strides(size: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides; extents of 0 count as 1, as torch does."""
    strides, step = [], 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def new_tensor(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised device tensor. `UnsupportedDtype` and `OutOfMemory` under the policy in force."""
    policy = CURRENT.policy
    if policy.dtypes is not None:
        policy.check_dtype(dtype)
    if policy.memory_bytes is not None:
        nbytes = span(size, stride) * dtype.itemsize
        if nbytes > policy.memory_bytes:
            if nbytes > MOST:
                refuse_size(size, stride, dtype)
            raise DeviceOutOfMemory(nbytes, policy.memory_bytes)
    if dtype in DL_DTYPES or FOUND.labels is not None:
        return allocate(size, stride, dtype)
    nbytes = span(size, stride) * dtype.itemsize
    if not 0 <= nbytes <= MOST:
        refuse_size(size, stride, dtype)
    storage = allocate_bytes(nbytes).untyped_storage()
    return set_memory(_typed_empty((0,), dtype), storage, 0, size, stride)


def set_memory(
    tensor: torch.Tensor, storage: torch.UntypedStorage, offset: int, size: Sequence[int], stride: Sequence[int]
) -> torch.Tensor:
    """Point a device tensor at other memory: metadata only, which torch's CPU kernel does for any device."""
    with _below_autograd():
        return _set(CPU_KEYS, tensor, storage, offset, size, stride)


def empty_like_dtype(dtype: torch.dtype) -> torch.Tensor:
    """A device tensor of no elements and no memory."""
    return _typed_empty((0,), dtype)


def copy_bytes(source: torch.Tensor | int, target: torch.Tensor, nbytes: int) -> None:
    """Copy bytes as they lie there to where a tensor's elements begin; ``source``: a tensor, or an address."""
    if nbytes:
        start = source if isinstance(source, int) else source.data_ptr()
        at = target.data_ptr()
        BYTES[at : at + nbytes] = BYTES[start : start + nbytes]


def lies_in_bytes(tensor: torch.Tensor) -> bool:
    """Whether the elements are the bytes from `data_ptr` on, in order and with nothing between."""
    return (
        tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )


def same_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of two tensors in one memory: whether each element of one is the same of the other, and not another of its."""
    return (
        one.data_ptr() == other.data_ptr()
        and one.dtype is other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.is_conj() == other.is_conj()
        and one.is_neg() == other.is_neg()
    )


WITHOUT_A_WILL = (torch.Tensor, torch.nn.Parameter)
"""Classes whose attributes are the tensor's own."""


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without a class of somebody's, whose attributes say what they like: a lazy parameter has no shape."""
    if type(tensor) in WITHOUT_A_WILL:
        return tensor
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def is_device(tensor: torch.Tensor) -> bool:
    """Whether the tensor lives on the emulated device."""
    return not tensor.is_cpu and tensor.device.type == NAME


def device_alias(tensor: torch.Tensor) -> torch.Tensor | None:
    """`cpu_alias` of a strided tensor, or None if it is not on this device, or not one that DLPack can describe (it is
    sparse, quantised, on meta)."""
    if tensor.dtype not in DL_DTYPES or tensor.is_neg() or tensor.is_conj():
        return cpu_alias(tensor) if is_device(tensor) and tensor.layout is torch.strided else None
    try:
        capsule = EXPORT(tensor)
    except (BufferError, RuntimeError):
        return None
    device = device_word(capsule)
    if WORDS[device] != DL_EXT:
        return None
    WORDS[device] = DL_CPU
    if FOUND.labels is not None:
        FOUND.labels.mark(tensor)  # of a copy-on-write clone that was a write
    return IMPORT(capsule)


def refuse_layout(tensor: torch.Tensor, op: str) -> None:
    """Raise `UnsupportedLayout`, naming the key the dispatcher would have looked up."""
    if tensor.is_quantized:
        prefix = "Quantized"
    else:
        layout = str(tensor.layout).removeprefix("torch.")
        prefix = {"sparse_coo": "Sparse", "_mkldnn": "Mkldnn", "jagged": "NestedTensor"}.get(layout, "SparseCsr")
    raise UnsupportedLayout(op, prefix + NAME)


def cpu_alias(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the same memory: same sizes, strides and conj/neg bits, storage offset 0. It owns a reference.

    The tensor must be strided (`refuse_layout` first).
    """
    if tensor.dtype in DL_DTYPES:
        alias = flip(tensor, DL_CPU)
        if FOUND.labels is not None:
            FOUND.labels.mark(tensor)
    else:
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        alias = torch.empty(0, dtype=tensor.dtype)
        with _below_autograd():
            memory = _storage_at(storage.data_ptr(), CPU, nbytes)
            alias.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())
        alias.__dict__["_spyre_memory"] = tensor  # this way of aliasing owns nothing by itself
    if tensor.is_conj():
        alias = torch._conj(alias)
    if tensor.is_neg():
        alias = torch._neg_view(alias)
    return alias


def shared(tensors: Sequence[torch.Tensor]) -> frozenset[int]:
    """The storages (torch's own numbers of them) that more than one of these strided device tensors lies in."""
    seen: set[int] = set()
    twice: set[int] = set()
    for tensor in tensors:
        number = tensor.untyped_storage()._cdata
        (twice if number in seen else seen).add(number)
    return frozenset(twice)


def alias_within(memory: torch.UntypedStorage, tensor: torch.Tensor) -> torch.Tensor:
    """A `cpu_alias` that lies in ``memory``, the `host_view` of the tensor's storage, as others may: kernels find
    overlaps by the storage. It owns nothing: keep the tensor."""
    alias = torch.empty(0, dtype=tensor.dtype)
    with _below_autograd():
        alias.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        alias = torch._conj(alias)
    return torch._neg_view(alias) if tensor.is_neg() else alias


def host_view(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A CPU storage over the memory of a device's, valid while that lives."""
    return _storage_at(storage.data_ptr(), CPU, storage.nbytes())


def check_result(result: torch.Tensor) -> None:
    """Raise what the policy in force has against such a result of a kernel: `UnsupportedDtype`, `OutOfMemory`."""
    policy = CURRENT.policy
    if policy.dtypes is not None:
        policy.check_dtype(result.dtype)
    if policy.memory_bytes is not None and result.layout is torch.strided and result.nbytes > policy.memory_bytes:
        raise DeviceOutOfMemory(result.nbytes, policy.memory_bytes)


def adopt(result: torch.Tensor) -> torch.Tensor:
    """A device tensor over the memory of a strided CPU result, no copy. Raises as `check_result`."""
    dtype = result.dtype
    check_result(result)
    if dtype not in DL_DTYPES:
        out = new_tensor(result.size(), result.stride(), dtype)
        nbytes = span(result.size(), result.stride()) * dtype.itemsize
        if nbytes:
            ctypes.memmove(out.data_ptr(), result.data_ptr(), nbytes)
        return out
    conj, neg = result.is_conj(), result.is_neg()  # DLPack carries no such bit: the bytes go over, then the bit again
    out = flip(result, DL_EXT)
    if conj:
        out = torch._conj(out)
    return torch._neg_view(out) if neg else out


def kept(result: torch.Tensor) -> torch.Tensor:
    """As `adopt`, of a result that nobody else has: where it lies, if it can be."""
    labels = FOUND.labels
    if labels is None or not labels.keep(result):
        return adopt(result)
    check_result(result)
    return result


def view_like(base: torch.Tensor, alias_of_base: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """The device view of ``base`` that ``view`` is of ``alias_of_base`` (a `cpu_alias`: its offset counts from 0)."""
    offset = (
        base.storage_offset() * base.element_size() + view.data_ptr() - alias_of_base.data_ptr()
    ) // view.element_size()
    if view.numel() == 0:
        offset = base.storage_offset()
    if view.dtype == base.dtype:
        out = _as_strided(CPU_KEYS, base, view.size(), view.stride(), offset)
    else:
        out = set_memory(empty_like_dtype(view.dtype), base.untyped_storage(), offset, view.size(), view.stride())
    if view.is_conj() != base.is_conj():
        out = torch._conj(out)
    return torch._neg_view(out) if view.is_neg() != base.is_neg() else out
