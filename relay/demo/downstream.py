"""A downstream repository's own CI, as the local GitHub runs it on a ``repository_dispatch`` (executor ``github``).

It does what the callback action does in a real workflow: asks for an OIDC token, reports ``in_progress``, tests, and
reports ``completed``, each with retries. A dispatch key that it has seen starts nothing and is counted.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from relay.demo.ledger import AUDIENCE, Ledger, stamp

WORKFLOW = "Backend CI"
JOB = "smoke (py3.11)"
ATTEMPTS = 8


@dataclass
class DownstreamCI:
    """The CI of ``repo``; reports to ``callback_url``. ``work_s``: how long its tests take, in seconds."""

    repo: str
    callback_url: str
    ledger: Ledger
    work_s: float = 2.0
    results: dict[str, int] = field(default_factory=lambda: {"passed": 41, "failed": 0, "skipped": 3, "total": 44})
    seen: Counter[str] = field(default_factory=Counter)
    callbacks: list[dict[str, Any]] = field(default_factory=list)
    """every report sent: run, status, attempt, at, http (status code or None), error, answer"""
    random: Callable[[], float] = random.random
    http: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(timeout=10, trust_env=False))

    async def started(self, key: str, event_type: str, payload: dict[str, Any]) -> None:
        """One dispatch: makes the workflow run and carries it to its end. Never raises: errors are in ``callbacks``."""
        self.seen[key] += 1
        run_id, check_run_id = self.ledger.next_id(), self.ledger.next_id()
        now = stamp(self.ledger.clock())
        run: dict[str, Any] = {
            "id": run_id,
            "name": WORKFLOW,
            # the workflow's run-name is the dispatch key: that is how a sender in doubt finds its run again
            "display_title": key,
            "event": "repository_dispatch",
            "status": "in_progress",
            "conclusion": None,
            "run_number": len(self.ledger.runs) + 1,
            "run_attempt": 1,
            "head_branch": "main",
            "head_sha": f"{self.ledger.next_id():040x}",
            "path": ".github/workflows/ci.yml",
            "html_url": f"https://github.com/{self.repo}/actions/runs/{run_id}",
            "created_at": now,
            "updated_at": now,
            "repository": {"full_name": self.repo},
            "repo": self.repo,
        }
        self.ledger.runs[run_id] = run
        if self.seen[key] > 1:
            run.update(status="completed", conclusion="skipped")
            return
        workflow = {
            "schema_version": "1",
            "status": "in_progress",
            "conclusion": None,
            "name": WORKFLOW,
            "url": run["html_url"],
            "run_id": str(run_id),
            "run_attempt": "1",
            "job_name": JOB,
            "check_run_id": str(check_run_id),
            "started_at": stamp(self.ledger.clock()),
            "completed_at": None,
        }
        await self._report(run, {**payload, "workflow": workflow})
        await asyncio.sleep(self.work_s)
        conclusion = "failure" if self.results["failed"] else "success"
        done = {
            **workflow,
            "status": "completed",
            "conclusion": conclusion,
            "started_at": None,
            "completed_at": stamp(self.ledger.clock()),
            "test_results": self.results,
            "artifact_url": f"{run['html_url']}#artifacts",
        }
        await self._report(run, {**payload, "workflow": done})
        run.update(status="completed", conclusion=conclusion, updated_at=stamp(self.ledger.clock()))

    def claims(self, run: dict[str, Any], check_run_id: str) -> dict[str, Any]:
        """The claims GitHub puts into a job's token, but the times and the token's own id."""
        owner = self.repo.split("/")[0]
        ref = f"{self.repo}/{run['path']}@refs/heads/main"
        return {
            "aud": AUDIENCE,
            "sub": f"repo:{self.repo}:ref:refs/heads/main",
            "repository": self.repo,
            "repository_owner": owner,
            "repository_id": str(_number(self.repo)),
            "repository_owner_id": str(_number(owner)),
            "repository_visibility": "public",
            "ref": "refs/heads/main",
            "ref_type": "branch",
            "ref_protected": "true",
            "sha": run["head_sha"],
            "workflow": WORKFLOW,
            "workflow_ref": ref,
            "workflow_sha": run["head_sha"],
            "job_workflow_ref": ref,
            "job_workflow_sha": run["head_sha"],
            "event_name": run["event"],
            "actor": "cross-repo-ci-relay-demo[bot]",
            "actor_id": "9000001",
            "base_ref": "",
            "head_ref": "",
            "run_id": str(run["id"]),
            "run_number": str(run["run_number"]),
            "run_attempt": str(run["run_attempt"]),
            "check_run_id": check_run_id,
            "runner_environment": "self-hosted",
            "environment": "",
        }

    async def _report(self, run: dict[str, Any], body: dict[str, Any]) -> None:
        """Posts one callback until it is answered 2xx or refused for good, backing off as Retry-After asks."""
        status = body["workflow"]["status"]
        # one token a report: its retries carry the same token id and the same body, so they are the same report
        token = self.ledger.mint(self.claims(run, body["workflow"]["check_run_id"]))
        for attempt in range(1, ATTEMPTS + 1):
            note: dict[str, Any] = {"run": run["id"], "status": status, "attempt": attempt, "http": None}
            note["at"] = self.ledger.clock()
            self.callbacks.append(note)
            wait = min(0.25 * 2**attempt, 15.0) * (0.5 + self.random() / 2)
            try:
                answer = await self.http.post(
                    self.callback_url, json=body, headers={"authorization": f"Bearer {token}", "x-demo": "downstream"}
                )
            except httpx2.HTTPError as exc:
                note["error"] = f"{type(exc).__name__}: {exc}"
            else:
                note.update(http=answer.status_code, answer=answer.text[:2000])
                if answer.is_success or (answer.status_code < 500 and answer.status_code not in (408, 409, 425, 429)):
                    return
                given = answer.headers.get("retry-after", "")
                wait = max(wait, float(given)) if given.isdigit() else wait
            await asyncio.sleep(wait)


def _number(name: str) -> int:
    """A stable id for a name, in the range of real ones."""
    return 10_000_000 + sum((i + 1) * byte for i, byte in enumerate(name.casefold().encode()))
