"""Which places are closed, for how long, and who opens them."""

from __future__ import annotations

import pytest

from relay.domain.circuit import LONGEST_WAIT_S, Circuit, Installed, close, gate, grant, key_of
from relay.domain.retry import settle

REPO = "Owner/Repo"


def shut(key, code, until, changed_at=0.0):
    return {key: Circuit(key, code, "said so", until, 1, changed_at)}


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("installation-suspended", "owner"),
        ("rate-limited", "owner"),
        ("not-installed", "owner/repo"),
        ("permission-missing", "owner/repo"),
        ("refused", None),
        ("sent", None),
    ],
)
def test_what_an_answer_closes(code, key):
    assert key_of(code, REPO) == key


def test_it_is_closed_longer_each_time_and_never_for_longer_than_an_hour():
    waits, known = [], None
    for _ in range(12):
        known = close(known, "owner", "installation-suspended", "x", 1000.0, None)
        waits.append(known.until - 1000.0)
    assert waits[:3] == [60.0, 120.0, 240.0]
    assert waits[-1] == LONGEST_WAIT_S


def test_a_shorter_wait_does_not_shorten_the_one_that_was_asked_for():
    first = close(None, "owner", "rate-limited", "x", 0.0, 90.0)
    assert close(first, "owner", "rate-limited", "x", 1.0, 5.0).until == 90.0


@pytest.mark.parametrize(
    ("circuits", "installed", "now", "what"),
    [
        ({}, None, 0.0, "open"),
        ({}, Installed("active", 0.0), 0.0, "open"),
        ({}, Installed("suspended", 0.0), 9e9, "refuse"),
        ({}, Installed("deleted", 0.0), 9e9, "refuse"),
        (shut("owner", "installation-suspended", 50.0), None, 10.0, "refuse"),
        (shut("owner", "installation-suspended", 50.0), None, 60.0, "try"),
        (shut("owner", "installation-suspended", 50.0, 5.0), Installed("active", 9.0), 10.0, "try"),
        (shut("owner", "installation-suspended", 50.0, 5.0), Installed("active", 1.0), 10.0, "refuse"),
        (shut("owner/repo", "not-installed", 50.0), None, 10.0, "refuse"),
        (shut("owner/other", "not-installed", 50.0), None, 10.0, "open"),
        (shut("owner", "rate-limited", 50.0), None, 10.0, "wait"),
        (shut("owner", "rate-limited", 50.0), None, 60.0, "open"),
    ],
)
def test_what_becomes_of_an_effect(circuits, installed, now, what):
    assert gate(REPO, circuits, installed, now).what == what


@pytest.mark.parametrize("code", ["installation-suspended", "not-installed", "permission-missing"])
def test_a_refusal_without_a_call_is_settled_as_the_call_was(code):
    reply = gate(REPO, shut("owner" if code[:4] == "inst" else "owner/repo", code, 50.0), None, 10.0).reply
    assert settle("dispatch", reply, attempts=1, age_s=0.0, jitter=0.0).code == code


def test_a_budget_is_a_minutes():
    assert grant(0.0, 0, 3, 100.0, 5) == (3, 100.0, 3)
    assert grant(100.0, 3, 4, 110.0, 5) == (2, 100.0, 5)
    assert grant(100.0, 5, 4, 159.9, 5) == (0, 100.0, 5)
    assert grant(100.0, 5, 4, 160.0, 5) == (4, 160.0, 4)
    assert grant(100.0, 5, 1, 50.0, 5) == (1, 50.0, 1)  # a clock that was set back
