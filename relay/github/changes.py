"""Proposing a change to a repository: a branch, the files, a pull request. It is never merged from here: there is no
call for it, and the token's owner is an App that reviewers see as such.

Several calls, each of which may be found done already: the branch's name says what is proposed, so whoever tries again
goes on where the last one stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from github import Auth, Github, GithubException, UnknownObjectException
from github.Repository import Repository

from relay import __version__
from relay.domain.retry import Reply, wait_asked
from relay.github.http import Answer

PROPOSE = {"contents": "write", "pull_requests": "write"}
TIMEOUT_S = 8
BLOB_MAX = 1 << 20
THERE = "already exists"


class Outdated(Exception):
    """The file is no longer what the change was made for: whoever asked has to look again."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """``before``: sha256 of the text that the change was made for, "" for a new file."""

    path: str
    before: str
    text: str


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def propose(
    api_url: str,
    token: str,
    repo: str,
    *,
    base: str,
    branch: str,
    files: Sequence[FileEdit],
    title: str,
    body: str,
    now: float,
) -> Answer:
    """Opens the pull request, or finds it open (or closed: somebody has said no, and it is not opened again). The
    answer's body is ``{number, html_url, state}``. Raises Outdated."""
    # nothing is tried again or slept over in here: relay.domain.retry decides
    client = Github(
        auth=Auth.Token(token),
        base_url=api_url,
        timeout=TIMEOUT_S,
        user_agent=f"crcr-relay/{__version__}",
        retry=None,
        seconds_between_requests=None,
        seconds_between_writes=None,
        lazy=True,
    )
    try:
        return _propose(client.get_repo(repo), repo, base, branch, files, title, body)
    except GithubException as exc:
        headers = {str(k).lower(): str(v) for k, v in (exc.headers or {}).items()}
        told = str(exc.data.get("message") if isinstance(exc.data, Mapping) else exc.data or exc.message)
        wait = wait_asked(exc.status, headers, told, now)
        return Answer(Reply(exc.status, retry_after=wait, detail=f"{exc.status} {told}"[:1000]))
    except requests.ConnectionError as exc:
        return Answer(Reply(None, reached=True, detail=f"{type(exc).__name__}: {exc}"[:1000]))
    except requests.RequestException as exc:
        return Answer(Reply(None, reached=True, detail=f"{type(exc).__name__}: {exc}"[:1000]))
    finally:
        client.close()


def _propose(
    repository: Repository, repo: str, base: str, branch: str, files: Sequence[FileEdit], title: str, body: str
) -> Answer:
    owner = repo.partition("/")[0]
    for pull in repository.get_pulls(state="all", head=f"{owner}:{branch}", base=base):
        return Answer(Reply(200, detail="it was proposed before"), _told(pull))
    tip = repository.get_git_ref(f"heads/{base}").object.sha
    try:
        repository.create_git_ref(f"refs/heads/{branch}", tip)
    except GithubException as exc:
        if exc.status != 422 or THERE not in str(exc.data):  # an earlier try came as far as this
            raise
    for edit in files:
        _write(repository, branch, edit, title)
    return Answer(Reply(201), _told(repository.create_pull(base, branch, title=title, body=body)))


def _write(repository: Repository, branch: str, edit: FileEdit, message: str) -> None:
    try:
        there = repository.get_contents(edit.path, ref=branch)
    except UnknownObjectException:
        if edit.before:
            raise Outdated(f"{edit.path} is not in the repository any more") from None
        repository.create_file(edit.path, message, edit.text, branch=branch)
        return
    if isinstance(there, list) or there.size > BLOB_MAX:
        raise Outdated(f"{edit.path} is not a file of at most {BLOB_MAX} bytes")
    text = there.decoded_content.decode("utf-8")
    if text == edit.text:
        return
    if digest(text) != edit.before:
        raise Outdated(f"{edit.path} has changed since the proposal was made")
    repository.update_file(edit.path, message, edit.text, there.sha, branch=branch)


def _told(pull: Any) -> dict[str, Any]:
    return {"number": pull.number, "html_url": pull.html_url, "state": pull.state}
