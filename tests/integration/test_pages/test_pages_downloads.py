"""A run's results as files: they have every result, and say the same as the page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from lxml import etree

from relay.store import views_downloads

DATA = Path(__file__).parents[2] / "data"
XS = "{http://www.w3.org/2001/XMLSchema}"
OUTCOMES = {
    "passed": {},
    "failed": {"message": "AssertionError: \x00 ]]> \x1b[1m", "log_tail": "about to\nfail"},
    "error": {"message": "ImportError: no"},
    "crashed": {"message": None, "log_tail": "SIGSEGV"},
    "timed_out": {"message": None},
    "skipped": {"reason": "hangs", "kernels": None},
    "self_skipped": {"reason": "no tea", "kernels": 0},
    "xfailed": {"reason": "rounding", "mode": "xfail"},
    "xpassed": {"mode": "xfail_strict"},
}
"""Every outcome that a variant can have, with what such a result says."""


def junit_schema() -> etree.XMLSchema:
    """What Jenkins takes, and the two things of a case that other readers know beside it: the file it stands in, and
    properties of its own."""
    tree = etree.parse(str(DATA / "junit-xsd/junit-10.xsd"))
    [case] = tree.findall(f"{XS}element[@name='testcase']/{XS}complexType")
    choice = case.find(f"{XS}sequence/{XS}choice")
    assert choice is not None
    choice.insert(0, etree.Element(f"{XS}element", ref="properties"))
    etree.SubElement(case, f"{XS}attribute", name="file", type="xs:string")
    [suites] = tree.findall(f"{XS}element[@name='testsuites']/{XS}complexType")
    etree.SubElement(suites, f"{XS}attribute", name="skipped", type="xs:string")
    return etree.XMLSchema(tree)


def test_files_have_every_result_and_the_same_counts(client: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views_downloads, "PAGE", 37)  # several pages a shard
    id = world.failed_run()
    lines = [json.loads(line) for line in client.get(f"/run/{id}/results.jsonl").text.splitlines()]
    assert len(lines) == 236
    assert len({(line["side"], line["test"], line["variant"]) for line in lines}) == 236
    root = ET.fromstring(client.get(f"/run/{id}/junit.xml").content)
    cases = root.findall("testsuite/testcase")
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("233", "2", "1")
    assert len(cases) == 233
    assert {suite.get("name") for suite in root} == {"test/test_ops.py", "test/test_unary_ufuncs.py"}
    assert sum(int(suite.get("tests", "0")) for suite in root) == 233
    report = client.get(f"/run/{id}/ctrf.json").json()["results"]
    assert report["summary"] | {"start": 0, "stop": 0} == {
        "tests": 233, "passed": 230, "failed": 3, "pending": 0, "skipped": 0, "other": 0, "start": 0, "stop": 0,
    }  # fmt: skip
    assert len(report["tests"]) == 233
    assert len(client.get(f"/run/{id}/ctrf.json?side=base").json()["results"]["tests"]) == 3


def test_a_run_without_results_is_an_empty_file_and_no_run_none(client: Any, world: Any) -> None:
    id = world.dispatch("selecting")
    assert client.get(f"/run/{id}/results.jsonl").text == ""
    assert ET.fromstring(client.get(f"/run/{id}/junit.xml").content).get("tests") == "0"
    assert client.get(f"/run/{id}/ctrf.json").json()["results"]["tests"] == []
    for name in ("results.jsonl", "junit.xml", "ctrf.json"):
        assert client.get(f"/run/none/{name}").status_code == 404
    assert client.get(f"/run/{id}/junit.xml?side=left").status_code == 400


def test_hostile_text_stays_text_in_files(client: Any, world: Any) -> None:
    id, shards = world.running()
    evil = "]]></failure><script>\x1b[31m\ud800 &"
    evil = evil.encode("utf-8", "replace").decode()
    world.results(id, shards[1], "test/test_x.py::TestX::test_<b>", "failed", 1, message=evil, log_tail=evil)
    root = ET.fromstring(client.get(f"/run/{id}/junit.xml").content)
    [failure] = root.iter("failure")
    assert "<script>" in (failure.text or "")
    assert root.find(".//script") is None
    assert "<script>" in client.get(f"/run/{id}/ctrf.json").json()["results"]["tests"][-1]["message"]


def test_files_are_as_their_formats_schemas_say(client: Any, world: Any) -> None:
    """Of every outcome, of a run with a base side, and of one that has no result."""
    id, shards = world.running()
    for outcome, values in OUTCOMES.items():
        world.results(id, shards[0], "test/test_x.py::TestX::test_every", outcome, 2, **values)
    schema, ctrf = junit_schema(), Draft7Validator(json.loads((DATA / "ctrf/ctrf-schema-0.0.json").read_text()))
    for run in (id, world.failed_run(), world.dispatch("selecting")):
        for side in ("head", "base"):
            schema.assertValid(etree.fromstring(client.get(f"/run/{run}/junit.xml?side={side}").content))
            ctrf.validate(client.get(f"/run/{run}/ctrf.json?side={side}").json())
    report = client.get(f"/run/{id}/ctrf.json").json()["results"]
    assert {test["rawStatus"] for test in report["tests"]} == set(OUTCOMES)
    assert report["summary"]["tests"] == len(report["tests"])


def test_the_schemas_refuse_what_is_wrong(client: Any, world: Any) -> None:
    id = world.failed_run()
    root = etree.fromstring(client.get(f"/run/{id}/junit.xml").content)
    del root.find(".//testcase").attrib["name"]
    assert not junit_schema().validate(root)
    report = client.get(f"/run/{id}/ctrf.json").json()
    report["results"]["tests"][0]["status"] = "fine"
    assert not Draft7Validator(json.loads((DATA / "ctrf/ctrf-schema-0.0.json").read_text())).is_valid(report)
