# ruff: noqa: E501
"""Tests that skip themselves on a machine, limits that a config opens, devices that are never used: a row a case."""

from __future__ import annotations

import pytest

from selector.agents import RulesAgent
from selector.configs import Capability
from selector.discover import Impact, take
from selector.model import Decision, Evidence, TestId
from selector.trees import MemoryTree
from selector.triage import triage
from selector.triage.engagement import Uses
from selector.triage.environment import UNKNOWN, Environment, Lifts

SHEET = Capability(
    name="spyre-test",
    device="spyre",
    dtypes=frozenset({"float16", "float32", "int64"}),
    ops=None,
    fallback_ops=frozenset(),
    limits={"devices": 1},
    machine={},
    features={"distributed": False, "compile_inductor": False},
)
BARE = Environment(frozenset({"scipy"}), slow=False)
MADE = "\ninstantiate_device_type_tests(TestX, globals(){})\n"
EVERY = frozenset({"cpu", "cuda", "xpu", "mps"})
FILE = "test/test_x.py"
TEST = TestId(FILE, "TestX", "test_a")


def decide(
    code: str,
    environment: Environment = UNKNOWN,
    opened: frozenset[str] = frozenset(),
    path: str = FILE,
    *,
    read: bool = True,
    idle: bool = False,
    dtypes: frozenset[str] = frozenset(),
) -> Decision:
    tree = MemoryTree({path: code})
    inventory = take(tree)
    test = TestId(path, "TestX", "test_a")
    result = triage(
        [Impact(test, ("helper",), (Evidence("helper", "x", path),), 0.9)],
        inventory,
        SHEET,
        agent=RulesAgent(),
        lifts=lambda _: Lifts(opened, dtypes),
        environment=environment,
        uses=Uses(tree.read, inventory.ids) if read else None,
        idle_before={test} if idle else (),
    )
    (decision,) = result.decisions
    return decision


def a_test(decorators: str = "", body: str = "torch.ones(2, device=device)", args: str = "self, device") -> str:
    lines = "".join(f"    {line}\n" for line in decorators.splitlines())
    return f"from x import GPU_TYPE\nclass TestX(TestCase):\n{lines}    def test_a({args}):\n        {body}\n"


SKIPS = [
    # decorators, what is known of the machine, verdict, code
    ("@unittest.skipIf(not TEST_SCIPY, 'x')", BARE, "irrelevant", "needs-missing"),
    ("@unittest.skipIf(not common_utils.TEST_SCIPY, 'x')", BARE, "irrelevant", "needs-missing"),
    ("@unittest.skipIf(IS_WINDOWS or not TEST_SCIPY, 'x')", BARE, "irrelevant", "needs-missing"),
    ("@unittest.skipIf(IS_WINDOWS and not TEST_SCIPY, 'x')", BARE, "relevant", "device-generic"),
    ("@unittest.skipIf(TEST_SCIPY and fast(), 'x')", BARE, "relevant", "device-generic"),
    ("@unittest.skipUnless(TEST_SCIPY, 'x')", BARE, "irrelevant", "needs-missing"),
    ("@skipIfNoSciPy", BARE, "irrelevant", "needs-missing"),
    ("@unittest.skipIf(not TEST_SCIPY, 'x')", UNKNOWN, "relevant", "device-generic"),
    ("@unittest.skipIf(TEST_SCIPY, 'x')", BARE, "relevant", "device-generic"),
    ("@unittest.skipUnless(not TEST_SCIPY, 'x')", BARE, "relevant", "device-generic"),
    ("@unittest.skipIf(not TEST_NUMPY, 'x')", BARE, "relevant", "device-generic"),
    ("@slowTest", BARE, "irrelevant", "slow-off"),
    ("@slowTest", UNKNOWN, "relevant", "device-generic"),
    ("@slowTest", Environment(slow=True), "relevant", "device-generic"),
    ("@largeTensorTest('12GB')", UNKNOWN, "irrelevant", "memory-unknown"),
    ("@largeTensorTest('12GB', 'cpu')", UNKNOWN, "relevant", "device-generic"),
    ("@largeTensorTest('12GB', device='cuda')", UNKNOWN, "relevant", "device-generic"),
    ("@largeTensorTest('12GB', 'cpu')\n@largeTensorTest('40GB')", UNKNOWN, "irrelevant", "memory-unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("decorators", "environment", "verdict", "code"), SKIPS)
def test_who_skips_itself_engages_nothing(decorators: str, environment: Environment, verdict: str, code: str) -> None:
    decision = decide(a_test(decorators) + MADE.format(""), environment)
    assert (decision.verdict, decision.code) == (verdict, code)


OPENED = [
    # decorators, limits of the class, device types that are opened, verdict, code
    ("@onlyCUDA", "", EVERY, "relevant", "device-generic"),
    ("@onlyCUDA", "", frozenset({"cpu"}), "irrelevant", "decorator-other-device"),
    ("@onlyCPU", "", EVERY, "relevant", "device-generic"),
    ("@onlyOn(['xpu'])", "", EVERY, "relevant", "device-generic"),
    ("@skipPRIVATEUSE1", "", EVERY, "irrelevant", "decorator-not-this-device"),
    ("", ", only_for='cpu'", EVERY, "relevant", "device-generic"),
    ("", ", only_for=('cuda', 'xpu')", frozenset({"xpu"}), "relevant", "device-generic"),
    ("", ", only_for='cpu'", frozenset({"cuda"}), "irrelevant", "instantiated-elsewhere"),
    ("", ", except_for='privateuse1'", EVERY, "irrelevant", "instantiated-elsewhere"),
    ("@unittest.skipIf(not TEST_CUDA, 'x')", "", EVERY, "irrelevant", "needs-other-device"),
    ("@deviceCountAtLeast(2)\n@onlyCUDA", "", EVERY, "irrelevant", "too-few-devices"),
]  # fmt: skip


@pytest.mark.parametrize(("decorators", "limits", "opened", "verdict", "code"), OPENED)
def test_limits_that_a_config_opens(
    decorators: str, limits: str, opened: frozenset[str], verdict: str, code: str
) -> None:
    decision = decide(a_test(decorators) + MADE.format(limits), opened=opened)
    assert (decision.verdict, decision.code) == (verdict, code)


@pytest.mark.parametrize("decorator", ["@dtypes(torch.double)", "@ops(op_db, allowed_dtypes=(torch.double,))"])
def test_dtypes_that_a_config_adds(decorator: str) -> None:
    code = a_test(decorator) + MADE.format("")
    assert decide(code).code == "dtypes-unsupported"
    assert decide(code, dtypes=frozenset({"float32"})).code == "device-generic"
    assert decide(code, dtypes=frozenset({"complex64"})).code == "dtypes-unsupported"


def test_hardware_that_a_config_opens() -> None:
    code = a_test() + "    hw_classification = HardwareClassification.CUDA\n" + MADE.format("")
    assert decide(code).code == "hardware-other"
    assert decide(code, opened=EVERY).code == "device-generic"


UNUSED = [
    # code, path, verdict, code, category
    (a_test(body="torch.ones(2)") + MADE.format(""), FILE, "irrelevant", "device-unused", "op-correctness"),
    (a_test(body="torch.ones(2)", args="self") + MADE.format(""), FILE, "irrelevant", "device-unused", "op-correctness"),
    (a_test(body="torch.ones(2, device='cuda')") + MADE.format(""), FILE, "irrelevant", "device-unused", "cuda-only"),
    (a_test(body="torch.ones(2, device=GPU_TYPE)") + MADE.format(""), FILE, "irrelevant", "device-unused", "cuda-only"),
    (a_test() + MADE.format(""), FILE, "relevant", "device-generic", "op-correctness"),
    (a_test(body="torch.compile(f)(1)") + MADE.format(""), "test/inductor/test_x.py", "relevant", "device-unused-compiled", "compile"),
    (a_test(body="self.f(GPU_TYPE)") + MADE.format(""), "test/inductor/test_x.py", "irrelevant", "device-unused", "cuda-only"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "path", "verdict", "reason", "category"), UNUSED)
def test_a_device_that_is_given_and_not_used(code: str, path: str, verdict: str, reason: str, category: str) -> None:
    decision = decide(code, path=path)
    assert (decision.verdict, decision.code) == (verdict, reason)
    assert [fact.detail for fact in decision.evidence if fact.kind == "category"] == [category]


def test_without_sources_no_use_is_known() -> None:
    assert decide(a_test(body="torch.ones(2)") + MADE.format(""), read=False).code == "device-generic"


PARAMETRISED = [
    # decorators of a class that no device-generic machinery makes, verdict, code
    ("@parametrize('device', ['cpu', GPU_TYPE])", "irrelevant", "plain-other-device"),
    ("@parametrize('device', ['cpu', 'cuda'])", "irrelevant", "plain-other-device"),
    ("@parametrize('device', ['cpu'])", "irrelevant", "no-device"),
    ("@parametrize('device', ['cpu', 'spyre'])", "relevant", "plain-device"),
    ("@parametrize('device', devices())", "relevant", "plain-device"),
    ("@parametrize('n', [1])", "relevant", "plain-device"),
]  # fmt: skip


@pytest.mark.parametrize(("decorators", "verdict", "code"), PARAMETRISED)
def test_devices_that_a_decorator_lists(decorators: str, verdict: str, code: str) -> None:
    decision = decide(a_test(decorators))
    assert (decision.verdict, decision.code) == (verdict, code)


def test_a_trusted_run_without_kernels_answers_what_rules_ask_and_nothing_else() -> None:
    asked = a_test(body="torch.accelerator.current_device_index()", args="self")
    assert (decide(asked).verdict, decide(asked).code) == ("relevant", "plain-device")
    answered = decide(asked, idle=True)
    assert (answered.verdict, answered.code) == ("irrelevant", "idle-before")
    assert "no kernel" in answered.evidence[0].detail
    sure = decide(a_test() + MADE.format(""), idle=True)
    assert (sure.verdict, sure.code) == ("relevant", "device-generic")
