"""A verdict on GitHub: true, bounded, and inert whatever upstream's text contains."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.check_output import LIMIT, inert, render
from selector.model import Cause, Conclusion, NotExercised, Outcome, TestId, Verdict

URL = "https://relay.example/run/1"
TEST = TestId("test/test_x.py", "TestA", "test_b")


def cause(message="AssertionError: 1 != 2", **over):
    values = {
        "key": "test/test_x.py::TestA::test_b_spyre_float32",
        "test": TEST,
        "kind": "regression",
        "outcome": Outcome.FAILED,
        "message": message,
        "codes": ("edited-test",),
        "changes": ("torch/_refs/__init__.py:logit",),
        "why_selected": "the change edits torch._refs.logit",
    }
    return Cause(**{**values, **over})


def verdict(**over):
    values = {
        "conclusion": Conclusion.FAILURE,
        "code": "regression",
        "sentence": "1 test fails with this change and passes without it.",
        "counts": {"passed": 12, "failed": 1, "self_skipped": 0},
    }
    return Verdict(**{**values, **over})


def test_it_names_the_tests_the_causes_and_what_was_not_run():
    output = render(
        verdict(
            causes=(cause(),), not_exercised=(NotExercised("aten/src/x.cpp", "needs a build"),), warnings=("slow",)
        ),
        URL,
    )
    assert output.title == "1 test fails with this change and passes without it."
    assert "12 passed, 1 failed" in output.summary
    assert URL in output.summary
    for part in ("Failing tests (1)", "regression", "torch/&#95;refs/", "Not exercised (1)", "needs a build", "slow"):
        assert part in output.text


def test_empty_sections_are_left_out():
    assert render(verdict(), URL).text == ""


@pytest.mark.parametrize(
    "hostile",
    [
        "@pytorch/core please look",
        "fixes #1 and GH-2",
        "see https://evil.example or www.evil.example",
        "[click](javascript:alert(1)) ![x](https://evil.example/x.png)",
        "<img src=x onerror=alert(1)> <!-- -->",
        "a | b | c\n| d |\n\n# heading\n```\ncode",
        "\\| \\\\| `x` ~~~ $x$ \x00\x1b[31m",
        "\u2028\u2029 \r\n --- ***bold***",
    ],
)
def test_hostile_text_does_nothing(hostile):
    rows = [
        line
        for line in render(verdict(causes=(cause(hostile, why_selected=hostile, changes=(hostile,)),)), URL).text.split(
            "\n"
        )
        if line.startswith("| <code>")
    ]
    assert len(rows) == 1
    assert rows[0].count("|") == 6
    shown = rows[0].replace("<code>", "").replace("</code>", "")
    assert not re.search(r"@\w|://|www\.\w|#\d+\b(?!;)|gh-\d", re.sub(r"&#\d+;", "", shown), re.IGNORECASE)
    assert not set("<>`[]!*~\\") & set(re.sub(r"&#\d+;", "", shown))


@given(st.text())
def test_inert_text_is_one_line_and_bounded(text):
    shown = inert(text, 50)
    assert not re.search(r"[\r\n|<>`@](?!​)", re.sub(r"&#\d+;", "", shown))
    assert len(re.sub(r"&#\d+;|​", "x", shown)) <= 101


def test_thousands_of_causes_stay_within_the_limit_and_say_what_is_left_out():
    many = tuple(cause("m" * 400) for _ in range(3000))
    output = render(verdict(causes=many, not_exercised=(NotExercised("a.cpp", "x"),) * 500), URL)
    assert len(output.text) <= LIMIT
    left = [int(n) for n in re.findall(r"(\d+) more on \[the run's page\]", output.text)]
    assert output.text.count("| <code>") + sum(left) == 3500


def test_a_long_sentence_is_cut_in_the_title_only():
    output = render(verdict(sentence="x" * 600), URL)
    assert len(output.title) == 255
    assert "x" * 600 in output.summary
