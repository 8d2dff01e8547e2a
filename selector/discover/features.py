"""Parts of torch that a test uses, told by the names in its reach and by where it lies: tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from selector.discover.inventory import Inventory
from selector.discover.records import Symbol
from selector.model import TestId

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
CUDA = frozenset({"cuda", "cudnn", "is_cuda", "TEST_CUDA", "TEST_MULTIGPU", "TEST_CUDNN", "CUDAGraph", "HAS_CUDA"})
FOLDERS: tuple[tuple[str, str], ...] = (
    ("test/distributed/", "distributed"),
    ("test/inductor/", "inductor"),
    ("test/dynamo/", "dynamo"),
    ("test/autograd/", "autograd"),
    ("test/quantization/", "quantized"),
    ("test/profiler/", "profiler"),
)


def by_words(words: frozenset[str], literals: frozenset[str]) -> frozenset[str]:
    """The features that names show; ``cuda`` by a name or by a string that names the device (``literals``)."""
    found = {name for name, signs in WORDS.items() if words & signs}
    if words & CUDA or "cuda" in literals:
        found.add("cuda")
    return frozenset(found)


def by_folder(path: str) -> frozenset[str]:
    """The features that all tests of a file have by where it lies."""
    return frozenset(name for prefix, name in FOLDERS if path.startswith(prefix))


class Features:
    """Features of an inventory's tests; those of a symbol are looked at once."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._symbols: dict[int, frozenset[str]] = {}

    def of(self, test: TestId) -> frozenset[str]:
        found: set[str] = set(by_folder(test.file))
        for symbol in self.inventory.symbols(test):
            found |= self._symbol(symbol)
        return frozenset(found)

    def counts(self, tests: Iterable[TestId]) -> dict[str, int]:
        """feature -> how many of the tests have it, in the order of the table; ``none`` for those without any."""
        counted: Counter[str] = Counter()
        for test in tests:
            counted.update(self.of(test) or ("none",))
        return {name: counted[name] for name in (*WORDS, "cuda", "none")}

    def _symbol(self, symbol: Symbol) -> frozenset[str]:
        known = self._symbols.get(id(symbol))
        if known is None:
            words = frozenset((*symbol.refs, *symbol.attrs, *symbol.selfs))
            known = self._symbols[id(symbol)] = by_words(words, frozenset(symbol.literals))
        return known
