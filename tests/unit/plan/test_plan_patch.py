"""Config patches: the fewest lines, on real configs, and a text that means what was wanted."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

import pytest

from selector.configs import ConfigSource, load_configs
from selector.errors import ConfigError
from selector.model import Mode, TestId
from selector.plan.patch import ConfigEdit, patch
from selector.plan.patch_tolerance import ToleranceEdit
from selector.plan.validate import unified, validate

REAL = Path(__file__).resolve().parents[2] / "data" / "spyre-configs"
TODAY = date(2026, 11, 30)
WHY = {"reason": "rounds: 1 ulp off", "evidence": "5 runs, the newest abc", "issue": "a/b#7", "until": "2027-03-01"}


def edit(test: str, mode: Mode | None, **why: str) -> ConfigEdit:
    return ConfigEdit(TestId.parse(test), mode, **{**WHY, **why})


def lines_of(before: str, after: str) -> tuple[list[str], list[str]]:
    """(removed, added) lines."""
    told = unified([ConfigSource("x", before)], [ConfigSource("x", after)]).splitlines()[2:]
    return [t[1:] for t in told if t.startswith("-")], [t[1:] for t in told if t.startswith("+")]


def real(name: str) -> ConfigSource:
    return ConfigSource(name, (REAL / name).read_text(encoding="utf-8"))


def patched(source: ConfigSource, *edits: ConfigEdit | ToleranceEdit) -> str:
    after = patch(source, edits)
    assert validate([source], [after], edits, None, TODAY, compat=True) == []
    return after.text


VIEW = "test/test_view_ops.py::TestViewOps::"


def test_a_promotion_takes_one_line_out_of_a_real_config() -> None:
    source = real("test_view_ops_config.yaml")
    after = patched(source, edit(VIEW + "test_split_view", None))
    assert lines_of(source.text, after) == (["            - TestViewOps::test_split_view"], [])
    assert after == source.text.replace("            - TestViewOps::test_split_view\n", "", 1), "byte for byte"


def test_the_last_name_of_an_entry_takes_the_entry_and_no_comment() -> None:
    source = real("test_view_ops_config.yaml")
    after = patched(source, edit(VIEW + "test_maybe_view_chunk_cat", None))
    removed, added = lines_of(source.text, after)
    assert added == []
    assert [line.strip() for line in removed] == ["- names:", "- TestViewOps::test_maybe_view_chunk_cat", "mode: xfail"]
    assert after.count("#") == source.text.count("#")


def test_a_mode_is_changed_in_place_and_the_reasons_follow_it() -> None:
    source = real("inductor-test_scatter_optimization.yaml")
    test = "test/inductor/test_scatter_optimization.py::TestScatterOpt::test_cross_entropy_loss"
    removed, added = lines_of(source.text, patched(source, edit(test, Mode.SKIP)))
    assert removed == ["          mode: xfail"]
    assert added == [
        "          mode: skip",
        "          reason: 'rounds: 1 ulp off'",
        "          evidence: 5 runs, the newest abc",
        "          issue: a/b#7",
        "          until: '2027-03-01'",
    ]


def test_a_name_among_others_moves_to_an_entry_of_its_own_beside_them() -> None:
    source = real("test_view_ops_config.yaml")
    removed, added = lines_of(source.text, patched(source, edit(VIEW + "test_view_dtype_new", Mode.XFAIL, until="")))
    assert removed == ["            - TestViewOps::test_view_dtype_new"]
    assert [line.strip() for line in added] == [
        "- names: [TestViewOps::test_view_dtype_new]",
        "mode: xfail",
        "reason: 'rounds: 1 ulp off'",
        "evidence: 5 runs, the newest abc",
        "issue: a/b#7",
    ]


def test_a_test_that_nothing_names_gets_an_entry_at_the_end_of_its_file() -> None:
    source = real("test_unary_ufuncs.yaml")
    test = "test/test_unary_ufuncs.py::TestUnaryUfuncs::test_nowhere_named"
    after = patched(source, edit(test, Mode.XFAIL))
    removed, added = lines_of(source.text, after)
    assert removed == []
    assert len(added) == 6
    rule = load_configs([ConfigSource(source.name, after)], compat=True).rule(TestId.parse(test))
    assert (rule.mode, rule.reason, rule.issue) == (Mode.XFAIL, "rounds: 1 ulp off", "a/b#7")


def test_a_file_that_no_block_covers_gets_one() -> None:
    source = real("test_indexing.yaml")
    removed, added = lines_of(source.text, patched(source, edit("test/test_new.py::TestNew::test_a", Mode.XFAIL)))
    assert removed == []
    assert added[0] == "    - path: ${TORCH_ROOT}/test/test_new.py"


@pytest.mark.parametrize("path", sorted(REAL.glob("*.yaml")), ids=lambda p: p.name)
def test_every_name_of_every_real_config_can_be_taken_out_with_only_its_lines(path: Path) -> None:
    source = real(path.name)
    tried = 0
    for suite in load_configs([source], compat=True).suites:
        for file in suite.files:
            for name in [name for entry in file.tests for name in entry.names[:3]]:
                if file.path.path is None or not name.cls or name.cls_regex or name.method_regex:
                    continue
                test = TestId(file.path.path, name.cls, name.method)
                try:
                    after = patch(source, [ConfigEdit(test, None, "passes", "here")]).text
                except ConfigError:
                    continue  # the next test says what is left to a person
                removed, added = lines_of(source.text, after)
                assert added == []
                assert any(name.method in line for line in removed) or after == source.text
                assert not [line for line in removed if line.strip().startswith("#")]
                tried += 1
    assert tried or "${TORCH_ROOT}" not in source.text or path.name in (*WITHOUT, "example_test_config.yaml")


WITHOUT = tuple(f"test_{name}_config.yaml" for name in ("profiler", "autocast", "binary_ufuncs"))
"""their entries all edit ops or dtypes, or are the only ones"""

FLOW = """test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: mandatory_success
      tests:
        - {names: [TestX::test_a, TestX::test_b, test_c], mode: xfail, reason: rounds}   # all three
        - names: [TestX::test_d]
          mode: skip   # hangs
          edits: {dtypes: {include: [{name: float16}]}}
# the end"""


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("TestX::test_a", "[TestX::test_b, test_c]"),
        ("TestX::test_b", "[TestX::test_a, test_c]"),
        ("TestX::test_c", "[TestX::test_a, TestX::test_b]"),
    ],
)
def test_a_name_leaves_a_flow_list(test: str, names: str) -> None:
    after = patched(ConfigSource("x.yaml", FLOW), edit(f"test/test_x.py::{test}", None))
    assert after == FLOW.replace("[TestX::test_a, TestX::test_b, test_c]", names)


def test_an_entry_that_does_more_is_left_to_a_person() -> None:
    with pytest.raises(ConfigError, match="also edits") as caught:
        patch(ConfigSource("x.yaml", FLOW), [edit("test/test_x.py::TestX::test_d", None)])
    assert "x.yaml:7" in str(caught.value)
    with pytest.raises(ConfigError, match="no test_suite_config"):
        patch(ConfigSource("x.yaml", "a: 1"), [edit("test/test_x.py::TestX::test_d", Mode.XFAIL)])


def test_a_patch_that_does_something_else_is_found_out() -> None:
    source = ConfigSource("x.yaml", FLOW)
    wanted = edit("test/test_x.py::TestX::test_a", None)
    both = patch(source, [wanted, edit("test/test_x.py::TestX::test_b", Mode.SKIP)])
    found = validate([source], [both], [wanted], None, TODAY)
    assert found == ["test/test_x.py::TestX::test_b changes too: xfail -> skip"]
    broken = ConfigSource("x.yaml", FLOW.replace("xfail", "xfial"))
    assert any("new problem" in w for w in validate([source], [broken], [wanted], None, TODAY))


def test_the_unified_form_is_what_git_applies(tmp_path: Path) -> None:
    source = real("test_view_ops_config.yaml")
    after = patch(source, [edit(VIEW + "test_split_view", None), edit(VIEW + "test_nowhere", Mode.XFAIL)])
    (tmp_path / source.name).write_text(source.text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=unified([source], [after]), text=True, check=True)
    assert (tmp_path / source.name).read_text() == after.text


MEASURED = {"reason": "off by rounding", "evidence": "6 runs on 4 commits, 1 test"}


def tolerance(test: str, op: str | None, dtype: str = "float16", *dtypes: str) -> ToleranceEdit:
    return ToleranceEdit(TestId.parse(test), op, dtype, 6e-5, 4e-5, **MEASURED, dtypes=dtypes)


ADDED = [
    "            precision: {atol: 6.0e-05, rtol: 4.0e-05}",
    "            reason: off by rounding",
    "            evidence: 6 runs on 4 commits, 1 test",
]


def test_a_tolerance_is_written_to_the_ops_dtype_of_a_real_config() -> None:
    source = real("test_unary_ufuncs.yaml")
    op = "_scaled_dot_product_fused_attention_overrideable"
    test = "test/test_unary_ufuncs.py::TestUnaryUfuncs::test_abs"
    after = patched(source, tolerance(test, op))
    removed, added = lines_of(source.text, after)
    assert (removed, added) == ([], ADDED)
    place = source.text.index("          - name: float16", source.text.index(op)) + len("          - name: float16\n")
    assert after == source.text[:place] + "\n".join(ADDED) + "\n" + source.text[place:], "byte for byte"


def test_an_op_that_no_list_names_gets_a_tolerance_and_nothing_else_changes() -> None:
    why = "reason: off by rounding, evidence: '6 runs on 4 commits, 1 test'"
    item = f"{{name: float16, precision: {{atol: 6.0e-05, rtol: 4.0e-05}}, {why}}}"
    # a list of ops that does not name it: naming it there would make it supported
    source = real("test_view_ops_config.yaml")
    after = patched(source, tolerance(VIEW + "test_view", "no_such_op"))
    added = ["    op_precision:", f"      - {{name: no_such_op, dtypes: [{item}]}}"]
    assert lines_of(source.text, after) == ([], added)
    whole = "".join(f"{line}\n" for line in added)
    assert after.replace(whole, "", 1) == source.text, "byte for byte"
    assert after.startswith(source.text[: after.index(whole)])
    again = patched(ConfigSource(source.name, after), tolerance(VIEW + "test_view", "no_such_op", "float32"))
    assert again == after.replace("]}\n", f", {item.replace('float16', 'float32')}]}}\n", 1), "its other dtype"
    other = patched(ConfigSource(source.name, after), tolerance(VIEW + "test_view", "other_op"))
    assert other == after.replace(whole, whole + added[1].replace("no_such_op", "other_op") + "\n", 1), "another op"
    # a global without that list: with one, every other op would be unsupported
    plain = real("test_indexing.yaml")
    after = patched(plain, tolerance("test/test_indexing.py::TestIndexing::test_index", "add"))
    added = ["    op_precision:", f"      - {{name: add, dtypes: [{item}]}}"]
    assert lines_of(plain.text, after) == ([], added)
    assert after.replace("".join(f"{line}\n" for line in added), "", 1) == plain.text, "byte for byte"
    # no global at all
    text = real("test_regex_config.yaml").text.replace("${TORCH_DEVICE_ROOT}/tests", "${TORCH_ROOT}/test")
    bare, test = ConfigSource("x.yaml", text), "test/test_regex.py::TestRegex::test_it"
    after = patched(bare, tolerance(test, "add"))
    was, is_ = (load_configs([one]) for one in (bare, ConfigSource("x.yaml", after)))
    assert was.ops(TestId.parse(test)) == is_.ops(TestId.parse(test)), "no op is filtered by it"
    assert was.dtypes(TestId.parse(test), "add") == is_.dtypes(TestId.parse(test), "add"), "and no dtype"
    added = ["  global:", *added]
    assert lines_of(bare.text, after) == ([], added)
    assert after == bare.text.replace("  files:", "\n".join([*added, "  files:"]), 1), "byte for byte"


def test_a_tolerance_that_is_there_changes_its_numbers_alone() -> None:
    source = real("test_view_ops_config.yaml")
    after = patched(source, tolerance(VIEW + "test_view", "add"))
    at = source.text.index("precision:")
    head, tail = source.text[:at], source.text[at:]
    assert after == head + tail.replace("1e-3", "6.0e-05", 1).replace("1e-3", "4.0e-05", 1), "byte for byte"


def test_an_op_that_lists_no_dtypes_lists_all_that_the_config_supports() -> None:
    source = real("test_binary_ufuncs_config.yaml")
    test = "test/test_binary_ufuncs.py::TestBinaryUfuncs::test_contig_vs_every_other"
    dtypes = ("bfloat16", "float16", "float32")
    removed, added = lines_of(source.text, patched(source, tolerance(test, "mul", "float16", *dtypes)))
    why = "reason: off by rounding, evidence: '6 runs on 4 commits, 1 test'"
    item = f"{{name: float16, precision: {{atol: 6.0e-05, rtol: 4.0e-05}}, {why}}}"
    assert removed == []
    assert added == [f"        dtypes: [{{name: bfloat16}}, {item}, {{name: float32}}]"]
    before, after = (
        load_configs([one], compat=True)
        for one in (source, patch(source, [tolerance(test, "mul", "float16", *dtypes)]))
    )
    for op in ("add", "mul"):
        kinds = ("bfloat16", "float16", "float32", "int64")
        assert before.dtypes(TestId.parse(test), op).apply(kinds) == after.dtypes(TestId.parse(test), op).apply(kinds)
    with pytest.raises(ConfigError, match="does not say which ones it supports"):
        patch(source, [tolerance(test, "mul")])


FLAT = """test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: mandatory_success
  global:
    supported_dtypes: [{name: float16}, {name: float32}]   # what there is
    supported_ops: [add, {name: sub, dtypes: [{name: float16}]}, mul]"""


def test_a_list_in_flow_style_stays_one() -> None:
    source = ConfigSource("x.yaml", FLAT)
    test = "test/test_x.py::TestX::test_a"
    why = "reason: off by rounding, evidence: '6 runs on 4 commits, 1 test'"
    item = f"{{name: float16, precision: {{atol: 6.0e-05, rtol: 4.0e-05}}, {why}}}"
    assert patched(source, tolerance(test, "add", "float16", "float16", "float32")) == FLAT.replace(
        "[add,", f"[{{name: add, dtypes: [{item}, {{name: float32}}]}},"
    )
    assert patched(source, tolerance(test, "sub")) == FLAT.replace("dtypes: [{name: float16}]", f"dtypes: [{item}]")
    with pytest.raises(ConfigError, match="does not list float32"):
        patch(source, [tolerance(test, "sub", "float32")])


def test_a_test_without_ops_gets_an_entry_for_the_dtype() -> None:
    source = ConfigSource("x.yaml", FLAT)
    removed, added = lines_of(source.text, patched(source, tolerance("test/test_x.py::TestX::test_a", None)))
    assert removed == []
    assert added == [
        "      tests:",
        "        - names: [TestX::test_a]",
        "          mode: mandatory_success",
        "          reason: off by rounding",
        "          evidence: 6 runs on 4 commits, 1 test",
        "          edits: {dtypes: {include: [{name: float16, precision: {atol: 6.0e-05, rtol: 4.0e-05}}]}}",
    ]


def test_a_tolerance_that_did_not_come_to_be_is_found_out() -> None:
    source = ConfigSource("x.yaml", FLAT)
    wanted = tolerance("test/test_x.py::TestX::test_a", "sub")
    (found,) = validate([source], [source], [wanted], None, TODAY)
    assert "the tolerance of sub float16 is None, not" in found
