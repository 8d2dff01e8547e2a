"""Signing in at the local GitHub: OAuth's code flow with PKCE, checked as GitHub checks it, and who somebody is.

Whoever the page offers can be chosen; a real GitHub would ask for a password there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from relay.demo.ledger import GithubError

CLIENT_ID, CLIENT_SECRET = "Iv23demo", "demo-client-secret"
CODE_S = 600.0


@dataclass
class Account:
    id: int
    login: str
    teams: tuple[str, ...] = ()


@dataclass
class Grant:
    account: Account
    redirect: str
    challenge: str
    scope: str
    until: float


@dataclass
class People:
    """``accounts`` by login; ``codes`` may be used once; ``tokens`` tell who and what for."""

    clock: Callable[[], float]
    accounts: dict[str, Account] = field(default_factory=dict)
    codes: dict[str, Grant] = field(default_factory=dict)
    tokens: dict[str, Grant] = field(default_factory=dict)

    def add(self, login: str, *teams: str) -> None:
        self.accounts[login] = Account(1000 + len(self.accounts), login, teams)


def add_people(app: FastAPI, people: People) -> None:
    """The routes of ``people`` on ``app``."""

    @app.get("/login/oauth/authorize")
    def authorize(
        client_id: str,
        redirect_uri: str,
        state: str,
        code_challenge: str = "",
        code_challenge_method: str = "",
        scope: str = "",
        login: str = Query(""),
        deny: bool = False,
    ) -> Any:
        if client_id != CLIENT_ID:
            raise GithubError(404, "Not Found")
        if code_challenge and code_challenge_method != "S256":
            raise GithubError(400, "code_challenge_method must be S256")
        if deny:
            return RedirectResponse(f"{redirect_uri}?{urlencode({'error': 'access_denied', 'state': state})}", 302)
        if not login:
            asked = {
                "client_id": client_id,
                "redirect_uri": redirect_uri,
                "state": state,
                "code_challenge": code_challenge,
                "code_challenge_method": code_challenge_method,
                "scope": scope,
            }
            return HTMLResponse(_page(people, asked))
        if login not in people.accounts:
            raise GithubError(404, "Not Found")
        code = secrets.token_hex(10)
        until = people.clock() + CODE_S
        people.codes[code] = Grant(people.accounts[login], redirect_uri, code_challenge, scope, until)
        return RedirectResponse(f"{redirect_uri}?{urlencode({'code': code, 'state': state})}", 302)

    @app.post("/login/oauth/access_token")
    async def access_token(request: Request) -> JSONResponse:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        good = hmac.compare_digest(form.get("client_secret", ""), CLIENT_SECRET)
        if form.get("client_id") != CLIENT_ID or not good:
            return _refused("incorrect_client_credentials")
        grant = people.codes.pop(form.get("code", ""), None)
        if grant is None or grant.until < people.clock():
            return _refused("bad_verification_code")
        if form.get("redirect_uri") != grant.redirect:
            return _refused("redirect_uri_mismatch")
        if grant.challenge and not hmac.compare_digest(_s256(form.get("code_verifier", "")), grant.challenge):
            return _refused("bad_verification_code")
        token = f"gho_{secrets.token_hex(18)}"
        people.tokens[token] = grant
        return JSONResponse({"access_token": token, "scope": grant.scope, "token_type": "bearer"})

    def whose(request: Request) -> Grant:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.casefold() != "bearer" or token not in people.tokens:
            raise GithubError(401, "Bad credentials")
        return people.tokens[token]

    @app.get("/user")
    def user(request: Request) -> dict[str, Any]:
        account = whose(request).account
        return {"login": account.login, "id": account.id, "type": "User", "name": account.login.title()}

    @app.get("/user/teams")
    def teams(request: Request, per_page: int = 30, page: int = 1) -> list[dict[str, Any]]:
        grant = whose(request)
        if "read:org" not in grant.scope.split():
            raise GithubError(403, "Resource not accessible: needs read:org")
        rows = [
            {"slug": name.partition("/")[2], "organization": {"login": name.partition("/")[0]}}
            for name in grant.account.teams
        ]
        return rows[(page - 1) * per_page : page * per_page]


def _s256(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _refused(error: str) -> JSONResponse:
    # GitHub answers 200 and says what is wrong in the body
    return JSONResponse({"error": error, "error_description": "The request was refused."})


def _page(people: People, asked: dict[str, str]) -> str:
    rows = "".join(
        f'<li><a href="/login/oauth/authorize?{html.escape(urlencode({**asked, "login": one.login}))}">'
        f"Continue as {html.escape(one.login)}</a> {html.escape(', '.join(one.teams))}</li>"
        for one in people.accounts.values()
    )
    deny = html.escape(urlencode({**asked, "deny": "true"}))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">'
        "<title>Sign in to the local GitHub</title>"
        "<h1>Sign in to the local GitHub</h1><p>This stands in for GitHub on this machine.</p>"
        f'<ul>{rows}</ul><p><a href="/login/oauth/authorize?{deny}">Cancel</a></p></html>'
    )
