"""DLPack: how tensors of the device and of the CPU become each other, without a copy.

torch maps DLPack's device type 12 (kDLExtDev) to PrivateUse1. A capsule's header is plain memory, so a CPU tensor
becomes one of the device, and back, by exporting it to a capsule, writing over the device type in the header, and
importing it again. torch's own deleter keeps the other tensor alive: one in Python would be called while an exception
is in flight and after the interpreter is gone, and die with "SystemError: error return without exception set" or worse.
"""

from __future__ import annotations

import ctypes
import sys

import torch

from relay.device.words import CPU, WORDS

DL_CPU, DL_EXT = 1, 12
"""A capsule's device as one word: the type, and above it the number 0."""
DL_DTYPES = frozenset(
    [
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.complex32,
        torch.complex64,
        torch.complex128,
        torch.bool,
    ]
)
"""What goes through; the codes of float8 and of bit types differ by version."""
EXPORT = torch._C._to_dlpack
IMPORT = torch._C._from_dlpack
_NAME = b"dltensor"
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_CAPSULE = object.__basicsize__
"""Where a capsule keeps its pointer, from its ``id``. CPython asks for a call that takes as long as all the rest."""


def _capsules_are_as_thought() -> bool:
    capsule = EXPORT(torch.empty(0, device=CPU))
    return bool(
        sys.implementation.name == "cpython" and WORDS[(id(capsule) + _CAPSULE) >> 3] == _pointer(capsule, _NAME)
    )


_SEES_CAPSULES = _capsules_are_as_thought()


def device_word(capsule: object) -> int:
    """Where the device of a capsule's header lies, as an index of `WORDS`."""
    if _SEES_CAPSULES:
        return (WORDS[(id(capsule) + _CAPSULE) >> 3] + 8) >> 3
    return int(_pointer(capsule, _NAME) + 8) >> 3


def flip(tensor: torch.Tensor, device_type: int) -> torch.Tensor:
    """The same memory on the other device: `DL_CPU` or `DL_EXT`. Neither conj nor neg bit goes over."""
    capsule = EXPORT(tensor)
    WORDS[device_word(capsule)] = device_type
    return IMPORT(capsule)
