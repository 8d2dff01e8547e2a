"""Configs checked against an upstream: dead files and names, unknown ops, unreachable entries, expired reasons."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from selector.configs import ConfigSource, lint
from selector.configs.upstream import Upstream, issues_from
from selector.discover import take
from selector.model import OpDatabase, OpEntry
from selector.trees import MemoryTree

NOW = {
    "test/test_moved.py": """
class TestMoved(TestCase):
    def test_kept_body(self, device):
        return device + "a long enough body to be known by"
""",
    "test/test_x.py": """
from other_base import TestFar

class TestBase(TestCase):
    def test_inherited(self, device):
        pass

class TestX(TestBase):
    def test_alpha(self, device):
        return 1

    def test_new_name(self, device):
        return "the body of what was renamed"

    @parametrize("n", [1, 2])
    def test_many(self, device, n):
        pass

    @ops(op_db)
    def test_over(self, device, dtype, op):
        pass

    @_gradcheck_ops(op_db)
    def test_checked(self, device, dtype, op):
        pass

class TestFromFar(TestFar):
    pass

def add(name):
    setattr(TestMade, name, lambda self: None)

class TestMade(TestCase):
    pass

for kind in ("A", "B"):
    globals()["TestLoop" + kind] = type("TestLoop" + kind, (TestCase,), {})
""",
    "test/other_base.py": "class TestFar(TestCase):\n    def test_far(self):\n        pass\n",
}
WAS = {
    "test/test_old_place.py": NOW["test/test_moved.py"].replace("TestMoved", "TestOld"),
    "test/test_x.py": NOW["test/test_x.py"].replace("test_new_name", "test_old_name"),
}
OPDB = OpDatabase(
    "2.13.0", (OpEntry("add"), OpEntry("div", "floor_rounding"), OpEntry("nn.functional.gelu")), ("nn.ReLU",)
)


def inventory(files: Mapping[str, str]):  # type: ignore[no-untyped-def]
    return take(MemoryTree({path: source.encode() for path, source in files.items()}), processes=1)


UPSTREAM = Upstream(inventory(NOW), inventory(WAS), OPDB, "2.14.0a0+git", lambda path: NOW[path].encode())


def config(tests: str = "", path: str = "${TORCH_ROOT}/test/test_x.py", rest: str = "") -> ConfigSource:
    listed = f"      tests:\n{tests}" if tests else ""
    return ConfigSource("x.yaml", f"test_suite_config:\n  files:\n    - path: {path}\n{listed}{rest}")


def found(source: ConfigSource, *more: ConfigSource, **given: object) -> list[tuple[int, str, str, str]]:
    problems = lint([source, *more], **({"upstream": UPSTREAM} | given))  # type: ignore[arg-type]
    return [(p.line, p.level, p.code, p.hint) for p in problems]


NAME = "        - names: [{}]\n"


@pytest.mark.parametrize(
    ("name", "level", "code", "hint"),
    [
        ("TestX::test_alfa", "error", "config-dead-name", "near: TestX::test_alpha"),
        ("TestY::test_alpha", "warning", "config-unseen-name", "test_alpha is in TestX"),
        ("TestX::test_old_name", "error", "config-dead-name", "renamed: TestX::test_new_name"),
        ("TestX::test_over_add", "error", "config-generated-name", "'TestX::test_over'"),
        ("TestX::test_many_n_1", "warning", "config-unseen-name", "'TestX::test_many' covers all"),
        ("'TestX::test_no.*'", "error", "config-dead-name", ""),
        ("TestLoopA::test_c", "warning", "config-unseen-name", ""),
        ("TestMade::test_c", "warning", "config-unseen-name", ""),
    ],
)
def test_a_name_that_names_nothing(name: str, level: str, code: str, hint: str) -> None:
    ((line, at_level, at_code, at_hint),) = found(config(NAME.format(name)))
    assert (line, at_level, at_code) == (5, level, code)
    assert hint in at_hint


@pytest.mark.parametrize(
    "name", ["TestX::test_inherited", "TestFromFar::test_far", "test_alpha", "'Test[XY]::test_a.*'"]
)
def test_a_name_that_names_something(name: str) -> None:
    assert found(config(NAME.format(name))) == []


def test_a_dead_path_that_its_entry_allows_is_no_problem() -> None:
    text = config(path="${TORCH_ROOT}/test/test_gone.py").text + "      allow_empty: true\n"
    assert found(ConfigSource("x.yaml", text)) == []


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("test/test_xx.py", "near: test/test_x.py"),
        ("test/nn/test_x.py", "near: test/test_x.py"),
        ("test/test_old_place.py", "it is now test/test_moved.py"),
        ("test/nowhere/*.py", ""),
    ],
)
def test_a_dead_path(path: str, hint: str) -> None:
    ((line, level, code, at_hint),) = found(config(path="${TORCH_ROOT}/" + path))
    assert (line, level, code) == (3, "error", "config-dead-file")
    assert hint in at_hint
    assert [level for _, level, _, _ in found(config(path="${TORCH_ROOT}/" + path), compat=True)] == ["warning"]


@pytest.mark.parametrize(
    ("name", "edits", "lines"),
    [
        ("TestX::test_alpha", "inputs: {args: [{value: 1}]}", [7]),
        ("TestX::test_alpha, TestX::test_over", "inputs: {args: [{value: 1}]}", [7]),
        ("'TestX::test_.*'", "inputs: {args: [{value: 1}]}", []),
        ("TestX::test_over", "inputs: {args: [{value: 1}]}", []),
        ("TestX::test_checked", "inputs: {args: [{value: 1}]}", []),
        ("TestX::test_over", "ops: {include: [{name: add, sample_inputs_func: {args: [{value: 1}]}}]}", []),
        ("TestX::test_alpha", "ops: {include: [{name: add, sample_inputs_func: {args: [{value: 1}]}}]}", [7]),
        ("TestX::test_over", "modules: {include: [{name: nn.ReLU, forward_inputs: {args: [{value: 1}]}}]}", [7]),
        ("TestX::test_alpha", "ops: {include: [{name: add}]}", []),
    ],
)
def test_inputs_of_tests_that_take_none(name: str, edits: str, lines: list[int]) -> None:
    tests = f"        - names: [{name}]\n          edits:\n            {edits}\n"
    problems = found(config(tests))
    assert [(line, level, code) for line, level, code, _ in problems] == [
        (line, "warning", "config-inputs-unused") for line in lines
    ]


def test_unknown_ops_and_modules() -> None:
    tests = (
        "        - names: [test_over]\n          edits:\n"
        "            ops: {exclude: [{name: div.flor_rounding}, {name: div}, {name: nn_functional_gelu}]}\n"
        "            modules: {exclude: [{name: nn.ReLu}, {name: torch.nn.ReLU}]}\n"
    )
    problems = lint([config(tests, rest="  global: {supported_ops: [add, ad]}\n")], upstream=UPSTREAM)
    assert [(p.line, p.code) for p in problems] == [
        (7, "config-unknown-op"),
        (8, "config-unknown-op"),
        (9, "config-unknown-op"),
    ]
    assert "div.floor_rounding" in problems[0].hint
    assert "nn.ReLU" in problems[1].hint


def test_an_entry_that_never_governs() -> None:
    tests = "        - names: ['test_al.*']\n          mode: xfail\n        - names: [TestX::test_alpha]\n"
    assert [(line, code) for line, _, code, _ in found(config(tests))] == [(5, "config-unreachable")]
    # it governs another dtype: reachable
    edits = tests + "          edits: {dtypes: {exclude: [{name: bool}]}}\n"
    assert found(config(edits)) == []


def test_two_patterns_that_give_one_test_two_modes() -> None:
    tests = (
        "        - names: ['TestX::test_al.*']\n          mode: xfail\n"
        "        - names: ['TestX::.*pha']\n          mode: skip\n"
    )
    assert (7, "error", "config-conflict", "let one of the two say it") in found(config(tests))
    two = [config(NAME.format("'TestX::test_al.*'")), ConfigSource("y.yaml", config(tests).text)]
    assert "config-conflict" in [code for _, _, code, _ in found(*two)]


def test_reasons_that_have_expired() -> None:
    tests = (
        "        - names: [test_alpha]\n          mode: xfail\n          until: '2.14'\n"
        "          issue: https://github.com/me/mine/issues/7\n"
        "        - names: [test_many]\n          mode: xfail\n          until: '2.15'\n          issue: me/mine#8\n"
    )
    issues = issues_from([{"html_url": "https://github.com/me/Mine/issues/7", "state": "closed"}]) | {
        "me/mine#8": "open"
    }
    codes = [(line, level, code) for line, level, code, _ in found(config(tests), issues=issues)]
    assert codes == [(5, "warning", "config-issue-closed"), (5, "warning", "config-until-passed")]
