"""What a test uses, as triage asks it: the inventory's features, and whether it means a device by a variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selector.discover.features import by_folder, by_words

if TYPE_CHECKING:
    from selector.triage.subject import Subject

_DEVICE = frozenset(
    {"device_type", "accelerator", "privateuse1", "PrivateUse1", "DEVICE_TYPE", "get_devtype"}
    | {"requires_accelerator", "TEST_PRIVATEUSE1", "TEST_ACCELERATOR", "_get_privateuse1_backend_name"}
)
GPU = frozenset({"GPU_TYPE", "GPU_TYPES", "HAS_GPU", "HAS_GPU_AND_TRITON", "requires_gpu", "requires_gpu_and_triton"})
"""Upstream's own GPU types, of which a PrivateUse1 device is none: ``torch._inductor.utils.GPU_TYPES``."""


def features_of(subject: Subject) -> frozenset[str]:
    """``distributed``, ``sparse``, ... and ``cuda`` (CUDA by name), ``gpu`` (one of upstream's own GPU types) and
    ``device`` (some device, by a variable)."""
    found = by_words(subject.words, subject.device_literals) | by_folder(subject.id.file)
    if subject.words & GPU:
        found = found | {"gpu"}
    if subject.words & _DEVICE or subject.device_names & subject.device_literals:
        return found | {"device"}
    return found
