"""Reports are valid whatever a test printed, and tag expressions mean what they say."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.reuse import reports
from selector.configs.tags import TagExpressionError, parse_tags
from selector.model import Mode, Outcome

texts = st.one_of(st.none(), st.text(max_size=40))
result_lines = st.fixed_dictionaries(
    {
        "test": st.just("test/test_x.py::TestX::test_a"),
        "variant": st.from_regex(r"test_[a-z]{1,5}", fullmatch=True),
        "outcome": st.sampled_from([o.value for o in Outcome]),
        "mode": st.sampled_from([m.value for m in Mode]),
        "reason": texts,
        "message": texts,
        "log_tail": texts,
        "seconds": st.floats(0, 100),
        "kernels": st.one_of(st.none(), st.integers(0, 5)),
        "entry": texts,
        "tags": st.lists(st.text(max_size=5), max_size=2),
    }
)


@given(st.lists(result_lines, max_size=6))
def test_any_result_makes_a_report_whose_counts_add_up(lines: list[dict[str, Any]]) -> None:
    root = ET.fromstring(reports.junit(lines).encode())
    failures = int(root.get("failures") or 0) + int(root.get("errors") or 0)
    assert failures == sum(map(reports.fails, lines)) == reports.summary(lines)["failures"]
    report = reports.ctrf(lines, 1, 2)["results"]
    assert report["summary"]["failed"] == failures
    assert report["summary"]["tests"] == len(lines) == len(list(root.iter("testcase")))


@pytest.mark.parametrize(
    ("expression", "tags", "selected"),
    [
        ("a", {"a"}, True),
        ("model__granite-3.3-8b and not slow", {"model__granite-3.3-8b"}, True),
        ("model__granite-3.3-8b and not slow", {"model__granite-3.3-8b", "slow"}, False),
        ("a or b and c", {"a"}, True),
        ("(a or b) and c", {"a"}, False),
        ("'needs care' or \"and\"", {"and"}, True),
    ],
)
def test_tag_expressions(expression: str, tags: set[str], selected: bool) -> None:
    assert parse_tags(expression)(tags) is selected


@pytest.mark.parametrize("expression", ["", "a and", "(a", "a b", "and", "'a", "a)"])
def test_a_broken_tag_expression_is_refused(expression: str) -> None:
    with pytest.raises(TagExpressionError):
        parse_tags(expression)
