"""What a changed path is, by its name: a table, first match wins."""

from __future__ import annotations

import re
from enum import StrEnum


class FileKind(StrEnum):
    """The word for a changed path; what follows from each is in docs/discover.md."""

    TEST = "test"
    TEST_DATA = "test-data"
    TESTLIB = "testlib"
    REFERENCE = "reference"
    DECOMPOSITION = "decomposition"
    TORCH = "torch"
    NATIVE_YAML = "native-yaml"
    KERNEL = "kernel"
    OTHER_KERNEL = "other-kernel"
    NATIVE_CODE = "native-code"
    CODEGEN = "codegen"
    DOCS = "docs"
    TOOLING = "tooling"
    OTHER = "other"


_NATIVE = r"aten/src/ATen/native/"
_CODE = r"\.(c|cc|cpp|cu|cuh|h|hpp|mm|metal|inl)$"

_TABLE: tuple[tuple[str, FileKind], ...] = (
    (r"^docs/|\.(md|rst)$|(^|/)(LICENSE|NOTICE|CODEOWNERS|CITATION\.cff|AUTHORS)[^/]*(?<!\.py)$", FileKind.DOCS),
    (
        r"^\.(github|circleci|ci|vscode|devcontainer|jenkins|clang-[a-z]+|flake8|git[a-z]+|lintrunner[^/]*)(/|$)"
        r"|^(benchmarks|scripts|android|ios|mypy[^/]*\.ini|tools/(linter|stats|testing|lldb|gdb))(/|$)",
        FileKind.TOOLING,
    ),
    (r"^test/.*\.py$", FileKind.TEST),
    (r"^test/", FileKind.TEST_DATA),
    (r"^torch/(testing/.*|.*/test_case|.*/testing)\.py$", FileKind.TESTLIB),
    (r"^torch/_refs/.*\.py$", FileKind.REFERENCE),
    (r"^torch/_decomp/.*\.py$", FileKind.DECOMPOSITION),
    (r"^torch/.*\.py$|^functorch/(__init__|(_src|compile|dim|einops|experimental)/.*)\.py$", FileKind.TORCH),
    (rf"^{_NATIVE}native_functions\.yaml$|^tools/autograd/derivatives\.yaml$", FileKind.NATIVE_YAML),
    (
        rf"^{_NATIVE}([a-z/]*/)?(cuda|cudnn|hip|miopen|mps|xpu|metal|vulkan|mkldnn/xpu|hexagon)/.*{_CODE}"
        rf"|^aten/src/ATen/(cuda|cudnn|hip|miopen|mps|xpu|metal|vulkan)/.*{_CODE}|^(c10|torch/csrc)/(cuda|xpu)/.*{_CODE}",
        FileKind.OTHER_KERNEL,
    ),
    (rf"^{_NATIVE}.*{_CODE}", FileKind.KERNEL),
    (r"^(torchgen|tools/(autograd|codegen|pyi|setup_helpers)|aten/src/ATen/templates)/", FileKind.CODEGEN),
    (rf"^(c10|aten/src/ATen|torch/csrc)/.*{_CODE}", FileKind.NATIVE_CODE),
)
_COMPILED = tuple((re.compile(pattern), kind) for pattern, kind in _TABLE)

_BUILT = re.compile(r"^(third_party|cmake|caffe2)/|(^|/)(CMakeLists\.txt|BUILD(\.bazel|\.bzl)?|WORKSPACE|build\.bzl)$"
                    r"|^(c10|aten|torch/csrc)/")  # fmt: skip
_BACKEND = re.compile(r"/(cuda|cudnn|hip|miopen|mps|xpu|metal|vulkan|hexagon)/")
_FAMILY = {"cudnn": "cuda", "hip": "cuda", "miopen": "cuda", "metal": "mps"}

# Parts of torch whose tests lie in folders or files of their own.
AREAS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("torch/_inductor/", ("test/inductor/",)),
    ("torch/_dynamo/", ("test/dynamo/",)),
    ("torch/distributed/", ("test/distributed/",)),
    ("torch/_functorch/", ("test/functorch/",)),
    ("torch/func/", ("test/functorch/",)),
    ("functorch/", ("test/functorch/",)),
    ("torch/export/", ("test/export/",)),
    ("torch/_export/", ("test/export/",)),
    ("torch/csrc/distributed/", ("test/distributed/",)),
    ("torch/csrc/dynamo/", ("test/dynamo/",)),
    ("torch/csrc/inductor/", ("test/inductor/",)),
    ("torch/csrc/functorch/", ("test/functorch/",)),
    ("aten/src/ATen/functorch/", ("test/functorch/",)),
    ("torch/csrc/fx/", ("test/fx/", "test/test_fx")),
    ("torch/csrc/jit/", ("test/jit/", "test/test_jit")),
    ("torch/csrc/lazy/", ("test/lazy/",)),
    ("torch/csrc/onnx/", ("test/onnx/",)),
    ("torch/csrc/profiler/", ("test/profiler/",)),
    ("torch/csrc/autograd/", ("test/autograd/", "test/test_autograd.py")),
    ("torch/optim/", ("test/optim/", "test/test_optim.py")),
    ("torch/jit/", ("test/jit/", "test/test_jit")),
    ("torch/fx/", ("test/fx/", "test/test_fx", "test/test_proxy_tensor.py")),
    ("torch/onnx/", ("test/onnx/",)),
    ("torch/ao/", ("test/quantization/", "test/ao/")),
    ("torch/profiler/", ("test/profiler/",)),
    ("torch/autograd/", ("test/autograd/", "test/test_autograd.py")),
    ("torch/distributions/", ("test/distributions/",)),
    ("torch/package/", ("test/package/",)),
    ("torch/_numpy/", ("test/torch_np/",)),
    ("torch/nn/", ("test/nn/", "test/test_nn.py", "test/test_modules.py")),
    ("torch/utils/data/", ("test/test_dataloader.py", "test/test_datapipe.py")),
    ("torch/amp/", ("test/test_autocast.py",)),
    ("torch/sparse/", ("test/test_sparse",)),
    ("torch/masked/", ("test/test_masked",)),
    ("torch/_subclasses/", ("test/test_fake_tensor.py", "test/test_meta.py")),
)

_OPEN_DEVICES = (
    "test/test_cpp_extensions_open_device", "test/test_privateuse", "test/test_openreg", "test/cpp_extensions/open_",
)  # fmt: skip
"""the tests of what devices outside of torch register themselves with"""


NATIVE = frozenset(
    {FileKind.NATIVE_YAML, FileKind.KERNEL, FileKind.OTHER_KERNEL, FileKind.NATIVE_CODE, FileKind.CODEGEN}
)
"""what takes effect in a build only; a class of its own in every figure"""


def is_native(path: str) -> bool:
    """Whether a change to the path takes effect in a build only; third-party and build files count too."""
    return kind_of(path) in NATIVE or bool(_BUILT.search(path))


def kind_of(path: str) -> FileKind:
    for pattern, kind in _COMPILED:
        if pattern.search(path):
            return kind
    return FileKind.OTHER


def backend_of(path: str) -> str:
    """The device family that a kernel's path is for (``cuda``), or ''."""
    found = _BACKEND.search(path)
    return _FAMILY.get(found.group(1), found.group(1)) if found else ""


def area_of(path: str) -> tuple[str, ...]:
    """Prefixes of the test paths that belong to a source file's part of torch; see ``in_area``."""
    for prefix, tests in AREAS:
        if path.startswith(prefix):
            return tests
    return _OPEN_DEVICES if "privateuse" in path.lower() else ()


def in_area(test_file: str, area: tuple[str, ...]) -> bool:
    """Whether a test file belongs to an area: it lies there, or in another folder and is named after the area's own
    (``test/distributed/test_inductor_collectives.py``)."""
    if test_file.startswith(area):
        return True
    words = frozenset(test_file.rpartition("/")[2].removesuffix(".py").split("_"))
    return any(prefix.endswith("/") and prefix.split("/")[-2] in words for prefix in area)


def tests_of_backend(path: str) -> tuple[str, ...]:
    """Prefixes of the test files of the device family that a path is for."""
    backend = backend_of(path)
    return (f"test/test_{backend}", f"test/{backend}/") if backend else ()
