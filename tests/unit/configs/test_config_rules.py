"""Which entry governs a variant."""

import re
from datetime import date
from pathlib import Path

import pytest

from selector.configs import ConfigSource, Precision, ReuseConfigs, lint, load_configs
from selector.errors import ConfigError
from selector.model import Mode, TestId

A = TestId("test/test_x.py", "TestX", "test_a")
B = TestId("test/test_x.py", "TestY", "test_a")


def suite(tests: str, rest: str = "", path: str = "${TORCH_ROOT}/test/test_x.py", unlisted: str = "") -> ConfigSource:
    mode = f"      unlisted_test_mode: {unlisted}\n" if unlisted else ""
    body = "\n".join("        " + line for line in tests.strip("\n").splitlines())
    listed = f"      tests:\n{body}\n" if tests else ""
    return ConfigSource("x.yaml", f"test_suite_config:\n  files:\n    - path: {path}\n{mode}{listed}{rest}")


def load(tests: str, rest: str = "", **more: str) -> ReuseConfigs:
    return load_configs([suite(tests, rest, **more)])


def test_unlisted_is_skip_by_default_and_says_why() -> None:
    rule = load("- names: [test_b]").rule(A)
    assert (rule.mode, rule.listed) == (Mode.SKIP, False)
    assert "x.yaml" in rule.reason


def test_a_file_no_config_covers_is_skipped() -> None:
    configs = load("- names: [test_a]")
    other = TestId("test/test_y.py", "TestX", "test_a")
    assert not configs.covers(other.file)
    assert (configs.rule(other).mode, configs.rule(other).listed) == (Mode.SKIP, False)
    assert not configs.runs(other)


def test_each_half_of_a_name_counts() -> None:
    configs = load("- names: [TestX::test_a]\n  mode: xfail\n- names: [TestY::test_a]\n  mode: xfail_strict")
    assert (configs.rule(A).mode, configs.rule(B).mode) == (Mode.XFAIL, Mode.XFAIL_STRICT)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        ("- names: [test_a]\n  mode: xfail", "- names: ['TestX::test_.*']\n  mode: skip"),
        ("- names: [TestX::test_a]\n  mode: xfail", "- names: [test_a]\n  mode: skip"),
        ("- names: [TestX::test_a]\n  mode: xfail", "- names: ['Test.::test_a']\n  mode: skip"),
    ],
    ids=["exact before regex", "class before none", "class before class pattern"],
)
def test_the_more_specific_entry_wins_in_any_order(strong: str, weak: str, order: int) -> None:
    assert load("\n".join([strong, weak][::order])).rule(A).mode is Mode.XFAIL


TWO = """
- names: [test_a]
  mode: mandatory_success
- names: [test_a]
  mode: xfail
  reason: rounds
  edits:
    dtypes: {include: [{name: half, reason: overflows, issue: "me/mine#7"}]}
    ops: {include: [{name: div.floor_rounding}]}
"""


@pytest.mark.parametrize(
    ("op", "variant", "dtype", "mode", "reason"),
    [
        (None, "", "float32", Mode.MANDATORY_SUCCESS, ""),
        (None, "", "float16", Mode.MANDATORY_SUCCESS, ""),  # names the dtype, but only other ops
        ("div", "floor_rounding", "float16", Mode.XFAIL, "rounds"),
        ("div", "trunc_rounding", "float32", Mode.MANDATORY_SUCCESS, ""),
    ],
)
def test_naming_op_or_dtype_is_more_specific(op: str | None, variant: str, dtype: str, mode: Mode, reason: str) -> None:
    rule = load(TWO).rule(A, op, variant, dtype)
    assert (rule.mode, rule.reason) == (mode, reason)


def test_exclusion_holds_unless_another_entry_includes_it_by_name() -> None:
    one = "- names: [test_a]\n  edits: {dtypes: {exclude: [{name: bool, reason: no masks}]}}"
    rule = load(one).rule(A, dtype="bool")
    assert (rule.mode, rule.listed, rule.reason) == (Mode.SKIP, True, "no masks")
    assert load(one).rule(A, dtype="int8").mode is Mode.MANDATORY_SUCCESS
    assert load(one).dtypes(A).exclude == {"bool"}
    two = load(one + "\n- names: [test_a]\n  mode: xfail\n  edits: {dtypes: {include: [{name: bool}]}}")
    assert two.rule(A, dtype="bool").mode is Mode.XFAIL
    assert two.dtypes(A).apply({"float32"}) == {"float32", "bool"}


GLOBAL = """  global:
    supported_dtypes:
      - {name: float16, precision: {atol: 1e-3, rtol: 2.0e-3}}
      - {name: float32, force_xfail: true, reason: stored as float16}
    supported_ops:
      - add
      - {name: mul, dtypes: [{name: float16, precision: {atol: 0.5}}, {name: int64}]}
"""


def test_globals_filter_and_weaken() -> None:
    configs = load("- names: [test_a]", GLOBAL)
    assert configs.ops(A).keeps("add")
    assert not configs.ops(A).keeps("lgamma")
    assert configs.dtypes(A).apply({"float16", "bool"}) == {"float16"}
    assert configs.dtypes(A, "mul").apply({"float16", "int64", "float32"}) == {"float16"}
    assert configs.precision(A, "add", "float16") == Precision(0.001, 0.002)
    assert configs.precision(A, "mul", "float16") == Precision(0.5, None)
    assert configs.precision(A, "mul", "bool") is None
    rule = configs.rule(A, "add", dtype="float32")
    assert (rule.mode, rule.reason) == (Mode.XFAIL, "stored as float16")


def test_an_op_filter_never_falls_open() -> None:
    edits = load("- names: [test_a]", "  global: {supported_ops: []}\n").ops(A)
    assert edits.supported == frozenset()
    assert not edits.keeps("add")


def test_each_config_keeps_its_own_globals() -> None:
    first = ConfigSource("a.yaml", suite("- names: [TestX::test_a]", "  global: {supported_ops: [add]}\n").text)
    second = ConfigSource("b.yaml", suite("- names: [TestY::test_a]", "  global: {supported_ops: [mul]}\n").text)
    configs = load_configs([first, second])
    assert configs.ops(A).supported == {"add"}
    assert configs.ops(B).supported == {"mul"}


@pytest.mark.parametrize(
    ("path", "covered", "uncovered"),
    [
        (
            "${PYTORCH_ROOT}/test/**/test_*.py",
            ["test/test_x.py", "test/a/b/test_x.py"],
            ["test/x.py", "testing/test_x.py"],
        ),
        ("${TORCH_ROOT}/test/test_*.py", ["test/test_x.py"], ["test/nn/test_x.py", "test/test_xpy"]),
        ("${TORCH_ROOT}/test/test_[xy].py", ["test/test_x.py"], ["test/test_z.py"]),
        ("${TORCH_DEVICE_ROOT}/test/test_x.py", [], ["test/test_x.py"]),
    ],
)
def test_paths(path: str, covered: list[str], uncovered: list[str]) -> None:
    configs = load("", path=path)
    assert [p for p in covered + uncovered if configs.covers(p)] == covered


def test_the_exact_path_decides_about_unlisted_tests() -> None:
    text = suite(
        "", "    - {path: '${TORCH_ROOT}/test/test_*.py', unlisted_test_mode: xfail}\n", unlisted="xfail_strict"
    )
    configs = load_configs([text])
    assert configs.rule(A).mode is Mode.XFAIL_STRICT
    assert configs.rule(TestId("test/test_z.py", "T", "test_a")).mode is Mode.XFAIL


def test_edits_of_functions_and_grad_are_the_entrys_own() -> None:
    configs = load("- names: [TestX::test_a]\n  no_grad: true\n  edits: {functions: {cpu_move: [{name: assertEqual}]}}")
    assert (configs.cpu_move(A), configs.no_grad(A)) == (("assertEqual",), True)
    assert (configs.cpu_move(B), configs.no_grad(B)) == ((), False)


SHEET = """capability:
  name: toy
  device: toy
  dtypes: [float16, bool]
global:
  supported_ops: [{name: add, dtypes: [{name: float16, precision: {atol: 0.1}}]}]
"""


def extending(text: str, *more: ConfigSource) -> list[ConfigSource]:
    return [ConfigSource("spyre/x.yaml", text), ConfigSource("spyre/capability.yaml", SHEET), *more]


def test_extends_merges_lists_by_name() -> None:
    text = suite("- names: [test_a]", "  extends: capability.yaml\n  global: {supported_ops: [mul, add]}\n").text
    configs = load_configs(extending(text))
    assert configs.ops(A).supported == {"add", "mul"}
    assert configs.dtypes(A).supported == {"float16", "bool"}
    assert configs.precision(A, "add", "float16") == Precision(0.1, None)


@pytest.mark.parametrize(
    ("rest", "code", "said"),
    [
        ("  extends: other.yaml\n", "config-extends-missing", "spyre/other.yaml"),
        ("  extends: x.yaml\n", "config-extends-cycle", "circle"),
        (
            "  extends: capability.yaml\n"
            "  global: {supported_ops: [{name: add, dtypes: [{name: float16, precision: {atol: 0.2}}]}]}\n",
            "config-given-twice",
            "spyre/capability.yaml:6",
        ),
    ],
)
def test_extends_refuses(rest: str, code: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_configs(extending(suite("- names: [test_a]", rest).text))
    assert caught.value.code == code
    assert said in str(caught.value)


def test_a_passed_until_is_a_warning() -> None:
    source = suite("- names: [test_a]\n  mode: xfail\n  until: 2026-01-31")
    assert lint([source], today=date(2026, 1, 31)) == []
    assert [(p.code, p.level) for p in lint([source], today=date(2026, 2, 1))] == [("config-until-passed", "warning")]


REAL = Path(__file__).parents[4] / "shared/data/spyre-configs"


@pytest.mark.skipif(
    not REAL.is_dir(), reason=f"LOUD: the real configs are not at {REAL}; nothing was checked with them"
)
def test_what_is_odd_in_the_real_configs_is_what_the_docs_say(shared: Path) -> None:
    root = shared / "data/spyre-configs"
    files = sorted(root.rglob("*.yaml"))
    found = [p for f in files for p in lint([ConfigSource(str(f), f.read_text(encoding="utf-8"))], compat=True)]
    assert {p.level for p in found} == {"warning"}
    page = (Path(__file__).parents[3] / "docs/configs.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(config-[\w-]+)` \| (\d+) \| (\d+) \|", page, re.M)
    kinds = {code: [p for p in found if p.code == code] for code in {p.code for p in found}}
    assert {code: (int(n), int(m)) for code, n, m in told} == {
        code: (len(ps), len({p.source for p in ps})) for code, ps in kinds.items()
    }
    assert f"its {len(files)} files" in page


def test_every_real_config_loads() -> None:
    files = sorted(REAL.rglob("*.yaml"))
    assert len(files) > 70
    strict = 0
    for file in files:
        source = ConfigSource(str(file.relative_to(REAL)), file.read_text())
        load_configs([source], compat=True)
        strict += not [p for p in lint([source]) if p.level == "error"]
    assert strict >= 71  # the others have the faults that compat is for


@pytest.mark.skipif(
    not REAL.is_dir(), reason=f"LOUD: the real configs are not at {REAL}; nothing was checked with them"
)
def test_a_real_config_governs_as_it_is_written() -> None:
    file = REAL / "tests/configs/upstream_tests_beta/test_unary_ufuncs.yaml"
    configs = load_configs([ConfigSource(file.name, file.read_text())])
    path = "test/test_unary_ufuncs.py"
    assert configs.rule(TestId(path, "TestUnaryUfuncs", "test_exp")).mode is Mode.XFAIL
    zero = TestId(path, "TestUnaryUfuncs", "test_abs_zero")
    assert configs.rule(zero, "abs", dtype="float32").mode is Mode.MANDATORY_SUCCESS
    assert configs.rule(zero, "abs", dtype="float16").mode is Mode.SKIP
    assert configs.rule(TestId(path, "TestUnaryUfuncs", "test_no_such")).listed is False


PLATFORMS = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: mandatory_success
      tests:
        - {names: [TestX::test_a], mode: xfail, reason: everywhere}
        - {names: [TestX::test_a], mode: skip, platform: s390x, reason: big ends first}
        - {names: [TestX::test_a], platform: [ppc64le, x86_64]}
"""


@pytest.mark.parametrize(
    ("machine", "mode"),
    [
        ("s390x", Mode.SKIP),
        ("x86_64", Mode.MANDATORY_SUCCESS),
        ("AMD64", Mode.MANDATORY_SUCCESS),
        ("arm64", Mode.XFAIL),
    ],
)
def test_an_entry_may_be_about_some_machines_alone(machine: str, mode: Mode) -> None:
    source = ConfigSource("x.yaml", PLATFORMS)
    assert lint([source]) == []
    assert load_configs([source], platform=machine).rule(TestId("test/test_x.py", "TestX", "test_a")).mode is mode


def test_two_entries_about_the_same_machine_disagree() -> None:
    source = ConfigSource("x.yaml", PLATFORMS.replace("[ppc64le, x86_64]", "[s390x]"))
    assert [p.code for p in lint([source])] == ["config-conflict"]


def test_an_entry_for_one_parametrisation_lets_its_test_run() -> None:
    text = PLATFORMS.partition("      tests:")[0].replace("mandatory_success", "skip")
    text += "      tests:\n        - {names: [TestX::test_n_n_2]}\n"
    configs = load_configs([ConfigSource("x.yaml", text)])
    assert configs.runs(TestId("test/test_x.py", "TestX", "test_n"))
    assert not configs.runs(TestId("test/test_x.py", "TestX", "test_m"))
    assert configs.named_variants(TestId("test/test_x.py", "TestX", "test_n")) == {"test_n_n_2"}
