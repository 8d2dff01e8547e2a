"""A config that cannot be used is refused at its line and column, with a hint that mends it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.configs import ConfigSource, lint, load_configs
from selector.errors import ConfigError

HEAD = "test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_x.py\n"
TEST = HEAD + "      tests:\n        - names: [TestX::test_a]\n"

# what, the text, line, column, code, a part of the hint or message
BAD = [
    ("unknown key", HEAD + "      unlisted: skip\n", 4, 7, "config-unknown-key", "unlisted_test_mode"),
    ("unknown key in a test", TEST + "          mood: skip\n", 6, 11, "config-unknown-key", "mode"),
    ("null list", HEAD + "      tests:\n", 4, 13, "config-null", "take the key out"),
    ("null mode", TEST + "          mode:\n", 6, 16, "config-null", "take the key out"),
    ("duplicate key", TEST + "          mode: skip\n          mode: xfail\n", 7, 11, "config-duplicate-key", "line 6"),
    ("broken regex", HEAD + "      tests:\n        - names: ['test_(x']\n", 5, 19, "config-regex", "whole regex"),
    ("glob for a regex", HEAD + "      tests:\n        - names: ['*X*::test_a']\n", 5, 19, "config-regex", "'.*X.*'"),
    ("wrong type", HEAD + "      tests: {names: [a]}\n", 4, 14, "config-type", "a list"),
    ("wrong mode", TEST + "          mode: mandatory\n", 6, 17, "config-mode", "mandatory_success"),
    (
        "wrong dtype",
        TEST + "          edits: {dtypes: {exclude: [{name: torch.float16}]}}\n",
        6,
        45,
        "config-dtype",
        "'float16'",
    ),
    ("a dtype as a text", TEST + "          edits: {dtypes: {exclude: [float16]}}\n", 6, 38, "config-type", "- name"),
    (
        "generated name",
        HEAD + "      tests:\n        - names: [TestX::test_a_spyre_float16]\n",
        5,
        19,
        "config-generated-name",
        "'TestX::test_a'",
    ),
    (
        "generated class",
        HEAD + "      tests:\n        - names: [TestXPRIVATEUSE1::test_a]\n",
        5,
        19,
        "config-generated-name",
        "'TestX::test_a'",
    ),
    ("three halves", HEAD + "      tests:\n        - names: ['A::b::c']\n", 5, 19, "config-name", "Class::method"),
    ("no path", "test_suite_config:\n  files:\n    - tests: []\n", 3, 7, "config-missing-key", "path"),
    ("no files", "test_suite_config:\n  labels: []\n", 2, 3, "config-missing-key", "files"),
    ("unknown token", HEAD.replace("TORCH_ROOT", "TORCHROOT"), 3, 13, "config-path", "TORCH_ROOT"),
    ("path out of the tree", HEAD.replace("test/", "../"), 3, 13, "config-path", "inside"),
    (
        "a file elsewhere",
        TEST + "          edits: {inputs: {args: [{tensor: {shape: [1], init: file, init_args: {path: ../a.pt}}}]}}\n",
        6,
        87,
        "config-path",
        "outside of the config's folder",
    ),
    ("unknown platform", TEST + "          platform: x86\n", 6, 21, "config-value", "did you mean 'x86_64'?"),
    (
        "no inputs for a tensor",
        TEST + "          edits: {inputs: {args: [{tensor: }]}}\n",
        6,
        44,
        "config-null",
        "must not be empty",
    ),
    (
        "a number below nothing",
        TEST + "          edits: {inputs: {args: [{tensor: {shape: [-1]}}]}}\n",
        6,
        53,
        "config-value",
        "at least 0",
    ),
    ("a flag as a text", TEST + "          no_grad: 'yes'\n", 6, 20, "config-type", "true or false"),
    ("an empty text", TEST + "          tags: ['']\n", 6, 18, "config-type", "a text"),
    ("selectors as a list", TEST + "          selectors: []\n", 6, 22, "config-type", "a map"),
    (
        "a selector that selects by nothing",
        TEST + "          selectors: {exclude: [{}]}\n",
        6,
        33,
        "config-value",
        "name one of has_ops",
    ),
    ("unknown device", TEST + "          bypass_device_restrictions: [cudda]\n", 6, 40, "config-value", "'cuda'"),
    ("issue", TEST + "          issue: somewhere\n", 6, 18, "config-issue", "owner/repo"),
    ("until", TEST + "          until: soon\n", 6, 18, "config-until", "2.14"),
    ("syntax", HEAD + "      tests: [\n", 5, 1, "config-yaml", "not valid YAML"),
    ("a tab", "test_suite_config:\n\tfiles:\n", 2, 1, "config-yaml", "a tab is there: indent with spaces"),
    (
        "a tab further in",
        HEAD + "      tests:\n\t- names: [TestX::test_a]\n",
        5,
        1,
        "config-yaml",
        "a tab is there: indent with spaces",
    ),
    ("a list for a map", "test_suite_config:\n  - files: []\n", 2, 3, "config-type", "without '- '"),
    ("a map for a list", "test_suite_config:\n  files:\n    path: x\n", 3, 5, "config-type", "write '- ' before"),
    ("a day first", TEST + "          until: 1.12.2026\n", 6, 18, "config-until", "write 2026-12-01"),
    (
        "another device's generated name",
        HEAD + "      tests:\n        - names: [TestX::test_a_cuda_bfloat16]\n",
        5,
        19,
        "config-generated-name",
        "'TestX::test_a'",
    ),
    ("empty", "", 1, 1, "config-empty", "test_suite_config"),
    (
        "a list for a key",
        TEST + "          edits: {ops: {exclude: [{name: x, [a]: b}]}}\n",
        6,
        45,
        "config-type",
        "a word",
    ),
    ("a list", "- a\n", 1, 1, "config-type", "test_suite_config"),
    ("itself", "test_suite_config: &a\n  files: [*a]\n", 1, 20, "config-yaml", "itself"),
    (
        "two kinds of argument",
        TEST + "          edits: {ops: {include: [{name: a, sample_inputs_func: {args: [{value: 1, py: '2'}]}}]}}\n",
        6,
        73,
        "config-argument",
        "only one",
    ),
    (
        "randint without high",
        TEST
        + "          edits: {ops: {include: [{name: a, sample_inputs_func: {args: "
        + "[{tensor: {shape: [2], init: randint}}]}}]}}\n",
        6,
        101,
        "config-missing-key",
        "high",
    ),
    (
        "misplaced kwargs",
        TEST + "          edits: {ops: {include: [{name: a, sample_inputs_func: {args: []}, kwargs: {}}]}}\n",
        6,
        77,
        "config-misplaced-key",
        "beside args",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "code", "said"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_names_the_place_and_the_mend(text: str, line: int, column: int, code: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_configs([ConfigSource("spyre/x.yaml", text)])
    error = caught.value
    assert (error.source, error.line, error.column, error.code) == ("spyre/x.yaml", line, column, code)
    assert said in str(error)


@pytest.mark.parametrize("name", ["TestX::test_a_abacus_float16", "TestXABACUS::test_a"])
def test_a_name_generated_for_the_sheets_own_device_is_refused(name: str) -> None:
    sheet = ConfigSource("d/capability.yaml", "capability: {name: a, device: abacus, dtypes: [float16]}\n")
    text = HEAD + f"      tests:\n        - names: [{name}]\n"
    config = ConfigSource("d/x.yaml", text.replace("  files", "  extends: capability.yaml\n  files", 1))
    with pytest.raises(ConfigError, match="generated") as caught:
        load_configs([sheet, config])
    assert (caught.value.code, caught.value.line) == ("config-generated-name", 6)
    assert "'TestX::test_a'" in str(caught.value)


def test_classes_and_tests_of_the_source_are_not_taken_for_generated_ones() -> None:
    names = "[TestFooCPU::test_a, TestFooCUDA::test_cpu_to_cuda, TestX::test_to_float16, TestABACUSES::test_a_float16]"
    sheet = ConfigSource("d/capability.yaml", "capability: {name: a, device: cuda, dtypes: [float16]}\n")
    text = HEAD + f"      tests:\n        - {{names: {names}, mode: xfail}}\n"
    config = ConfigSource("d/x.yaml", text.replace("  files", "  extends: capability.yaml\n  files", 1))
    load_configs([sheet, config])


def test_the_tag_of_an_alias_bomb_is_size() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="unfold"):
        load_configs([ConfigSource("bomb.yaml", "\n".join(lines))])


@pytest.mark.parametrize("key", ["unlisted: skip", "resaon: x"])
def test_compat_takes_unknown_keys_with_a_warning(key: str) -> None:
    configs = load_configs([ConfigSource("x.yaml", f"{HEAD}      {key}\n")], compat=True)
    assert [(w.line, w.code, w.level) for w in configs.warnings] == [(4, "config-unknown-key", "warning")]


def test_lint_finds_all_of_them_in_order() -> None:
    text = TEST + "          mode: no\n          mood: 1\n"
    found = lint([ConfigSource("x.yaml", text)])
    assert [(p.line, p.code) for p in found] == [(6, "config-mode"), (7, "config-unknown-key")]


def test_the_first_error_says_that_there_are_more() -> None:
    with pytest.raises(ConfigError, match="1 more"):
        load_configs([ConfigSource("x.yaml", TEST + "          mode: no\n          mood: 1\n")])


def test_two_entries_that_disagree() -> None:
    text = TEST + "          mode: xfail\n        - names: [TestX::test_a]\n          mode: skip\n"
    (problem,) = lint([ConfigSource("x.yaml", text)])
    assert (problem.line, problem.code) == (7, "config-conflict")
    assert "x.yaml:5" in problem.message


def test_two_configs_that_disagree() -> None:
    sources = [
        ConfigSource("a.yaml", TEST + "          mode: xfail\n"),
        ConfigSource("b.yaml", TEST.replace("TestX::", "") + "          mode: skip\n"),
    ]
    (problem,) = lint(sources)
    assert (problem.source, problem.code) == ("b.yaml", "config-conflict")
    assert "a.yaml:5" in problem.message


@pytest.mark.parametrize(
    "second",
    [
        "        - names: [TestX::test_a]\n          mode: skip\n"
        "          edits: {dtypes: {include: [{name: bool}]}}\n",
        "        - names: [test_a]\n          mode: skip\n",
        "        - names: ['TestX::test_.']\n          mode: skip\n",
    ],
    ids=["a dtype of its own", "without the class", "a regex"],
)
def test_a_more_specific_entry_does_not_disagree(second: str) -> None:
    assert lint([ConfigSource("x.yaml", TEST + "          mode: xfail\n" + second)]) == []


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        (
            TEST + "          mode: xfial\n",
            "test_suite_config.files[0].tests[0].mode",
            "did you mean 'xfail'? allowed: ",
        ),
        (TEST + "          tagz: [a]\n", "test_suite_config.files[0].tests[0].tagz", "did you mean 'tags'? allowed: "),
        (HEAD + "  global: {devices: [cpp]}\n", "test_suite_config.global.devices[0]", "did you mean 'cpu'? allowed: "),
        (HEAD + "      tests: [{mode: skip}]\n", "test_suite_config.files[0].tests[0]", "add names"),
        (HEAD + "      tests: [{names: [a, '(']}]\n", "test_suite_config.files[0].tests[0].names[1]", "whole regex"),
    ],
)
def test_names_the_way_of_keys_what_is_allowed_and_what_is_nearest(text: str, path: str, said: str) -> None:
    (problem,) = lint([ConfigSource("x.yaml", text)])
    assert problem.path == path
    assert said in str(problem)
    assert path in str(problem)


def test_what_is_right_in_a_file_is_looked_at_beside_what_is_wrong() -> None:
    text = TEST + "          mode: xfail\n        - {names: [TestX::test_a], mode: skip}\n        - {names: 3}\n"
    found = lint([ConfigSource("x.yaml", text)])
    assert [(p.line, p.code) for p in found] == [(7, "config-conflict"), (8, "config-type")]


def values(depth: int = 2) -> st.SearchStrategy[Any]:
    words = st.sampled_from(["", "xfail", "float16", "test_(x", "TestA::test_a", "${TORCH_ROOT}/test/a.py", "a b", "é"])
    scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=True), words)
    keys = st.sampled_from(["names", "mode", "name", "edits", "include", "ops", "tensor", "shape", "py", "<<", "x"])
    return st.recursive(
        scalars, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(keys, inner, max_size=2)),
        max_leaves=3 * depth,
    )  # fmt: skip


WHOLE: dict[str, Any] = {
    "test_suite_config": {
        "files": [
            {
                "path": "${TORCH_ROOT}/test/test_x.py",
                "unlisted_test_mode": "skip",
                "tests": [
                    {
                        "names": ["TestA::test_a"],
                        "mode": "xfail",
                        "selectors": {"include": [{"has_ops": True}]},
                        "edits": {
                            "dtypes": {"include": [{"name": "float16", "precision": {"atol": 0.1}}]},
                            "ops": {"include": [{"name": "a", "sample_inputs_func": {"args": [{"value": 1}]}}]},
                            "inputs": {"args": [{"tensor": {"shape": [2], "stride": [1]}}], "kwargs": {"x": 1}},
                        },
                    }
                ],
            }
        ],
        "extends": ["y.yaml"],
        "global": {"supported_ops": ["add", {"name": "mul"}], "input_config": {"seed": 1}},
    }
}


def ways(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(deeper for key, inner in items for deeper in ways(inner, (*way, key)))]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([way for way in ways(WHOLE) if way]), values(), st.booleans())
def test_whatever_stands_where_it_does_not_belong_is_told_at_its_place(
    way: tuple[Any, ...], wrong: Any, compat: bool
) -> None:
    made: Any = json.loads(json.dumps(WHOLE))
    at = made
    for key in way[:-1]:
        at = at[key]
    at[way[-1]] = wrong
    text = json.dumps(made, indent=1)
    sheet = ConfigSource("y.yaml", "global: {}")
    for problem in lint([ConfigSource("x.yaml", text), sheet], compat=compat):
        assert 1 <= problem.line <= text.count("\n") + 1
        assert problem.message
        assert problem.path or way == ("test_suite_config",)
