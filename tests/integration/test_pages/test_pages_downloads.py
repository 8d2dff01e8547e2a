"""A run's results as files: they have every result, and say the same as the page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from relay.store import views_downloads


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
