"""The callback's body: wrong fields are named, good bodies of every published reporter are understood."""

from __future__ import annotations

import copy
import json

import pytest

from relay.domain.allowlist_entry import Entry
from relay.domain.callback import bind, parse, permit, run_url
from relay.domain.providers import BUILDKITE, GITHUB, GITLAB
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
NIGHTLY = {"repository": {"full_name": "pytorch/pytorch"}}


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
        ({"event_type": "nightly"}, "delivery_id"),
        ({"event_type": "nightly", "delivery_id": "e" * 39}, "delivery_id"),
        ({"event_type": "periodic", "delivery_id": "e" * 40}, "payload.repository.full_name"),
        (
            {"event_type": "nightly", "delivery_id": "e" * 40, "payload": NIGHTLY | {"head_sha": "f" * 40}},
            "payload.head_sha",
        ),
        (
            {"event_type": "nightly", "delivery_id": "e" * 40, "payload": NIGHTLY, "workflow__status": "in_progress"},
            "workflow.status",
        ),
        ({"payload": "text"}, "payload"),
        ({"workflow": []}, "workflow"),
        ({"workflow": DELETE}, "workflow"),
        ({"workflow__status": "done"}, "workflow.status"),
        ({"workflow__conclusion": None}, "workflow.conclusion"),
        ({"workflow__conclusion": ""}, "workflow.conclusion"),
        ({"workflow__conclusion": "passed"}, "workflow.conclusion"),
        ({"workflow__conclusion": 3}, "workflow.conclusion"),
        ({"workflow__name": ""}, "workflow.name"),
        ({"workflow__name": "x" * 301}, "workflow.name"),
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


@pytest.mark.parametrize("name", [":nvidia: (B200) 1/2", "310", "a/b/c", "тест ✓", "x" * 300])
def test_job_names_may_be_anything_printable(name):
    assert read(body(workflow__job_name=name)).job_name == name


def test_a_run_reports_for_itself_alone():
    report = read(GOOD)
    bind(report, GITHUB, {"run_id": "24033272679", "run_attempt": "1"})
    bind(report, GITHUB, {})
    bind(report, GITLAB, {"pipeline_id": 24033272679, "run_id": "another provider's word"})
    for provider, claims in ((GITLAB, {"pipeline_id": "1"}), (BUILDKITE, {"build_id": "1"})):
        with pytest.raises(Forbidden, match="token was issued to"):
            bind(report, provider, claims)
    for claims in ({"run_id": "1"}, {"run_id": "24033272679", "run_attempt": "2"}):
        with pytest.raises(Forbidden, match="token was issued to"):
            bind(report, GITHUB, claims)


PROJECT = {"iss": "https://gitlab.com", "project_path": "g/sub/p"}
GROUP = "https://gitlab.com/g/sub/p"
OURS = "https://github.com/Ascend/pytorch/actions/runs/5"
BUILD = {"organization_slug": "vllm", "pipeline_slug": "ci"}


@pytest.mark.parametrize(
    ("url", "run_id", "provider", "claims", "shown"),
    [
        (OURS.lower() + "/job/6", "5", GITHUB, {}, OURS.lower() + "/job/6"),
        ("https://github.com/other/repo/actions/runs/5", "5", GITHUB, {}, OURS),
        ("https://evil.example/Ascend/pytorch/", "5", GITHUB, {}, OURS),
        ("https://github.com/Ascend/pytorch/../../evil", "5", GITHUB, {}, OURS),
        ("https://github.com/Ascend/pytorch/%2e%2e/x", "5", GITHUB, {}, OURS),
        ("https://github.com/Ascend/pytorch/%252e%252e/x", "5", GITHUB, {}, OURS),
        ("https://github.com/Ascend/pytorch-evil/x", "5", GITHUB, {}, OURS),
        ("", "x5", GITHUB, {}, None),
        ("https://buildkite.com/vllm/ci/builds/1", "018c", BUILDKITE, BUILD, "https://buildkite.com/vllm/ci/builds/1"),
        ("https://buildkite.com/other/ci/builds/1", "018c", BUILDKITE, BUILD, None),
        ("https://buildkite.com/vllm/ci/builds/1", "018c", BUILDKITE, {}, None),
        ("https://evil.example/vllm/ci/builds/1", "018c", BUILDKITE, BUILD, None),
        (f"{GROUP}/-/jobs/1", "018c", GITLAB, PROJECT, f"{GROUP}/-/jobs/1"),
        ("", "018c", BUILDKITE, BUILD, None),
    ],
)  # fmt: skip
def test_which_url_is_shown(url, run_id, provider, claims, shown):
    report = read(body(workflow__url=url, workflow__run_id=run_id))
    assert run_url(report, "Ascend/pytorch", provider, claims) == shown


WORKFLOW = "Ascend/pytorch/.github/workflows/ci.yml@refs/heads/main"
OWN = {"repository": "ascend/PyTorch", "job_workflow_ref": WORKFLOW}
ANOTHERS = {"repository": "o/r", "job_workflow_ref": WORKFLOW}
GITLABS = {"iss": "https://gitlab.com", "project_path": "g/p", "ci_config_ref_uri": "gitlab.com/g/p//ci/a.yml@refs/x"}


@pytest.mark.parametrize(
    ("keys", "provider", "claims", "problem"),
    [
        ({}, GITHUB, {}, None),
        ({"refs": ("main",)}, GITHUB, {"ref": "refs/heads/main"}, None),
        ({"refs": ("main",)}, GITHUB, {"ref": "refs/tags/main"}, "refs of o/r that may report are main"),
        ({"refs": ("main",)}, GITHUB, {"ref": "refs/heads/main2"}, "the token's is refs/heads/main2"),
        ({"refs": ("main",)}, GITHUB, {}, "tokens of github say none"),
        ({"refs": ("refs/heads/main",)}, BUILDKITE, {"build_branch": "main"}, None),
        ({"workflows": (".github/workflows/*.yml",)}, GITHUB, OWN, None),
        ({"workflows": ("Ascend/pytorch/.github/workflows/ci.yml",)}, GITHUB, OWN, None),
        ({"workflows": (".github/workflows/nightly.yml",)}, GITHUB, OWN, "workflows of o/r"),
        # the same path in somebody else's repository, called from ours, is not ours
        ({"workflows": (".github/workflows/*.yml",)}, GITHUB, ANOTHERS, "the token's is Ascend/pytorch/.github"),
        ({"workflows": ("Ascend/pytorch/.github/workflows/*",)}, GITHUB, ANOTHERS, None),
        ({"workflows": ("ci/*.yml",)}, GITLAB, {**GITLABS, "project_path": "x/p"}, "the token's is gitlab.com/g/p"),
        ({"workflows": ("ci/*.yml",)}, GITLAB, GITLABS, None),
        ({"workflows": ("x",)}, BUILDKITE, {}, "tokens of buildkite say none"),
    ],
)
def test_who_may_report_by_the_allowlists_refs_and_workflows(keys, provider, claims, problem):
    entry = Entry("o/r", "o/r", "L2", **keys)
    if problem is None:
        permit(entry, provider, claims)
        return
    with pytest.raises(Forbidden) as caught:
        permit(entry, provider, claims)
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["action_nightly_github.json", "action_buildkite_shipped.json"])
def test_the_published_self_reports_are_taken(shared, name):
    report = parse((shared / "data/relay/callback" / name).read_bytes())
    assert (report.self_report.event, report.self_report.sha) == ("nightly", "e" * 40)
    assert report.self_report.upstream == "pytorch/pytorch"
    assert report.workflow.run_id in ("1", "018cdabc-d930-49f6-9085-634c4cb582ed")


def triage(**changes):
    return {"schema_version": 1, "category": "infra", "confidence": "low", "summary": "no disk", **changes}


def test_the_published_triage_verdict_is_kept_whole(shared):
    given = json.loads((shared / "data/relay/callback/triage_verdict_8673.json").read_text())
    report = read(body(workflow__triage_verdict=given))
    assert (report.triage, report.triage_problem) == (given, None)
    assert report.wire("")["triage_verdict"] == given


def test_what_is_too_long_in_a_triage_verdict_is_cut():
    many = [{"excerpt": f"{n}\n" + "x" * 1200} for n in range(12)]
    kept = read(body(workflow__triage_verdict=triage(summary="s" * 1200, evidence=many[:9], unknown=1))).triage
    assert (len(kept["summary"]), len(kept["evidence"]), len(kept["evidence"][0]["excerpt"])) == (1000, 9, 1000)
    assert "unknown" not in kept
    small = [{"job": str(n)} for n in range(12)]
    assert len(read(body(workflow__triage_verdict=triage(evidence=small))).triage["evidence"]) == 10


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("upstream", "valid dictionary"),
        ([], "valid dictionary"),
        (triage(schema_version=2), "schema_version"),
        (triage(category="mine"), "category"),
        (triage(confidence=0.9), "confidence"),
        (triage(summary=" "), "summary"),
        (triage(summary=True), "summary"),
        (triage(suspected_upstream={"pr": 1}), "category upstream alone"),
        (triage(category="upstream", suspected_upstream={"reason": "x"}), "neither a pull request nor a commit"),
        (triage(category="upstream", suspected_upstream={"pr": True}), "suspected_upstream.pr"),
        (triage(category="upstream", suspected_upstream={"commit": "main"}), "suspected_upstream.commit"),
        (triage(evidence=[{"log_url": "javascript:alert(1)"}]), "evidence.0.log_url"),
        (triage(evidence=[{"log_url": "https://github.com@evil.example/x"}]), "evidence.0.log_url"),
        (triage(evidence={"job": "x"}), "evidence"),
        (triage(filler="x" * 17_000), "bytes, at most 16384"),
    ],
)
def test_a_triage_verdict_of_another_shape_is_dropped_whole_and_the_report_is_not(given, says):
    report = read(body(workflow__triage_verdict=given))
    assert report.triage is None
    assert says in report.triage_problem
    assert "triage_verdict" not in report.wire("")
