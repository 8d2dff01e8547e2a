"""Parts of torch that a test uses, told by the names in its reach: a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selector.triage.subject import Subject

# feature -> names of which any one shows it
WORDS: dict[str, frozenset[str]] = {
    name: frozenset(signs)
    for name, signs in {
        "distributed": ("distributed", "dist", "c10d", "ProcessGroup", "FSDP", "DTensor", "DistributedDataParallel"),
        "inductor": ("_inductor", "inductor", "run_and_get_code", "GPU_TYPE"),
        "dynamo": ("_dynamo", "torchdynamo", "compile"),
        "autograd": ("gradcheck", "gradgradcheck", "backward", "autograd", "requires_grad", "requires_grad_"),
        "sparse": ("sparse_coo_tensor", "sparse_csr_tensor", "to_sparse", "sparse_csr", "sparse_coo", "is_sparse"),
        "quantized": ("quantize_per_tensor", "quantize_per_channel", "quantized", "quint8", "qint8", "dequantize"),
        "profiler": ("profiler", "profile", "record_function", "kineto"),
        "pin_memory": ("pin_memory", "is_pinned"),
        "streams": ("Stream", "Event", "current_stream"),
    }.items()
}
_CUDA = frozenset({"cuda", "cudnn", "is_cuda", "TEST_CUDA", "TEST_MULTIGPU", "TEST_CUDNN", "CUDAGraph", "HAS_CUDA"})
_DEVICE = frozenset(
    {"GPU_TYPE", "HAS_GPU", "device_type", "accelerator", "privateuse1", "PrivateUse1", "DEVICE_TYPE", "get_devtype"}
    | {"requires_gpu", "requires_accelerator", "TEST_PRIVATEUSE1", "TEST_ACCELERATOR", "_get_privateuse1_backend_name"}
)


def features_of(subject: Subject) -> frozenset[str]:
    """``distributed``, ``sparse``, ... and ``cuda`` (CUDA by name) and ``device`` (some device, by a variable)."""
    words = subject.words
    found = {name for name, signs in WORDS.items() if words & signs}
    if words & _CUDA or "cuda" in subject.device_literals:
        found.add("cuda")
    if words & _DEVICE or subject.device_names & subject.device_literals:
        found.add("device")
    return frozenset(found)
