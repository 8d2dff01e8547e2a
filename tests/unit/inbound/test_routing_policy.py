"""The routing policy as a table: event and state in, decisions out."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from relay.domain.allowlist import parse
from relay.domain.events import MergeGroupEvent, PullRequestEvent, PushEvent
from relay.domain.policy import PriorRun, route

ALLOWLIST = parse("""
L1:
  - org/theirs
L2:
  - org/nightly: {events: nightly}
  - org/ours: {executor: workers, device: spyre}
L3:
  spyre:
    org/careful: {executor: workers, trust: [MEMBER]}
""")
PR = PullRequestEvent(
    action="opened",
    upstream="pytorch/pytorch",
    number=7,
    title="t",
    body="",
    author="alice",
    author_association="MEMBER",
    head_sha="a" * 40,
    base_sha="b" * 40,
    base_ref="main",
    head_repo="alice/pytorch",
    labels=(),
    draft=False,
    merged=False,
)
PUSH = PushEvent("pytorch/pytorch", "refs/heads/main", "0" * 40, "c" * 40, False, False, False, "bob")


def run(key: str, executor: str, *, sha: str = "9" * 40, is_open: bool = True, newer: bool = False) -> PriorRun:
    return PriorRun(f"run-{key}", key, executor, sha, is_open, newer)


def told(decisions) -> list[tuple[str, str, str | None, str | None]]:
    return [(d.action, d.code, d.entry.repo if d.entry else None, d.run) for d in decisions]


@pytest.mark.parametrize("action", ["opened", "reopened", "synchronize"])
def test_new_code_goes_to_all_that_listen(action):
    assert told(route(replace(PR, action=action), ALLOWLIST, ())) == [
        ("dispatch", "dispatched", "org/theirs", None),
        ("ignore", "events-exclude", "org/nightly", None),
        ("dispatch", "dispatched", "org/ours", None),
        ("dispatch", "dispatched", "org/careful", None),
    ]


def test_a_push_ends_the_older_runs_of_each_downstream_first():
    runs = [run("org/theirs", "github"), run("org/ours", "workers"), run("org/left-the-list", "workers")]
    decisions = told(route(replace(PR, action="synchronize"), ALLOWLIST, runs))
    assert decisions[:2] == [
        ("supersede", "superseded", "org/theirs", "run-org/theirs"),
        ("dispatch", "dispatched", "org/theirs", None),
    ]
    assert ("supersede", "superseded", "org/ours", "run-org/ours") in decisions
    assert not [d for d in decisions if d[3] == "run-org/left-the-list"]


def test_a_delivery_that_was_overtaken_starts_nothing_there():
    runs = [run("org/theirs", "github", newer=True), run("org/ours", "workers", newer=True, is_open=False)]
    decisions = told(route(PR, ALLOWLIST, runs))
    assert ("ignore", "overtaken", "org/theirs", None) in decisions
    assert ("ignore", "overtaken", "org/ours", None) in decisions
    assert ("dispatch", "dispatched", "org/careful", None) in decisions


def test_closing_tells_github_executors_and_stops_our_workers():
    runs = [run("org/theirs", "github"), run("org/ours", "workers")]
    assert told(route(replace(PR, action="closed", merged=True), ALLOWLIST, runs)) == [
        ("cancel", "pull-request-closed", "org/theirs", "run-org/theirs"),
        ("dispatch", "closed-told", "org/theirs", None),
        ("ignore", "events-exclude", "org/nightly", None),
        ("cancel", "pull-request-closed", "org/ours", "run-org/ours"),
        ("ignore", "nothing-to-cancel", "org/careful", None),
    ]


def test_a_draft_is_told_to_who_wants_drafts_and_to_the_others_when_it_is_ready():
    listed = parse("L2:\n  - org/all\n  - org/ready:\n      drafts: false\n")
    draft = replace(PR, draft=True)
    assert told(route(draft, listed, ())) == [
        ("dispatch", "dispatched", "org/all", None),
        ("ignore", "draft", "org/ready", None),
    ]
    older = [run("org/ready", "github")]
    assert ("supersede", "superseded", "org/ready", "run-org/ready") in told(route(draft, listed, older))
    assert told(route(replace(PR, action="ready_for_review"), listed, ())) == [
        ("ignore", "action-ignored", "org/all", None),
        ("dispatch", "dispatched", "org/ready", None),
    ]


def test_an_untrusted_authors_code_waits_for_the_label():
    stranger = replace(PR, author="mallory", author_association="NONE", labels=("ciflow/crcr/spyre",))
    assert told(route(stranger, ALLOWLIST, ()))[2:] == [
        ("dispatch", "dispatched", "org/ours", None),
        ("ignore", "author-not-trusted", "org/careful", None),
    ]
    labeled = replace(stranger, action="labeled", label="ciflow/crcr/spyre")
    assert told(route(labeled, ALLOWLIST, ())) == [
        ("ignore", "label-not-needed", "org/ours", None),
        ("dispatch", "dispatched", "org/careful", None),
    ]
    again = [run("org/careful", "workers", sha=labeled.head_sha)]
    assert told(route(labeled, ALLOWLIST, again))[1] == ("ignore", "already-running", "org/careful", None)
    older = [run("org/careful", "workers")]
    assert told(route(labeled, ALLOWLIST, older))[1:] == [
        ("supersede", "superseded", "org/careful", "run-org/careful"),
        ("dispatch", "dispatched", "org/careful", None),
    ]


def test_an_untrusted_push_still_ends_what_ran_before():
    stranger = replace(PR, action="synchronize", author="mallory", author_association="NONE")
    assert told(route(stranger, ALLOWLIST, [run("org/careful", "workers")]))[-2:] == [
        ("supersede", "superseded", "org/careful", "run-org/careful"),
        ("ignore", "author-not-trusted", "org/careful", None),
    ]


@pytest.mark.parametrize("label", ["ciflow/crcr/gaudi", "bug"])
def test_a_label_that_nobody_answers_to(label):
    decisions = route(replace(PR, action="labeled", label=label), ALLOWLIST, ())
    assert told(decisions) == [("ignore", "label-ignored", None, None)]


def test_pushes():
    assert told(route(PUSH, ALLOWLIST, ())) == [
        ("dispatch", "dispatched", "org/theirs", None),
        ("ignore", "events-exclude", "org/nightly", None),
        ("ignore", "push-not-run", "org/ours", None),
        ("ignore", "push-not-run", "org/careful", None),
    ]
    assert told(route(replace(PUSH, deleted=True), ALLOWLIST, ())) == [("ignore", "push-deleted", None, None)]


def test_other_actions_say_why():
    (decision,) = route(replace(PR, action="locked"), ALLOWLIST, ())
    assert (decision.action, decision.code) == ("ignore", "action-ignored")
    assert "locked" in decision.reason


def test_another_base_branch_is_another_change():
    edited = told(route(replace(PR, action="edited"), ALLOWLIST, [run("org/theirs", "github")]))
    assert edited[:2] == [
        ("supersede", "superseded", "org/theirs", "run-org/theirs"),
        ("dispatch", "dispatched", "org/theirs", None),
    ]


def test_an_entry_hears_of_the_pushes_it_asks_for():
    listed = parse("L1:\n  - org/all\n  - org/some: {pushes: [release/*]}\n")
    main, release = PUSH, replace(PUSH, ref="refs/heads/release/2.14")
    assert [d.code for d in route(main, listed, ())] == ["dispatched", "push-ref-ignored"]
    assert [d.code for d in route(release, listed, ())] == ["dispatched", "dispatched"]


def test_the_merge_queue_is_for_who_asks_for_it():
    group = MergeGroupEvent("checks_requested", "pytorch/pytorch", "c" * 40, "gh-readonly-queue/x", "b" * 40, "main")
    listed = parse("L1:\n  - org/all\n  - org/queue: {events: [merge_group]}\n")
    assert told(route(group, listed, ())) == [
        ("ignore", "events-exclude", "org/all", None),
        ("dispatch", "dispatched", "org/queue", None),
    ]


def test_every_code_of_the_webhook_and_of_routing_is_documented():
    root = Path(__file__).parents[3]
    text = (root / "docs" / "reason-codes.md").read_text()
    codes = set()
    for module in ("events.py", "policy.py"):
        for node in ast.walk(ast.parse((root / "relay" / "domain" / module).read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if named and node.func.id in ("Interest", "RouteDecision"):
                codes.add(node.args[1].value)
    assert len(codes) > 15
    assert sorted(code for code in codes if f"| `{code}` |" not in text) == []
