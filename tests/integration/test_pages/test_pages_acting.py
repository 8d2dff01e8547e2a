"""Signing in at a recorded GitHub, and acting: who may, what a form must bring, and what is kept of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import outbound_servers
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from relay.demo.github_people import CLIENT_ID, CLIENT_SECRET
from relay.services import rerunning
from relay.settings import Settings
from relay.store.db import migrate, open_engine
from relay.store.schema import audit, dispatch, outbox, quarantine, rerun, web_session
from relay.web.app import create_app
from relay.web.page_route import PageRoute

TEST = "test/test_ops.py::TestCommon::test_out"
SESSION = "__Host-relay-session"
SECURE = ("HttpOnly", "Path=/", "SameSite=lax", "Secure")


@dataclass
class Lab:
    """The relay's pages, the GitHub that people sign in at, and the rows they are about."""

    client: TestClient
    github: outbound_servers.World
    world: Any
    settings: Settings

    def browser(self) -> TestClient:
        return TestClient(self.client.app, base_url="https://relay.example", follow_redirects=False)

    def way_back(self, browser: TestClient, login: str, next: str = "/") -> str:
        """The address, on the relay, at which GitHub sends ``browser`` back."""
        there = browser.get("/sign-in", params={"next": next}).headers["location"]
        assert there.startswith(f"{self.github.url}/login/oauth/authorize?")
        back = httpx2.get(there + f"&login={login}", trust_env=False).headers["location"]
        assert back.startswith("https://relay.example/sign-in/callback?")
        return back.removeprefix("https://relay.example")

    def sign_in(self, login: str, next: str = "/") -> TestClient:
        browser = self.browser()
        answer = browser.get(self.way_back(browser, login, next))
        assert answer.status_code == 303, answer.text
        return browser

    def rows(self, table: Any) -> list[Any]:
        with self.world.engine.connect() as conn:
            return list(conn.execute(select(table)).all())


@pytest.fixture
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    allowlist = tmp_path / "allowlist.yml"
    allowlist.write_text(
        'L4:\n  - torch-spyre/torch-spyre: {executor: workers, device: spyre, oncalls: ["@ana"]}\n'
        "L2:\n  - acme/accelerator: {oncalls: [acme/on-duty]}\n"
    )
    with outbound_servers.local_github(tmp_path) as github:
        for login, teams in {"ana": (), "ben": ("acme/on-duty",), "oscar": ("pytorch/operators",), "eve": ()}.items():
            github.hub.people.add(login, *teams)
        settings = Settings(
            data_dir=tmp_path,
            public_url="https://relay.example",
            allowlist=str(allowlist),
            github_api_url=github.url,
            github_url=github.url,
            oauth_client_id=CLIENT_ID,
            oauth_client_secret=CLIENT_SECRET,
            operators=["pytorch/Operators"],
            **getattr(request, "param", {}),
        )
        engine = open_engine(settings.database)
        migrate(engine)
        with TestClient(create_app(settings), base_url="https://relay.example", follow_redirects=False) as client:
            yield Lab(client, github, request.getfixturevalue("make_world")(engine), settings)
        engine.dispose()


def form(browser: TestClient, path: str, csrf: str | None = None, **fields: Any) -> Any:
    """Sends a form as a page of ``browser`` would."""
    if csrf is None:
        csrf = token(browser)
    return browser.post(path, data={"csrf": csrf, **fields})


def token(browser: TestClient) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get("/").text)
    assert found is not None, "nobody has signed in"
    return found[1]


def who(browser: TestClient) -> str | None:
    found = re.search(r'<form class="who".*?<span class="soft">(.*?)</span>', browser.get("/").text, re.S)
    return found[1] if found else None


def test_signing_in_asks_github_with_state_and_pkce_and_keeps_no_secret(lab: Lab) -> None:
    browser = lab.browser()
    asked = {k: v[0] for k, v in parse_qs(urlsplit(browser.get("/sign-in").headers["location"]).query).items()}
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["state"]) > 20
    assert asked["scope"] == "read:org", "an operator is named by a team"

    browser = lab.sign_in("ana", "/crcr")
    assert who(browser) == "ana"
    assert [row.login for row in lab.rows(web_session)] == ["ana"]
    [call] = lab.github.calls("POST", "/login/oauth/access_token")
    sent = parse_qs(call["body"]["not_json"])
    assert {"code", "code_verifier", "client_secret", "redirect_uri", "client_id"} == set(sent)
    kept = str(lab.rows(web_session)) + browser.cookies[SESSION]
    assert "gho_" not in kept
    assert CLIENT_SECRET not in kept


def test_cookies_are_for_this_site_and_no_script(lab: Lab) -> None:
    browser = lab.browser()
    first = browser.get("/sign-in").headers["set-cookie"]
    back = lab.way_back(browser, "ana")
    second = browser.get(back).headers.get_list("set-cookie")
    for cookie in (first, *second):
        assert cookie.startswith("__Host-relay-")
        assert all(part in cookie for part in SECURE), cookie
    [session] = [c for c in second if c.startswith(SESSION)]
    assert f"Max-Age={12 * 3600}" in session


def test_a_way_back_that_this_browser_did_not_begin_is_refused(lab: Lab) -> None:
    stolen = lab.way_back(lab.browser(), "ana")
    fresh = lab.browser()
    assert fresh.get(stolen).status_code == 401, "no sign-in was begun here"
    other = lab.browser()
    mine = parse_qs(urlsplit(lab.way_back(other, "eve")).query)["state"][0]
    code = parse_qs(urlsplit(stolen).query)["code"][0]
    answer = other.get("/sign-in/callback", params={"code": code, "state": mine})
    assert answer.status_code == 401, "PKCE: another browser's code"
    assert "did not take the code" in answer.text
    assert lab.rows(web_session) == []


def test_a_code_counts_once_and_saying_no_is_no_error(lab: Lab) -> None:
    browser = lab.browser()
    back = lab.way_back(browser, "ana")
    assert browser.get(back).status_code == 303
    assert browser.get(back).status_code == 401
    there = browser.get("/sign-in?next=/quality").headers["location"]
    denied = httpx2.get(there + "&deny=true", trust_env=False).headers["location"]
    answer = browser.get(denied.removeprefix("https://relay.example"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/quality")
    assert "You did not sign in." in browser.get("/quality").text
    assert "You did not sign in." not in browser.get("/quality").text, "it is said once"


def test_a_session_is_new_at_each_sign_in_and_over_at_its_end(lab: Lab) -> None:
    browser = lab.sign_in("ana")
    first = browser.cookies[SESSION]
    assert browser.get(lab.way_back(browser, "ana")).status_code == 303
    second = browser.cookies[SESSION]
    assert first != second
    assert len(lab.rows(web_session)) == 1, "the first one is over"

    thief = lab.browser()
    thief.cookies.set(SESSION, first)
    assert who(thief) is None
    thief.cookies.set(SESSION, second[:-2] + ("aa" if second[-2:] != "aa" else "bb"))
    assert who(thief) is None, "a signature that is not ours"

    answer = form(browser, "/sign-out")
    assert answer.status_code == 303
    assert who(browser) is None
    thief.cookies.set(SESSION, second)
    assert who(thief) is None, "the table knows that it is over"

    browser = lab.sign_in("ana")
    with lab.world.engine.begin() as conn:
        conn.execute(update(web_session).values(expires_at=time.time() - 1))
    assert who(browser) is None


@pytest.mark.parametrize("next", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", "javascript:x"])
def test_nobody_is_sent_elsewhere(lab: Lab, next: str) -> None:
    browser = lab.browser()
    assert browser.get(lab.way_back(browser, "ana", next)).headers["location"] == "/"


def test_github_that_does_not_answer_is_said(lab: Lab) -> None:
    browser = lab.browser()
    back = lab.way_back(browser, "ana")
    lab.github.fail(path="/user", status=502)
    answer = browser.get(back, headers={"accept": "text/html"})
    assert answer.status_code == 503
    assert "did not answer a sign-in" in answer.text
    assert lab.rows(web_session) == []


def test_a_form_needs_a_session_its_token_and_one_of_our_pages(lab: Lab) -> None:
    id = lab.world.failed_run()
    ana, oscar = lab.sign_in("ana"), lab.sign_in("oscar")
    good = token(ana)
    assert lab.browser().post("/act/rerun", data={"run": id, "csrf": good}).status_code == 401
    for csrf in ("", "0" * 64, token(oscar)):
        assert form(ana, "/act/rerun", csrf, run=id).status_code == 403
    crossed = ana.post("/act/rerun", data={"run": id, "csrf": good}, headers={"sec-fetch-site": "cross-site"})
    assert crossed.status_code == 403
    assert ana.post("/act/rerun", json={"run": id, "csrf": good}).status_code == 400
    assert ana.get(f"/act/rerun?run={id}&csrf={good}").status_code == 405
    assert ana.post("/act/rerun", content="csrf=%ff", headers={"content-type": lab_form()}).status_code == 400
    assert ana.post("/act/rerun", content="a=" + "x" * 70_000, headers={"content-type": lab_form()}).status_code == 413
    assert lab.rows(rerun) == []
    assert form(ana, "/act/rerun", run=id).status_code == 303


def lab_form() -> str:
    return "application/x-www-form-urlencoded"


def test_an_oncall_runs_their_own_downstream_again_and_it_is_noted(lab: Lab) -> None:
    mine, theirs = lab.world.failed_run(), lab.world.dispatch(
        "completed", downstream="acme/accelerator", executor="github", conclusion="failure", closed_at=time.time()
    )  # fmt: skip
    lab.world.job(theirs, "unit", "completed", "failure")
    open_run, _ = lab.world.running(pr_number=5, head_sha="c" * 40)
    ana, ben, eve = lab.sign_in("ana"), lab.sign_in("ben"), lab.sign_in("eve")
    assert form(eve, "/act/rerun", run=mine).status_code == 403
    assert form(ana, "/act/rerun", run=theirs).status_code == 403
    assert form(ana, "/act/rerun", run=open_run).status_code == 409
    assert form(ana, "/act/rerun", run="f" * 32).status_code == 404
    assert form(ana, "/act/rerun", run=mine, scope="some").status_code == 400

    answer = form(ana, "/act/rerun", run=mine, back=f"/run/{mine}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/run/{mine}")
    assert "runs this again within seconds" in ana.get("/").text
    assert form(ana, "/act/rerun", run=mine).status_code == 409, "asked for already"
    assert form(ben, "/act/rerun", run=theirs, scope="failed").status_code == 303, "an oncall by their team"

    told = [(r.actor, r.action, r.target, r.dispatch_id) for r in lab.rows(audit) if r.action == "rerun.ask"]
    assert told == [
        ("ana", "rerun.ask", "torch-spyre/torch-spyre", mine),
        ("ben", "rerun.ask", "acme/accelerator", theirs),
    ]
    rerunning.step(lab.world.engine, lab.settings, time.time() + 1)
    fresh = [row for row in lab.rows(dispatch) if row.rerun_of == mine]
    assert [(row.state, row.head_sha) for row in fresh] == [("running", lab.world.head)]
    asked = [(row.dispatch_id, row.scope, row.requested_by) for row in lab.rows(rerun)]
    assert asked == [(mine, "all", "ana"), (theirs, "failed", "ben")]


def test_pages_offer_a_person_what_they_may_do_and_no_more(lab: Lab) -> None:
    mine = lab.world.failed_run()
    theirs = lab.world.dispatch(
        "completed", downstream="acme/accelerator", executor="github", conclusion="failure", closed_at=time.time()
    )
    ana, ben, nobody = lab.sign_in("ana"), lab.sign_in("ben"), lab.browser()
    again = re.compile(r'name="run" value="(\w+)"')
    assert again.findall(ana.get("/pr/171234").text) == [mine]
    assert again.findall(ben.get("/pr/171234").text) == [theirs]
    assert again.findall(nobody.get("/pr/171234").text) == []
    assert again.findall(ana.get(f"/run/{mine}").text) == [mine]
    assert again.findall(ben.get(f"/run/{mine}").text) == []
    for browser, offered in ((ana, True), (ben, False), (nobody, False)):
        page = browser.get(f"/test/{TEST}").text
        assert ('action="/act/quarantine"' in page) is offered
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 7 * 86400))
    form(ana, "/act/quarantine", test=TEST, reason="races", issue="a/b#1", until=day)
    [entry] = lab.rows(quarantine)
    assert f'name="entry" value="{entry.id}"' in ana.get(f"/test/{TEST}").text
    assert 'name="entry"' not in nobody.get(f"/test/{TEST}").text


def test_an_operator_sends_again_and_drops_and_others_do_not(lab: Lab) -> None:
    for n in range(4):
        lab.world.effect(None, "hud", state="parked", last_error=f"HTTP 403: {n}", attempts=8)
    ids = [row.id for row in lab.rows(outbox)]
    ana, oscar = lab.sign_in("ana"), lab.sign_in("oscar")
    assert form(ana, "/act/outbox", what="retry", effect=ids[0]).status_code == 403
    assert form(oscar, "/act/outbox", what="melt", effect=ids[0]).status_code == 400
    assert form(oscar, "/act/outbox", what="retry").status_code == 400
    assert form(oscar, "/act/outbox", what="retry", effect="x").status_code == 400
    assert form(oscar, "/act/outbox", what="drop", effect=ids[0]).status_code == 400, "a reason is asked for"
    assert form(oscar, "/act/outbox", what="retry", effect=99).status_code == 404
    assert form(oscar, "/act/outbox", what="retry", effect=[str(i) for i in ids[:2]]).status_code == 303
    assert form(oscar, "/act/outbox", what="drop", reason="the HUD is gone", effect=ids[2]).status_code == 303
    assert [row.state for row in lab.rows(outbox)] == ["due", "due", "dropped", "parked"]
    assert lab.rows(outbox)[2].last_error == "by oscar: the HUD is gone"
    assert form(oscar, "/act/outbox", what="drop", reason="x", effect=[str(ids[2]), str(ids[3])]).status_code == 303
    assert "Not done: effect" in oscar.get("/").text
    done = [(r.actor, r.action, r.detail["effect"]) for r in lab.rows(audit) if r.action.startswith("outbox.")]
    assert done == [
        ("oscar", "outbox.retry", ids[0]), ("oscar", "outbox.retry", ids[1]), ("oscar", "outbox.drop", ids[2]),
        ("oscar", "outbox.drop", ids[3]),
    ]  # fmt: skip


def test_quarantine_is_for_the_oncalls_of_this_device(lab: Lab) -> None:
    ana, ben = lab.sign_in("ana"), lab.sign_in("ben")
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 7 * 86400))
    told = {"test": TEST, "reason": "races", "issue": "a/b#1", "until": day}
    assert form(ben, "/act/quarantine", **told).status_code == 403, "an oncall of another downstream"
    assert form(ana, "/act/quarantine", **{**told, "until": "soon"}).status_code == 400
    assert form(ana, "/act/quarantine", **{**told, "issue": " "}).status_code == 400
    assert form(ana, "/act/quarantine", **told).status_code == 303
    [entry] = lab.rows(quarantine)
    assert (entry.device, entry.test, entry.reason) == ("spyre", TEST, "races")
    assert form(ben, "/act/quarantine/end", entry=entry.id).status_code == 403
    assert "Nothing is in quarantine" not in ana.get("/quality").text
    assert form(ana, "/act/quarantine/end", entry=entry.id).status_code == 303
    assert "Nothing is in quarantine" in ana.get("/quality").text, "what was ended is not listed until its day"
    assert form(ana, "/act/quarantine/end", entry=entry.id).status_code == 404
    assert [r.action for r in lab.rows(audit)][-2:] == ["quarantine.add", "quarantine.end"]


@pytest.mark.parametrize("lab", [{"pages_private": True, "readers": ["eve"]}], indirect=True)
def test_private_pages_are_for_their_readers_alone(lab: Lab) -> None:
    lab.world.failed_run()
    nobody, eve = lab.browser(), lab.sign_in("eve")
    lab.github.hub.people.add("mallory")
    mallory, ana = lab.sign_in("mallory"), lab.sign_in("ana")
    answer = nobody.get("/pr/171234?upstream=a/b")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/pr/171234%3Fupstream%3Da/b")
    assert nobody.get("/pr/171234.json").status_code == 401
    assert nobody.get("/pr/171234.json").headers["content-type"] == "application/problem+json"
    assert mallory.get("/").status_code == 403
    assert "mallory may not read these pages" in mallory.get("/").text
    for browser in (eve, ana):
        assert browser.get("/").status_code == 200
        assert browser.get("/index.json").status_code == 200

    machines = {"/healthz", "/readyz", "/metrics", "/static/{path:path}", "/openapi.json"}
    machines |= {"/sign-in", "/sign-in/callback", "/scale/{queue}", "/favicon.ico"}
    open_to_nobody = []
    for route in routes_of(lab.client.app):
        path = re.sub(r"\{[^}]*\}", "1", route.path)
        if route.path.endswith("/events"):  # asked for, it would not end where it is not refused
            if not isinstance(route, PageRoute) or getattr(route.endpoint, "open_to_all", False):
                open_to_nobody.append(route.path)
        elif route.path not in machines and nobody.get(path).status_code not in (303, 401, 405):
            open_to_nobody.append(route.path)
    assert open_to_nobody == [], "these answer somebody who has not signed in"


def routes_of(app: Any) -> list[Any]:
    """Every route of the application that can be read."""
    found = []
    todo = list(app.routes)
    while todo:
        route = todo.pop()
        inner = getattr(route, "original_router", None)
        if inner is not None:
            todo += inner.routes
        elif "GET" in (getattr(route, "methods", None) or ()):
            found.append(route)
    assert len(found) > 20
    return found


@pytest.mark.parametrize("lab", [{"reads_per_minute": 60.0, "reads_burst": 3}], indirect=True)
def test_who_reads_too_much_waits(lab: Lab) -> None:
    answers = [lab.client.get("/quality") for _ in range(6)]
    assert [a.status_code for a in answers] == [200] * 3 + [429] * 3
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
    assert "wait as Retry-After says" in answers[-1].text.casefold() or "Wait as Retry-After says" in answers[-1].text
    assert lab.client.get("/healthz").status_code == 200


def test_without_a_client_nobody_is_offered_to_sign_in(client: Any) -> None:
    assert client.get("/sign-in", follow_redirects=False).status_code == 404
    assert "Sign in" not in client.get("/").text


@pytest.mark.parametrize(
    ("accept", "kind"), [("text/html,*/*;q=0.8", "text/html"), ("*/*", "application/problem+json")]
)
def test_what_is_nowhere_is_a_page_for_people_and_a_problem_for_programs(client: Any, accept: str, kind: str) -> None:
    answer = client.get("/nowhere/at/all", headers={"accept": accept})
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith(kind)
    assert "there is nothing at /nowhere/at/all" in answer.text.casefold()
    assert client.get("/nowhere.json", headers={"accept": accept}).headers["content-type"] == "application/problem+json"


def test_a_fault_of_ours_is_a_page_with_the_policy_and_an_incident(client: Any, monkeypatch: Any) -> None:
    client = TestClient(client.app, base_url="https://relay.example", raise_server_exceptions=False)
    monkeypatch.setattr("relay.web.pages.views_quality.quality", lambda *_: 1 / 0)
    answer = client.get("/quality", headers={"accept": "text/html"})
    assert answer.status_code == 500
    assert re.search(r"in the log as incident [0-9a-f]{32}", answer.text)
    assert "ZeroDivisionError" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
