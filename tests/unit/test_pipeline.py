"""The first three stages together, on the demo's tree with the demo's pull request."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace

import pytest

from relay.cli.select_text import to_value
from relay.demo.upstream import EDITS, EXPECT, REFS, TREE
from selector.configs import Capability, ConfigSource, load_capability, load_configs
from selector.discover import MemoryCache
from selector.errors import NoWorker, TreeError
from selector.model import Change, FileChange, OpDatabase, OpEntry, RuntimeKind, Selection, TestId
from selector.pipeline import SelectionRequest, select
from selector.plan import Budget, WorkerOffer
from selector.trees import MemoryTree, diff_trees
from selector.verify import verify

CONFIGS = TREE.parents[2] / "test_configs" / "spyre"
OPS = OpDatabase(
    "2.13.0",
    tuple(
        OpEntry(name, "", name.removeprefix("_refs."), lists, ("float32", "float16"), ref)
        for name, lists, ref in (
            ("_refs.addcdiv", ("python_ref_db",), "torch._refs.addcdiv"),
            ("_refs.square", ("python_ref_db",), "torch._refs.square"),
            ("add", ("op_db", "binary_ufuncs"), ""),
            ("addcdiv", ("op_db",), ""),
            ("exp", ("op_db", "unary_ufuncs"), ""),
            ("mean", ("op_db", "reduction_ops"), ""),
        )
    ),
    ("nn.Linear", "nn.ReLU"),
)
REFERENCE = """
@register_decomposition(aten.addcdiv)
@out_wrapper()
def addcdiv(start, above, below, *, value=1):
    share = above / below
    return start + share * value
def square(a):
    return a * a
"""


def demo() -> tuple[dict[str, str], dict[str, str]]:
    base = {
        path.relative_to(TREE).as_posix(): path.read_text()
        for path in sorted(TREE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    head = dict(base)
    for name, before, after in EDITS:
        assert head[name].count(before) == 1
        head[name] = head[name].replace(before, after)
    base[REFS] = REFERENCE
    head[REFS] = REFERENCE.replace("share * value", "share * full(value)")
    return base, head


def sheet() -> Capability:
    path = CONFIGS / "capability.yaml"
    return load_capability(path.read_text(), path.name)


def request(base: dict[str, str], head: dict[str, str], title: str = "") -> SelectionRequest:
    before, after = MemoryTree(base), MemoryTree(head)
    path = CONFIGS / "upstream.yaml"
    return SelectionRequest(
        base=before,
        head=after,
        change=Change("a" * 40, "b" * 40, diff_trees(before, after), title),
        capability=sheet(),
        configs=load_configs([ConfigSource(path.name, path.read_text())]),
        opdb=OPS,
        offers=(WorkerOffer("2.13.0", ("tests-only", "overlay")),),
        budget=Budget(600.0, 20.0, 1),
    )


def planned(selection: Selection) -> set[str]:
    return {str(item.test) for item in selection.plan.tests}


@pytest.mark.parametrize("opdb", [OPS, None])
def test_the_demos_pull_request(opdb: OpDatabase | None) -> None:
    selection = select(replace(request(*demo()), opdb=opdb))
    chosen = planned(selection)
    assert EXPECT.regressions | EXPECT.pre_existing | EXPECT.passing <= chosen
    assert not chosen & (EXPECT.irrelevant | EXPECT.untouched)
    verdicts = {d.subject: d for d in selection.decisions if d.stage == "triage"}
    assert {verdicts[test].verdict for test in EXPECT.irrelevant} == {"irrelevant"}
    assert selection.plan.runtime.kind is RuntimeKind.OVERLAY
    assert selection.plan.runtime.files == (REFS,)
    assert selection.plan.not_exercised == ()


def test_every_planned_test_has_a_reason_of_each_stage_with_its_place() -> None:
    selection = select(request(*demo()))
    for item in selection.plan.tests:
        stages = {d.stage: d for d in selection.decisions if d.subject == str(item.test)}
        assert set(stages) == {"discover", "triage", "plan"}
        facts = [fact for fact in stages["discover"].evidence if fact.path]
        assert facts
        assert all(fact.symbol for fact in facts)
        assert stages["discover"].code == item.codes[0]


def test_counts_and_timings() -> None:
    base, head = demo()
    ticks = itertools.count()
    selection = select(replace(request(base, head), clock=lambda: float(next(ticks))))
    counts = selection.counts
    assert list(selection.timings.items()) == [("inventory", 1.0), ("discover", 1.0), ("triage", 1.0), ("plan", 1.0)]
    assert (counts["files"], counts["tests"]) == (4, 19)
    assert counts["impacted"] == counts["relevant"] + counts["irrelevant"]
    assert counts["planned"] == len(selection.plan.tests)
    assert counts["est_variants"] >= counts["planned"]


def test_the_same_request_gives_the_same_selection() -> None:
    base, head = demo()
    cache = MemoryCache()
    values = []
    for keep in (None, cache, cache):
        shuffled = dict(sorted(head.items(), key=lambda kv: hash(kv[1])))
        value = to_value(select(replace(request(base, shuffled), cache=keep)))
        value.pop("timings")
        values.append(json.dumps(value))
    assert values[0] == values[1] == values[2]


def test_kernels_that_trusted_runs_counted_bring_a_test_back() -> None:
    host = TestId.parse("test/test_host_demo.py::TestHostDemo::test_ladder_values_rise_evenly")
    before = select(request(*demo()))
    assert str(host) not in planned(before)
    after = select(replace(request(*demo()), engaged_before={host: 3}))
    assert str(host) in planned(after)


def test_a_budget_too_small_leaves_the_last_ones_out_by_name() -> None:
    full = select(request(*demo()))
    cut = select(replace(request(*demo()), budget=Budget(1.3, 20.0, 1)))
    assert cut.plan.partial
    assert 0 < len(cut.plan.tests) < len(full.plan.tests)
    left = {str(item.test) for item in cut.plan.left_out}
    assert planned(cut) | left == planned(full)
    assert cut.counts["left_out"] == len(left)


def test_an_empty_change_plans_nothing() -> None:
    base, _ = demo()
    selection = select(request(base, base))
    assert selection.plan.tests == ()
    assert [d.code for d in selection.decisions if d.stage == "discover"] == ["no-change"]


@pytest.mark.parametrize(
    "file",
    [
        FileChange("third_party/gloo", "modified", None, b"1" * 40, b"2" * 40, submodule=True),
        FileChange("torch/bin/x.so", "modified", None, b"\0a", b"\0b", binary=True),
        FileChange("c10/core/Device.cpp", "modified", None, b"int a;", b"int b;"),
    ],
)
def test_what_is_not_understood_widens_and_is_not_exercised(file: FileChange) -> None:
    base, _ = demo()
    selection = select(replace(request(base, base), change=Change("a", "b", (file,))))
    generic = {str(item.test) for item in selection.plan.tests}
    assert EXPECT.untouched - {x for x in EXPECT.untouched if "Cuda" in x} <= generic
    assert [item.path for item in selection.plan.not_exercised] == [file.path]
    assert {d.code for d in selection.decisions if d.subject == "change" and d.stage == "discover"} == {
        "unmapped-change"
    }


@pytest.mark.parametrize("broken", ["class Broken(:\n", "\0\1\2"])
def test_a_test_file_that_breaks_is_planned_by_its_bases_tests_and_keeps_the_verdict_from_success(broken: str) -> None:
    base, head = demo()
    head["test/test_reductions_demo.py"] = broken
    selection = select(request(base, head))
    assert any("test/test_reductions_demo.py" in warning for warning in selection.warnings)
    assert planned(selection) >= EXPECT.regressions
    own = [item for item in selection.plan.tests if item.test.file == "test/test_reductions_demo.py"]
    assert {item.test.method for item in own} == {"test_whole_tensor", "test_sum_along", "test_product_of_matrices"}
    assert {item.codes[0] for item in own} == {"unreadable-test-file"}
    assert [item.path for item in selection.plan.not_exercised] == ["test/test_reductions_demo.py"]


def test_the_broken_tests_of_another_device_alone_are_not_exercised() -> None:
    base, _ = demo()
    selection = select(request(base, {**base, "test/test_cuda_demo.py": "def ("}))
    assert selection.plan.tests == ()
    assert [item.path for item in selection.plan.not_exercised] == ["test/test_cuda_demo.py"]


def test_a_change_that_removes_every_test_selects_nothing_and_says_why() -> None:
    base, head = demo()
    left = {path: text for path, text in head.items() if not path.startswith("test/")}
    selection = select(request(base, left))
    assert selection.plan.tests == ()
    assert ("test/", "this change leaves no test/ folder: there is no test to run") in [
        (item.path, item.reason) for item in selection.plan.not_exercised
    ]
    gone = [d.subject for d in selection.decisions if d.code == "gone-test"]
    assert len(gone) == select(request(base, base)).counts["tests"]
    verdict = verify({}, (), (), (), selection.plan)
    assert (verdict.conclusion, verdict.code) == ("neutral", "verify-nothing-to-run")


def test_a_tree_without_tests_and_a_pool_without_workers_are_errors_with_hints() -> None:
    base, head = demo()
    with pytest.raises(TreeError) as no_tests:
        select(request({"setup.py": "1"}, {"setup.py": "2"}))
    assert no_tests.value.hint
    with pytest.raises(NoWorker) as no_worker:
        select(replace(request(base, head), offers=()))
    assert no_worker.value.hint


def test_three_thousand_changed_files() -> None:
    base, head = demo()
    for n in range(3_000):
        base[f"torch/gen/m{n}.py"] = f"def f{n}(): return 1\n"
        head[f"torch/gen/m{n}.py"] = f"def f{n}(): return 2\n"
    began = time.process_time()
    selection = select(request(base, head))
    assert time.process_time() - began < 15.0
    assert planned(selection) >= EXPECT.regressions
    assert "too-many-changes" in {d.code for d in selection.decisions}
    assert "test/test_reductions_demo.py::TestReductionsDemo::test_whole_tensor" in planned(selection)


def test_a_limit_that_a_config_lifts_drops_nothing() -> None:
    """Upstream keeps the test to CUDA, or to a dtype that the device lacks; an entry opens the one, adds the other."""
    code = """
from torch.testing._internal.common_device_type import instantiate_device_type_tests
class TestX(TestCase):
    @{limit}
    def test_a(self, device): torch.ones({size}, device=device)
instantiate_device_type_tests(TestX, globals())
"""
    config = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: mandatory_success
"""
    opened = config + "      bypass_device_restrictions: [cuda]\n"
    added = config + (
        "      tests: [{names: [TestX::test_a], mode: xfail, edits: {dtypes: {include: [{name: float32}]}}}]\n"
    )
    for limit, lifting in (("onlyCUDA", opened), ("dtypes(torch.complex128)", added)):
        one, two = (code.replace("{limit}", limit).replace("{size}", str(size)) for size in (1, 2))
        asked = request({"test/test_x.py": one}, {"test/test_x.py": two})
        for text, expected in ((config, set()), (lifting, {"test/test_x.py::TestX::test_a"})):
            configs = load_configs([ConfigSource("a.yaml", text)])
            assert planned(select(replace(asked, configs=configs))) == expected


def test_a_test_that_never_uses_its_device_is_dropped_and_the_cache_keeps_what_was_read() -> None:
    code = """
from torch.testing._internal.common_device_type import instantiate_device_type_tests
class TestX(TestCase):
    def test_a(self, device): torch.ones({size}, device=device)
    def test_b(self, device): torch.ones({size})
instantiate_device_type_tests(TestX, globals())
"""
    one, two = code.replace("{size}", "1"), code.replace("{size}", "2")
    cache = MemoryCache()
    for _ in range(2):
        selection = select(replace(request({"test/test_x.py": one}, {"test/test_x.py": two}), cache=cache))
        assert planned(selection) == {"test/test_x.py::TestX::test_a"}
        (dropped,) = [d for d in selection.decisions if d.verdict == "irrelevant"]
        assert (dropped.subject, dropped.code) == ("test/test_x.py::TestX::test_b", "device-unused")
