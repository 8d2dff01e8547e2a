"""Each weakness of the older framework (contracts, part 1 (d): W1 to W24), with the input that triggers it.

Those that need a running torch are in tests/integration/test_reuse_weaknesses.py; W12 (a skip of the test's own), W15
(writes into the tree), W16 (ids) and W23 (outcomes from text) in test_reuse_outcomes.py and test_reuse_shapes.py; W11
(nothing collected) in test_reuse_outcomes.py and here by name; W14 (exit codes) in test_reuse_outcomes.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay.cli import app
from selector.configs import ConfigSource, Precision, ReuseConfigs, lint, load_configs
from selector.configs.importer import import_configs
from selector.configs.upstream import Upstream
from selector.discover import take
from selector.errors import ConfigError
from selector.model import Mode, TestId
from selector.trees import MemoryTree


def suite(
    tests: str = "", rest: str = "", name: str = "x.yaml", path: str = "${TORCH_ROOT}/test/test_x.py"
) -> ConfigSource:
    listed = f"      tests:\n{tests}" if tests else ""
    return ConfigSource(name, f"test_suite_config:\n  files:\n    - path: {path}\n{listed}{rest}")


def load(tests: str = "", rest: str = "") -> ReuseConfigs:
    return load_configs([suite(tests, rest)])


def named(cls: str, method: str, file: str = "test/test_x.py") -> TestId:
    return TestId(file, cls, method)


def test_w1_the_class_half_of_a_name_counts() -> None:
    configs = load("        - {names: [TestA::test_x], mode: xfail}\n        - {names: [TestB::test_x], mode: skip}\n")
    assert configs.rule(named("TestA", "test_x")).mode is Mode.XFAIL
    assert configs.rule(named("TestB", "test_x")).mode is Mode.SKIP


def test_w2_a_dtype_word_in_a_method_name_is_a_word() -> None:
    configs = load(
        "        - {names: [test_int8_woq_mm, test_bfloat16_neg_abs]}\n",
        "  global: {supported_dtypes: [{name: float32}]}\n",
    )
    for method in ("test_int8_woq_mm", "test_bfloat16_neg_abs"):
        assert configs.rule(named("TestA", method), dtype="float32").mode is Mode.MANDATORY_SUCCESS
        assert configs.rule(named("TestA", method)).mode is Mode.MANDATORY_SUCCESS
        assert configs.dtypes(named("TestA", method)).apply({"float32", "int8"}) == {"float32"}


def test_w5_an_op_filter_never_falls_open() -> None:
    edits = load("        - {names: [test_x]}\n", "  global: {supported_ops: [add]}\n").ops(named("TestA", "test_x"))
    assert [op for op in ("mul", "sub", "lgamma") if edits.keeps(op)] == []


def test_w6_two_dtypes_of_one_op_have_tolerances_of_their_own() -> None:
    ops = (
        "  global:\n    supported_ops:\n      - name: add\n        dtypes:\n"
        "          - {name: float16, precision: {atol: 0.1}}\n          - {name: float32, precision: {atol: 0.001}}\n"
    )
    configs = load("        - {names: [test_x]}\n", ops)
    test = named("TestA", "test_x")
    assert configs.precision(test, "add", "float16") == Precision(0.1, None)
    assert configs.precision(test, "add", "float32") == Precision(0.001, None)
    assert configs.precision(test, "mul", "float16") is None


def test_w7_a_broken_regex_is_refused_at_load() -> None:
    with pytest.raises(ConfigError) as caught:
        load("        - {names: ['test_(x']}\n")
    assert (caught.value.code, caught.value.line, caught.value.column) == ("config-regex", 5, 20)


def test_w8_an_unknown_key_is_an_error_and_misplaced_kwargs_say_where_they_belong() -> None:
    item = "{name: torch.add, sample_inputs_func: {args: []}, kwargs: {alpha: 2}}"
    (problem,) = lint([suite(f"        - names: [test_x]\n          edits: {{ops: {{include: [{item}]}}}}\n")])
    assert (problem.code, problem.level) == ("config-misplaced-key", "error")
    assert "sample_inputs_func" in problem.hint
    assert [p.code for p in lint([suite("        - {names: [test_x], resaon: y}\n")])] == ["config-unknown-key"]


def test_w10_globals_do_not_leak_between_configs_of_one_run() -> None:
    one = suite("        - {names: [TestA::test_x]}\n", "  global: {supported_ops: [add]}\n", "one.yaml")
    two = suite("        - {names: [TestB::test_y]}\n", "  global: {supported_ops: [mul]}\n", "two.yaml")
    configs = load_configs([one, two])
    assert configs.ops(named("TestA", "test_x")).supported == {"add"}
    assert configs.ops(named("TestB", "test_y")).supported == {"mul"}


def test_w11_a_name_that_upstream_no_longer_has_is_an_error() -> None:
    tree = MemoryTree({"test/test_x.py": b"class TestA:\n    def test_new(self):\n        pass\n"})
    upstream = Upstream(take(tree, processes=1))
    (problem,) = lint([suite("        - {names: [TestA::test_nw]}\n")], upstream=upstream)
    assert (problem.code, problem.level, problem.hint) == ("config-dead-name", "error", "near: TestA::test_new")


def test_w18_paths_are_read_as_yaml() -> None:
    text = suite(path="'${TORCH_ROOT}/test/test_quoted.py'  # path: ${TORCH_ROOT}/test/test_comment.py").text
    text += (
        "      tests:\n        - names: [test_x]\n"
        "          edits: {ops: {include: [{name: torch.add, sample_inputs_func: {args: "
        "[{tensor: {shape: [1], init: file, init_args: {path: test/test_input.py}}}]}}]}}\n"
    )
    configs = load_configs([ConfigSource("x.yaml", text)])
    paths = ("test/test_quoted.py", "test/test_comment.py", "test/test_input.py")
    assert [path for path in paths if configs.covers(path)] == ["test/test_quoted.py"]


def test_w20_reasons_are_data() -> None:
    entry = "        - {names: [test_x], mode: xfail, reason: rounds, issue: me/mine#4, until: 2026-12-31}\n"
    rule = load(entry).rule(named("TestA", "test_x"))
    assert (rule.reason, rule.issue, rule.source) == ("rounds", "me/mine#4", "x.yaml:5")


def test_w21_one_sheet_in_the_place_of_many_copies() -> None:
    block = "  global: {supported_ops: [add, mul]}\n"
    sources = [
        suite("        - {names: [test_x]}\n", block, f"{i}.yaml", f"${{TORCH_ROOT}}/test/test_{i}.py") for i in "abc"
    ]
    found = import_configs(sources)
    assert found.sharing == 3
    configs = load_configs(found.files)
    assert configs.ops(named("TestA", "test_x", "test/test_b.py")).supported == {"add", "mul"}
    assert sum(source.text.count("supported_ops") for source in found.files) == 1


def test_w22_a_config_is_read_once_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from selector.configs import load as loading

    read: list[str] = []
    original = loading.Document

    def counted(name: str, text: str, **more: bool) -> loading.Document:
        read.append(name)
        return original(name, text, **more)

    monkeypatch.setattr(loading, "Document", counted)
    configs = load("        - {names: ['test_.*'], mode: xfail}\n")
    for i in range(200):
        configs.rule(named(f"TestClass{i}", "test_x"), "add", dtype="float32")
    assert read == ["x.yaml"]


def test_w24_a_strict_expectation_is_kept_strict() -> None:
    assert (
        load("        - {names: [test_x], mode: xfail_strict}\n").rule(named("TestA", "test_x")).mode
        is Mode.XFAIL_STRICT
    )


def test_the_same_test_in_two_configs_with_two_modes_is_an_error() -> None:
    one = suite("        - {names: [TestA::test_x], mode: xfail}\n", name="one.yaml")
    two = suite("        - {names: [TestA::test_x], mode: skip}\n", name="two.yaml")
    assert [p.code for p in lint([one, two])] == ["config-conflict"]


def test_lint_of_a_directory_on_the_command_line_tells_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(suite("        - {names: [test_x], resaon: y}\n").text)
    runner = CliRunner()
    assert runner.invoke(app, ["config", "lint", str(tmp_path)]).exit_code == 1
    done = runner.invoke(app, ["config", "lint", "--compat", "--table", str(tmp_path)])
    assert (done.exit_code, "unknown-key" in done.output) == (0, True)
