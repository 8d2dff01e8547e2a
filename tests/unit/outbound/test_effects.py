"""Which effects a state asks for, and their bodies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.domain.effects import DispatchFacts, JobFacts, check_run, hud_row, wanted

DISPATCH = DispatchFacts(
    id="d" * 32,
    delivery_id="delivery-1",
    downstream="Ascend/pytorch",
    level="L4",
    device="npu",
    event="pull_request",
    action="opened",
    upstream="pytorch/pytorch",
    pr_number=7,
    pr_title="Change logit",
    author="someone",
    base_sha="b" * 40,
    head_sha="a" * 40,
    base_ref="main",
    head_repo="someone/pytorch",
    labels=(),
)
JOB = JobFacts(
    id="e" * 32,
    workflow="ci",
    name=":x: 1/2",
    run_id="55",
    attempt=2,
    status="completed",
    conclusion="failure",
    url="https://github.com/Ascend/pytorch/actions/runs/55",
    reported_check_run_id="99",
    queued_at=100.0,
    started_at=112.5,
    completed_at=162.5,
    start_known=True,
    results={"passed": 1, "failed": 2, "skipped": 3},
    artifact_url=None,
)
RUNNING = replace(JOB, status="in_progress", conclusion=None, completed_at=None, results=None)


@pytest.mark.parametrize(
    ("level", "labels", "status", "kinds"),
    [
        ("L1", ("ciflow/crcr/npu",), "completed", ()),
        ("L2", ("ciflow/crcr/npu",), "completed", ("hud",)),
        ("L3", (), "completed", ("hud",)),
        ("L3", ("ciflow/crcr/xpu",), "completed", ("hud",)),
        ("L3", ("bug", "ciflow/crcr/npu"), "completed", ("hud", "check_run")),
        ("L4", (), "in_progress", ("hud", "check_run")),
        ("L4", (), "queued", ("check_run",)),
        ("L2", (), "queued", ()),
    ],
)
def test_levels(level, labels, status, kinds):
    assert wanted(replace(DISPATCH, level=level, labels=labels), status) == kinds


def test_an_unknown_level_is_an_error():
    with pytest.raises(ValueError, match="L5"):
        wanted(replace(DISPATCH, level="L5"), "completed")


def test_the_check_run_is_named_as_the_merge_gate_expects():
    body = check_run(DISPATCH, JOB, details_url="https://x.example", title=None, summary="s", text="t" * 70_000)
    assert body["name"] == "crcr/Ascend/pytorch/ci/:x: 1/2"
    assert body["external_id"] == "55:7"
    assert body["head_sha"] == "a" * 40
    assert (body["status"], body["conclusion"]) == ("completed", "failure")
    assert body["started_at"] == "1970-01-01T00:01:52Z"
    assert body["output"]["title"] == "Failure"
    assert len(body["output"]["text"]) == 65_535
    running = check_run(DISPATCH, RUNNING, details_url="https://x.example", title=None, summary="s", text=None)
    assert "conclusion" not in running
    assert running["output"] == {"title": "In progress", "summary": "s"}
    assert check_run(replace(DISPATCH, pr_number=None), JOB, details_url="", title=None, summary="", text=None)[
        "external_id"
    ] == "55"  # fmt: skip


def test_the_dashboard_gets_queue_time_with_the_start_and_run_time_with_the_end():
    started, ended = hud_row(DISPATCH, RUNNING, None), hud_row(DISPATCH, JOB, None)
    assert started["trusted"]["ci_metrics"] == {"queue_time": 12.5, "execution_time": None}
    assert ended["trusted"]["ci_metrics"] == {"queue_time": None, "execution_time": 50.0}
    flow = started["untrusted"]["callback_payload"]["workflow"]
    assert "completed_at" not in flow
    assert flow["started_at"] == "1970-01-01T00:01:52Z"
    flow = ended["untrusted"]["callback_payload"]["workflow"]
    assert "started_at" not in flow
    assert flow["test_results"] == {"passed": 1, "failed": 2, "skipped": 3}
    assert flow["run_attempt"] == "2"
    assert ended["trusted"]["verified_repo"] == "Ascend/pytorch"


def test_no_run_time_is_made_up_where_the_start_is_unknown():
    assert hud_row(DISPATCH, replace(JOB, start_known=False), None)["trusted"]["ci_metrics"]["execution_time"] is None


def test_commit_and_pull_request_are_ours_and_the_check_run_id_is_the_first():
    said = {"status": "completed", "check_run_id": "another", "name": "ci", "conclusion": "success"}
    row = hud_row(DISPATCH, JOB, said)["untrusted"]["callback_payload"]
    assert row["delivery_id"] == "delivery-1"
    assert row["payload"]["pull_request"]["number"] == 7
    assert row["payload"]["pull_request"]["head"]["sha"] == "a" * 40
    assert row["workflow"]["check_run_id"] == "99"
    assert row["workflow"]["conclusion"] == "failure"
    assert said["check_run_id"] == "another"


def test_the_dashboard_needs_a_check_run_id_so_our_own_jobs_have_one():
    first, last = (hud_row(DISPATCH, replace(job, reported_check_run_id=None), None) for job in (RUNNING, JOB))
    ids = {row["untrusted"]["callback_payload"]["workflow"]["check_run_id"] for row in (first, last)}
    assert ids == {"e" * 32}


def test_a_push_has_no_pull_request():
    row = hud_row(replace(DISPATCH, event="push", pr_number=None, base_ref="refs/heads/main"), JOB, None)
    payload = row["untrusted"]["callback_payload"]["payload"]
    assert payload == {
        "after": "a" * 40,
        "ref": "refs/heads/main",
        "repository": {"full_name": "pytorch/pytorch"},
    }
