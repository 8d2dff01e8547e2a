"""The GitHub App: its tokens, cached and no wider than what they are for, and where it is installed.

One call lists every installation; one call makes a token for a repository, which is good for most of an hour.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import jwt

from relay.domain.retry import Moved, Reply
from relay.github.http import Answer, exchange, githubs, make_http
from relay.github.true_time import TrueTime

RENEW_S = 300.0
"""A token is renewed this long before it expires."""
APP_TOKEN_S = 480
"""How long a token of the App itself is good for; GitHub takes ten minutes at most."""
APP_RENEW_S = 60.0
ALGORITHM = "RS256"
LIST_EVERY_S = 30.0
"""An owner who is on no list is not looked for more often."""
PAGE = 100
MAX_PAGES = 50


class NotSent(Exception):
    """The effect's own request never left: no connection, no token, no installation. ``reply`` says why."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.detail)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    expires_at: float


class App:
    """The App at ``api_url``. ``clock`` gives seconds since the epoch (tokens are signed and expire by it); without one
    it is GitHub's, as its answers tell it. Safe for threads."""

    def __init__(
        self,
        api_url: str,
        app_id: str,
        private_key: str | Callable[[], str],
        *,
        http: httpx2.Client | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.api_url = api_url.rstrip("/")
        self.app_id = app_id
        self._pem = private_key if callable(private_key) else lambda: private_key
        self._read = ""
        self._private_key: Any = None
        self._app_token: _Token | None = None
        self._signing = threading.Lock()
        self._http = http or make_http(api_url)
        self._time = TrueTime()
        self._clock = clock or self._time
        self._guard = threading.Lock()
        self._listing = threading.Lock()
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._tokens: dict[tuple[str, str], _Token] = {}
        self._installations: dict[str, int] = {}
        self._listed_at = float("-inf")

    def close(self) -> None:
        self._http.close()

    def prepare(self, repo: str, permissions: Mapping[str, str]) -> None:
        """Makes sure that a token for ``permissions`` on ``repo`` (owner/name) is at hand. Raises NotSent."""
        self.token(repo, permissions)

    def heard(self, date: float | None) -> None:
        """An answer of GitHub's says that it is ``date`` there (seconds since the epoch)."""
        self._time.heard(date)

    def app_token(self) -> str:
        """A token of the App itself, good for some minutes. Raises NotSent when it cannot be signed."""
        with self._signing:
            now = self._clock()
            if (pem := self._pem()) != self._read:  # it was rotated
                self._read, self._private_key, self._app_token = pem, None, None
            token = self._app_token
            # a clock that was set back must not keep one that GitHub takes to be of the future
            if token is None or not token.expires_at - APP_TOKEN_S <= now < token.expires_at - APP_RENEW_S:
                self._app_token = token = self._sign(now)
            return token.text

    def _sign(self, now: float) -> _Token:
        try:
            # reading the key checks it, which takes 90 ms: a hundred cold tokens would wait for each other
            if self._private_key is None:
                self._private_key = jwt.get_algorithm_by_name(ALGORITHM).prepare_key(self._read)
            # a minute back, for clocks that differ
            claims = {"iat": int(now) - 60, "exp": int(now) + APP_TOKEN_S, "iss": self.app_id}
            return _Token(jwt.encode(claims, self._private_key, algorithm=ALGORITHM), now + APP_TOKEN_S)
        except (jwt.PyJWTError, ValueError, TypeError) as exc:
            detail = f"github_private_key: cannot sign as App {self.app_id or '(github_app_id is not set)'}: {exc}"
            raise NotSent(Reply(401, reached=False, detail=detail, auth=True)) from exc

    def forget(self, repo: str) -> None:
        """Throws away what is cached about ``repo``, after an answer that says it is stale."""
        key, owner = repo.casefold(), repo.partition("/")[0].casefold()
        with self._guard:
            self._installations.pop(owner, None)
            for known in [known for known in self._tokens if known[0] == key]:
                del self._tokens[known]

    def token(self, repo: str, permissions: Mapping[str, str]) -> str:
        """A token for ``permissions`` on ``repo`` alone. Raises NotSent."""
        key = (repo.casefold(), json.dumps(permissions, sort_keys=True))
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:  # single flight: the senders of one repository wait for one token
            with self._guard:
                token = self._tokens.get(key)
            if token is None or token.expires_at - RENEW_S <= self._clock():
                token = self._token_for(repo, permissions)
                with self._guard:
                    self._tokens[key] = token
            return token.text

    def moved_to(self, location: str) -> Moved | None:
        """The repository behind a redirect of one that was renamed or transferred; None where nobody says. Raises
        NotSent for want of a connection."""
        parts = urlsplit(location)
        words = parts.path.removeprefix(urlsplit(self.api_url).path).strip("/").split("/")
        if len(words) < 2 or words[0] != "repositories" or not (words[1].isascii() and words[1].isdigit()):
            return None
        if parts.netloc and parts.netloc != urlsplit(self.api_url).netloc:
            return None  # our tokens go to GitHub and to nobody else
        number = int(words[1])
        try:
            found = self._as_app("GET", f"/repositories/{number}/installation")
            if not isinstance(found, dict) or not isinstance(found.get("id"), int):
                return None
            token = self._make_token(found["id"], {"repository_ids": [number]}, {"metadata": "read"})
        except NotSent as exc:
            if exc.reply.status is None or exc.reply.status >= 500 or exc.reply.foreign:
                raise
            return None
        said = self.call("GET", f"/repositories/{number}", token.text).body
        name = said.get("full_name") if isinstance(said, dict) else None
        return Moved(number, name) if isinstance(name, str) and "/" in name else None

    def call(self, method: str, path: str, token: str, *, auth: bool = False, **request: Any) -> Answer:
        """One request with a token; ``auth``: it is made for a token and not for an effect."""
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            **request.pop("headers", {}),
        }
        url = self.api_url + path
        answer = exchange(
            self._http, method, url, now=self._clock(), auth=auth, own=githubs, headers=headers, **request
        )
        if not answer.reply.foreign:
            self._time.heard(answer.date)
        return answer

    def _make_token(self, installation: int, which: Mapping[str, Any], permissions: Mapping[str, str]) -> _Token:
        path = f"/app/installations/{installation}/access_tokens"
        body = self._as_app("POST", path, json={**which, "permissions": dict(permissions)})
        try:
            expires = datetime.fromisoformat(body["expires_at"]).timestamp()
            return _Token(str(body["token"]), expires)
        except (KeyError, TypeError, ValueError) as exc:
            raise NotSent(Reply(None, reached=False, detail=f"POST {path}: no token in the answer", auth=True)) from exc

    def _token_for(self, repo: str, permissions: Mapping[str, str]) -> _Token:
        owner, _, name = repo.partition("/")
        try:
            return self._make_token(self._installation(owner), {"repositories": [name]}, permissions)
        except NotSent as exc:
            if exc.reply.status not in (404, 422) or exc.reply.foreign:
                raise
            refusal = exc
        # the list may be old, and the repository may have another name: GitHub says so when asked for this one
        answer = self.call("GET", f"/repos/{repo_path(repo)}/installation", self.app_token(), auth=True)
        moved = self.moved_to(answer.location) if answer.location is not None else None
        if moved is not None:
            detail = f"{repo} is called {moved.name} now"
            raise NotSent(Reply(301, reached=False, detail=detail, auth=True, moved=moved)) from refusal
        number = answer.body.get("id") if isinstance(answer.body, dict) else None
        with self._guard:
            if not isinstance(number, int) or self._installations.get(owner.casefold()) == number:
                raise refusal
            self._installations[owner.casefold()] = number
        return self._make_token(number, {"repositories": [name]}, permissions)

    def _installation(self, owner: str) -> int:
        """The owner's installation: from the list of all, which is read again for an owner who is not on it."""
        key = owner.casefold()
        with self._listing:
            with self._guard:
                known = self._installations.get(key)
            if known is None and time.monotonic() - self._listed_at >= LIST_EVERY_S:
                self._list()
                self._listed_at = time.monotonic()
                with self._guard:
                    known = self._installations.get(key)
        if known is None:
            detail = f"GET /app/installations: the App is not installed at {owner}"
            raise NotSent(Reply(404, reached=False, detail=detail, auth=True))
        return known

    def _list(self) -> None:
        found: dict[str, int] = {}
        for page in range(1, MAX_PAGES + 1):
            rows = self._as_app("GET", "/app/installations", params={"per_page": str(PAGE), "page": str(page)})
            if not isinstance(rows, list):
                detail = "GET /app/installations: not a list"
                raise NotSent(Reply(None, reached=False, detail=detail, auth=True))
            for row in rows:
                account = row.get("account") if isinstance(row, dict) else None
                if isinstance(account, dict) and isinstance(row.get("id"), int):
                    found[str(account.get("login")).casefold()] = row["id"]
            if len(rows) < PAGE:
                break
        with self._guard:
            self._installations.update(found)

    def _as_app(self, method: str, path: str, **request: Any) -> Any:
        answer = self.call(method, path, self.app_token(), auth=True, **request)
        if answer.reply.status is None or not 200 <= answer.reply.status < 300 or answer.reply.foreign:
            raise NotSent(answer.reply)
        return answer.body


def repo_path(repo: str) -> str:
    owner, _, name = repo.partition("/")
    return f"{quote(owner, safe='')}/{quote(name, safe='')}"
