# ruff: noqa: E501
"""From a change of an operator (references, schemas, kernels, OpInfo entries) to the tests it reaches."""

from __future__ import annotations

import pytest
from impact_cases import ALSO, PLAIN, REFS, Discover, about, codes

from selector.model import OpDatabase, OpEntry


def test_an_edited_reference_reaches_the_lists_that_hold_its_op(discovered: Discover, opdb: OpDatabase) -> None:
    path = "torch/_refs/__init__.py"
    head = REFS.replace("_helper(self)", "_helper(self) * 1")
    found = discovered({path: REFS}, {path: head}, also=ALSO, opdb=opdb)
    assert codes(found) == dict.fromkeys(
        (f"TestGeneric.{m}" for m in ("test_refs", "test_unary", "test_unclear", "test_calls", "test_logit_by_name")),
        ("op-reference",),
    )
    ops = {i.test.method: i.ops for i in found.impacts}
    assert ops["test_refs"] == {"_refs.logit"}
    assert ops["test_unary"] == {"_refs.logit", "logit"}
    assert ops["test_unclear"] == {"_refs.logit", "logit"}  # cannot be resolved: assumed
    weights = {i.test.method: i.weight for i in found.impacts}
    assert weights["test_refs"] > weights["test_unclear"] > 0
    assert found.impacts[0].evidence[0].symbol == "logit"
    assert not found.widened


def test_a_helper_of_references_reaches_the_ops_that_use_it(discovered: Discover, opdb: OpDatabase) -> None:
    path = "torch/_refs/__init__.py"
    found = discovered({path: REFS}, {path: REFS.replace("return a\n@", "return +a\n@")}, also=ALSO, opdb=opdb)
    assert "TestGeneric.test_refs" in codes(found)
    assert "TestGeneric.test_two" not in codes(found)
    assert "which uses _helper" in found.impacts[0].evidence[0].detail


def test_a_reference_of_no_known_op_widens(discovered: Discover, opdb: OpDatabase) -> None:
    path = "torch/_refs/__init__.py"
    found = discovered({path: REFS}, {path: REFS.replace("return x", "return -x")}, also=ALSO, opdb=opdb)
    assert found.widened
    assert len(found.impacts) == 7
    assert about(found, "change") == [("widened", "unmapped-change")]


YAML = """\
# head
- func: logit(Tensor self, float? eps=None) -> Tensor
  dispatch:
    CPU: logit

- func: logit_(Tensor(a!) self) -> Tensor(a!)

- func: sum.dim_IntList(Tensor self, int[1]? dim) -> Tensor
  variants: function, method
"""


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        (
            "CPU: logit",
            "CPU: logit_fast",
            {"test_refs", "test_unary", "test_unclear", "test_calls", "test_logit_by_name"},
        ),
        ("function, method", "method", {"test_two", "test_unclear"}),
        ("# head", "# tail", set()),
        ("int[1]? dim) -> Tensor\n", "int[1]? dim) -> Tensor\n  # a comment\n", set()),
    ],
)
def test_native_functions(discovered: Discover, opdb: OpDatabase, old: str, new: str, reached: set[str]) -> None:
    path = "aten/src/ATen/native/native_functions.yaml"
    found = discovered({path: YAML}, {path: YAML.replace(old, new)}, also=ALSO, opdb=opdb)
    # nothing but comments reaches nothing, but a YAML that reaches nothing is not trusted: it widens
    assert {i.test.method for i in found.impacts if i.codes[0] == "op-native"} == reached
    assert found.widened == (not reached)


KERNEL = """\
#include <ATen/native/x.h>
namespace at::native {

TORCH_IMPL_FUNC(logit_out) (const Tensor& self, const Tensor& result) {
  auto x = at::add(self, self);
  run(x);
}

Tensor sum(const Tensor& self) {
  return self;
}
}
"""


@pytest.mark.parametrize(
    ("path", "old", "new", "code", "reached"),
    [
        ("aten/src/ATen/native/Thing.cpp", "run(x)", "walk(x)", "op-kernel", {"test_unary", "test_refs", "test_calls", "test_unclear", "test_logit_by_name"}),
        ("aten/src/ATen/native/Thing.cpp", "return self;", "return +self;", "op-kernel", {"test_two", "test_unclear"}),
        ("aten/src/ATen/native/ReduceOps.cpp", "#include <ATen/native/x.h>", "#include <ATen/native/y.h>", "op-kernel", {"test_unclear"}),
        ("aten/src/ATen/native/Sum.h", "#include <ATen/native/x.h>", "#include <ATen/native/y.h>", "op-kernel", {"test_two", "test_unclear"}),
        ("aten/src/ATen/native/cuda/Thing.cu", "return self;", "return +self;", "op-kernel-other-backend", {"test_two", "test_unclear"}),
    ],
)  # fmt: skip
def test_kernels(
    discovered: Discover, opdb: OpDatabase, path: str, old: str, new: str, code: str, reached: set[str]
) -> None:
    found = discovered({path: KERNEL}, {path: KERNEL.replace(old, new)}, also=ALSO, opdb=opdb)
    assert {i.test.method for i in found.impacts} == reached
    assert {i.codes for i in found.impacts} == {(code,)}
    assert not found.widened


def test_a_variables_type_is_no_op(discovered: Discover, opdb: OpDatabase) -> None:
    both = ("op_db", "unary_ufuncs")
    known = OpDatabase(opdb.torch, (*opdb.ops, OpEntry("int", "", "int", both, ("float32",))), opdb.modules)
    path = "aten/src/ATen/native/cpu/SumKernel.cpp"
    new = KERNEL.replace("namespace", "constexpr int size = 8;\nnamespace")
    found = discovered({path: KERNEL}, {path: new}, also=ALSO, opdb=known)
    assert {i.test.method for i in found.impacts} == {"test_two", "test_unclear"}
    assert all("runs sum" in fact.detail for i in found.impacts for fact in i.evidence)


@pytest.mark.parametrize(
    ("path", "old", "new", "verdict"),
    [
        ("aten/src/ATen/native/Thing.cpp", "  run(x);", "  // why\n    run(x);", ("no-impact", "cosmetic")),
        ("aten/src/ATen/native/Thing.cpp", "#include", "#pragma once\n#include", ("widened", "unmapped-change")),
        ("aten/src/ATen/native/cuda/Thing.cuh", "#include", "#pragma once\n#include", ("no-impact", "other-backend")),
    ],
)
def test_kernels_of_no_op(
    discovered: Discover, opdb: OpDatabase, path: str, old: str, new: str, verdict: tuple[str, str]
) -> None:
    found = discovered({path: KERNEL}, {path: KERNEL.replace(old, new)}, also=ALSO, opdb=opdb)
    assert about(found, path) == [verdict]
    assert found.widened == (verdict[0] == "widened")


OPINFOS = """
def samples(): return 1
op_db = [
    OpInfo("logit", sample_inputs_func=samples, skips=(Skip("a"),)),
    OpInfo("sum", dtypes=1),
]
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "reached"),
    [
        ("dtypes=1", "dtypes=2", "op-info", {"test_two", "test_unclear"}),
        ("return 1", "return 2", "op-info", {"test_unary", "test_unclear"}),
        ('Skip("a")', 'Skip("b")', "op-info-skips", {"test_unary", "test_unclear"}),
    ],
)
def test_entries_of_the_op_database(
    discovered: Discover, opdb: OpDatabase, old: str, new: str, code: str, reached: set[str]
) -> None:
    path = "torch/testing/_internal/common_methods_invocations.py"
    found = discovered({path: OPINFOS}, {path: OPINFOS.replace(old, new)}, also=ALSO, opdb=opdb)
    assert codes(found) == {f"TestGeneric.{m}": (code,) for m in reached}
    assert not found.widened


def test_without_an_op_database_lists_are_assumed_to_hold_the_op(discovered: Discover) -> None:
    path = "torch/_refs/__init__.py"
    found = discovered({path: REFS}, {path: REFS.replace("_helper(self)", "_helper(self) * 1")}, also=ALSO)
    reached = {i.test.method for i in found.impacts}
    assert {"test_refs", "test_unary", "test_unclear", "test_calls"} <= reached
    assert "test_two" not in reached  # its literal filter says add and sum
    assert any("no op database" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("title", "reached"),
    [
        ("Make logit faster", {"test_refs", "test_unary", "test_unclear", "test_calls", "test_logit_by_name"}),
        ("Speed up torch.sum", {"test_two", "test_unclear"}),
        ("Use `add` in place", {"test_two", "test_unclear"}),
        ("Add a sum of all things", set()),  # English
        ("logit" * 300, set()),
    ],
)
def test_ops_in_the_title(discovered: Discover, opdb: OpDatabase, title: str, reached: set[str]) -> None:
    edited = PLAIN.replace("pass", "return")
    found = discovered({"test/test_plain.py": PLAIN}, {"test/test_plain.py": edited}, also=ALSO, opdb=opdb, title=title)
    assert {i.test.method for i in found.impacts if "op-title" in i.codes} == reached
    assert codes(found)["TestPlain.test_nothing"] == ("edited-test",)
