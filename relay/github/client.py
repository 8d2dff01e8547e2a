"""GitHub's REST API as the App: one call an effect, and the reads that effects need.

Nothing here retries or sleeps: what came back is a Reply, and relay.domain.retry says what to do. Safe for threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from relay.github.app import App, NotSent, repo_path
from relay.github.http import Answer, exchange, foreign, make_http

__all__ = ["Answer", "GitHub", "NotSent", "exchange", "make_http"]

DISPATCH = {"contents": "write"}
CHECKS = {"checks": "write"}
RUNS = {"actions": "read"}
ACTIONS = {"actions": "write"}
COMMENTS = {"pull_requests": "write"}
PULLS = {"pull_requests": "read"}
PAGE = 100


class GitHub(App):
    """The App's effects on repositories (``repo``: owner/name). Every method raises NotSent."""

    def _on_repo(self, repo: str, permissions: Mapping[str, str], method: str, path: str, **request: Any) -> Answer:
        answer = self.call(method, f"/repos/{repo_path(repo)}{path}", self.token(repo, permissions), **request)
        if answer.reply.status in (401, 404):
            self.forget(repo)  # revoked, or the App was installed anew
        if method == "GET" and answer.reply.foreign:
            raise NotSent(replace(answer.reply, status=None, reached=False))  # as good as no answer
        if answer.location is not None:
            return replace(answer, reply=replace(answer.reply, moved=self.moved_to(answer.location)))
        return answer

    # ------------------------------------------------------------------------------------------------------ effects

    def dispatch(self, repo: str, body: str) -> Answer:
        """POST /repos/{repo}/dispatches. ``body`` is the JSON as it was measured."""
        headers = {"Content-Type": "application/json"}
        return self._on_repo(repo, DISPATCH, "POST", "/dispatches", content=body.encode(), headers=headers)

    def create_check_run(self, repo: str, body: Mapping[str, Any]) -> Answer:
        return _numbered(self._on_repo(repo, CHECKS, "POST", "/check-runs", json=body))

    def update_check_run(self, repo: str, check_run_id: str, body: Mapping[str, Any]) -> Answer:
        return self._on_repo(repo, CHECKS, "PATCH", f"/check-runs/{quote(check_run_id, safe='')}", json=body)

    def create_comment(self, repo: str, number: int, text: str) -> Answer:
        """A comment on a pull request."""
        return _numbered(self._on_repo(repo, COMMENTS, "POST", f"/issues/{number}/comments", json={"body": text}))

    def update_comment(self, repo: str, comment_id: str, text: str) -> Answer:
        path = f"/issues/comments/{quote(comment_id, safe='')}"
        return self._on_repo(repo, COMMENTS, "PATCH", path, json={"body": text})

    def delete_comment(self, repo: str, comment_id: str) -> Answer:
        """404: it is gone already."""
        return self._on_repo(repo, COMMENTS, "DELETE", f"/issues/comments/{quote(comment_id, safe='')}")

    def cancel_run(self, repo: str, run_id: str) -> Answer:
        """Cancels a workflow run; 409: it has ended by itself."""
        return self._on_repo(repo, ACTIONS, "POST", f"/actions/runs/{quote(run_id, safe='')}/cancel")

    def rerun(self, repo: str, run_id: str, *, failed_only: bool) -> Answer:
        """Runs a workflow run's jobs again, all or the failed ones."""
        what = "rerun-failed-jobs" if failed_only else "rerun"
        return self._on_repo(repo, ACTIONS, "POST", f"/actions/runs/{quote(run_id, safe='')}/{what}")

    # -------------------------------------------------------------------------------------------------------- reads

    def check_runs(self, repo: str, sha: str, name: str) -> Answer:
        """All check runs called ``name`` on a commit, newest first."""
        params = {"check_name": name, "filter": "all", "per_page": str(PAGE)}
        answer = self._on_repo(repo, CHECKS, "GET", f"/commits/{quote(sha, safe='')}/check-runs", params=params)
        return Answer(answer.reply, _list(answer, answer.body, "check_runs"))

    def comments(self, repo: str, number: int, since: str) -> Answer:
        """Comments of a pull request that were made or changed since (ISO 8601), oldest first."""
        params = {"since": since, "per_page": str(PAGE)}
        answer = self._on_repo(repo, COMMENTS, "GET", f"/issues/{number}/comments", params=params)
        return Answer(answer.reply, _list(answer, {"all": answer.body}, "all"))

    def dispatched_runs(self, repo: str, since: str) -> Answer:
        """Workflow runs that a repository_dispatch started since ``since`` (ISO 8601). NotSent also where the App may
        not read them."""
        params = {"event": "repository_dispatch", "created": f">={since}", "per_page": str(PAGE)}
        answer = self._on_repo(repo, RUNS, "GET", "/actions/runs", params=params)
        return Answer(answer.reply, _list(answer, answer.body, "workflow_runs"))

    def run(self, repo: str, run_id: str) -> Answer:
        """A workflow run: its status, its attempt."""
        return self._on_repo(repo, ACTIONS, "GET", f"/actions/runs/{quote(run_id, safe='')}")

    def pull(self, repo: str, number: int) -> Answer:
        """A pull request, for its head."""
        return self._on_repo(repo, PULLS, "GET", f"/pulls/{number}")


def _numbered(answer: Answer) -> Answer:
    """What was made has a number: an answer without one is not GitHub's, and without it the next one would make it a
    second time."""
    made = answer.reply.status is not None and 200 <= answer.reply.status < 300
    number = answer.body.get("id") if isinstance(answer.body, dict) else None
    return foreign(answer) if made and not isinstance(number, int) else answer


def _list(answer: Answer, body: Any, key: str) -> list[dict[str, Any]]:
    """The rows of a list. Raises NotSent where a success has none: nothing found and nothing said are two things."""
    rows = body.get(key) if isinstance(body, dict) else None
    if not isinstance(rows, list):
        if answer.reply.status == 200:
            detail = f"{answer.reply.detail[:200]}: no list of {key}"
            raise NotSent(replace(answer.reply, status=None, reached=False, detail=detail))
        return []
    return [row for row in rows if isinstance(row, dict)]
