"""From relevant tests to a run plan."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selector.configs import ConfigSource, ReuseConfigs, load_capability, load_configs
from selector.errors import NoWorker
from selector.model import Change, FileChange, Mode, RuntimeKind, TestId
from selector.plan import Budget, History, Part, RelevantTest, WorkerOffer, part_of, plan

CAPABILITY = load_capability("capability: {name: toy, device: toy, dtypes: [float16]}", "capability.yaml")
BOTH = (WorkerOffer("2.13.0", ("tests-only", "overlay")),)
PLAIN = (WorkerOffer("2.13.0", ("tests-only",)),)
BUILD = (WorkerOffer("2.14.0a0", ("pr-build",)), *BOTH)


def configs(extra: str = "") -> ReuseConfigs:
    text = "test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_*.py\n"
    return load_configs([ConfigSource("x.yaml", text + "      unlisted_test_mode: mandatory_success\n" + extra)])


def edit(path: str, *, removed: bool = False, submodule: bool = False) -> FileChange:
    return FileChange(
        path, "removed" if removed else "modified", old=b"", new=None if removed else b"x", submodule=submodule
    )


def change(*files: FileChange) -> Change:
    return Change("b" * 40, "h" * 40, files or (edit("test/test_x.py"),))


def relevant(
    name: str,
    *,
    file: str = "x",
    codes: tuple[str, ...] = ("helper",),
    weight: float = 0.5,
    n: int = 1,
    slow: bool = False,
) -> RelevantTest:
    return RelevantTest(TestId(f"test/test_{file}.py", "TestX", name), codes, weight, n, slow)


ROOMY = Budget(seconds=600, shard_seconds=30)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("test/test_x.py", Part.TEST),
        ("test/data/x.pt", Part.TEST),
        ("test/cpp/api/tensor.cpp", Part.BUILD),
        ("torch/_refs/__init__.py", Part.PYTHON),
        ("torch/testing/_internal/opinfo/core.py", Part.PYTHON),
        ("torch/csrc/autograd/engine.cpp", Part.BUILD),
        ("torch/_C/__init__.pyi.in", Part.BUILD),
        ("aten/src/ATen/native/native_functions.yaml", Part.BUILD),
        ("torchgen/gen.py", Part.BUILD),
        ("CMakeLists.txt", Part.BUILD),
        ("setup.py", Part.BUILD),
        ("third_party/ideep/x.py", Part.BUILD),
        ("docs/source/notes/numerics.md", Part.INERT),
        (".github/workflows/pull.yml", Part.INERT),
        ("README.md", Part.INERT),
        ("somewhere/new.thing", Part.UNKNOWN),
    ],
)
def test_what_a_path_is_part_of(path: str, part: Part) -> None:
    assert part_of(edit(path)) is part


@pytest.mark.parametrize(
    ("paths", "offers", "kind", "not_exercised"),
    [
        (["test/test_x.py"], BOTH, RuntimeKind.TESTS_ONLY, []),
        (["test/test_x.py", "docs/a.md"], PLAIN, RuntimeKind.TESTS_ONLY, []),
        (["torch/_refs/__init__.py"], BOTH, RuntimeKind.OVERLAY, []),
        (["torch/_refs/__init__.py"], PLAIN, RuntimeKind.TESTS_ONLY, ["torch/_refs/__init__.py"]),
        (["torch/a.py", "aten/b.cpp"], BOTH, RuntimeKind.OVERLAY, ["aten/b.cpp"]),
        (["torch/a.py", "aten/b.cpp"], BUILD, RuntimeKind.PR_BUILD, []),
        (["torch/a.py"], BUILD, RuntimeKind.OVERLAY, []),
        (["somewhere/new.thing"], BOTH, RuntimeKind.TESTS_ONLY, ["somewhere/new.thing"]),
    ],
)
def test_the_runtime_follows_from_what_the_change_touches(
    paths: list[str], offers: tuple[WorkerOffer, ...], kind: RuntimeKind, not_exercised: list[str]
) -> None:
    made, decisions = plan([], change(*map(edit, paths)), CAPABILITY, configs(), offers, ROOMY)
    assert made.runtime.kind is kind
    assert [n.path for n in made.not_exercised] == not_exercised
    assert all(n.reason for n in made.not_exercised)
    assert decisions[0].verdict == kind.value
    if kind is RuntimeKind.OVERLAY:
        assert made.runtime.files == tuple(p for p in paths if p.startswith("torch/"))


def test_an_overlay_cannot_take_a_file_away() -> None:
    made, _ = plan([], change(edit("torch/a.py", removed=True)), CAPABILITY, configs(), BOTH, ROOMY)
    assert made.runtime.files == ()
    assert "still there" in made.not_exercised[0].reason


def test_nobody_to_run_it_is_an_error_with_a_hint() -> None:
    with pytest.raises(NoWorker, match="start a worker"):
        plan([relevant("test_a")], change(), CAPABILITY, configs(), (), ROOMY)


def test_order_is_must_run_then_expected_value() -> None:
    tests = [
        relevant("test_far", weight=0.2),
        relevant("test_dear", weight=0.9, n=500),
        relevant("test_near", weight=0.9),
        relevant("test_mine", codes=("edited-test",), weight=1.0, n=500),
        relevant("test_new", codes=("new-test",), weight=1.0),
    ]
    made, decisions = plan(tests, change(), CAPABILITY, configs(), BOTH, ROOMY)
    order = ["test_new", "test_mine", "test_near", "test_far", "test_dear"]
    assert [p.test.method for p in made.tests] == order, "a dear one waits for a cheap one that is less direct"
    codes = {d.subject.rpartition("::")[2]: d.code for d in decisions if d.verdict == "planned"}
    assert codes["test_mine"] == "plan-edited"
    assert codes["test_far"] == "plan-reached"
    again, _ = plan(tests[::-1], change(), CAPABILITY, configs(), BOTH, ROOMY)
    assert again == made


def test_history_and_evidence_of_touch_decide_among_equals_and_are_told() -> None:
    names = ("test_idle", "test_plain", "test_seen", "test_shaky")
    tests = [relevant(name) for name in names]
    ids = {one.test.method: one.test for one in tests}
    history = History(
        touched={ids["test_idle"]: False, ids["test_seen"]: True, ids["test_shaky"]: True},
        broke={ids["test_shaky"]: (6, 40), ids["test_seen"]: (1, 40)},
    )
    made, decisions = plan(tests, change(), CAPABILITY, configs(), BOTH, ROOMY, history)
    assert [p.test.method for p in made.tests] == ["test_shaky", "test_seen", "test_plain", "test_idle"]
    chances = {p.test.method: p.priority for p in made.tests}
    assert chances["test_shaky"] == pytest.approx(0.5 * 1.0 * 7 / 60, abs=1e-6)
    assert chances["test_plain"] == pytest.approx(0.5 * 0.5 * 1 / 20, abs=1e-6)
    (told,) = [d.evidence[-1].detail for d in decisions if d.subject.endswith("test_shaky")]
    assert told == "chance 5.83% (weight 0.5, seen on the device, began to fail 6 times in 40 runs), 19.44% a second"


ENTRIES = """      tests:
        - {names: [test_gone], mode: skip, reason: hangs, issue: me/mine#3}
        - {names: [test_weak], mode: xfail, reason: rounds}
        - {names: [test_half], mode: skip}
        - {names: [test_half], mode: mandatory_success, edits: {dtypes: {include: [{name: bool}]}}}
"""


def test_modes_come_from_the_configs() -> None:
    tests = [relevant(n) for n in ("test_gone", "test_weak", "test_half", "test_free")]
    tests.append(RelevantTest(TestId("test/inductor/test_y.py", "T", "test_a"), ("helper",), 0.5, 1))
    made, decisions = plan(tests, change(), CAPABILITY, configs(ENTRIES), BOTH, ROOMY)
    modes = {p.test.method: p.mode for p in made.tests}
    assert modes["test_weak"] is Mode.XFAIL
    assert modes["test_free"] is Mode.MANDATORY_SUCCESS
    assert "test_half" in modes, "one of its entries runs"
    left = {d.subject: d for d in decisions if d.verdict == "left-out"}
    gone = left["test/test_x.py::TestX::test_gone"]
    assert (gone.code, gone.reason) == ("plan-skipped-by-config", "hangs")
    assert (gone.evidence[0].path, gone.evidence[0].line) == ("x.yaml", 6)
    assert left["test/inductor/test_y.py::T::test_a"].code == "plan-not-covered"
    assert len(left) == 2
    assert not made.partial, "what a config skips is not left out for the budget"


def test_too_much_for_the_budget_is_partial_and_named() -> None:
    tests = [relevant(f"test_{i}", n=100, weight=1 - i / 10) for i in range(5)]  # 5 s each
    made, decisions = plan(tests, change(), CAPABILITY, configs(), BOTH, Budget(12, 30))
    assert [p.test.method for p in made.tests] == ["test_0", "test_1"]
    assert made.partial
    assert [x.test.method for x in made.left_out] == ["test_2", "test_3", "test_4"]
    assert {d.code for d in decisions if d.verdict == "left-out"} == {"plan-over-budget"}
    two, _ = plan(tests, change(), CAPABILITY, configs(), BOTH, Budget(12, 30, workers=2))
    assert len(two.tests) == 4


def test_must_run_tests_are_never_cut_and_the_plan_says_when_they_are_too_much() -> None:
    mine = [relevant(f"test_mine{i}", n=100, codes=("edited-test",)) for i in range(5)]  # 5 s each
    others = [relevant(f"test_near{i}", weight=0.9) for i in range(3)]
    made, decisions = plan([*others, *mine], change(), CAPABILITY, configs(), BOTH, Budget(12))
    assert {p.test for p in made.tests} == {one.test for one in mine}
    assert made.partial
    assert {x.test for x in made.left_out} == {one.test for one in others}
    (said,) = [d for d in decisions if d.code == "plan-must-run-over-budget"]
    assert said.reason == (
        "the tests that the change edits or adds take about 26 s, which all run; the budget is 12 s on 1 worker, "
        "and nothing else runs (3 left out)"
    )
    alone, decisions = plan(mine, change(), CAPABILITY, configs(), BOTH, Budget(12))
    assert (len(alone.tests), alone.partial) == (5, False), "nothing is left out"
    assert [d.verdict for d in decisions if d.subject == "budget"] == ["over-budget"]
    _, decisions = plan(mine, change(), CAPABILITY, configs(), BOTH, Budget(13, workers=2))
    assert not [d for d in decisions if d.subject == "budget"], "two workers have 26 s"


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 300), st.sampled_from("abc"), st.floats(0, 1)), max_size=12),
    st.floats(0.1, 60),
)
def test_whatever_the_budget_must_run_comes_first_and_stays(
    drawn: list[tuple[bool, int, str, float]], seconds: float
) -> None:
    tests = [
        relevant(f"test_{i}", file=file, n=n, weight=weight, codes=("new-test" if must else "helper",))
        for i, (must, n, file, weight) in enumerate(drawn)
    ]
    made, _ = plan(tests, change(), CAPABILITY, configs(), BOTH, Budget(seconds))
    must = {one.test for one in tests if one.codes == ("new-test",)}
    planned = [p.test for p in made.tests]
    assert set(planned[: len(must)]) == must
    assert {*planned, *(x.test for x in made.left_out)} == {one.test for one in tests}
    others = [p for p in made.tests if p.test not in must]
    spent = sum(p.est_seconds for p in made.tests) + len({p.test.file for p in made.tests})
    assert not others or len(planned) == 1 or spent <= seconds + 1e-6


def test_the_first_test_runs_even_when_it_is_over_the_budget() -> None:
    made, _ = plan([relevant("test_a", n=10_000)], change(), CAPABILITY, configs(), BOTH, Budget(1))
    assert (len(made.tests), made.partial) == (1, False)


def test_shards_keep_files_together_and_lose_no_test() -> None:
    tests = [relevant(f"test_{f}{i}", file=f, n=80) for f in "abc" for i in range(8)]  # 4 s each, 32 s a file
    made, _ = plan(tests, change(), CAPABILITY, configs(), BOTH, Budget(600, 40))
    assert [len(s.tests) for s in made.shards] == [8, 8, 8]
    assert all(len({t.file for t in s.tests}) == 1 for s in made.shards)
    assert [s.index for s in made.shards] == [0, 1, 2]
    split, _ = plan(tests, change(), CAPABILITY, configs(), BOTH, Budget(600, 20))
    assert all(s.est_seconds <= 20 for s in split.shards)
    assert sorted(t for s in split.shards for t in s.tests) == sorted(t.test for t in tests)


def test_small_work_is_spread_over_the_workers() -> None:
    tests = [relevant(f"test_{f}", file=f, n=100) for f in "abcd"]  # 6 s with the file
    one, _ = plan(tests, change(), CAPABILITY, configs(), BOTH, Budget(600, 60, workers=1))
    two, _ = plan(tests, change(), CAPABILITY, configs(), BOTH, Budget(600, 60, workers=2))
    assert (len(one.shards), len(two.shards)) == (1, 2)


def test_measured_cost_beats_the_guess() -> None:
    a, b = relevant("test_a", n=10, slow=True), relevant("test_b", n=10, file="y")
    history = History({a.test: 0.5}, {"test/test_y.py": 0.2})
    made, _ = plan([a, b], change(), CAPABILITY, configs(), BOTH, ROOMY, history)
    assert {p.test.method: p.est_seconds for p in made.tests} == {"test_a": 5.0, "test_b": 2.0}


def test_a_limit_to_some_ops_goes_along_and_is_said() -> None:
    ops = ("_refs.add", "add", "sub", "mul", "div")
    limited = replace(relevant("test_a"), ops=ops)
    made, decisions = plan([limited], change(), CAPABILITY, configs(), BOTH, ROOMY)
    assert made.tests[0].ops == ops
    (planned,) = [d for d in decisions if d.verdict == "planned"]
    assert "for _refs.add, add, sub, mul and 1 more ops only" in planned.reason
