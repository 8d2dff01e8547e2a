"""What becomes of a send, for every kind of answer."""

from __future__ import annotations

import pytest

from relay.domain.retry import CAP_S, MAX_AGE_S, Reply, settle, wait_asked


def judge(kind, reply, attempts=1, age_s=0.0, jitter=0.0):
    return settle(kind, reply, attempts=attempts, age_s=age_s, jitter=jitter)


@pytest.mark.parametrize(
    ("kind", "reply", "state", "code", "ambiguous"),
    [
        ("dispatch", Reply(204), "sent", "sent", False),
        ("dispatch", Reply(200), "due", "unexpected-answer", True),
        ("dispatch", Reply(204, foreign=True), "due", "unexpected-answer", True),
        ("dispatch", Reply(404, foreign=True), "due", "unexpected-answer", True),
        ("check_run", Reply(201, foreign=True), "due", "unexpected-answer", True),
        ("check_run", Reply(404, reached=False, auth=True, foreign=True), "due", "unexpected-answer", False),
        ("check_run", Reply(401, foreign=True), "due", "unexpected-answer", True),
        ("hud", Reply(200, foreign=True), "due", "unexpected-answer", True),
        ("hud", Reply(400, foreign=True), "due", "unexpected-answer", True),
        ("check_run", Reply(201), "sent", "sent", False),
        ("check_run", Reply(200), "sent", "sent", False),
        ("hud", Reply(200), "sent", "sent", False),
        ("dispatch", Reply(None, reached=False), "due", "not-sent", False),
        ("dispatch", Reply(None), "due", "no-answer", True),
        ("dispatch", Reply(502), "due", "server-error", True),
        ("dispatch", Reply(503, reached=False, auth=True), "due", "server-error", False),
        ("dispatch", Reply(401), "due", "credentials", False),
        ("dispatch", Reply(403), "parked", "forbidden", False),
        ("dispatch", Reply(403, retry_after=7), "due", "rate-limited", False),
        ("dispatch", Reply(429), "due", "rate-limited", False),
        ("dispatch", Reply(404), "parked", "not-found", False),
        ("dispatch", Reply(410), "parked", "gone", False),
        ("check_run", Reply(422), "parked", "refused", False),
        ("dispatch", Reply(301), "parked", "moved", False),
        ("dispatch", Reply(404, reached=False, auth=True), "parked", "not-installed", False),
        ("dispatch", Reply(403, reached=False, auth=True), "parked", "installation-suspended", False),
        ("check_run", Reply(422, reached=False, auth=True), "parked", "permission-missing", False),
        ("check_run", Reply(401, reached=False, auth=True), "due", "credentials", False),
        ("hud", Reply(401), "due", "credentials", False),
        ("hud", Reply(403), "due", "credentials", False),
        ("hud", Reply(404), "due", "unexpected-answer", False),
        ("hud_recheck", Reply(403), "due", "credentials", False),
        ("hud_recheck", Reply(404), "due", "unexpected-answer", False),
        ("recheck", Reply(404), "parked", "not-found", False),
        ("hud", Reply(302), "due", "unexpected-answer", False),
        ("hud", Reply(429), "due", "rate-limited", False),
        ("hud", Reply(500), "due", "server-error", True),
        ("hud", Reply(400), "parked", "refused", False),
        ("hud", Reply(413), "parked", "refused", False),
    ],
)
def test_what_an_answer_means(kind, reply, state, code, ambiguous):
    outcome = judge(kind, reply)
    assert (outcome.state, outcome.code, outcome.ambiguous) == (state, code, ambiguous)
    assert (outcome.delay_s > 0) == (state == "due")


def test_the_wait_grows_is_spread_and_has_a_cap():
    reply = Reply(None, reached=False)
    waits = [judge("hud", reply, attempts=n, jitter=1.0).delay_s for n in range(1, 40)]
    assert waits[:4] == [1, 2, 4, 8]
    assert waits == sorted(waits)
    assert waits[-1] == CAP_S
    assert judge("hud", reply, attempts=4, jitter=0.0).delay_s == 4.0


def test_an_asked_wait_is_a_lower_bound_but_not_for_ever():
    assert 90 <= judge("dispatch", Reply(429, retry_after=90), jitter=0.5).delay_s <= 91
    assert judge("dispatch", Reply(429, retry_after=1e9)).delay_s == 3600


def test_in_doubt_github_gets_a_moment_to_show_what_it_did():
    assert judge("dispatch", Reply(None)).delay_s >= 3


@pytest.mark.parametrize("kind", sorted(MAX_AGE_S))
def test_after_a_while_nobody_waits_any_more(kind):
    assert judge(kind, Reply(503), age_s=MAX_AGE_S[kind]).state == "due"
    assert judge(kind, Reply(503), age_s=MAX_AGE_S[kind] + 1).code == "gave-up"
    assert judge(kind, Reply(204), age_s=MAX_AGE_S[kind] + 1).state == "sent"


@pytest.mark.parametrize(
    ("status", "headers", "text", "wait"),
    [
        (429, {"retry-after": "17"}, "", 17),
        (403, {"retry-after": "Thu, 01 Jan 1970 00:17:10 GMT"}, "", 30),
        (429, {"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, "", 0),
        (429, {"retry-after": "soon"}, "", 60),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1060"}, "", 60),
        (403, {"x-ratelimit-remaining": "0"}, "", 60),
        (403, {"x-ratelimit-remaining": "12"}, "", None),
        (403, {}, "You have exceeded a secondary rate limit", 60),
        (403, {}, "Resource not accessible by integration", None),
        (503, {"retry-after": "5"}, "", 5),
        (500, {"retry-after": "5"}, "", None),
    ],
)
def test_how_long_an_answer_asks_to_wait(status, headers, text, wait):
    assert wait_asked(status, headers, text, 1000.0) == wait
