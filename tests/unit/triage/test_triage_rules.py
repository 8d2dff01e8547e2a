# ruff: noqa: E501
"""A row a case: what triage says of a test of a class, seen from a device that is not CUDA."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

import pytest

from selector.agents import Asked, RulesAgent
from selector.configs import Capability
from selector.discover import Impact, Inventory, take
from selector.discover.findings import IMPACT_CODES
from selector.model import Decision, Evidence, OpDatabase, OpEntry, Stage, TestId
from selector.plan.model import RelevantTest
from selector.trees import MemoryTree
from selector.triage import Opinion, Ruling, Subject, Triage, triage
from selector.triage.rules import CODES, MODULES, RULES
from selector.triage.stage import STAGE_CODES

SHEET = Capability(
    name="spyre-test",
    device="spyre",
    dtypes=frozenset({"float16", "float32", "int64"}),
    ops=None,
    fallback_ops=frozenset(),
    limits={"devices": 1},
    machine={},
    features={"distributed": False, "sparse": False, "quantized": False},
)
MADE = "instantiate_device_type_tests(TestX, globals(){})\n"
FILE = "test/test_x.py"


def inventory(code: str, path: str = FILE, **others: str) -> Inventory:
    return take(MemoryTree({path: textwrap.dedent(code), **{f"test/{k}.py": v for k, v in others.items()}}))


def impacts(found: Inventory, codes: tuple[str, ...] = ("helper",), path: str = FILE) -> list[Impact]:
    fact = Evidence("helper", "reaches a helper", path)
    return [Impact(test, codes, (fact,), IMPACT_CODES[codes[0]]) for test, _, _ in found.tests(path)]


def sort(found: Inventory, sheet: Capability = SHEET, path: str = FILE, **more: object) -> Triage:
    return triage(impacts(found, path=path), found, sheet, agent=RulesAgent(), **more)  # type: ignore[arg-type]


def only(result: Triage) -> Decision:
    """The decision; of a class and one that inherits from it, the one that both have."""
    first = result.decisions[0]
    assert {(d.verdict, d.code) for d in result.decisions} == {(first.verdict, first.code)}
    return first


def category(decision: Decision) -> str:
    return next(fact.detail for fact in decision.evidence if fact.kind == "category")


def body_of(
    decorators: str = "", body: str = "pass", base: str = "TestCase", before: str = "", args: str = "self, device"
) -> str:
    lines = "".join(f"    {line}\n" for line in decorators.splitlines())
    return f"{before}\nclass TestX({base}):\n{lines}    def test_a({args}): {body}\n"


DEVICE_GENERIC = [
    # decorators, limits of the instantiation, verdict, code, category
    ("", "", "relevant", "device-generic", "front-end-only"),
    ("@onlyNativeDeviceTypes", "", "relevant", "device-generic", "front-end-only"),
    ("@onlyNativeDeviceTypesAnd(['hpu'])", "", "relevant", "device-generic", "front-end-only"),
    ("@onlyAccelerator", "", "relevant", "device-generic", "front-end-only"),
    ("@onlyPRIVATEUSE1", "", "relevant", "device-generic", "front-end-only"),
    ("@onlyCUDAAndPRIVATEUSE1", "", "relevant", "device-generic", "front-end-only"),
    ("@onlyOn(['cuda', 'spyre'])", "", "relevant", "device-generic", "front-end-only"),
    ("@onlyOn(somewhere())", "", "relevant", "decorator-unclear", "front-end-only"),
    ("@onlyCUDA", "", "irrelevant", "decorator-other-device", "cuda-only"),
    ("@onlyCPU", "", "irrelevant", "decorator-other-device", "cpu-only"),
    ("@onlyMPS", "", "irrelevant", "decorator-other-device", "other-backend"),
    ("@onlyOn('xpu')", "", "irrelevant", "decorator-other-device", "other-backend"),
    ("@onlyOn(['cuda', 'cpu'])", "", "irrelevant", "decorator-other-device", "cuda-only"),
    ("@skipPRIVATEUSE1", "", "irrelevant", "decorator-not-this-device", "other-backend"),
    ("@unittest.skip('broken')", "", "irrelevant", "always-skipped", "front-end-only"),
    ("@unittest.skipIf(not TEST_CUDA, 'x')", "", "irrelevant", "needs-other-device", "cuda-only"),
    ("@unittest.skipUnless(TEST_MULTIGPU, 'x')", "", "irrelevant", "needs-other-device", "cuda-only"),
    ("@unittest.skipUnless(TEST_XPU, 'x')", "", "irrelevant", "needs-other-device", "other-backend"),
    # a condition is worked out from what is known: here is no other device, and one of this kind
    ("@unittest.skipIf(TEST_CUDA, 'x')", "", "relevant", "device-generic", "front-end-only"),
    ("@unittest.skipUnless(not TEST_CUDA, 'x')", "", "relevant", "device-generic", "front-end-only"),
    ("@unittest.skipIf(not TEST_CUDA or slow(), 'x')", "", "irrelevant", "needs-other-device", "cuda-only"),
    ("@unittest.skipIf(not has_triton() or (not TEST_CUDA and not TEST_XPU), 'x')", "", "irrelevant", "needs-other-device", "other-backend"),
    ("@unittest.skipIf(not (TEST_CUDNN or TEST_WITH_ROCM), 'x')", "", "irrelevant", "needs-other-device", "cuda-only"),
    ("@unittest.skipIf(not torch.cuda.is_available(), 'x')", "", "irrelevant", "needs-other-device", "cuda-only"),
    ("@unittest.skipIf(not torch.backends.mps.is_available(), 'x')", "", "irrelevant", "needs-other-device", "other-backend"),
    ("@unittest.skipIf(torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0), 'x')", "", "relevant", "device-generic", "front-end-only"),
    ("@unittest.skipIf(not (TEST_CUDA or TEST_PRIVATEUSE1), 'x')", "", "relevant", "device-generic", "front-end-only"),
    ("@unittest.skipIf(IS_ARM64 or TEST_PRIVATEUSE1, 'x')", "", "irrelevant", "needs-other-device", "other-backend"),
    ("@unittest.skipIf(TEST_WITH_ROCM or IS_WINDOWS, 'x')", "", "relevant", "device-generic", "front-end-only"),
    ("@unittest.skipIf(lacks('cuda', TEST_CUDA), 'x')", "", "relevant", "needs-unclear", "front-end-only"),
    ("@unittest.skipIf(lacks(TEST_CUDA) or IS_WINDOWS, 'x')", "", "relevant", "needs-unclear", "front-end-only"),
    ("@unittest.skipIf(True, 'broken')", "", "irrelevant", "always-skipped", "front-end-only"),
    ("@unittest.skipUnless(False, 'broken')", "", "irrelevant", "always-skipped", "front-end-only"),
    ("@unittest.skipIf(False, 'broken')", "", "relevant", "device-generic", "front-end-only"),
    ("@unittest.skipIf(IS_WINDOWS, 'x')", "", "relevant", "device-generic", "front-end-only"),
    ("@deviceCountAtLeast(1)", "", "relevant", "device-generic", "front-end-only"),
    ("@deviceCountAtLeast(2)", "", "irrelevant", "too-few-devices", "front-end-only"),
    ("@dtypes(torch.float64, torch.complex64)", "", "irrelevant", "dtypes-unsupported", "front-end-only"),
    ("@dtypes(torch.double, torch.half)", "", "relevant", "device-generic", "front-end-only"),
    ("@dtypes(torch.double, *floating())", "", "relevant", "device-generic", "front-end-only"),
    ("@dtypesIfPRIVATEUSE1(torch.half)\n@dtypes(torch.double)", "", "relevant", "device-generic", "front-end-only"),
    ("@ops(op_db, allowed_dtypes=(torch.double,))", "", "irrelevant", "dtypes-unsupported", "op-correctness"),
    ("@ops(op_db, allowed_dtypes=(torch.half,))", "", "relevant", "device-generic", "op-correctness"),
    ("", ", only_for='cuda'", "irrelevant", "instantiated-elsewhere", "cuda-only"),
    ("", ", only_for=('cpu',)", "irrelevant", "instantiated-elsewhere", "cpu-only"),
    ("", ", only_for=('mps', 'xpu')", "irrelevant", "instantiated-elsewhere", "other-backend"),
    ("", ", only_for=('cuda', 'privateuse1')", "relevant", "device-generic", "front-end-only"),
    ("", ", only_for='spyre'", "relevant", "device-generic", "front-end-only"),
    ("", ", only_for=devices()", "relevant", "instantiation-unclear", "front-end-only"),
    ("", ", except_for='cuda'", "relevant", "device-generic", "front-end-only"),
    ("", ", except_for=('privateuse1', 'cpu')", "irrelevant", "instantiated-elsewhere", "other-backend"),
    ("", ", except_for=devices()", "relevant", "instantiation-unclear", "front-end-only"),
]  # fmt: skip


@pytest.mark.parametrize(("decorators", "limits", "verdict", "code", "kind"), DEVICE_GENERIC)
def test_device_generic_classes(decorators: str, limits: str, verdict: str, code: str, kind: str) -> None:
    decision = only(sort(inventory(body_of(decorators) + MADE.format(limits))))
    assert (decision.verdict, decision.code, category(decision)) == (verdict, code, kind)
    assert decision.stage is Stage.TRIAGE
    # whatever drops a test shows where that is written
    if verdict == "irrelevant":
        assert all(fact.line for fact in decision.evidence if fact.kind != "category")


PLAIN = [
    # code, verdict, reason code
    (body_of(args="self"), "irrelevant", "no-device"),
    (body_of(args="self", body="self.assertEqual(1, torch.ones(2).sum())"), "irrelevant", "no-device"),
    (body_of(args="self", body="torch.ones(2).cuda()"), "irrelevant", "plain-other-device"),
    (body_of(args="self", body="torch.ones(2, device='cuda:0')"), "irrelevant", "plain-other-device"),
    (body_of(args="self", before="def put(x): return x.to('cuda')\n", body="put(1)"), "irrelevant", "plain-other-device"),
    (body_of(args="self", body="torch.ones(2, device=GPU_TYPE)", before="from x import GPU_TYPE"), "irrelevant", "plain-other-device"),
    (body_of(args="self", body="torch.accelerator.current_device_index()"), "relevant", "plain-device"),
    (body_of(args="self", body="torch.ones(2, device='privateuse1')"), "relevant", "plain-device"),
    (body_of(args="self", body="torch.ones(2, device='spyre')"), "relevant", "plain-device"),
    (body_of(), "relevant", "plain-device"),
    (body_of(args="self", base="object"), "relevant", "mixin"),
    (body_of(args="self", base="made()"), "relevant", "mixin"),
    (body_of(args="self", base="MultiProcessTestCase"), "irrelevant", "distributed-unsupported"),
    (body_of(args="self") + "    hw_classification = HardwareClassification.CUDA\n", "irrelevant", "hardware-other"),
    (body_of(args="self") + "    hw_classification = HardwareClassification.GENERIC\n", "irrelevant", "no-device"),
    ("@unittest.skip('x')" + body_of(args="self"), "irrelevant", "always-skipped"),
    (body_of() + "class TestY(TestX): pass\ninstantiate_device_type_tests(TestY, globals())\n", "relevant", "device-generic"),
    (body_of("@requires_cuda", args="self"), "irrelevant", "needs-other-device"),
    # flags and decorators that the file makes of others
    (body_of("@needs_it", args="self", before="needs_it = unittest.skipIf(not TEST_CUDA, 'x')\n"), "irrelevant", "needs-other-device"),
    (body_of("@needs_it()", args="self", before="needs_it = functools.partial(unittest.skipIf, not HAS_CUDA, 'x')\n"), "irrelevant", "needs-other-device"),
    (body_of("@unittest.skipUnless(READY, 'x')", args="self", before="READY = TEST_CUDA and compiles()\n"), "irrelevant", "needs-other-device"),
    (body_of("@unittest.skipUnless(READY, 'x')", args="self", before="READY = compiles()\n"), "irrelevant", "no-device"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "verdict", "reason"), PLAIN)
def test_classes_of_no_device_type(code: str, verdict: str, reason: str) -> None:
    decision = only(sort(inventory(code)))
    assert (decision.verdict, decision.code) == (verdict, reason)


MAKE = "instantiate_device_type_tests({}, globals())\n"
IMPORT = "from common_device_type import instantiate_device_type_tests\n"
MAKES = IMPORT + MAKE.format("TestX")
LOOP = f"{IMPORT}for one in (TestX,):\n    {MAKE.format('one')}"
OTHER = f"{IMPORT}class TestO(TestCase): pass\n{MAKE.format('TestO')}"


@pytest.mark.parametrize(
    ("others", "code"),
    [
        # a file that lists it for a runner, or inherits from it, makes it for no device
        ({"other": "from test_x import TestX\n"}, "no-device"),
        ({"other": "from test_x import TestX\nclass TestY(TestX): pass\n"}, "no-device"),
        ({"other": f"from test_x import TestX\n{OTHER}"}, "no-device"),
        ({"other": f"from test_x import TestX\n{MAKES}"}, "imported-elsewhere"),
        ({"other": f"from test_x import TestX\n{LOOP}"}, "imported-elsewhere"),
        ({"other": "from test_x import *\n" + MAKES}, "imported-elsewhere"),
        ({"other": "from test_x import TestX as X\n" + MAKES.replace("TestX", "X")}, "imported-elsewhere"),
        # at second hand
        (
            {"other": "from test_x import TestX as X\n", "third": f"from other import X as TestX\n{MAKES}"},
            "imported-elsewhere",
        ),
        ({"other": "from test_x import TestX\n", "third": f"from other import TestY\n{MAKES}"}, "no-device"),
        (
            {"other": "from third import TestX\nfrom test_x import TestX\n", "third": "from other import TestX\n"},
            "no-device",
        ),
    ],
)
def test_a_class_is_kept_where_another_file_may_make_it_for_devices(others: dict[str, str], code: str) -> None:
    assert only(sort(inventory(body_of(args="self"), **others))).code == code


@pytest.mark.parametrize(
    ("base", "code"),
    [
        ("class Base(unittest.TestCase): pass\n", "no-device"),
        ("from somewhere import Case as TestCase\nclass Base(TestCase): pass\n", "no-device"),
        ("from somewhere import Odd\nclass Base(Odd): pass\n", "mixin"),
        ("class Base(object): pass\n", "mixin"),
    ],
)
def test_what_a_class_is_shows_in_the_files_of_those_above_it(base: str, code: str) -> None:
    found = inventory("from common import Base\nclass TestX(Base):\n    def test_a(self): work()\n", common=base)
    assert only(sort(found)).code == code


@pytest.mark.parametrize(
    ("users", "verdict", "code"),
    [
        ("class TestX(Template, TestCase): pass\n", "irrelevant", "template"),
        ("", "relevant", "mixin"),  # nobody is seen to take it over
    ],
)
def test_what_other_classes_take_over_runs_in_them(users: str, verdict: str, code: str) -> None:
    found = inventory(f"class Template:\n    def test_a(self): work()\n\n{users}")
    decisions = {d.subject.split("::")[1]: d for d in sort(found).decisions}
    assert (decisions["Template"].verdict, decisions["Template"].code) == (verdict, code)
    assert "TestX" not in decisions or decisions["TestX"].code == "no-device", "the class that runs it is judged"


def test_a_template_that_code_makes_of_another_runs_in_the_classes_that_take_it_over() -> None:
    code = """
        def make(cls, name, *bases):
            made = type(name, (cls, *bases), {})
            for key in list(cls.__dict__):
                if key.startswith("test_"):
                    setattr(made, key, getattr(cls, key))
            globals()[name] = made

        class Template:
            def test_a(self): work()

        make(Template, "DynamicTemplate")

        class TestX(Template, TestCase): pass
    """
    decisions = {d.subject.split("::")[1]: d.code for d in sort(inventory(code)).decisions}
    assert decisions == {"Template": "template", "DynamicTemplate": "template", "TestX": "no-device"}


@pytest.mark.parametrize(
    ("body", "base", "verdict", "code"),
    [
        ("work()", "TestCase", "irrelevant", "no-device"),
        ("x.cuda()", "TestCase", "irrelevant", "plain-other-device"),
        ("x.to(torch.accelerator.current_accelerator())", "TestCase", "relevant", "plain-device"),
        ("work()", "somewhere.Unknown", "relevant", "mixin"),
    ],
)
def test_a_class_that_code_makes_is_judged_as_what_it_is_made_of(body: str, base: str, verdict: str, code: str) -> None:
    origin = f"class MiscTests({base}):\n    def test_a(self): {body}\n"
    made = """
        from test_misc import MiscTests

        def make(cls):
            made = type(f"Dynamic{cls.__name__}", (cls,), {})
            for name in list(cls.__dict__):
                if name.startswith("test_"):
                    setattr(made, f"{name}_dynamic", getattr(cls, name))
            globals()[made.__name__] = made

        make(MiscTests)
    """
    found = inventory(made, test_misc=origin)
    decisions = {d.subject.split("::")[-1]: (d.verdict, d.code) for d in sort(found).decisions}
    assert decisions["test_a_dynamic"] == (verdict, code)


def test_the_folder_of_distributed_tests() -> None:
    path = "test/distributed/test_c10d.py"
    found = inventory(body_of(args="self"), path=path)
    assert only(sort(found, path=path)).code == "distributed-unsupported"
    has = replace(SHEET, features={"distributed": True})
    assert only(sort(found, has, path=path)).code == "no-device"
    silent = replace(SHEET, features={})
    kept = only(sort(found, silent, path=path))
    assert (kept.verdict, kept.code) == ("relevant", "distributed-unclear")


def test_what_the_sheet_lacks_lowers_confidence_but_keeps_the_test() -> None:
    code = body_of(body="torch.ones(2, device=device).to_sparse()") + MADE.format("")
    decision = only(sort(inventory(code)))
    assert (decision.verdict, decision.code) == ("relevant", "device-generic-unsupported")
    assert decision.confidence <= 0.5
    assert only(sort(inventory(code), replace(SHEET, features={}))).code == "device-generic"


def test_without_a_device_count_the_rules_ask() -> None:
    code = body_of("@deviceCountAtLeast(2)") + MADE.format("")
    decision = only(sort(inventory(code), replace(SHEET, limits={})))
    assert (decision.verdict, decision.code) == ("relevant", "too-few-devices")


@pytest.mark.parametrize(
    ("codes", "path", "verdict"),
    [
        (("op-kernel-other-backend",), "aten/src/ATen/native/cuda/X.cu", "irrelevant"),
        (("op-kernel-other-backend",), "aten/src/ATen/native/x/X.cu", "relevant"),  # whose is it?
        (("op-kernel", "op-kernel-other-backend"), "aten/src/ATen/native/cuda/X.cu", "relevant"),
    ],
)
def test_kernels_of_other_devices(codes: tuple[str, ...], path: str, verdict: str) -> None:
    found = inventory(body_of() + MADE.format(""))
    (impact,) = impacts(found, codes)
    impact = replace(impact, evidence=(Evidence("op", "runs add", path),))
    assert only(triage([impact], found, SHEET, agent=RulesAgent())).verdict == verdict


# --------------------------------------------------------------------------------------------- evidence beats opinion


def test_a_test_that_was_seen_to_engage_is_never_dropped() -> None:
    found = inventory(body_of("@onlyCUDA") + MADE.format(""))
    test = TestId(FILE, "TestX", "test_a")
    dropped = sort(found)
    assert (dropped.relevant, dropped.counts) == ((), {"relevant": 0, "irrelevant": 1, "ask": 0})
    kept = sort(found, engaged_before={test: 12})
    decision = only(kept)
    assert (decision.verdict, decision.code) == ("relevant", "engaged-before")
    assert "12 kernels" in decision.evidence[0].detail
    assert [r.test for r in kept.relevant] == [test]
    assert only(sort(found, engaged_before={test: 0})).verdict == "irrelevant"


class Dropper:
    def __init__(self, name: str) -> None:
        self.name = name

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        return [replace(one.opinion, ruling=Ruling.IRRELEVANT, by=self.name) for one in asked]


def test_a_confirmed_drop_counts_but_not_against_kernels() -> None:
    found = inventory(body_of() + MADE.format(", only_for=devices()"))
    (impact,) = impacts(found)
    dropped = triage([impact], found, SHEET, agent=Dropper("critic"))
    assert (dropped.counts, only(dropped).by) == ({"relevant": 0, "irrelevant": 1, "ask": 1}, "critic")
    kept = triage([impact], found, SHEET, engaged_before={impact.test: 1}, agent=Dropper("critic"))
    assert only(kept).code == "engaged-before"


@pytest.mark.parametrize(("name", "code"), [("model", "helper"), ("critic", "edited-test"), ("critic", "new-test")])
def test_no_agent_drops_on_its_own_word_nor_what_the_change_edits(name: str, code: str) -> None:
    found = inventory(body_of() + MADE.format(", only_for=devices()"))
    kept = triage(impacts(found, codes=(code,)), found, SHEET, agent=Dropper(name))
    assert (only(kept).verdict, only(kept).code, only(kept).by) == ("relevant", "agent-unconfirmed", "rules")
    assert len(kept.relevant) == 1


def test_the_rules_agent_keeps_what_is_unclear() -> None:
    result = sort(inventory(body_of() + MADE.format(", only_for=devices()")))
    assert result.counts == {"relevant": 1, "irrelevant": 0, "ask": 1}
    assert only(result).by == "rules"
    assert only(result).confidence == 0.5
    assert 0 < result.relevant[0].weight < IMPACT_CODES["helper"]


def test_an_impact_without_a_test_is_a_fault() -> None:
    found = inventory(body_of() + MADE.format(""))
    stranger = Impact(TestId(FILE, "TestX", "test_gone"), ("helper",), (), 0.9)
    with pytest.raises(LookupError, match="test_gone"):
        triage([stranger], found, SHEET, agent=RulesAgent())


# ------------------------------------------------------------------------------------------------------ the estimate

DATABASE = OpDatabase(
    "2.13.0",
    (
        OpEntry("add", "", "add", ("op_db",), ("float16", "float32", "float64", "int64")),
        OpEntry("exp", "", "exp", ("op_db", "unary_ufuncs"), ("float32",)),
        OpEntry("_refs.exp", "", "exp", ("python_ref_db",), ("float32", "float64")),
    ),
    ("nn.Linear", "nn.ReLU", "nn.GRU"),
)


@pytest.mark.parametrize(
    ("decorators", "variants"),
    [
        ("", 1),
        ("@dtypes(torch.float32, torch.float16, torch.float64)", 2),
        ("@dtypes(torch.float32)\n@parametrize('n', [1, 2, 3])", 3),
        ("@ops(op_db)", 4),
        ("@ops(op_db, dtypes=OpDTypes.any_one)", 2),
        ("@ops(op_db, allowed_dtypes=(torch.float32,))", 2),
        ("@ops([op for op in op_db if op.name == 'exp'])", 1),
        ("@ops(ops_and_refs)", 5),
        ("@ops(unknown_db)", 1),
        ("@modules(module_db, allowed_dtypes=(torch.float32,))", 6),
        ("@modules([m for m in module_db if m.name in ('nn.ReLU',)], allowed_dtypes=(torch.half, torch.float))", 4),
    ],
)
def test_how_many_variants_a_test_has(decorators: str, variants: int) -> None:
    result = sort(inventory(body_of(decorators) + MADE.format("")), opdb=DATABASE)
    assert [(r.est_variants, r.slow) for r in result.relevant] == [(variants, False)]


def test_an_impact_through_an_op_reaches_that_ops_variants_only() -> None:
    found = inventory(body_of("@ops(op_db)") + MADE.format(""))
    whole = sort(found, opdb=DATABASE).relevant[0]
    assert (whole.est_variants, whole.ops) == (4, ())
    (one,) = impacts(found, path=FILE)
    limited = replace(one, ops=frozenset({"exp"}))
    result = triage([limited], found, SHEET, DATABASE, agent=RulesAgent())
    assert (result.relevant[0].est_variants, result.relevant[0].ops) == (1, ("exp",))
    # a test that only calls the op has no variants of it
    plain = inventory(body_of("@dtypes(torch.float32, torch.float16)") + MADE.format(""))
    (one,) = impacts(plain, path=FILE)
    result = triage([replace(one, ops=frozenset({"exp"}))], plain, SHEET, DATABASE, agent=RulesAgent())
    assert (result.relevant[0].est_variants, result.relevant[0].ops) == (2, ())


def test_slow_tests_are_marked() -> None:
    result = sort(inventory(body_of("@slowTest") + MADE.format("")))
    assert result.relevant == (
        RelevantTest(TestId(FILE, "TestX", "test_a"), ("helper",), result.relevant[0].weight, 1, True),
    )


def test_every_rule_is_reached_and_every_code_is_declared() -> None:
    seen = set()
    for decorators, limits, *_ in DEVICE_GENERIC:
        seen.add(only(sort(inventory(body_of(decorators) + MADE.format(limits)))).code)
    for code, _, _ in PLAIN:
        seen.add(only(sort(inventory(code))).code)
    assert seen <= CODES | STAGE_CODES
    assert len(CODES) == sum(len(module.CODES) for module in MODULES), "two rules share a code"
    assert len({name for name, _ in RULES}) == len(RULES)
