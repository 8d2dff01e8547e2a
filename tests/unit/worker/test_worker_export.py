"""JUnit XML and CTRF of results."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from relay.worker import export


def line(variant: str, outcome: str, **values: Any) -> dict[str, Any]:
    return {"test": "test/test_x.py::TestX::test_a", "variant": variant, "outcome": outcome,
            "mode": "mandatory_success",
            "seconds": 0.5, "kernels": 3, "message": None, "reason": None, "log_tail": None, **values}  # fmt: skip


LINES = [
    line("a", "passed"),
    line("b", "failed", message="bad \x00 \x1b[1m"),
    line("c", "xpassed", mode="xfail_strict"),
    line("d", "xpassed", mode="xfail"),
    line("e", "xfailed", reason="rounding", mode="xfail"),
    line("f", "crashed", message="SIGSEGV", log_tail="about to"),
    line("g", "error", message="broke"),
    line("h", "skipped", reason="hangs"),
]


def test_junit_counts_and_properties() -> None:
    root = ET.fromstring(export.junit(LINES, [{"file": "test/test_y.py", "message": "ImportError: x"}]))
    first, second = root
    assert {k: first.get(k) for k in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "8", "failures": "3", "errors": "1", "skipped": "2", "time": "4.000000"}  # fmt: skip
    assert (second.get("name"), second.get("errors"), second.get("tests")) == ("test/test_y.py", "1", "1")
    case = first.find("testcase[@name='e']")
    assert case is not None
    told = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert told == {"outcome": "xfailed", "mode": "xfail", "reason": "rounding", "engaged": "true", "kernels": "3"}
    crash = first.find("testcase[@name='f']/failure")
    assert crash is not None
    assert crash.get("message") == "SIGSEGV"


def test_ctrf_summary_agrees_with_its_tests() -> None:
    results = export.ctrf(LINES, 1000, 2000, "relay")["results"]
    statuses = [test["status"] for test in results["tests"]]
    assert statuses == ["passed", "failed", "failed", "passed", "passed", "failed", "failed", "skipped"]
    assert results["summary"] == {"tests": 8, "passed": 3, "failed": 4, "skipped": 1, "pending": 0, "other": 0,
                                  "start": 1000, "stop": 2000}  # fmt: skip
    assert results["tests"][0]["duration"] == 500
