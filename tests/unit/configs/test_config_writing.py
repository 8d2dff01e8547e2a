"""Programs that write configs: import, fmt, diff, schema. Comments and order stay; reasons come out of comments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from relay.cli import app
from selector.configs import ConfigSource, lint, load_configs
from selector.configs.comments import as_reason
from selector.configs.diff import Side, diff, named_tests
from selector.configs.importer import import_configs
from selector.configs.jsonschema import json_schema
from selector.configs.roundtrip import format_text, read
from selector.model import Mode, TestId

OLD = """\
# about the file
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      tests:
        ##########
        ## above the entry
        ##########
        - names:
            - TestX::test_a  # copies are missing https://github.com/me/mine/issues/80
            - TestX::test_b  # copies are missing https://github.com/me/mine/issues/80
            # in groups
            - TestX::test_c
            - TestX::test_d
            # - TestX::test_out_commented
          mode: xfail  # xfail: NotImplementedError
        - names: # from the heading
            - TestX::test_e
          edits:
            dtypes:
              exclude:
                - name: bool  # no masks, me/mine#7
                - name: int8
        - names: [TestX::test_f]
          mode: skip
          # said below, deeper than the dash
        # - names: [TestX::test_g]
        #   mode: skip
  global:
    supported_dtypes:
      - name: float16  # stays a comment
"""


def imported(*texts: str) -> list[ConfigSource]:
    return list(import_configs([ConfigSource(f"{i}.yaml", t) for i, t in enumerate(texts)]).files)


def test_comments_become_reasons_of_what_they_are_about() -> None:
    (source,) = imported(OLD)
    assert lint([source]) == []
    configs = load_configs([source])

    def why(method: str, dtype: str | None = None) -> tuple[str, str]:
        rule = configs.rule(TestId("test/test_x.py", "TestX", method), dtype=dtype)
        return rule.reason, rule.issue

    assert why("test_a") == why("test_b") == ("copies are missing", "me/mine#80")
    assert why("test_c") == why("test_d") == ("in groups", "")
    assert why("test_e") == ("from the heading", "")
    assert why("test_e", "bool") == ("no masks", "me/mine#7")
    assert why("test_f") == ("said below, deeper than the dash", "")
    # what is config that was commented out, or about something else, stays where it is
    for kept in ("# about the file", "# stays a comment", "# - names: [TestX::test_g]"):
        assert kept in source.text
    assert "###" not in source.text


def test_the_older_tools_default_is_written_out() -> None:
    (source,) = imported(OLD)
    assert load_configs([source]).rule(TestId("test/test_x.py", "TestX", "test_nowhere")).mode is Mode.XFAIL


def test_a_repeated_global_becomes_one_sheet() -> None:
    other = OLD.replace("test_x.py", "test_y.py").replace("  # stays a comment", "")
    third = other.replace("test_y.py", "test_z.py")
    files = {source.name: source.text for source in imported(other, third)}
    assert sorted(files) == ["0.yaml", "1.yaml", "shared.yaml"]
    assert "supported_dtypes" not in files["0.yaml"]
    before = load_configs([ConfigSource("0.yaml", other)], compat=True)
    after = load_configs([ConfigSource(n, t) for n, t in files.items()])
    test = TestId("test/test_y.py", "TestX", "test_a")
    assert before.dtypes(test) == after.dtypes(test)


def test_misplaced_kwargs_are_moved_into_the_call() -> None:
    item = "{name: torch.add, sample_inputs_func: {args: [{value: 1}]}, kwargs: {alpha: 2}}"
    text = OLD.replace("            dtypes:\n", f"            ops: {{include: [{item}]}}\n            dtypes:\n")
    assert [p.code for p in lint([ConfigSource("x.yaml", text)])] == ["config-misplaced-key"]
    (source,) = imported(text)
    assert lint([source]) == []
    assert "alpha: 2" in source.text


@pytest.mark.parametrize(
    ("said", "reason", "issue"),
    [
        (["xfail: RecursionError"], "RecursionError", ""),
        (["see me/mine#3 for it"], "see for it", "me/mine#3"),
        (["crashes (https://github.com/a/b/pull/4)"], "crashes", "a/b#4"),
        (["one", "two"], "one two", ""),
    ],
)
def test_reasons_and_issues_in_a_comment(said: list[str], reason: str, issue: str) -> None:
    found = as_reason(said)
    assert (found.reason, found.issue) == (reason, issue)


def test_formatting_keeps_comments_order_and_meaning() -> None:
    text = "a: 1   # one\nb:\n- x   # two\n# three\n- 'y'\n"
    assert format_text("x", text) == "a: 1   # one\nb:\n  - x # two\n# three\n  - 'y'\n"
    formatted = format_text("x", OLD)
    assert (format_text("x", formatted), read(formatted)) == (formatted, read(OLD))
    assert formatted.count("#") == OLD.count("#")


def test_a_list_that_is_too_long_for_its_line_has_a_line_an_element() -> None:
    names = [f"TestSome::test_with_quite_a_long_name_{i}" for i in range(4)]
    one_each = "\n".join(f"      - {name}" for name in names)
    text = f"a:\n  - b: [{', '.join(names)}]\n    c: [1, 2]\n"
    assert format_text("x", text) == f"a:\n  - b:\n{one_each}\n    c: [1, 2]\n"
    inside = f"a: {{b: [{', '.join(names)}]}}\n"  # within braces no block can be
    assert read(format_text("x", inside)) == read(inside)
    many = f"a: [{', '.join(map(str, range(1000, 1100)))}]\n"
    assert format_text("x", many).count("\n") < 10
    for said in (text, inside, many):
        assert format_text("x", format_text("x", said)) == format_text("x", said)


def test_fmt_writes_only_when_asked_to(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a:\n- 1\n")
    runner = CliRunner()
    assert runner.invoke(app, ["config", "fmt", "--check", str(file)]).exit_code == 1
    assert file.read_text() == "a:\n- 1\n"
    assert runner.invoke(app, ["config", "fmt", str(file)]).exit_code == 0
    assert file.read_text() == "a:\n  - 1\n"
    assert runner.invoke(app, ["config", "fmt", "--check", str(file)]).exit_code == 0


def test_import_writes_a_folder_and_never_over_another(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/x.yaml").write_text(OLD)
    runner = CliRunner()
    command = ["config", "import", str(tmp_path / "old"), "--out", str(tmp_path / "new")]
    done = runner.invoke(app, command)
    assert (done.exit_code, "5 reasons and 2 issues" in done.output) == (0, True), done.output
    again = runner.invoke(app, command)
    assert again.exit_code != 0
    assert "already has x.yaml" in str(again.exception)


A = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      tests:
        - {names: [TestX::test_a, TestX::test_b], mode: xfail}
  global: {supported_ops: [add, mul]}
"""
B = A.replace("mul", "{name: mul, force_xfail: true, reason: rounds}").replace("mode: xfail", "mode: mandatory_success")


def test_diff_says_which_variants_change_and_by_what() -> None:
    sides = [Side(load_configs([ConfigSource(n, t)])) for n, t in (("a.yaml", A), ("b.yaml", B))]
    tests = named_tests(*sides)
    assert [t.method for t in tests] == ["test_a", "test_b"]
    changes = [c for c in diff(*sides, tests) if c.test.method == "test_a"]
    # mul stays an xfail, by another line
    assert [(c.before, c.after, c.ops) for c in changes] == [("xfail", "mandatory_success", (("", ""), ("add", "")))]
    assert (changes[0].was_by, changes[0].is_by) == ("a.yaml:6", "b.yaml:6")
    assert diff(sides[0], sides[0], tests) == []


def test_diff_and_explain_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(A)
    (tmp_path / "b.yaml").write_text(B)
    runner = CliRunner()
    done = runner.invoke(app, ["config", "diff", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), "--json"])
    assert done.exit_code == 1
    assert {c["after"] for c in json.loads(done.output)} == {"mandatory_success"}
    assert runner.invoke(app, ["config", "diff", *[str(tmp_path / "a.yaml")] * 2]).exit_code == 0


def objects(schema: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(schema, dict):
        if "properties" in schema and isinstance(schema["properties"], dict):
            found.append(schema)
        for value in schema.values():
            found += objects(value)
    elif isinstance(schema, list):
        for value in schema:
            found += objects(value)
    return found


def test_the_schema_is_that_of_the_models_and_resolves() -> None:
    schema = json_schema()
    defs = schema["$defs"]
    assert schema["required"] == ["test_suite_config"]
    assert {"files", "labels", "global", "extends", "allow_empty"} == set(defs["SuiteBlock"]["properties"])
    assert defs["Test"]["properties"]["mode"]["default"] == "mandatory_success"
    assert defs["Mode"]["enum"] == ["mandatory_success", "xfail", "xfail_strict", "skip"]
    assert {"type": "string"} in defs["GlobalBlock"]["properties"]["supported_ops"]["items"]["anyOf"]
    blocks = [found for found in objects(schema) if "additionalProperties" in found]
    assert len(blocks) > 20
    assert all(found["additionalProperties"] is False for found in blocks)
    refs = set(json.dumps(schema).split('"$ref": "')[1:])
    assert {ref.split('"')[0].removeprefix("#/$defs/") for ref in refs} <= set(defs)
    assert json.loads(CliRunner().invoke(app, ["config", "schema"]).output) == schema
