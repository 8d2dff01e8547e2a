"""Who somebody is on GitHub: OAuth's code flow with state and PKCE, for people who sign in at our pages.

What GitHub hands out is used to ask who it is and which teams they are in, and then forgotten.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx2

from relay.domain.fields import MAX_ID
from relay.errors import Unauthorized, Unavailable
from relay.github.http import Answer, exchange, make_http

PER_PAGE = 100
MOST_PAGES = 10
AGAIN = "begin again at /sign-in"


@dataclass(frozen=True, slots=True)
class Person:
    """``teams``: ``org/team``, case folded; empty when they were not asked for."""

    id: int
    login: str
    teams: frozenset[str] = frozenset()


class People:
    """GitHub as the place where people sign in. ``site_url``: for browsers, ``api_url``: of its REST API."""

    def __init__(self, *, site_url: str, api_url: str, client_id: str, client_secret: str) -> None:
        self._site = site_url.rstrip("/")
        self._api = api_url.rstrip("/")
        self._id = client_id
        self._secret = client_secret

    def sign_in_url(self, *, redirect: str, state: str, verifier: str, teams: bool) -> str:
        """Where the browser goes. ``verifier`` is ours to keep until the code comes back; ``teams``: whether they will
        be asked for."""
        asked = {
            "client_id": self._id,
            "redirect_uri": redirect,
            "state": state,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
            "allow_signup": "false",
        }
        if teams:
            asked["scope"] = "read:org"
        return f"{self._site}/login/oauth/authorize?{urlencode(asked)}"

    def person(self, *, code: str, redirect: str, verifier: str, teams: bool) -> Person:
        """Who it is that came back with ``code``. Unauthorized when GitHub does not take it, Unavailable when GitHub
        does not answer."""
        with make_http(self._api) as http:
            token = self._token(http, code=code, redirect=redirect, verifier=verifier)
            who = self._ask(http, token, "/user")
            number, login = who.get("id"), who.get("login")
            if not isinstance(number, int) or not 0 < number <= MAX_ID or not isinstance(login, str) or not login:
                raise Unavailable("GitHub did not say who this is", AGAIN)
            return Person(number, login[:255], frozenset(self._teams(http, token)) if teams else frozenset())

    def _token(self, http: httpx2.Client, *, code: str, redirect: str, verifier: str) -> str:
        form = {
            "client_id": self._id,
            "client_secret": self._secret,
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        url = f"{self._site}/login/oauth/access_token"
        answer = exchange(http, "POST", url, now=time.time(), data=form, headers={"Accept": "application/json"})
        body = answer.body if isinstance(answer.body, dict) else {}
        token = body.get("access_token")
        if isinstance(token, str) and token:
            return token
        # GitHub says what is wrong with a code in an answer of 200
        if "error" in body or answer.reply.status in (400, 401, 403, 404):
            raise Unauthorized("GitHub did not take the code of this sign-in", AGAIN)
        raise Unavailable(f"GitHub did not answer a sign-in: {answer.reply.detail[:200]}", "try again a little later")

    def _teams(self, http: httpx2.Client, token: str) -> Iterable[str]:
        for page in range(1, MOST_PAGES + 1):
            found = self._ask(http, token, f"/user/teams?per_page={PER_PAGE}&page={page}", list)
            for team in found:
                yield f"{team['organization']['login']}/{team['slug']}".casefold()
            if len(found) < PER_PAGE:
                return

    def _ask(self, http: httpx2.Client, token: str, path: str, kind: type = dict) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        answer: Answer = exchange(http, "GET", self._api + path, now=time.time(), headers=headers)
        if not isinstance(answer.body, kind):
            said = answer.reply.detail[:200]
            raise Unavailable(f"GitHub did not answer a sign-in: {said}", "try again a little later")
        return answer.body


def challenge(verifier: str) -> str:
    """PKCE's S256 of a verifier (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")
