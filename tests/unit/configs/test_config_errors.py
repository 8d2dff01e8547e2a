"""A config that cannot be used is refused at its line and column, with a hint that mends it."""

import pytest

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
    ("not yet", TEST + "          platform: x86\n", 6, 11, "config-not-supported", "not supported yet"),
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
