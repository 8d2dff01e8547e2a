"""What the relay reads from GitHub and does not change: files, commits, and the list of its own webhook deliveries.

Reads of a repository use the App's token where it is installed with the right to read contents, and go without one
where it is not: upstream is public. Nothing here retries; what cannot be had now is Unavailable, with the time to wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2

from relay.domain.retry import wait_asked
from relay.errors import Unavailable
from relay.github.client import GitHub, NotSent
from relay.github.true_time import date_of

CONTENTS = {"contents": "read"}
PULLS = {"pull_requests": "read"}
MAX_FILE = 1024 * 1024
PUBLIC_S = 600.0
"""Where the App may not read, it is not asked for a token again for so long."""
PAGE = 100
_BLOB = re.compile(r"/([\w.-]+/[\w.-]+)/blob/([^/?#]+)/([^?#]+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A file on a branch of a repository."""

    repo: str
    ref: str
    path: str


@dataclass(frozen=True, slots=True)
class File:
    """A file's text, and the tag that tells whether it changed; ``text`` None: it did not."""

    text: str | None
    etag: str | None


@dataclass(frozen=True, slots=True)
class HookPage:
    """Some deliveries of the App's webhook, newest first; ``cursor`` leads to older ones, None: there are none."""

    rows: list[dict[str, Any]]
    cursor: str | None


def place_of(url: str, pages: str) -> Place | None:
    """The file behind a page ``owner/repo/blob/ref/path`` of the GitHub whose pages are at ``pages``
    (``https://github.com``); None for anything else."""
    found = _BLOB.fullmatch(url.removeprefix(pages)) if url.startswith(pages) else None
    return Place(found[1], found[2], found[3]) if found else None


class Reader:
    """Reads as ``github``'s App over ``http`` (with its own, shorter, timeouts). Safe for threads."""

    def __init__(self, github: GitHub, http: httpx2.Client, clock: Callable[[], float] = time.time) -> None:
        self._github = github
        self._http = http
        self._clock = clock
        self._public: dict[tuple[str, ...], float] = {}  # repository and right -> until when no token is asked for

    def close(self) -> None:
        self._http.close()
        self._github.close()

    def file(self, place: Place, etag: str | None) -> File:
        """The file, or the news that it is the one of ``etag``. Unavailable; FileNotFoundError when it is not there;
        ValueError when it is no text of at most MAX_FILE bytes."""
        headers = {"Accept": "application/vnd.github.raw+json"}
        if etag:
            headers["If-None-Match"] = etag
        path = f"/contents/{quote(place.path)}"
        answer = self._of_repo(place.repo, path, headers, {"ref": place.ref}, fine=(200, 304, 404))
        if answer.status_code == 404:
            raise FileNotFoundError(f"{place.path} is not on {place.ref} of {place.repo}")
        if answer.status_code == 304:
            return File(None, etag)
        if len(answer.content) > MAX_FILE:
            raise ValueError(f"more than {MAX_FILE} bytes")
        return File(answer.content.decode("utf-8"), answer.headers.get("etag"))

    def folder(self, place: Place) -> list[str]:
        """Names of the files that lie directly in a folder. Unavailable; FileNotFoundError when there is none."""
        answer = self._of_repo(place.repo, f"/contents/{quote(place.path)}", {}, {"ref": place.ref}, fine=(200, 404))
        rows = self._json(answer) if answer.status_code == 200 else None
        if not isinstance(rows, list):
            raise FileNotFoundError(f"{place.path} is no folder of {place.ref} of {place.repo}")
        files = [row for row in rows if isinstance(row, dict) and row.get("type") == "file"]
        return sorted(str(row.get("name")) for row in files)

    def pull(self, repo: str, number: int) -> Any:
        """A pull request as GitHub's API shows it; None: there is none. Unavailable."""
        answer = self._of_repo(repo, f"/pulls/{number}", {}, {}, fine=(200, 404, 410), permissions=PULLS)
        return self._json(answer) if answer.status_code == 200 else None

    def holds(self, repo: str, ref: str, sha: str) -> bool:
        """Whether the branch ``ref`` contains the commit ``sha``. A commit of a fork's pull request, which GitHub
        shows under the same address, is not contained. Unavailable."""
        path = f"/compare/{quote(ref, safe='')}...{quote(sha, safe='')}"
        answer = self._of_repo(repo, path, {}, {"per_page": "1"}, fine=(200, 404, 422))
        if answer.status_code != 200:
            return False
        said = self._json(answer)
        return isinstance(said, dict) and said.get("status") in ("behind", "identical")

    def hook_deliveries(self, cursor: str | None) -> HookPage:
        """A page of the App's webhook deliveries. Unavailable."""
        params = {"per_page": str(PAGE)} | ({"cursor": cursor} if cursor else {})
        answer = self._as_app("GET", "/app/hook/deliveries", params, fine=(200,))
        rows = self._json(answer)
        if not isinstance(rows, list):
            raise Unavailable("GET /app/hook/deliveries: not a list", "try again later")
        more = answer.links.get("next", {}).get("url", "")
        following = parse_qs(urlsplit(more).query).get("cursor", [None])[0]
        return HookPage([row for row in rows if isinstance(row, dict)], following)

    def redeliver(self, number: int) -> bool:
        """Has a delivery sent again. False: GitHub does not have it any more. Unavailable."""
        path = f"/app/hook/deliveries/{number}/attempts"
        return self._as_app("POST", path, {}, fine=(202, 404, 422)).status_code == 202

    def _of_repo(
        self,
        repo: str,
        path: str,
        headers: dict[str, str],
        params: dict[str, str],
        fine: tuple[int, ...],
        permissions: Mapping[str, str] = CONTENTS,
    ) -> httpx2.Response:
        owner, _, name = repo.partition("/")
        whole = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}{path}"
        known = (repo.casefold(), *permissions)
        if not 0 < self._public.get(known, 0.0) - self._clock() <= PUBLIC_S:
            try:
                headers = {**headers, "Authorization": f"Bearer {self._github.token(repo, permissions)}"}
            except NotSent as exc:
                if exc.reply.status not in (401, 403, 404, 422):  # those say that we have no such right
                    raise Unavailable(f"GitHub cannot be asked: {exc.reply.detail}", "try again later") from exc
                self._public[known] = self._clock() + PUBLIC_S
        return self._call("GET", whole, headers, params, fine)

    def _as_app(self, method: str, path: str, params: dict[str, str], fine: tuple[int, ...]) -> httpx2.Response:
        try:
            headers = {"Authorization": f"Bearer {self._github.app_token()}"}
        except NotSent as exc:
            raise Unavailable(f"GitHub cannot be asked: {exc.reply.detail}", "set github_private_key") from exc
        return self._call(method, path, headers, params, fine)

    def _call(
        self, method: str, path: str, headers: dict[str, str], params: dict[str, str], fine: tuple[int, ...]
    ) -> httpx2.Response:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", **headers}
        try:
            answer = self._http.request(method, self._github.api_url + path, headers=headers, params=params)
        except httpx2.HTTPError as exc:
            said = f"{type(exc).__name__}: {exc}"[:200]
            raise Unavailable(f"GitHub cannot be asked: {method} {path}: {said}", "try again later") from exc
        self._github.heard(date_of(answer.headers.get("date")))
        if answer.status_code not in fine:
            wait = wait_asked(answer.status_code, answer.headers, answer.text, self._clock())
            said = f"{method} {path}: {answer.status_code} {answer.text[:200]}"
            extra = {"retry_after": wait} if wait is not None else {}
            raise Unavailable(f"GitHub cannot be asked: {said}", "try again later", **extra)
        return answer

    @staticmethod
    def _json(answer: httpx2.Response) -> Any:
        try:
            return answer.json()
        except ValueError as exc:
            raise Unavailable(f"GitHub's answer is no JSON: {answer.text[:100]!r}", "try again later") from exc
