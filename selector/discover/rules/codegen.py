"""Scripts and templates that generate torch's C++ and Python: the tests of what they generate, and a widening."""

from __future__ import annotations

import re

from selector.discover import native
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex
from selector.discover.rules.op_hits import add_ops
from selector.model import Evidence, FileChange

# script or template -> what it generates, and the files with the tests of that; first match wins
AREAS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"gen_inplace_or_view_type|ADInplaceOrView|gen_view_funcs|ViewFuncs",
     "views and in-place variants", ("test/test_view_ops.py", "test/test_autograd.py")),
    (r"gen_functionalization|RegisterFunctionalization|FunctionalInverses|CompositeViewCopy",
     "functionalization", ("test/test_functionalization.py", "test/functorch/test_aotdispatch.py")),
    (r"gen_trace_type|TraceType|unboxing|Unboxing", "tracing", ("test/test_jit.py", "test/jit/")),
    (r"gen_vmap", "batching rules", ("test/functorch/test_vmap.py",)),
    (r"gen_lazy|Lazy", "lazy tensors", ("test/lazy/",)),
    (r"torchgen/(executorch|aoti|gen_executorch|gen_aoti)", "other runtimes", ("test/inductor/test_aot_inductor",)),
    (r"tools/autograd/|gen_autograd|VariableType|derivatives",
     "autograd", ("test/test_autograd.py", "test/test_ops_gradients.py", "test/autograd/")),
    (r"python_|tools/pyi|gen_python", "the Python bindings", ("test/test_torch.py", "test/test_overrides.py")),
    (r"gen_backend_stubs|DispatchKeyNative", "stubs of other backends", ("test/test_cpp_extensions_open_device",)),
)  # fmt: skip
_NAME = re.compile(r"[\"']([a-z_]\w+)(?:\.\w+)?[\"']")


def codegen(file: FileChange, findings: Findings, index: OpIndex) -> None:
    """Op names in strings of the lines that differ are exact (a list of exceptions grew); all else may be any op."""
    added, removed = native.changed_lines(file.old, file.new)
    lines = [line for line in (*added, *removed) if line.strip() and not line.lstrip().startswith("#")]
    names = {name for line in lines for name in _NAME.findall(line)}
    targets = {name: index.word(name) for name in sorted(names)} if index.database is not None else {}
    found = {name: target for name, target in targets.items() if target is not None}
    if found:
        add_ops(file, found, "op-codegen", f"a line of {file.path} that names it differs", findings, index)
    for pattern, what, tests in AREAS:
        if re.search(pattern, file.path):
            fact = Evidence("area", f"{file.path} generates {what}: {' and '.join(tests)} hold their tests", file.path)
            for test, _, _ in findings.inventory.tests():
                if test.file.startswith(tests):
                    findings.add(test, "area", fact)
            break
    only_names = found and all(_NAME.sub("", line).strip(" ,[](){}\t") == "" for line in lines)
    if not only_names:
        findings.not_mapped(file.path, "it generates code for every op")
