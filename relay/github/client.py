"""GitHub's REST API as a GitHub App: one call an effect, tokens cached and no wider than the effect needs.

Nothing here retries or sleeps: what came back is a Reply, and relay.domain.retry says what to do. Safe for threads.
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

from relay import __version__
from relay.domain.retry import Reply, wait_asked

TIMEOUT = httpx2.Timeout(connect=2.0, write=2.0, read=8.0, pool=1.0)
"""Sum 13 s: the longest one call can take, below relay.store.outbox.CLAIM_S."""
RENEW_S = 300.0
"""A token is renewed this long before it expires."""
ANSWER_LIMIT = 1000

DISPATCH = {"contents": "write"}
CHECKS = {"checks": "write"}
RUNS = {"actions": "read"}


class NotSent(Exception):
    """The effect's own request never left: no connection, no token, no installation. ``reply`` says why."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.detail)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request came to; ``body`` is the JSON of a success."""

    reply: Reply
    body: Any = None


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    expires_at: float


def exchange(http: httpx2.Client, method: str, url: str, *, now: float, auth: bool = False, **request: Any) -> Answer:
    """One HTTP request as an Answer; transport errors are answers too."""
    try:
        response = http.request(method, url, **request)
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
        return Answer(Reply(None, reached=False, detail=_describe(exc), auth=auth))
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL, httpx2.LocalProtocolError, httpx2.ProxyError) as exc:
        return Answer(Reply(None, reached=False, detail=_describe(exc), auth=auth))
    except httpx2.HTTPError as exc:
        return Answer(Reply(None, reached=not auth, detail=_describe(exc), auth=auth))
    wait = wait_asked(response.status_code, response.headers, response.text, now)
    body: Any = None
    if response.content:
        try:
            body = response.json()
        except ValueError:
            body = None
    reply = Reply(response.status_code, reached=not auth, retry_after=wait, detail=_said(response, body), auth=auth)
    return Answer(reply, body if response.is_success else None)


def make_http(url: str) -> httpx2.Client:
    """A client for the service at ``url`` with our timeouts and name; connections are kept between senders. A proxy
    from the environment is used, but never for this machine itself."""
    return httpx2.Client(
        timeout=TIMEOUT,
        limits=httpx2.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=60.0),
        headers={"User-Agent": f"crcr-relay/{__version__}"},
        trust_env=urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"),
    )


class GitHub:
    """The App at ``api_url``. ``clock`` gives seconds since the epoch (tokens expire by it)."""

    def __init__(
        self,
        api_url: str,
        app_id: str,
        private_key: str,
        *,
        http: httpx2.Client | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.api_url = api_url.rstrip("/")
        self.app_id = app_id
        self._private_key = private_key
        self._http = http or make_http(api_url)
        self._clock = clock
        self._guard = threading.Lock()
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._tokens: dict[tuple[str, str], _Token] = {}
        self._installations: dict[str, int] = {}

    def close(self) -> None:
        self._http.close()

    # ------------------------------------------------------------------------------------------------------- tokens

    def prepare(self, repo: str, permissions: Mapping[str, str]) -> None:
        """Makes sure that a token for ``permissions`` on ``repo`` (owner/name) is at hand. Raises NotSent."""
        self._token(repo, permissions)

    def token(self, repo: str, permissions: Mapping[str, str]) -> str:
        """A token for ``permissions`` on ``repo``, for reads that are made elsewhere. Raises NotSent."""
        return self._token(repo, permissions)

    def app_token(self) -> str:
        """A token of the App itself, good for some minutes. Raises NotSent when it cannot be signed."""
        now = self._clock()
        try:
            # a minute back, for clocks that differ; GitHub takes ten minutes at most
            claims = {"iat": int(now) - 60, "exp": int(now) + 480, "iss": self.app_id}
            return jwt.encode(claims, self._private_key, algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError) as exc:
            detail = f"github_private_key: cannot sign as App {self.app_id or '(github_app_id is not set)'}: {exc}"
            raise NotSent(Reply(401, reached=False, detail=detail, auth=True)) from exc

    def forget(self, repo: str) -> None:
        """Throws away what is cached about ``repo``, after an answer that says it is stale."""
        key = repo.casefold()
        with self._guard:
            self._installations.pop(key, None)
            for known in [known for known in self._tokens if known[0] == key]:
                del self._tokens[known]

    def _token(self, repo: str, permissions: Mapping[str, str]) -> str:
        key = (repo.casefold(), json.dumps(permissions, sort_keys=True))
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:  # single flight: the senders of one repository wait for one token
            with self._guard:
                token = self._tokens.get(key)
            if token is None or token.expires_at - RENEW_S <= self._clock():
                token = self._fetch_token(repo, permissions)
                with self._guard:
                    self._tokens[key] = token
            return token.text

    def _fetch_token(self, repo: str, permissions: Mapping[str, str]) -> _Token:
        name = repo.partition("/")[2]
        path = f"/app/installations/{self._installation(repo)}/access_tokens"
        body = self._as_app("POST", path, json={"repositories": [name], "permissions": dict(permissions)})
        try:
            expires = datetime.fromisoformat(body["expires_at"]).timestamp()
            return _Token(str(body["token"]), expires)
        except (KeyError, TypeError, ValueError) as exc:
            raise NotSent(Reply(None, reached=False, detail=f"POST {path}: no token in the answer", auth=True)) from exc

    def _installation(self, repo: str) -> int:
        key = repo.casefold()
        with self._guard:
            known = self._installations.get(key)
        if known is not None:
            return known
        path = f"/repos/{_path(repo)}/installation"
        body = self._as_app("GET", path)
        if not isinstance(body, dict) or not isinstance(body.get("id"), int):
            raise NotSent(Reply(None, reached=False, detail=f"GET {path}: no installation id in the answer", auth=True))
        with self._guard:
            self._installations[key] = body["id"]
        return int(body["id"])

    def _as_app(self, method: str, path: str, **request: Any) -> Any:
        token = self.app_token()
        answer = self._call(method, path, token, auth=True, **request)
        if answer.reply.status is None or not 200 <= answer.reply.status < 300:
            raise NotSent(answer.reply)
        return answer.body

    def _call(self, method: str, path: str, token: str, *, auth: bool = False, **request: Any) -> Answer:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            **request.pop("headers", {}),
        }
        url = self.api_url + path
        return exchange(self._http, method, url, now=self._clock(), auth=auth, headers=headers, **request)

    def _on_repo(self, repo: str, permissions: Mapping[str, str], method: str, path: str, **request: Any) -> Answer:
        answer = self._call(method, f"/repos/{_path(repo)}{path}", self._token(repo, permissions), **request)
        if answer.reply.status in (401, 404):
            self.forget(repo)  # revoked, or the App was installed anew
        return answer

    # ------------------------------------------------------------------------------------------------------ effects

    def dispatch(self, repo: str, body: str) -> Answer:
        """POST /repos/{repo}/dispatches. ``body`` is the JSON as it was measured. Raises NotSent."""
        headers = {"Content-Type": "application/json"}
        return self._on_repo(repo, DISPATCH, "POST", "/dispatches", content=body.encode(), headers=headers)

    def create_check_run(self, repo: str, body: Mapping[str, Any]) -> Answer:
        """Raises NotSent."""
        return self._on_repo(repo, CHECKS, "POST", "/check-runs", json=body)

    def update_check_run(self, repo: str, check_run_id: str, body: Mapping[str, Any]) -> Answer:
        """Raises NotSent."""
        return self._on_repo(repo, CHECKS, "PATCH", f"/check-runs/{quote(check_run_id, safe='')}", json=body)

    # ------------------------------------------------------------------------------------- reads, after a send in doubt

    def check_runs(self, repo: str, sha: str, name: str) -> Answer:
        """All check runs called ``name`` on a commit, newest first. Raises NotSent."""
        params = {"check_name": name, "filter": "all", "per_page": "100"}
        answer = self._on_repo(repo, CHECKS, "GET", f"/commits/{quote(sha, safe='')}/check-runs", params=params)
        return Answer(answer.reply, _list(answer.body, "check_runs"))

    def dispatched_runs(self, repo: str, since: str) -> Answer:
        """Workflow runs that a repository_dispatch started since ``since`` (ISO 8601). Raises NotSent, also where the
        App may not read them."""
        params = {"event": "repository_dispatch", "created": f">={since}", "per_page": "100"}
        answer = self._on_repo(repo, RUNS, "GET", "/actions/runs", params=params)
        return Answer(answer.reply, _list(answer.body, "workflow_runs"))


def _list(body: Any, key: str) -> list[dict[str, Any]]:
    rows = body.get(key) if isinstance(body, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _path(repo: str) -> str:
    owner, _, name = repo.partition("/")
    return f"{quote(owner, safe='')}/{quote(name, safe='')}"


def _describe(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}"[:ANSWER_LIMIT]


def _said(response: httpx2.Response, body: Any) -> str:
    request = response.request
    message = body.get("message") if isinstance(body, dict) else None
    text = message if isinstance(message, str) else response.text
    where = f" (to {response.headers['location']})" if "location" in response.headers else ""
    return f"{request.method} {request.url.path}: {response.status_code}{where} {text}".strip()[:ANSWER_LIMIT]
