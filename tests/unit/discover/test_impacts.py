# ruff: noqa: E501
"""From a change to the tests it reaches: each case is a change a person could make to upstream."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from selector.discover import Discovery, MemoryCache
from selector.discover.findings import FILE_CODES, IMPACT_CODES
from selector.errors import TreeError
from selector.model import Change, FileChange, OpDatabase, OpEntry, TestId
from selector.trees import MemoryTree

Discover = Callable[..., Discovery]

GENERIC = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops, dtypes
from torch.testing._internal.common_methods_invocations import op_db, python_ref_db, unary_ufuncs
class TestGeneric(TestCase):
    @ops(python_ref_db)
    def test_refs(self, device, dtype, op): pass
    @ops(unary_ufuncs)
    def test_unary(self, device, dtype, op): pass
    @ops([op for op in op_db if op.name in ("add", "sum")])
    def test_two(self, device, dtype, op): pass
    @ops(modified(op_db))
    def test_unclear(self, device, dtype, op): pass
    def test_calls(self, device):
        torch.special.logit(torch.ones(2, device=device))
    def test_logit_by_name(self, device): pass
    def test_else(self, device):
        torch.zeros(2, device=device)
instantiate_device_type_tests(TestGeneric, globals())
"""
PLAIN = """
import torch
class TestPlain(TestCase):
    def test_nothing(self): pass
"""
ALSO = {"test/test_generic.py": GENERIC, "test/test_plain.py": PLAIN}


def codes(found: Discovery) -> dict[str, tuple[str, ...]]:
    return {f"{i.test.cls}.{i.test.method}": i.codes for i in found.impacts}


def about(found: Discovery, subject: str) -> list[tuple[str, str]]:
    return [(d.verdict, d.code) for d in found.decisions if d.subject == subject]


# ---------------------------------------------------------------------------------------------------------- test files


def test_edited_new_gone_and_renamed_tests(discovered: Discover) -> None:
    base = """
class TestA(TestCase):
    def test_edited(self): return 1
    def test_same(self): return 2
    def test_gone(self): return 3
    def test_old_name(self): return [4]
"""
    head = """
class TestA(TestCase):
    def test_new_name(self): return [4]
    def test_same(self): return 2  # comment
    def test_edited(self): return 10
    def test_new(self): return 5
"""
    found = discovered({"test/test_a.py": base}, {"test/test_a.py": head})
    assert codes(found) == {
        "TestA.test_edited": ("edited-test",),
        "TestA.test_new": ("new-test",),
        "TestA.test_new_name": ("renamed-test",),
    }
    assert about(found, "test/test_a.py::TestA::test_gone") == [("gone", "gone-test")]
    assert about(found, "test/test_a.py::TestA::test_old_name") == []
    renamed = next(i for i in found.impacts if i.codes == ("renamed-test",))
    assert renamed.evidence[0].detail == "was test/test_a.py::TestA::test_old_name"
    assert renamed.evidence[0].line == 3


def test_a_moved_file_is_renamed_tests_and_not_gone_ones(discovered: Discover) -> None:
    code = "class TestA(TestCase):\n    def test_x(self): return 1\n    def test_y(self): return 2\n"
    found = discovered({"test/test_a.py": code}, {"test/nn/test_b.py": code}, also={"test/test_plain.py": PLAIN})
    assert codes(found) == {"TestA.test_x": ("renamed-test",), "TestA.test_y": ("renamed-test",)}
    assert {i.test.file for i in found.impacts} == {"test/nn/test_b.py"}
    assert not [d for d in found.decisions if d.verdict == "gone"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1\n", "x = (1)  # one\n"),
        ("def f():\n    return 'a'\n", 'def f():\n    """Doc."""\n    return "a"\n'),
        ("if __name__ == '__main__':\n    run_tests()\n", "if __name__ == '__main__':\n    main()\n"),
    ],
)
@pytest.mark.parametrize("path", ["test/test_plain.py", "torch/functional.py", "torch/_refs/__init__.py"])
@pytest.mark.parametrize("pages", [False, True])
def test_cosmetic_edits_reach_the_smoke_set_alone(
    discovered: Discover, path: str, old: str, new: str, pages: bool
) -> None:
    also = {k: v for k, v in ALSO.items() if k != path}
    before, after = ({path: PLAIN + text, **({"README.md": text} if pages else {})} for text in (old, new))
    found = discovered(before, after, also=also, title="Fix torch.logit")
    assert found.impacts
    assert {impact.codes for impact in found.impacts} == {("smoke",)}
    assert "comments, formatting or modes alone" in found.impacts[0].evidence[0].detail
    assert ("pages or upstream's own CI alone" in found.impacts[0].evidence[0].detail) is pages
    assert about(found, path) == [("no-impact", "cosmetic")]
    assert not found.widened


def test_how_a_class_is_instantiated_is_part_of_its_tests(discovered: Discover) -> None:
    head = GENERIC.replace("globals())", "globals(), except_for='cpu')")
    found = discovered({"test/test_generic.py": GENERIC}, {"test/test_generic.py": head})
    assert set(codes(found).values()) == {("helper",)}
    assert len(found.impacts) == 7


HELPER = """
def used(): return 1
def through(): return used()
def unused(): return 2
class Mixin(TestCase):
    def check(self): return 3
    def other(self): return 4
"""
IMPORTERS = {
    "test/test_direct.py": "from helpers import used\nclass TestD(TestCase):\n    def test_d(self): used()\n    def test_not(self): pass\n",
    "test/test_through.py": "from helpers import through as t\nclass TestT(TestCase):\n    def test_t(self): t()\n",
    "test/test_module.py": "import helpers\nclass TestM(TestCase):\n    def test_m(self): helpers.used()\n    def test_o(self): helpers.unused()\n",
    "test/test_star.py": "from helpers import *\nclass TestS(TestCase):\n    def test_s(self): used()\n",
    "test/test_base.py": "from helpers import Mixin\nclass TestB(Mixin):\n    def test_b(self): self.check()\n    def test_c(self): self.other()\n",
    "test/nn/test_up.py": "from test.helpers import used\nclass TestU(TestCase):\n    def test_u(self): used()\n",
    "test/again.py": "from helpers import used\ndef wrapped(): return used()\n",
    "test/test_again.py": "from again import wrapped\nclass TestW(TestCase):\n    def test_w(self): wrapped()\n",
    "test/test_stranger.py": "from other.helpers import used\nclass TestX(TestCase):\n    def test_x(self): used()\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        ("return 1", "return 11", {"test_d", "test_t", "test_m", "test_s", "test_u", "test_w"}),
        ("return 2", "return 22", {"test_o", "test_s"}),  # `import *` takes everything
        ("return 3", "return 33", {"test_b", "test_s"}),  # one method of a base class: who calls it
        ("class Mixin(TestCase):", "class Mixin(TestCase):\n    limit = 1", {"test_b", "test_c", "test_s"}),
        ("def used(): return 1\n", "", {"test_d", "test_t", "test_m", "test_s", "test_u", "test_w"}),  # removed
    ],
)
def test_helpers_reach_tests_of_other_files(discovered: Discover, old: str, new: str, reached: set[str]) -> None:
    found = discovered({"test/helpers.py": HELPER}, {"test/helpers.py": HELPER.replace(old, new)}, also=IMPORTERS)
    assert {i.test.method for i in found.impacts} == reached
    assert {i.codes for i in found.impacts} == {("helper-imported",)}
    assert not found.widened


def test_a_helper_file_that_is_removed_reaches_who_imports_it(discovered: Discover) -> None:
    found = discovered({"test/helpers.py": HELPER}, {}, also=IMPORTERS)
    reached = {i.test.method for i in found.impacts}
    assert reached == {"test_d", "test_t", "test_m", "test_o", "test_s", "test_b", "test_c", "test_u", "test_w"}


def test_a_removed_test_file_is_gone_tests(discovered: Discover) -> None:
    found = discovered({"test/test_plain.py": PLAIN}, {}, also={"test/test_generic.py": GENERIC})
    assert found.impacts == ()
    assert about(found, "test/test_plain.py::TestPlain::test_nothing") == [("gone", "gone-test")]
    assert about(found, "test/test_plain.py") == [("no-impact", "no-test-reached")]


def test_evidence_names_the_symbol_and_its_place(discovered: Discover) -> None:
    head = HELPER.replace("return 1", "return 11").replace("return 4", "return 44")
    found = discovered({"test/helpers.py": HELPER}, {"test/helpers.py": head}, also=IMPORTERS)
    by_name = {i.test.method: i.evidence for i in found.impacts}
    assert [(e.path, e.symbol, e.line) for e in by_name["test_d"]] == [("test/helpers.py", "used", 2)]
    assert [(e.path, e.symbol, e.line) for e in by_name["test_c"]] == [("test/helpers.py", "Mixin.other", 7)]
    assert by_name["test_t"][0].detail == "reaches used of test/helpers.py through t"


LIB = """
def skipIfFoo(fn): return fn
def make(n): return n
class TestCase:
    def setUp(self): pass
    def assertEqual(self, a, b): return compare(a, b)
    def assertNothing(self): pass
def compare(a, b): return a == b
"""
LIB_PATH = "torch/testing/_internal/common_utils.py"
LIB_USERS = {
    "test/test_l.py": """
from torch.testing._internal.common_utils import TestCase, make, skipIfFoo
class TestL(TestCase):
    def test_equal(self): self.assertEqual(1, 1)
    def test_nothing(self): self.assertNothing()
    @skipIfFoo
    def test_skip(self): pass
    def test_make(self): make(1)
""",
    "torch/_dynamo/test_case.py": "from torch.testing._internal.common_utils import TestCase as Base\nclass TestCase(Base): pass\n",
    "test/dynamo/test_d.py": """
import torch._dynamo.test_case
class TestD(torch._dynamo.test_case.TestCase):
    def test_dynamo(self): self.assertEqual(1, 1)
""",
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        ("return n", "return n + 1", {"test_make"}),
        ("return fn", "return (fn, 1)", {"test_skip"}),
        ("return a == b", "return a is b", {"test_equal", "test_dynamo"}),
        ("def setUp(self): pass", "def setUp(self): self.x = 1", {"test_equal", "test_nothing", "test_skip", "test_make", "test_dynamo"}),
    ],
)  # fmt: skip
def test_the_shared_test_library_is_followed_symbol_by_symbol(
    discovered: Discover, old: str, new: str, reached: set[str]
) -> None:
    found = discovered({LIB_PATH: LIB}, {LIB_PATH: LIB.replace(old, new)}, also=LIB_USERS)
    assert {i.test.method for i in found.impacts} == reached
    assert {i.codes for i in found.impacts} == {("testlib",)}


def test_a_library_symbol_that_no_test_reaches_widens(discovered: Discover) -> None:
    also = {**LIB_USERS, **ALSO}
    found = discovered({LIB_PATH: LIB}, {LIB_PATH: LIB + "def hook(): pass\n"}, also=also)
    assert found.widened
    assert about(found, LIB_PATH) == [("widened", "unmapped-change")]


# --------------------------------------------------------------------------------------------------------------- ops


REFS = """
__all__ = ["logit", "add"]
def _helper(a): return a
@register_decomposition(aten.logit)
@out_wrapper()
def logit(self, eps=None):
    return _helper(self)
@register_decomposition(aten.add)
def add(a, b):
    return a
def orphan(x): return x
"""


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


# ------------------------------------------------------------------------------------------------------ torch's Python


def test_importers_users_and_the_area_of_a_module(discovered: Discover, opdb: OpDatabase) -> None:
    module = "class Adam:\n    def step(self): return 1\ndef _single(): return 2\ndef adam(): return _single()\n"
    also = {
        **ALSO,
        "torch/optim/__init__.py": "from torch.optim.adam import Adam as Adam\n",
        "test/test_i.py": "from torch.optim import Adam\nclass TestI(TestCase):\n    def test_i(self): Adam()\n    def test_no(self): pass\n",
        "test/test_n.py": "import torch\nclass TestN(TestCase):\n    def test_n(self): torch.optim.Adam()\n",
        "test/optim/test_o.py": "class TestO(TestCase):\n    def test_o(self): pass\n",
    }
    path = "torch/optim/adam.py"
    found = discovered({path: module}, {path: module.replace("return 1", "return 3")}, also=also, opdb=opdb)
    assert codes(found) == {
        "TestI.test_i": ("import",),
        "TestN.test_n": ("name-use",),
        "TestO.test_o": ("area",),
    }
    private = discovered({path: module}, {path: module.replace("return 2", "return 4")}, also=also, opdb=opdb)
    assert private.widened, "adam() is used by no test: what it reaches is not known"


def test_a_module_class_reaches_the_tests_that_draw_modules(discovered: Discover, opdb: OpDatabase) -> None:
    test = """
class TestMods(TestCase):
    @modules(module_db)
    def test_all(self, device, dtype, module_info, training): pass
    @modules([m for m in module_db if m.name in ("nn.ReLU",)])
    def test_relu(self, device, dtype, module_info, training): pass
"""
    path = "torch/nn/modules/linear.py"
    found = discovered(
        {path: "class Linear:\n    a = 1\n"},
        {path: "class Linear:\n    a = 2\n"},
        also={"test/test_m.py": test},
        opdb=opdb,
    )
    assert codes(found) == {"TestMods.test_all": ("module-use",)}


# ------------------------------------------------------------------------------------------------- what is not mapped


@pytest.mark.parametrize(
    "path", ["docs/source/x.md", "README.md", ".github/workflows/pull.yml", ".ci/build.sh", "CODEOWNERS"]
)
def test_what_cannot_matter_says_so(discovered: Discover, opdb: OpDatabase, path: str) -> None:
    found = discovered({path: "a"}, {path: "b"}, also=ALSO, opdb=opdb, title="Explain torch.logit")
    assert codes(found) == {"TestGeneric.test_logit_by_name": ("smoke",)}
    assert "pages or upstream's own CI alone" in found.impacts[0].evidence[0].detail
    assert about(found, path) == [("no-impact", "cannot-matter")]
    assert about(found, "change") == [("smoke", "smoke")]
    assert not found.widened


@pytest.mark.parametrize("path", ["c10/core/Device.h", "setup.py", "torchgen/gen.py", "version.txt", "torch/lib/x.bin"])
def test_what_no_rule_knows_widens_to_every_device_generic_test(discovered: Discover, path: str) -> None:
    found = discovered({path: "a"}, {path: "b"}, also=ALSO)
    assert {i.test.cls for i in found.impacts} == {"TestGeneric"}
    assert set(codes(found).values()) == {("unmapped-change",)}
    assert about(found, path) == [("widened", "unmapped-change")]
    assert path in next(d.reason for d in found.decisions if d.subject == "change")


def test_where_nothing_is_device_generic_widening_takes_everything(discovered: Discover) -> None:
    found = discovered({"setup.py": "a"}, {"setup.py": "b"}, also={"test/test_plain.py": PLAIN})
    assert codes(found) == {"TestPlain.test_nothing": ("unmapped-change",)}


def test_test_data_reaches_who_names_it_or_lies_beside_it(discovered: Discover) -> None:
    also = {
        **ALSO,
        "test/test_reads.py": "class TestR(TestCase):\n    def test_r(self): open('golden.json')\n",
        "test/jit/test_j.py": "class TestJ(TestCase):\n    def test_j(self): pass\n",
    }
    named = discovered({"test/data/golden.json": "1"}, {"test/data/golden.json": b"2\0"}, also=also)
    assert codes(named) == {"TestR.test_r": ("test-data",)}
    beside = discovered({"test/jit/x.txt": "1"}, {"test/jit/x.txt": "2"}, also=also)
    assert codes(beside) == {"TestJ.test_j": ("test-data",)}
    nowhere = discovered({"test/x.txt": "1"}, {"test/x.txt": "2"}, also=also)
    assert nowhere.widened


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (FileChange("third_party/x", "modified", None, b"1" * 40, b"2" * 40, submodule=True), "submodule-bump"),
        (FileChange("torch/x.py", "modified", None, None, None, binary=True), "binary-change"),
        (FileChange("torch/lib.so", "added", None, None, b"\0", binary=True), "binary-change"),
    ],
)
def test_what_cannot_be_read_widens(change: FileChange, code: str) -> None:
    from selector.discover import discover

    base, head = MemoryTree({**ALSO, "torch/x.py": b"\0"}), MemoryTree({**ALSO, "torch/x.py": b"\0\1"})
    found = discover(base, head, Change("a", "b", (change,)), None)
    assert found.widened
    assert about(found, change.path) == [("widened", code)]


BROKEN = {
    "class (": "line 1: ",
    b"caf\xe9 = 1\n": "line 1: ",
    b"# coding: klingon\n": "line 1: ",
    b"import torch\n\0\1\2": "null bytes",
    "x = 1" + "0" * 9_000_000: "9000005 bytes",
}


@pytest.mark.parametrize(("text", "problem"), BROKEN.items())
def test_a_test_file_that_breaks_brings_the_bases_tests_and_its_importers(
    discovered: Discover, text: str | bytes, problem: str
) -> None:
    uses = "import test_plain\nclass TestOther(TestCase):\n    def test_more(self): pass\n"
    further = "from test_other import TestOther\nclass TestFurther(TestOther):\n    def test_last(self): pass\n"
    also = {**ALSO, "test/test_other.py": uses, "test/test_further.py": further}
    found = discovered({"test/test_plain.py": PLAIN}, {"test/test_plain.py": text}, also=also)
    assert about(found, "test/test_plain.py") == [("unreadable", "unparsable-file")]
    assert codes(found) == {
        "TestPlain.test_nothing": ("unreadable-test-file",),
        "TestOther.test_more": ("helper-imported",),
        "TestFurther.test_last": ("helper-imported",),
        "TestFurther.test_more": ("helper-imported",),  # inherited
    }
    (own,) = (i for i in found.impacts if i.test.cls == "TestPlain")
    fact = own.evidence[0]
    assert (fact.path, fact.line) == ("test/test_plain.py", 1 if "(line 1: " in fact.detail else None)
    assert problem in fact.detail
    # what triage looks at is there, of the base
    assert found.inventory.find(own.test) is not None
    assert [item.path for item in found.not_exercised] == ["test/test_plain.py"]
    assert any("test/test_plain.py cannot be read (" in warning for warning in found.warnings)
    assert not found.widened
    # the other way round: a file that can be read again has new tests only
    mended = discovered({"test/test_plain.py": text}, {"test/test_plain.py": PLAIN}, also=also)
    assert {i.codes[0] for i in mended.impacts if i.test.file == "test/test_plain.py"} == {"new-test"}
    assert mended.not_exercised == ()


def test_a_broken_file_that_moves_or_is_new_is_said(discovered: Discover) -> None:
    from selector.discover import discover

    new = discovered({}, {"test/test_new.py": "def ("}, also=ALSO)
    assert (new.impacts, [item.path for item in new.not_exercised]) == ((), ["test/test_new.py"])
    both = discovered({"test/test_new.py": "def ("}, {"test/test_new.py": "def ((("}, also=ALSO)
    assert (both.impacts, [item.path for item in both.not_exercised]) == ((), ["test/test_new.py"])
    uses = {**ALSO, "test/test_user.py": "import helper\n" + PLAIN}
    base, head = MemoryTree({**uses, "test/helper.py": PLAIN}), MemoryTree({**uses, "test/moved.py": "def ("})
    moved = FileChange("test/moved.py", "renamed", "test/helper.py", PLAIN.encode(), b"def (")
    found = discover(base, head, Change("a", "b", (moved,)), None)
    assert {str(i.test) for i in found.impacts} == {
        "test/moved.py::TestPlain::test_nothing",
        "test/test_user.py::TestPlain::test_nothing",
    }


def test_a_broken_helper_brings_every_test_of_the_files_that_import_it(discovered: Discover) -> None:
    uses = "import helper\nclass TestUser(TestCase):\n    def test_without_it(self): pass\n"
    for base in ({"test/helper.py": "def help(): pass\n"}, {}):
        found = discovered(base, {"test/helper.py": "def help(: pass\n"}, also={**ALSO, "test/test_user.py": uses})
        assert codes(found) == {"TestUser.test_without_it": ("helper-imported",)}
        assert [item.path for item in found.not_exercised] == ["test/helper.py"]


# a link is in the change, and in no tree
@pytest.mark.parametrize(
    ("change", "base", "head", "reached"),
    [
        (FileChange("test/test_link.py", "added", None, None, b"/etc/passwd"), {}, {}, {}),
        (FileChange("test/test_link.py", "removed", None, b"/etc/passwd", None), {}, {}, {}),
        (FileChange("test/test_link.py", "modified", None, b"/etc/passwd", b"a.py"), {}, {}, {}),
        (FileChange("test/test_link.py", "modified", None, b"a.py", b"a.py"), {}, {"test/test_link.py": "a.py"}, {}),
        (
            FileChange("test/test_link.py", "modified", None, b"a.py", PLAIN.encode()),
            {},
            {"test/test_link.py": PLAIN},
            {"TestPlain.test_nothing": ("new-test", "helper")},
        ),
        (
            FileChange("test/test_link.py", "modified", None, PLAIN.encode(), b"a.py"),
            {"test/test_link.py": PLAIN},
            {},
            {},
        ),
        (
            FileChange("test/test_link.py", "modified", None, None, None, binary=True),
            {"test/test_link.py": PLAIN},
            {},
            {},
        ),
        (FileChange("test/data/link.txt", "added", None, None, b"/etc/passwd"), {}, {}, None),
        (FileChange("torch/link.py", "added", None, None, b"/etc/passwd"), {}, {}, None),
        (FileChange("torch/_refs/link.py", "modified", None, b"a.py", b"/etc/passwd"), {}, {}, None),
        (FileChange("torch/testing/link.py", "added", None, None, b"/etc/passwd"), {}, {}, None),
    ],
)
def test_a_link_is_said_and_never_exercised(
    change: FileChange, base: dict[str, str], head: dict[str, str], reached: dict[str, tuple[str, ...]] | None
) -> None:
    from selector.discover import discover

    also = {"test/test_generic.py": GENERIC}
    found = discover(MemoryTree({**also, **base}), MemoryTree({**also, **head}), Change("a", "b", (change,)), None)
    assert [item.path for item in found.not_exercised] == [change.path]
    assert "symbolic link" in found.not_exercised[0].reason
    assert about(found, change.path)
    if reached is None:
        assert found.widened
    else:
        assert codes(found) == reached
        assert about(found, change.path) == [("not-exercised", "not-a-file")]


def test_a_large_file_is_compared_by_what_the_trees_hold() -> None:
    from selector.discover import discover

    rest = "\n".join(f"VALUE_{n} = '{'x' * 5_000}'" for n in range(500))
    code = "class TestBig(TestCase):\n    def test_a(self, device): {0}\n    def test_b(self, device): pass\n"
    base, head = (MemoryTree({**ALSO, "test/test_big.py": code.format(n) + rest}) for n in ("pass", "return"))
    change = FileChange("test/test_big.py", "modified", None, None, None, binary=True)
    found = discover(base, head, Change("a", "b", (change,)), None)
    assert [str(i.test) for i in found.impacts] == ["test/test_big.py::TestBig::test_a"]


def test_a_mode_change_reaches_the_smoke_set_alone() -> None:
    from selector.discover import discover

    tree = MemoryTree({**ALSO, "setup.py": "a"})
    found = discover(tree, tree, Change("a", "b", (FileChange("setup.py", "modified", None, b"a", b"a"),)), None)
    assert ({impact.codes for impact in found.impacts}, found.widened) == ({("smoke",)}, False)


def test_an_empty_change_reaches_nothing_and_says_so(discovered: Discover) -> None:
    found = discovered({}, {}, also=ALSO)
    assert found.impacts == ()
    assert about(found, "change") == [("no-impact", "no-change")]


def test_a_tree_without_tests_is_refused(discovered: Discover) -> None:
    with pytest.raises(TreeError):
        discovered({"setup.py": "a"}, {"setup.py": "b"})


def test_hundreds_of_ops_at_once_are_one_pass_over_the_tests(discovered: Discover) -> None:
    count = 600
    database = OpDatabase("2.13.0", tuple(OpEntry(f"op{n}", "", f"op{n}", ("op_db",)) for n in range(count)))
    also = {f"test/test_{k}.py": GENERIC.replace("test_", f"test_{k}_") for k in range(150)}
    yaml = "".join(f"- func: op{n}(Tensor self) -> Tensor\n" for n in range(count))
    refs = "def _shared(x): return 1\n" + "".join(f"def op{n}(x): return _shared(x)\n" for n in range(count))
    base = {"aten/src/ATen/native/native_functions.yaml": yaml, "torch/_refs/__init__.py": refs}
    head = {
        path: text.replace("-> Tensor", "-> Tensor?").replace("return 1", "return 2") for path, text in base.items()
    }
    began = time.process_time()
    found = discovered(base, head, also=also, opdb=database)
    assert time.process_time() - began < 15.0
    assert len(found.impacts) == 150 * 3  # of lists that the database does not know it is assumed
    assert not found.widened


def test_three_thousand_changed_files_are_bounded_and_widen(discovered: Discover) -> None:
    base = {f"torch/part{n % 40}/m{n}.py": f"def f{n}():\n    return {n}\n" for n in range(2_000)}
    base |= {f"csrc/x{n}.cpp": f"int f{n}();" for n in range(800)}
    base |= {
        f"test/part/test_{n}.py": f"class TestN(TestCase):\n    def test_{n}(self): return {n}\n" for n in range(200)
    }
    head = {path: text.replace("return", "return 1 +").replace("int", "long") for path, text in base.items()}
    began = time.process_time()
    found = discovered(base, head, also=ALSO)
    assert time.process_time() - began < 20.0
    assert found.widened
    assert {"edited-test"} == {i.codes[0] for i in found.impacts if i.test.file.startswith("test/part/")}
    assert len([d for d in found.decisions if d.code == "too-many-changes"]) >= 1_000


# -------------------------------------------------------------------------------------------------------- in general


def test_the_same_change_gives_the_same_answer_with_and_without_a_cache(discovered: Discover, opdb: OpDatabase) -> None:
    path = "torch/_refs/__init__.py"
    sides = {path: REFS, LIB_PATH: LIB}, {path: REFS.replace("return a\n@", "return +a\n@"), LIB_PATH: LIB + "x = 1\n"}
    cache = MemoryCache()
    runs = [discovered(*sides, also=ALSO, opdb=opdb, cache=c) for c in (None, cache, cache)]
    assert runs[0].impacts == runs[1].impacts == runs[2].impacts
    assert runs[0].decisions == runs[1].decisions == runs[2].decisions


def test_every_code_that_appears_is_declared(discovered: Discover, opdb: OpDatabase) -> None:
    found = discovered(
        {"setup.py": "a", "test/test_plain.py": PLAIN}, {"test/test_plain.py": "x = ("}, also=ALSO, opdb=opdb
    )
    assert {d.code for d in found.decisions} <= FILE_CODES | set(IMPACT_CODES)
    assert all(TestId.parse(str(i.test)) == i.test for i in found.impacts)
