"""The dispatch body: verbatim while it fits, cut in order above."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.dispatch_payload import LIMIT, client_payload, encode

KEY = "0" * 32


def make(body, event="pull_request"):
    payload = client_payload(event, "delivery-1", body, KEY)
    assert len(encode(payload)) <= LIMIT
    assert set(payload) == {"event_type", "delivery_id", "payload", "relay"}
    assert payload["relay"]["dispatch_key"] == KEY
    return payload


@pytest.fixture
def opened(shared):
    return json.loads((shared / "data/relay/webhook/pull_request_opened.json").read_text())


@pytest.fixture
def push(shared):
    return json.loads((shared / "data/relay/webhook/push_payload.json").read_text())


def test_what_fits_goes_verbatim(opened, push):
    for event, body in (("pull_request", opened), ("push", push)):
        payload = make(body, event)
        assert payload["payload"] == body
        assert "cut" not in payload["relay"]


def test_a_body_that_just_fits_is_not_cut(opened):
    opened["pull_request"]["body"] = ""
    room = LIMIT - len(encode(make(opened)))
    opened["pull_request"]["body"] = "x" * room
    assert "cut" not in make(opened)["relay"]
    opened["pull_request"]["body"] += "x"
    assert make(opened)["relay"]["cut"] == ["pull_request.body: cut to 1000 characters"]


def test_a_long_text_is_cut_and_the_rest_is_untouched(opened):
    before = copy.deepcopy(opened)
    opened["pull_request"]["body"] = "ÄÖ \U0001f600" * 30_000
    given_body = copy.deepcopy(opened)
    payload = make(opened)
    assert opened == given_body  # the caller's value is not changed
    sent = payload["payload"]
    assert sent["pull_request"].pop("body") == given_body["pull_request"]["body"][:1000]
    before["pull_request"].pop("body")
    assert sent == before


def test_a_push_of_many_commits_keeps_their_ids(push):
    one = {**push["head_commit"], "message": "m" * 500, "added": ["f" * 100] * 10} if push.get("head_commit") else None
    one = one or {"id": "c" * 40, "message": "m" * 500, "added": ["f" * 100] * 10, "url": "https://github.com/x"}
    push["commits"] = [{**one, "id": f"{n:040x}"} for n in range(100)]
    payload = make(push, "push")
    assert [commit["id"] for commit in payload["payload"]["commits"]] == [f"{n:040x}" for n in range(20)]
    assert payload["payload"]["after"] == push["after"]
    assert any("first 20 of 100" in note for note in payload["relay"]["cut"])


def test_a_body_that_no_cut_makes_small_keeps_what_workflows_read(opened):
    opened["pull_request"]["requested_reviewers"] = [{"login": f"u{n}", "id": n} for n in range(20_000)]
    payload = make(opened)
    pull, real = payload["payload"]["pull_request"], opened["pull_request"]
    assert pull["head"]["sha"] == real["head"]["sha"]
    assert pull["head"]["repo"]["full_name"] == real["head"]["repo"]["full_name"]
    assert (pull["number"], pull["html_url"]) == (real["number"], real["html_url"])
    assert payload["payload"]["action"] == "opened"
    assert payload["payload"]["repository"]["full_name"] == opened["repository"]["full_name"]
    assert payload["relay"]["cut"] == ["payload: all but ids, names and links"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
bodies = st.fixed_dictionaries(
    {"filler": st.just(["y" * 199] * 400)},
    optional={
        "pull_request": json_values,
        "repository": json_values,
        "commits": json_values,
        "action": json_values,
        "sender": json_values,
    },
)


@given(bodies)
def test_whatever_the_shape_the_result_fits(body):
    make(body)


def test_lone_surrogates_can_be_sent():
    assert encode({"a": "\ud800"}) == '{"a":"\\ud800"}'
    assert encode({"a": "ü"}).encode() == '{"a":"ü"}'.encode()
