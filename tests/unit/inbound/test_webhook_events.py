"""Webhook bodies: every real one is read, and every broken one is refused with the field's path."""

from __future__ import annotations

import copy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.events import Kind, PullRequestEvent, PushEvent, classify, kind_of, parse, worth_asking
from relay.domain.facts import InstallationFact, RepositoryFact, RerunFact, fact_of
from relay.errors import BadRequest

UPSTREAM = "codertocat/hello-world"
NAMES = ("check_run", "check_suite", "installation", "ping", "pull_request", "push", "repository")
TAKEN = {
    "pull_request_closed.json",
    "pull_request_opened.json",
    "pull_request_opened.with-null-body.json",
    "pull_request_ready_for_review.json",
    "pull_request_reopened.json",
    "pull_request_synchronize.json",
    "push_with-new-branch.json",
}
CODES = {
    "check_run_re": "not-upstream",
    "check_run_": "event-not-used",
    "check_suite_rerequested": "check-not-ours",
    "installation_": "installation-noted",
    "repository_": "repository-noted",
    "ping_": "ping",
    "pull_request_labeled": "label-ignored",
    "pull_request_unlabeled": "label-ignored",
    "pull_request_": "pull-request-noted",
    "push_": "push-ref-ignored",
}
BASE = {
    "action": "opened",
    "number": 5,
    "label": {"name": "ciflow/crcr/spyre"},
    "repository": {"full_name": "pytorch/pytorch"},
    "pull_request": {
        "number": 5,
        "title": "t",
        "body": None,
        "user": {"login": "alice"},
        "author_association": "MEMBER",
        "head": {"sha": "a" * 40, "ref": "x", "repo": {"full_name": "alice/pytorch"}},
        "base": {"sha": "b" * 40, "ref": "main"},
        "labels": [{"name": "bug"}],
        "draft": False,
        "merged": False,
    },
}


def changed(path: str, value: object) -> dict:
    body = copy.deepcopy(BASE)
    *parents, last = path.split(".")
    at = body
    for part in parents:
        at = at[part]
    at[last] = value
    return body


def event_of(name: str) -> str:
    return next(event for event in NAMES if name.startswith(event))


def test_every_real_webhook_is_read_and_classified(shared):
    files = sorted((shared / "data/relay/webhook").glob("*.json"))
    assert len(files) >= 22
    for file in files:
        event, body = event_of(file.name), json.loads(file.read_bytes())
        kind = kind_of(event, body)
        interest = classify(kind, UPSTREAM, app_id="2")
        assert (interest.what == "route") == (file.name in TAKEN), file.name
        if interest.what == "note":
            assert fact_of(event, body) is not None
        if interest.what != "route":
            assert interest.code == next(code for start, code in CODES.items() if file.name.startswith(start))
            assert interest.reason
        if event == "pull_request":
            pr = parse(event, body)
            assert isinstance(pr, PullRequestEvent)
            assert (pr.number, pr.author, pr.author_association) == (2, "Codertocat", "OWNER")
            assert pr.head_sha == "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
            assert pr.base_ref == "master"
            assert pr.labels == ("bug",)
        if event == "push":
            push = parse(event, body)
            assert isinstance(push, PushEvent)
            assert push.deleted == (file.name != "push_with-new-branch.json")


@pytest.mark.parametrize(
    ("event", "action", "repo", "detail", "code"),
    [
        ("pull_request", "opened", "PyTorch/PyTorch", None, "taken"),
        ("pull_request", "opened", "someone/pytorch", None, "not-upstream"),
        ("pull_request", "opened", None, None, "not-upstream"),
        ("pull_request", "edited", "pytorch/pytorch", None, "pull-request-noted"),
        ("pull_request", "edited", "pytorch/pytorch", "base", "taken"),
        ("pull_request", "converted_to_draft", "pytorch/pytorch", None, "pull-request-noted"),
        ("pull_request", "ready_for_review", "pytorch/pytorch", None, "taken"),
        ("pull_request", "locked", "pytorch/pytorch", None, "action-ignored"),
        ("pull_request", "unlabeled", "pytorch/pytorch", "ciflow/crcr/spyre", "pull-request-noted"),
        ("pull_request", "unlabeled", "pytorch/pytorch", None, "pull-request-noted"),
        ("pull_request", "unlabeled", "pytorch/pytorch", "bug", "label-ignored"),
        ("pull_request", None, "pytorch/pytorch", None, "action-ignored"),
        ("pull_request", "labeled", "pytorch/pytorch", "ciflow/crcr/spyre", "taken"),
        ("pull_request", "labeled", "pytorch/pytorch", "ciflow/trunk", "label-ignored"),
        ("push", None, "pytorch/pytorch", "refs/heads/main", "taken"),
        ("push", None, "pytorch/pytorch", "refs/heads/release/2.14", "taken"),
        ("push", None, "pytorch/pytorch", "refs/tags/ciflow/trunk/12345", "taken"),
        ("push", None, "pytorch/pytorch", "refs/heads/gh/alice/3/head", "push-ref-ignored"),
        ("push", None, "pytorch/pytorch", "refs/heads/mainly", "push-ref-ignored"),
        ("workflow_run", "completed", "pytorch/pytorch", None, "event-unknown"),
        ("merge_group", "checks_requested", "pytorch/pytorch", None, "taken"),
        ("merge_group", "destroyed", "pytorch/pytorch", None, "action-ignored"),
        ("check_run", "completed", "pytorch/pytorch", None, "event-not-used"),
        ("check_run", "rerequested", "pytorch/pytorch", "424242", "rerun-noted"),
        ("check_run", "rerequested", "pytorch/pytorch", "15368", "check-not-ours"),
        ("check_suite", "rerequested", "pytorch/pytorch", None, "check-not-ours"),
        ("check_suite", "rerequested", "else/where", "424242", "not-upstream"),
        ("installation", "suspend", None, None, "installation-noted"),
        ("installation_repositories", "removed", None, None, "installation-noted"),
        ("repository", "renamed", "org/downstream", None, "repository-noted"),
        ("repository", "edited", "org/downstream", None, "event-not-used"),
        ("star", "created", "pytorch/pytorch", None, "event-unknown"),
    ],
)
def test_what_is_wanted(event, action, repo, detail, code):
    interest = classify(Kind(event, action, repo, detail), "pytorch/pytorch", app_id="424242")
    what = "route" if code == "taken" else "note" if code.endswith("-noted") else "ignore"
    assert (interest.code, interest.what) == (code, what)


def test_without_an_app_no_check_is_ours():
    kind = Kind("check_run", "rerequested", "pytorch/pytorch", None)
    assert classify(kind, "pytorch/pytorch", app_id="").code == "check-not-ours"


@pytest.mark.parametrize(
    ("ref", "globs", "taken"),
    [
        ("refs/heads/release/2.14", ["release/*"], True),
        ("refs/heads/release/2.14/x", ["release/*"], False),
        ("refs/heads/release/2.14/x", ["release/**"], True),
        ("refs/tags/v2", ["refs/tags/v[0-9]*"], True),
        ("refs/tags/vx", ["refs/tags/v[0-9]*", "refs/tags/v[!a-w]"], True),
        ("refs/tags/main", ["main"], False),
        ("refs/heads/main", ["main", "x"], True),
        ("refs/heads/m.in", ["refs/heads/m?in"], True),
        ("refs/heads/main", ["refs/heads/m.in"], False),
        ("refs/heads/a[b", ["a[b"], True),
    ],
)
def test_which_pushes_are_told_is_for_the_settings_to_say(ref, globs, taken):
    kind = Kind("push", None, "o/r", ref)
    assert (classify(kind, "o/r", refs=globs).what == "route") == taken


def test_what_the_real_webhooks_say_of_installations_and_repositories(shared):
    def fact(name):
        body = json.loads((shared / f"data/relay/webhook/{name}.json").read_bytes())
        return fact_of(event_of(name), body)

    created = fact("installation_created")
    assert isinstance(created, InstallationFact)
    assert (created.id, created.account, created.state) == (957387, "Codertocat", "active")
    assert created.added == (RepositoryFact(186853002, "Codertocat/Hello-World", None, 957387),)
    assert created.permissions["checks"] == "write"
    assert fact("installation_suspend").state == "suspended"
    assert fact("installation_deleted").state == "deleted"
    renamed, transferred = fact("repository_renamed"), fact("repository_transferred")
    assert (renamed.old_name.split("/")[1], transferred.old_name.split("/")[0]) == ("Hello-World", "octocat")
    assert renamed.id
    run = fact("check_run_rerequested")
    assert (run.check_run_id, run.head_sha[:8]) == ("4", "d6fde929")
    assert isinstance(run, RerunFact)
    assert fact("check_suite_rerequested").check_run_id is None
    assert fact("pull_request_closed").open is False
    assert fact("pull_request_unlabeled").told_at.startswith("20")


@pytest.mark.parametrize(
    ("event", "body", "path"),
    [
        ("installation", {"installation": {"id": "1", "account": {"login": "a"}}}, "installation.id"),
        ("installation", {"installation": {"id": 1}}, "installation.account"),
        ("installation", {"installation": {"id": 2**64, "account": {"login": "a"}}}, "installation.id"),
        ("repository", {"repository": {"full_name": "a/b", "id": 1}}, "changes"),
        ("repository", {"repository": {"full_name": "ab", "id": 1}, "changes": {}}, "repository.full_name"),
        ("check_run", {"check_run": {"id": 1, "head_sha": "x"}}, "check_run.head_sha"),
        ("check_suite", {"check_suite": []}, "check_suite"),
    ],
)
def test_a_wrong_field_of_a_noted_event_is_named(event, body, path):
    with pytest.raises(BadRequest) as caught:
        fact_of(event, body)
    assert caught.value.extra["path"] == path


@pytest.mark.parametrize(
    ("event", "action", "worth"),
    [
        ("pull_request", "opened", True),
        ("pull_request", "labeled", True),
        ("pull_request", "assigned", False),
        ("push", None, True),
        ("check_run", "completed", False),
        ("check_run", "rerequested", True),
        ("installation", "created", True),
        ("star", "created", False),
        ("ping", None, False),
        ("pull_request", ["x"], False),
    ],
)
def test_which_lost_deliveries_are_worth_asking_for(event, action, worth):
    assert worth_asking(event, action) == worth


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("pull_request", "text", "pull_request: must be an object, not a string"),
        ("pull_request", None, "pull_request: must be an object, not nothing"),
        ("pull_request.number", "5", "pull_request.number: must be a whole number, not a string"),
        ("pull_request.number", 1.5, "pull_request.number: must be a whole number, not a fraction"),
        ("pull_request.number", True, "pull_request.number: must be a whole number, not true or false"),
        ("pull_request.number", -1, "pull_request.number: -1 is not the number"),
        ("pull_request.number", 10**30, "pull_request.number: 1000"),
        ("pull_request.title", 3, "pull_request.title: must be a string, not a number"),
        ("pull_request.head", [], "pull_request.head: must be an object, not a list"),
        ("pull_request.head.sha", "--upload-pack=x", "pull_request.head.sha: '--upload-pack=x' is not a commit id"),
        ("pull_request.head.sha", "A" * 40, "pull_request.head.sha: "),
        ("pull_request.base.sha", None, "pull_request.base.sha: must be a string, not nothing"),
        ("pull_request.base.ref", "", "pull_request.base.ref: must not be empty"),
        ("pull_request.base.ref", "x" * 300, "pull_request.base.ref: 300 characters, at most 255"),
        ("pull_request.user", "alice", "pull_request.user: must be an object"),
        ("pull_request.labels", {"name": "x"}, "pull_request.labels: must be a list"),
        ("pull_request.labels", [{"name": "x"}, 3], "pull_request.labels[1]: must be an object"),
        ("pull_request.draft", "no", "pull_request.draft: must be true or false"),
        ("repository.full_name", "pytorch", "repository.full_name: 'pytorch' is not owner/name"),
        ("repository.full_name", ["a/b"], "repository.full_name: must be a string, not a list"),
        ("action", ["opened"], "action: must be a string, not a list"),
    ],
)
def test_a_wrong_field_is_named(path, value, problem):
    with pytest.raises(BadRequest, match="^" + re.escape(problem)) as caught:
        parse("pull_request", changed(path, value))
    assert caught.value.extra["path"].startswith(path)


@pytest.mark.parametrize("body", [[], "x", None, 3, [{"action": "opened"}]])
def test_a_body_that_is_no_object(body):
    with pytest.raises(BadRequest, match="body: must be an object"):
        kind_of("pull_request", body)


def test_a_pull_request_of_a_deleted_fork_and_account():
    body = changed("pull_request.head.repo", None)
    body["pull_request"]["user"] = None
    del body["pull_request"]["author_association"]
    event = parse("pull_request", body)
    assert (event.head_repo, event.author, event.author_association) == (None, None, "NONE")


def test_text_that_no_database_stores_is_made_storable():
    event = parse("pull_request", changed("pull_request.title", json.loads('"a\\ud800b\\u0000c"')))
    event.title.encode("utf-8")
    assert "\0" not in event.title
    assert event.title.startswith("a")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = [
    *("action", "repository", "repository.full_name", "pull_request", "pull_request.number", "pull_request.title"),
    *("pull_request.user", "pull_request.head", "pull_request.head.sha", "pull_request.head.repo", "label"),
    *("pull_request.base", "pull_request.base.ref", "pull_request.labels", "pull_request.author_association"),
]


@given(path=st.sampled_from(PATHS), value=JSON, action=st.sampled_from(["opened", "labeled"]))
def test_no_value_in_any_field_makes_anything_but_an_event_or_a_bad_request(path, value, action):
    body = changed("action", action)
    *parents, last = path.split(".")
    at = body
    for part in parents:
        at = at[part]
    at[last] = value
    problem = ""
    try:
        kind = kind_of("pull_request", body)
        classify(kind, "pytorch/pytorch")
        parse("pull_request", body)
        fact_of("pull_request", body)
    except BadRequest as exc:
        problem = exc.message
    assert not problem or problem.startswith(path.split(".")[0])
