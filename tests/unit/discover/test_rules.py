"""One table a rule: a change, the tests it reaches, the code, and the evidence that names why."""

# ruff: noqa: E501 - programs as strings

from __future__ import annotations

from collections.abc import Callable

import pytest

from selector.discover import Discovery, Hints, discover
from selector.discover.findings import IMPACT_CODES
from selector.discover.measured import MeasuredError, MeasuredLinks, PastFailure
from selector.discover.rules.smoke import pick
from selector.model import Change, OpDatabase, TestId
from selector.trees import MemoryTree, diff_trees

Discover = Callable[..., Discovery]
TESTS = """
from torch.testing._internal.common_methods_invocations import op_db, unary_ufuncs
class TestGeneric(TestCase):
    @ops(unary_ufuncs)
    def test_unary(self, device, dtype, op): pass
    @ops([op for op in op_db if op.name == "sum"])
    def test_sum_only(self, device, dtype, op): pass
    def test_plain(self, device): pass
instantiate_device_type_tests(TestGeneric, globals())
"""
NAMED = "test/test_generic.py"
YAML = """
- func: logit(Tensor self) -> Tensor
  dispatch:
    CPU: logit_fast
- func: sum.dim(Tensor self) -> Tensor
  dispatch:
    CPU, CUDA: total_up
"""
DERIVATIVES = "- name: logit(Tensor self) -> Tensor\n  self: shifted_odds(grad, self)\n"
ALSO = {
    NAMED: TESTS,
    "aten/src/ATen/native/native_functions.yaml": YAML,
    "tools/autograd/derivatives.yaml": DERIVATIVES,
    "aten/src/ATen/native/Uses.cpp": "#include <ATen/native/Shared.h>\nTensor logit(const Tensor& self) {\n  return shared_part(self);\n}\nTensor sum(const Tensor& self) {\n  return other_part(self);\n}\n",
}


def reached(found: Discovery) -> dict[str, str]:
    return {impact.test.method: impact.codes[0] for impact in found.impacts if impact.codes != ("unmapped-change",)}


def why(found: Discovery, method: str) -> str:
    return next(impact.evidence[0].detail for impact in found.impacts if impact.test.method == method)


LOGIT = {"test_unary"}
SUM = {"test_sum_only"}
CASES = [
    # -------- dispatch registrations: the YAML of native functions, m.impl, REGISTER_DISPATCH
    ("aten/src/ATen/native/A.cpp", "Tensor logit_fast(const Tensor& s) {\n  return s;\n}\n", "return s", "return +s", LOGIT, "op-kernel",
     "a function of aten/src/ATen/native/A.cpp that names it differs", False),
    ("aten/src/ATen/native/A.cpp", "Tensor total_up(const Tensor& s) {\n  return s;\n}\n", "return s", "return +s", SUM, "op-kernel", "runs sum", False),
    ("aten/src/ATen/native/A.cpp", "Tensor mine(const Tensor& s) {\n  return s;\n}\nTORCH_LIBRARY_IMPL(aten, CPU, m) {\n  m.impl(\"sum\", TORCH_FN(mine));\n}\n",
     "return s", "return +s", SUM, "op-kernel", "runs sum", False),
    ("aten/src/ATen/native/cpu/A.cpp", "void inner_loop(TensorIterator& i) {\n  go(i);\n}\nREGISTER_DISPATCH(logit_stub, &inner_loop);\n",
     "go(i)", "run(i)", LOGIT, "op-kernel", "runs logit", False),
    # -------- what a kernel file implements, where its code names no op
    ("aten/src/ATen/native/Odd.cpp", "#include <ATen/ops/sum_native.h>\nstatic int helper_only() {\n  return 1;\n}\n", "return 1", "return 2", SUM, "op-kernel",
     "aten/src/ATen/native/Odd.cpp implements it", False),
    # -------- headers, by the kernels that include them
    ("aten/src/ATen/native/Shared.h", "inline Tensor shared_part(const Tensor& s) {\n  return s;\n}\ninline Tensor other_part(const Tensor& s) {\n  return s;\n}\n",
     "shared_part(const Tensor& s) {\n  return s", "shared_part(const Tensor& s) {\n  return +s", LOGIT, "op-native-code", "a kernel of it uses what differs in aten/src/ATen/native/Shared.h", False),
    # -------- derivatives
    ("torch/csrc/autograd/FunctionsManual.cpp", "Tensor shifted_odds(const Tensor& g, const Tensor& s) {\n  return g;\n}\n", "return g", "return +g", LOGIT, "op-native-code",
     "its derivative calls a function of torch/csrc/autograd/FunctionsManual.cpp that differs", False),
    # -------- generating scripts: a name in a list is exact, code is not
    ("tools/autograd/gen_variable_type.py", "SKIPPED = {\n    \"add\",\n}\n", "    \"add\",\n", "    \"add\",\n    \"logit\",\n", LOGIT, "op-codegen",
     "a line of tools/autograd/gen_variable_type.py that names it differs", False),
    ("torchgen/gen.py", "def go():\n    return 1\n", "return 1", "return 2", set(), "", "it generates code for every op", True),
    # -------- Python functions of torch
    ("torch/_decomp/decompositions.py", "@register_decomposition(aten.logit)\ndef odds(x):\n    return x\n", "return x", "return +x", LOGIT, "op-decomposition",
     "of torch/_decomp/decompositions.py", False),
    ("torch/functional.py", "def logit(x):\n    return x\n", "return x", "return +x", LOGIT, "op-python", "which is defined in torch/functional.py", False),
    # -------- lowerings, meta functions
    ("torch/_inductor/lowering.py", "@register_lowering(aten.logit, type_promotion_kind=None)\ndef odds(x):\n    return inner(x)\ndef inner(x): return x\n",
     "return x\n", "return +x\n", LOGIT, "op-registered", "odds of torch/_inductor/lowering.py is its lowering, which uses inner", False),
    ("torch/_meta_registrations.py", "@register_meta([aten.sum.dim_IntList, aten.sum])\n@out_wrapper()\ndef total(x):\n    return x\n", "return x", "return +x", SUM, "op-registered",
     "total of torch/_meta_registrations.py is its meta function", False),
    ("torch/_inductor/lowering.py", "make_pointwise(aten.logit)\nregister_pointwise(aten.sum, override=1)\n", "override=1", "override=2", SUM, "op-registered", "is its lowering", False),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "old", "new", "tests", "code", "detail", "widened"), CASES)
def test_rules_that_know_ops(
    discovered: Discover,
    opdb: OpDatabase,
    path: str,
    text: str,
    old: str,
    new: str,
    tests: set[str],
    code: str,
    detail: str,
    widened: bool,
) -> None:
    assert text.count(old) >= 1
    found = discovered({path: text}, {path: text.replace(old, new, 1)}, also=ALSO, opdb=opdb)
    by_test = reached(found)
    assert {name for name in by_test if by_test[name] == code} == tests
    for name in tests:
        assert detail in why(found, name)
        assert next(i.evidence[0].path for i in found.impacts if i.test.method == name) == path
    if not tests:
        assert detail in " ".join(d.reason for d in found.decisions)
    assert found.widened is widened
    native = not path.endswith(".py") or path.startswith(("torchgen/", "tools/"))
    assert (found.native_files, found.native_impacted) == ((1, len(tests)) if native else (0, 0))


def test_a_header_of_headers_is_followed_and_one_used_everywhere_is_not(discovered: Discover, opdb: OpDatabase) -> None:
    inner = "aten/src/ATen/native/Inner.h"
    text = "inline int deep_part(int s) {\n  return s;\n}\n"
    outer = "#include <ATen/native/Inner.h>\ninline Tensor shared_part(const Tensor& s) {\n  return deep_part(s);\n}\n"
    also = {**ALSO, "aten/src/ATen/native/Shared.h": outer}
    found = discovered({inner: text}, {inner: text.replace("return s", "return +s")}, also=also, opdb=opdb)
    assert reached(found) == {"test_unary": "op-native-code"}
    assert not found.widened
    many = {f"aten/src/ATen/core/Use{n}.cpp": "#include <ATen/native/Inner.h>\n" for n in range(200)}
    found = discovered({inner: text}, {inner: text.replace("return s", "return +s")}, also={**also, **many}, opdb=opdb)
    assert found.widened
    assert "more than 150 sources include" in " ".join(d.reason for d in found.decisions)


def test_a_part_of_torch_that_nothing_else_runs_reaches_its_own_tests(discovered: Discover, opdb: OpDatabase) -> None:
    path = "torch/csrc/distributed/c10d/Store.cpp"
    also = {**ALSO, "test/distributed/test_store.py": "class TestStore(TestCase):\n    def test_s(self): pass\n"}
    found = discovered(
        {path: "int a() {\n  return 1;\n}\n"}, {path: "int a() {\n  return 2;\n}\n"}, also=also, opdb=opdb
    )
    assert reached(found) == {"test_s": "area"}
    assert not found.widened


ONE = "class TestS(TestCase):\n    def test_s(self): pass\n"


@pytest.mark.parametrize(
    ("path", "own", "others"),
    [
        ("torch/_inductor/ir.py", "test/distributed/test_inductor_collectives.py", "test/distributed/test_store.py"),
        ("torch/csrc/dynamo/guards.cpp", "test/distributed/test_dynamo_distributed.py", "test/test_dynamics.py"),
        ("functorch/experimental/_cond.py", "test/functorch/test_control_flow.py", "test/test_control.py"),
        ("aten/src/ATen/core/GeneratorForPrivateuseone.cpp", "test/test_cpp_extensions_open_device_registration.py",
         "test/test_cpp_extensions_jit.py"),
    ],
)  # fmt: skip
def test_a_part_of_torch_reaches_files_that_are_named_after_it(
    discovered: Discover, opdb: OpDatabase, path: str, own: str, others: str
) -> None:
    code = "def a():\n    return {}\n" if path.endswith(".py") else "int a() {{\n  return {};\n}}\n"
    also = {**ALSO, own: ONE.replace("_s(", "_own("), others: ONE.replace("_s(", "_other(")}
    found = discovered({path: code.format(1)}, {path: code.format(2)}, also=also, opdb=opdb)
    assert reached(found)["test_own"] == "area"
    assert path in {fact.path for one in found.impacts if one.test.file == own for fact in one.evidence}
    assert reached(found).get("test_other") in (None, "unmapped-change")


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("c10/cuda/CUDACachingAllocator.cpp", "test/test_cuda.py"),
        ("torch/csrc/cuda/Module.cpp", "test/test_cuda_multigpu.py"),
        ("aten/src/ATen/native/mps/operations/Thing.mm", "test/test_mps.py"),
        ("aten/src/ATen/native/cudnn/Thing.cpp", "test/test_cuda.py"),
    ],
)
def test_another_backends_code_reaches_that_backends_tests(
    discovered: Discover, opdb: OpDatabase, path: str, own: str
) -> None:
    code = "int zzz() {{\n  return {};\n}}\n"
    found = discovered({path: code.format(1)}, {path: code.format(2)}, also={**ALSO, own: ONE}, opdb=opdb)
    assert reached(found) == {"test_s": "op-kernel-other-backend"}
    assert not found.widened
    without = discovered({path: code.format(1)}, {path: code.format(2)}, also=ALSO, opdb=opdb)
    assert [d.code for d in without.decisions if d.subject == path] == ["other-backend"]


# ------------------------------------------------------------------------------------------------- users inside torch


INNER = {
    "torch/_tools/deep.py": "def helper(x):\n    return x\ndef other(x):\n    return x\n",
    "torch/_tools/middle.py": "from torch._tools.deep import helper\ndef middle(x):\n    return helper(x)\ndef apart(x):\n    return x\n",
    "torch/_tools/top.py": "import torch._tools.middle as m\nclass Top:\n    def go(self, x):\n        return m.middle(x)\n",
    "test/test_users.py": "from torch._tools.middle import middle, apart\nfrom torch._tools.top import Top\nclass TestUsers(TestCase):\n    def test_middle(self): middle(1)\n    def test_apart(self): apart(1)\n    def test_top(self): Top().go(1)\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "tests", "widened"),
    [
        ("def helper(x):\n    return x", "def helper(x):\n    return +x", {"test_middle", "test_top"}, False),
        ("def other(x):\n    return x", "def other(x):\n    return +x", set(), True),  # nobody uses it: fail open
    ],
)
def test_users_inside_torch_are_followed(
    discovered: Discover, opdb: OpDatabase, old: str, new: str, tests: set[str], widened: bool
) -> None:
    path = "torch/_tools/deep.py"
    also = {key: text for key, text in {**INNER, **ALSO}.items() if key != path}
    found = discovered({path: INNER[path]}, {path: INNER[path].replace(old, new)}, also=also, opdb=opdb)
    assert reached(found) == dict.fromkeys(tests, "used-by-module")
    assert found.widened is widened
    if tests:
        assert why(found, "test_middle").endswith(
            "from torch/_tools/middle.py, which uses helper of torch/_tools/deep.py"
        )
        weights = {i.test.method: i.weight for i in found.impacts}
        assert weights["test_middle"] > weights["test_top"] > 0


def test_a_tool_of_all_of_torch_is_not_followed_and_says_so(discovered: Discover, opdb: OpDatabase) -> None:
    path = "torch/_tools/deep.py"
    users = {
        f"torch/part/m{n}.py": f"from torch._tools.deep import helper\ndef use{n}(x): return helper(x)\n"
        for n in range(40)
    }
    also = {**{key: text for key, text in {**INNER, **ALSO}.items() if key != path}, **users}
    found = discovered(
        {path: INNER[path]},
        {path: INNER[path].replace("x):\n    return x\ndef", "x):\n    return +x\ndef")},
        also=also,
        opdb=opdb,
    )
    assert found.widened
    assert "modules of torch use helper" in " ".join(d.reason for d in found.decisions)


# ----------------------------------------------------------------------------------- what is handed in; text; smoke set


def with_hints(
    base: dict[str, str], head: dict[str, str], also: dict[str, str], opdb: OpDatabase, **how: object
) -> Discovery:
    before, after = MemoryTree({**also, **base}), MemoryTree({**also, **head})
    title, body = str(how.pop("title", "")), str(how.pop("body", ""))
    change = Change("a" * 40, "b" * 40, diff_trees(before, after), title, body)
    return discover(before, after, change, opdb, hints=Hints(**how))  # type: ignore[arg-type]


OPTIM = "torch/optim/odd.py"
STEP = ({OPTIM: "def step_on():\n    return 1\n"}, {OPTIM: "def step_on():\n    return 2\n"})
USER = {
    **ALSO,
    "test/test_u.py": "import torch\nclass TestU(TestCase):\n    def test_step(self): torch.optim.odd.step_on()\n",
}


def test_measured_links_are_a_weak_hint(opdb: OpDatabase) -> None:
    links = MeasuredLinks.from_json('{"torch/optim/odd.py": {"test_generic": 1.0, "gone/test_x": 1.0}}')
    found = with_hints(*STEP, USER, opdb, links=links)
    by_test = reached(found)
    assert {name for name, code in by_test.items() if code == "measured"} == {
        "test_unary",
        "test_sum_only",
        "test_plain",
    }
    assert (
        why(found, "test_plain")
        == "test/test_generic.py was measured to run torch/optim/odd.py (weight 1, one of 1 files that do)"
    )
    # it stands for no rule: what nothing maps still widens
    alone = with_hints({OPTIM: "def a(): return 1\n"}, {OPTIM: "def a(): return 2\n"}, ALSO, opdb, links=links)
    assert alone.widened
    # a source that nearly every file runs says nothing
    everywhere = MeasuredLinks({OPTIM: {f"test/test_{n}.py": 1.0 for n in range(60)}})
    many = {f"test/test_{n}.py": "class TestN(TestCase):\n    def test_n(self): pass\n" for n in range(60)}
    assert "measured" not in reached(with_hints(*STEP, {**USER, **many}, opdb, links=everywhere)).values()


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ('{"a": 1}', "'a' has no object"), ('{"a": {"b": "x"}}', "'a': 'b' has no weight"), ('{"a": {"b": -1}}', "has no weight")],
)  # fmt: skip
def test_a_wrong_table_says_where(text: str, words: str) -> None:
    with pytest.raises(MeasuredError, match=words):
        MeasuredLinks.from_json(text)


def test_past_failures_of_the_same_file(opdb: OpDatabase) -> None:
    plain = TestId(NAMED, "TestGeneric", "test_plain")
    table = (
        PastFailure(OPTIM, plain, 3),
        PastFailure("torch/other.py", TestId(NAMED, "TestGeneric", "test_unary"), 9),
        PastFailure(OPTIM, TestId(NAMED, "TestGone", "test_gone"), 9),
    )
    found = with_hints(*STEP, USER, opdb, failures=table)
    assert reached(found)["test_plain"] == "failed-before"
    assert why(found, "test_plain") == "broken 3 times by commits of trunk that changed torch/optim/odd.py"
    assert "test_unary" not in reached(found)


@pytest.mark.parametrize(
    ("title", "body", "test", "code", "detail"),
    [
        ("Fix logit", "", "test_unary", "op-title", "the title names logit, which the test runs"),
        ("Mend it", "It changes `torch.logit`.", "test_unary", "op-title", "the text names logit"),
        ("Mend it", "aten::logit was wrong", "test_unary", "op-title", "the text names logit"),
        ("Repair test_plain", "", "test_plain", "test-named", "the title names test_plain"),
        ("x", "python test/test_generic.py::TestGeneric::test_plain fails", "test_plain", "test-named", "the text names test/test_generic.py::test_plain"),
    ],
)  # fmt: skip
def test_names_in_title_and_text(opdb: OpDatabase, title: str, body: str, test: str, code: str, detail: str) -> None:
    found = with_hints(*STEP, USER, opdb, title=title, body=body)
    assert reached(found)[test] == code
    assert why(found, test).startswith(detail)
    assert reached(with_hints(*STEP, USER, opdb, title="x", body="logit and sum are words here")) == {
        "test_step": "name-use"
    }


def test_the_smoke_set_is_the_trees_or_the_given_one(opdb: OpDatabase) -> None:
    pages = ({"README.md": "a"}, {"README.md": "b"})
    found = with_hints(*pages, ALSO, opdb)
    assert reached(found) == {"test_plain": "smoke"}
    assert why(found, "test_plain").startswith("in the smoke set: the change holds pages or upstream's own CI alone")
    given = with_hints(*pages, ALSO, opdb, smoke=(TestId(NAMED, "TestGeneric", "test_unary"),))
    assert reached(given) == {"test_unary": "smoke"}
    mixed = with_hints({**pages[0], **STEP[0]}, {**pages[1], **STEP[1]}, USER, opdb)
    assert "smoke" not in reached(mixed).values()
    many = MemoryTree({f"test/test_{n:02}.py": TESTS for n in range(30)})
    chosen = pick(discover(many, many, Change("a", "b", ()), opdb).inventory)
    assert len(chosen) == 10
    assert len({test.file for test in chosen}) == 10


def test_every_code_has_a_case() -> None:
    """Here or in one of these files: a code that no test produces could not be trusted."""
    import pathlib

    folder = pathlib.Path(__file__).parent
    files = (
        "test_rules.py",
        "test_impacts.py",
        "test_impacts_of_ops.py",
        "test_impacts_of_test_files.py",
        "test_impacts_unmapped.py",
        "test_traced.py",
        "../test_trials.py",
        "../../integration/test_agents_misbehaving.py",
    )
    text = "".join((folder / name).read_text() for name in files)
    assert [code for code in IMPACT_CODES if f'"{code}"' not in text] == []
