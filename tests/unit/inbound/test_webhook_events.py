"""Webhook bodies: every real one is read, and every broken one is refused with the field's path."""

from __future__ import annotations

import copy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.events import PullRequestEvent, PushEvent, classify, kind_of, parse
from relay.errors import BadRequest

UPSTREAM = "codertocat/hello-world"
NAMES = ("check_run", "check_suite", "installation", "ping", "pull_request", "push", "repository")
TAKEN = {
    "pull_request_closed.json",
    "pull_request_opened.json",
    "pull_request_opened.with-null-body.json",
    "pull_request_reopened.json",
    "pull_request_synchronize.json",
    "push_with-new-branch.json",
}
CODES = {
    "check_run_": "event-not-used",
    "check_suite_": "event-not-used",
    "installation_": "event-not-used",
    "repository_": "event-not-used",
    "ping_": "ping",
    "pull_request_labeled": "label-ignored",
    "pull_request_": "action-ignored",
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
        interest = classify(event, kind.action, kind.repo, UPSTREAM, kind.detail)
        assert interest.take == (file.name in TAKEN), file.name
        if not interest.take:
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
        ("pull_request", "edited", "pytorch/pytorch", None, "action-ignored"),
        ("pull_request", None, "pytorch/pytorch", None, "action-ignored"),
        ("pull_request", "labeled", "pytorch/pytorch", "ciflow/crcr/spyre", "taken"),
        ("pull_request", "labeled", "pytorch/pytorch", "ciflow/trunk", "label-ignored"),
        ("push", None, "pytorch/pytorch", "refs/heads/main", "taken"),
        ("push", None, "pytorch/pytorch", "refs/heads/release/2.14", "taken"),
        ("push", None, "pytorch/pytorch", "refs/tags/ciflow/trunk/12345", "taken"),
        ("push", None, "pytorch/pytorch", "refs/heads/gh/alice/3/head", "push-ref-ignored"),
        ("push", None, "pytorch/pytorch", "refs/heads/mainly", "push-ref-ignored"),
        ("workflow_run", "completed", "pytorch/pytorch", None, "event-unknown"),
        ("merge_group", "checks_requested", "pytorch/pytorch", None, "event-not-used"),
    ],
)
def test_what_is_wanted(event, action, repo, detail, code):
    interest = classify(event, action, repo, "pytorch/pytorch", detail)
    assert (interest.code, interest.take) == (code, code == "taken")


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
        classify("pull_request", kind.action, kind.repo, "pytorch/pytorch", kind.detail)
        parse("pull_request", body)
    except BadRequest as exc:
        problem = exc.message
    assert not problem or problem.startswith(path.split(".")[0])
