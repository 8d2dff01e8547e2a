"""The callback's body: wrong fields are named, good bodies of every published reporter are understood."""

from __future__ import annotations

import copy
import json

import pytest

from relay.domain.callback import bind, parse, run_url
from relay.errors import BadRequest, Forbidden

GOOD = {
    "event_type": "pull_request",
    "delivery_id": "a8f5f167-6e5b-4c3d-8a2e-4b5c6d7e8f9a",
    "payload": {"pull_request": {"number": 7}},
    "workflow": {
        "schema_version": "1",
        "status": "completed",
        "conclusion": "failure",
        "name": "ci",
        "url": "https://github.com/Ascend/pytorch/actions/runs/24033272679",
        "job_name": "test",
        "check_run_id": "987",
        "run_id": "24033272679",
        "run_attempt": "1",
        "started_at": None,
        "completed_at": "2026-01-01T00:00:00Z",
        "test_results": {"passed": 3, "failed": 1, "skipped": 0},
        "artifact_url": "https://example.com/x",
    },
}
DELETE = object()


def body(**changes):
    value = copy.deepcopy(GOOD)
    for path, new in changes.items():
        *parents, last = path.split("__")
        target = value
        for part in parents:
            target = target[part]
        if new is DELETE:
            del target[last]
        else:
            target[last] = new
    return value


def read(value):
    return parse(json.dumps(value).encode())


def test_a_good_body_is_understood():
    report = read(GOOD)
    assert (report.delivery_id, report.job_name, report.workflow.run_attempt) == (GOOD["delivery_id"], "test", 1)
    completion = report.report(5.0).completion
    assert (completion.conclusion, completion.at, completion.counts.failed) == ("failure", 5.0, 1)
    assert report.wire("https://x.example")["run_attempt"] == "1"


@pytest.mark.parametrize("name", ["rfc0054_01_In_Progress.json", "rfc0054_02_Completed_failure.json"])
def test_the_published_bodies_are_taken(shared, name):
    text = (shared / "data/relay/callback" / name).read_text().replace("{org}/{repo}", "o/r").replace("{org}", "o")
    assert parse(text.encode()).workflow.run_id == "24033272679"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"delivery_id": DELETE}, "delivery_id"),
        ({"delivery_id": ""}, "delivery_id"),
        ({"delivery_id": ["x"]}, "delivery_id"),
        ({"delivery_id": "x" * 65}, "delivery_id"),
        ({"event_type": ["pull_request"]}, "event_type"),
        ({"event_type": "nightly"}, "event_type"),
        ({"payload": "text"}, "payload"),
        ({"workflow": []}, "workflow"),
        ({"workflow": DELETE}, "workflow"),
        ({"workflow__status": "done"}, "workflow.status"),
        ({"workflow__conclusion": None}, "workflow.conclusion"),
        ({"workflow__conclusion": ""}, "workflow.conclusion"),
        ({"workflow__conclusion": "passed"}, "workflow.conclusion"),
        ({"workflow__conclusion": 3}, "workflow.conclusion"),
        ({"workflow__name": ""}, "workflow.name"),
        ({"workflow__name": "x" * 256}, "workflow.name"),
        ({"workflow__name": "a\x00b"}, "workflow.name"),
        ({"workflow__run_id": None}, "workflow.run_id"),
        ({"workflow__run_id": True}, "workflow.run_id"),
        ({"workflow__run_attempt": "first"}, "workflow.run_attempt"),
        ({"workflow__run_attempt": 0}, "workflow.run_attempt"),
        ({"workflow__url": "http://github.com/a/b"}, "workflow.url"),
        ({"workflow__url": "javascript:alert(1)"}, "workflow.url"),
        ({"workflow__url": "https://user:pw@github.com/a/b"}, "workflow.url"),
        ({"workflow__url": "https://[broken"}, "workflow.url"),
        ({"workflow__artifact_url": "data:text/html,x"}, "workflow.artifact_url"),
        ({"workflow__artifact_url": 'https://x.example/"><script>'}, "workflow.artifact_url"),
        ({"workflow__test_results": {"passed": -1, "failed": 0, "skipped": 0}}, "workflow.test_results.passed"),
        ({"workflow__test_results": {"passed": 1}}, "workflow.test_results.failed"),
        ({"workflow__test_results": "12"}, "workflow.test_results"),
    ],
)
def test_a_wrong_field_is_named(change, path):
    with pytest.raises(BadRequest) as caught:
        read(body(**change))
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.extra["path"] == path
    assert caught.value.hint


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'"x"', b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_object_is_refused(raw):
    with pytest.raises(BadRequest, match=r"^body: "):
        parse(raw)


def test_what_may_be_left_out():
    report = read(
        body(
            workflow__job_name=DELETE,
            workflow__check_run_id="",
            workflow__url="",
            workflow__run_attempt=DELETE,
            workflow__test_results=DELETE,
            workflow__artifact_url=None,
            payload=DELETE,
            unknown={"kept": "no"},
        )
    )
    assert (report.job_name, report.workflow.run_attempt, report.workflow.check_run_id) == ("ci", 1, None)
    assert set(report.wire("https://x.example")) == {
        "schema_version", "status", "conclusion", "name", "url", "run_id", "run_attempt", "job_name", "check_run_id",
        "started_at", "completed_at",
    }  # fmt: skip


@pytest.mark.parametrize("run_id", ["018cdabc-d930-49f6-9085-634c4cb582ed", "007", 24033272679, "3_11"])
def test_run_ids_are_texts(run_id):
    assert read(body(workflow__run_id=run_id)).workflow.run_id == str(run_id)


@pytest.mark.parametrize("name", [":nvidia: (B200) 1/2", "310", "a/b/c", "тест ✓", "x" * 255])
def test_job_names_may_be_anything_printable(name):
    assert read(body(workflow__job_name=name)).job_name == name


def test_a_run_reports_for_itself_alone():
    report = read(GOOD)
    bind(report, {"run_id": "24033272679", "run_attempt": "1"})
    bind(report, {})
    for claims in ({"run_id": "1"}, {"run_id": "24033272679", "run_attempt": "2"}):
        with pytest.raises(Forbidden, match="token was issued to"):
            bind(report, claims)


@pytest.mark.parametrize(
    ("url", "run_id", "by_github", "shown"),
    [
        ("https://github.com/ascend/PyTorch/actions/runs/5/job/6", "5", True, "https://github.com/ascend/PyTorch/actions/runs/5/job/6"),
        ("https://github.com/other/repo/actions/runs/5", "5", True, "https://github.com/Ascend/pytorch/actions/runs/5"),
        ("https://evil.example/Ascend/pytorch/", "5", True, "https://github.com/Ascend/pytorch/actions/runs/5"),
        ("https://github.com/Ascend/pytorch/../../evil", "5", True, "https://github.com/Ascend/pytorch/actions/runs/5"),
        ("", "x5", True, None),
        ("https://buildkite.com/vllm/ci/builds/1", "018c", False, "https://buildkite.com/vllm/ci/builds/1"),
        ("", "018c", False, None),
    ],
)  # fmt: skip
def test_which_url_is_shown(url, run_id, by_github, shown):
    report = read(body(workflow__url=url, workflow__run_id=run_id))
    assert run_url(report, "Ascend/pytorch", by_github) == shown
