"""Reports are valid whatever a test printed, and tag expressions mean what they say."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain import result_reports as reports
from selector.configs.tags import TagExpressionError, parse_tags
from selector.model import Mode, Outcome


def line(variant: str, outcome: str, **values: Any) -> dict[str, Any]:
    return {"test": "test/test_x.py::TestX::test_a", "variant": variant, "outcome": outcome,
            "mode": "mandatory_success",
            "seconds": 0.5, "kernels": 3, "message": None, "reason": None, "log_tail": None, **values}  # fmt: skip


LINES = [
    line("a", "passed", entry="x.yaml:3", tags=["model__g-3.3"]),
    line("b", "failed", message="bad \x00 \x1b[1m"),
    line("c", "xpassed", mode="xfail_strict"),
    line("d", "xpassed", mode="xfail"),
    line("e", "xfailed", reason="rounding", mode="xfail"),
    line("f", "crashed", message="SIGSEGV", log_tail="about to"),
    line("g", "error", message="broke"),
    line("h", "skipped", reason="hangs", kernels=None),
    line("i", "timed_out"),
    line("j", "self_skipped", reason="no tea", kernels=0),
]


def test_junit_counts_and_properties() -> None:
    root = ET.fromstring(
        reports.junit(LINES, [{"file": "test/test_y.py", "message": "trace\nImportError: x"}]).encode()
    )
    first, second = root
    assert {k: first.get(k) for k in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "10", "failures": "2", "errors": "3", "skipped": "3", "time": "5.000000"}  # fmt: skip
    assert (second.get("name"), second.get("errors"), second.get("tests")) == ("test/test_y.py", "1", "1")
    assert (root.get("tests"), root.get("errors")) == ("11", "4")
    assert [e.get("message") for e in second.iter("error")] == ["ImportError: x"]

    def told(name: str) -> dict[str | None, str | None]:
        return {p.get("name"): p.get("value") for p in root.findall(f".//testcase[@name='{name}']//property")}

    assert told("e") == {
        "outcome": "xfailed", "mode": "xfail", "reason": "rounding", "engagement": "engaged", "kernels": "3"
    }  # fmt: skip
    assert (told("a")["entry"], told("a")["tag.model__g-3.3"]) == ("x.yaml:3", "true")
    assert (told("h")["engagement"], told("j")["engagement"]) == ("not-run", "not-run")
    crash = first.find("testcase[@name='f']/error")
    assert crash is not None
    assert (crash.get("message"), crash.get("type")) == ("SIGSEGV", "crashed")
    assert [c.get("classname") for c in root.findall(".//testcase[@name='a']")] == ["test.test_x.TestX"]


def test_ctrf_summary_agrees_with_its_tests() -> None:
    results = reports.ctrf(LINES, 1000, 2000, "relay")["results"]
    statuses = {test["name"]: test["status"] for test in results["tests"]}
    assert "".join(statuses) == "abcdefghij"
    assert [statuses[name] for name in "abcde"] == ["passed", "failed", "failed", "passed", "other"]
    assert [statuses[name] for name in "fghij"] == ["failed", "failed", "skipped", "failed", "skipped"]
    assert results["summary"] == {"tests": 10, "passed": 2, "failed": 5, "skipped": 2, "pending": 0, "other": 1,
                                  "start": 1000, "stop": 2000}  # fmt: skip
    assert results["tests"][0]["duration"] == 500


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
