"""What a test is about, by its names and by what it uses: a table, asked in order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selector.discover.records import UNKNOWN
from selector.triage.subject import Category

if TYPE_CHECKING:
    from selector.triage.subject import Subject

_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")

# category -> words of the file's path, and of the class's and the method's name
NAMED: tuple[tuple[Category, frozenset[str], frozenset[str]], ...] = (
    (Category.DISTRIBUTED, frozenset({"distributed"}), frozenset({"distributed", "fsdp", "ddp", "dtensor"})),
    (
        Category.QUANTISED,
        frozenset({"quantization", "quantized", "ao"}),
        frozenset({"quantize", "quantized", "quantization", "qat", "quint8", "qint8", "woq"}),
    ),
    (Category.SPARSE, frozenset({"sparse"}), frozenset({"sparse", "coo", "csr", "csc", "bsr"})),
    (Category.PROFILER, frozenset({"profiler"}), frozenset({"profiler", "kineto", "profile"})),
    (
        Category.COMPILE,
        frozenset({"inductor", "dynamo", "export", "fx", "jit", "aot", "compile", "functorch", "onnx"}),
        frozenset({"compile", "compiled", "inductor", "dynamo", "script", "jit", "fake", "trace"}),
    ),
    (
        Category.SERIALIZATION,
        frozenset({"serialization"}),
        frozenset({"serialization", "save", "load", "pickle", "dict", "storage", "deepcopy", "dlpack", "file"}),
    ),
    (Category.COMPLEX, frozenset({"complex"}), frozenset({"complex", "conj", "imag", "polar", "chalf"})),
    (
        Category.RANDOM,
        frozenset({"random", "distributions"}),
        frozenset({"random", "rand", "randn", "randint", "randperm", "normal", "bernoulli", "dropout", "seed", "rng"}),
    ),
    (
        Category.INDEXING,
        frozenset({"indexing", "scatter", "gather"}),
        frozenset({"index", "indexing", "scatter", "gather", "take", "nonzero", "slice", "getitem", "setitem"}),
    ),
    (
        Category.AUTOGRAD,
        frozenset({"autograd", "ops_gradients"}),
        frozenset({"autograd", "grad", "gradient", "gradients", "backward", "gradcheck", "vjp", "jvp", "ad"}),
    ),
    (Category.CREATION, frozenset({"creation"}), frozenset({"arange", "linspace", "logspace", "empty", "full", "eye"})),
    (
        Category.VIEWS,
        frozenset({"view", "shape", "layout"}),
        frozenset(
            {"view", "views", "reshape", "permute", "transpose", "stride", "strided", "expand", "flatten", "unfold"}
            | {"squeeze", "unsqueeze", "broadcast", "contiguous", "noncontiguous", "nhwc", "channels", "split", "chunk"}
        ),
    ),
    (
        Category.MEMORY,
        frozenset({"memory", "allocator"}),
        frozenset({"memory", "alloc", "allocation", "allocator", "oom", "pin", "pinned", "leak"}),
    ),
    (Category.MODULES, frozenset({"nn", "modules", "optim"}), frozenset({"module", "modules", "hook", "hooks"})),
    (
        Category.INFRASTRUCTURE,
        frozenset({"testing", "bindings", "doc", "docs", "tools", "lint", "typing", "license", "namespace", "utils"}),
        frozenset({"coverage", "decorators", "parametrization", "docs", "opinfo", "bindings"}),
    ),
)
_COMPUTES = frozenset(
    {"ones", "zeros", "rand", "randn", "randint", "tensor", "make_tensor", "full", "empty", "arange", "Tensor", "op"}
    | {"sample_inputs", "backward", "forward", "assertEqual", "compile", "as_tensor", "from_numpy"}
)


def topic_of(subject: Subject) -> Category:
    """The category by the test's own words first, then by its file's; of what computes and has none, op correctness."""
    test = subject.test
    use = test.ops or test.modules
    dtypes = test.dtypes if use is None else use.dtypes
    if dtypes and UNKNOWN not in dtypes and all(name.startswith("complex") for name in dtypes):
        return Category.COMPLEX
    file = _words(subject.id.file.removeprefix("test/").removesuffix(".py"))
    own = _words(subject.id.method) | _words(subject.id.cls)
    # what a whole folder or file is about weighs more than a word of a method's name
    for category, paths, _ in NAMED:
        if file & paths:
            return category
    for category, _, names in NAMED:
        if own & names:
            return category
    if test.modules is not None:
        return Category.MODULES
    if test.ops is not None or subject.words & _COMPUTES:
        return Category.OP_CORRECTNESS
    return Category.FRONT_END


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _SPLIT.split(name) if word)
