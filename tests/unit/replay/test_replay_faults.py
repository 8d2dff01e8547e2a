"""Faults: they parse, they change one line, a seed draws the same again, and kinds stay on their side of the split."""

from __future__ import annotations

import ast

import pytest

from selector.errors import TreeError
from selector.replay import catalogue, entries, mutate, native
from selector.replay.model import NATIVE_KINDS, PYTHON_KINDS, WRITING, is_scoring
from selector.trees import MemoryTree

SOURCE = b'''
def scale(x, factor=2, *, eps=1e-5, out=None):
    """Doc 3."""
    if x is None and factor > 1:
        return out
    y = helper(x, factor, eps=eps) * 3 - 1
    y += 1
    check(y)
    return -y if not out else f"{y + 1}"


class Layer:
    def forward(self, a, b):
        def inner(c):
            return c <= a
        raise ValueError("never 4")


LIMIT = 5
'''
ENTRIES = b"""
op_db = [
    OpInfo("add", supports_out=False, dtypes=all_types(), skips=(skip(active_if=True),)),
    UnaryUfuncInfo("neg", variant_test_name="fast", supports_autograd=True),
    other("sub", supports_out=True),
]


def make():
    return OpInfo("mul", supports_out=True)
"""
YAML = """
- func: add.Tensor(Tensor self, Tensor other) -> Tensor
  structured_delegate: add.out

- func: add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA: add_out

- func: foo(Tensor self) -> Tensor
  dispatch:
    CPU: foo_cpu
    CUDA: foo_cuda
"""
CPP = """namespace at::native {
TORCH_IMPL_FUNC(add_out) (const Tensor& self, const Tensor& other, const Tensor& out) {
  add_stub(device_type(), *this);
}

Tensor foo_cpu(const Tensor& self) {
  return self;
}
"""
KERNEL = """namespace {
void add_kernel(TensorIteratorBase& iter) {
  work(iter);
}
}
REGISTER_DISPATCH(add_stub, &add_kernel)
"""
FOLDER = "aten/src/ATen/native/"
TREE = MemoryTree(
    {
        "torch/_refs/__init__.py": SOURCE,
        "torch/testing/_internal/opinfo/definitions/some.py": ENTRIES,
        native.YAML: YAML,
        f"{FOLDER}Binary.cpp": CPP,
        f"{FOLDER}cpu/BinaryKernel.cpp": KERNEL,
    }
)


def test_every_place_parses_and_keeps_its_lines() -> None:
    found = mutate.places(SOURCE)
    assert {place.kind for place in found} >= set(PYTHON_KINDS) - {"entry-flag"}
    for place in found:
        changed = place.edit.apply(SOURCE)
        ast.parse(changed)
        differing = [
            i for i, (a, b) in enumerate(zip(SOURCE.splitlines(), changed.splitlines(), strict=True)) if a != b
        ]
        assert len(differing) == 1, place


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("comparison-shift", "factor >= 1"),
        ("boolean-swap", "is None or factor"),
        ("arithmetic-swap", "eps=eps) / 3"),
        ("argument-swap", "helper(factor, x, "),
        ("argument-drop", "helper(x, factor) * 3"),
        ("statement-drop", "    pass\n    return"),
        ("return-none", "        return None"),
        ("unary-drop", "return (y) if"),
        ("constant-shift", "- 2\n"),
        ("condition-negate", "if not (x is None and factor > 1):"),
    ],
)
def test_a_kind_does_what_its_name_says(kind: str, text: str) -> None:
    assert any(place.kind == kind and text.encode() in place.edit.apply(SOURCE) for place in mutate.places(SOURCE))


def test_messages_docstrings_defaults_and_module_level_are_left_alone() -> None:
    for place in mutate.places(SOURCE):
        changed = place.edit.apply(SOURCE)
        assert b'"""Doc 3."""' in changed
        assert b'"never 4"' in changed
        assert b'f"{y + 1}"' in changed or place.kind == "return-none"
        assert b"factor=2, *, eps=1e-5" in changed
        assert b"LIMIT = 5" in changed


def test_a_place_names_its_function_as_code_objects_do() -> None:
    inner = next(p for p in mutate.places(SOURCE) if p.kind == "comparison-shift" and b"c < a" in p.edit.apply(SOURCE))
    code = compile(SOURCE, "x", "exec")
    names = set()
    todo = [code]
    while todo:
        for const in todo.pop().co_consts:
            if hasattr(const, "co_qualname"):
                names.add(const.co_qualname)
                todo.append(const)
    assert inner.symbol == "Layer.forward.<locals>.inner"
    assert inner.symbol in names


def test_flags_of_entries() -> None:
    found = {(place.symbol, place.kind): place.edit.text for place in entries.places(ENTRIES)}
    assert found == {("OpInfo:add", "supports_out"): "True", ("UnaryUfuncInfo:neg.fast", "supports_autograd"): "False"}


def test_sites_of_native_functions() -> None:
    found = {(site.op, site.path.removeprefix(FOLDER), site.function) for site in native.sites(TREE)}
    assert found == {
        ("add", "Binary.cpp", "add_out"),
        ("add", "cpu/BinaryKernel.cpp", "add_kernel"),
        ("foo", "Binary.cpp", "foo_cpu"),
    }
    for fault in native.faults(native.sites(TREE), {"add": "native-zero", "foo": "native-half"}):
        old = TREE.read(fault.path)
        new = fault.edit.apply(old)
        line = new.decode().splitlines()[fault.line - 1]
        assert native.STATEMENT in line
        assert fault.symbol in line


def test_a_seed_draws_the_same_faults_and_another_seed_others() -> None:
    quotas = {"references": 4, "entries": 1, "native": 2}
    first = catalogue.draw(TREE, "1", quotas)
    assert [f.id for f in first] == [f.id for f in catalogue.draw(TREE, "1", quotas)]
    assert len({f.id for f in first}) == len(first)
    assert {f.id for f in first} != {f.id for f in catalogue.draw(TREE, "2", quotas)}
    assert {fault.area for fault in first} == set(quotas)


def test_an_area_without_a_place_is_an_error_that_names_it() -> None:
    with pytest.raises(TreeError, match="'modules'"):
        catalogue.draw(TREE, "1", {"modules": 1})


def test_the_split_of_kinds_is_what_it_was() -> None:
    # rules were written while these were open: whoever moves a kind makes the scores of older replays worthless
    assert sorted(WRITING) == [
        "boolean-swap", "comparison-shift", "condition-negate", "constant-shift", "native-first", "native-scale",
        "native-zero", "statement-drop",
    ]  # fmt: skip
    assert {kind for kind in (*PYTHON_KINDS, *NATIVE_KINDS) if is_scoring(kind)} == {
        *PYTHON_KINDS, *NATIVE_KINDS} - WRITING  # fmt: skip
