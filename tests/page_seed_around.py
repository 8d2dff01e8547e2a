"""What lies around the runs of a busy year: deliveries, pull requests, effects, rows of other dashboards, workers,
levels, quarantine, names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from page_seed_runs import DAY, Runs

from relay.domain.readiness import Readiness


class Around:
    def __init__(self, runs: Runs) -> None:
        self.size, self.now = runs.size, runs.now
        self.backends, self.tests, self.dispatches = runs.backends, runs.tests, runs.dispatches

    def deliveries(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.dispatches):
            yield {
                "id": row["delivery_id"],
                "event": row["event"],
                "action": row["action"],
                "repo": row["upstream"],
                "received_at": row["created_at"] - 1,
                "state": "routed",
                "code": "routed",
                "attempts": 1,
            }
            for extra in range(3):
                yield {
                    "id": f"ignored-{n:08}-{extra}",
                    "event": "issue_comment",
                    "action": "created",
                    "repo": row["upstream"],
                    "received_at": row["created_at"] - 2,
                    "state": "ignored",
                    "code": "event-not-wanted",
                    "reason": "the relay has no use for it",
                    "attempts": 0,
                }

    def pulls(self) -> Iterator[dict[str, Any]]:
        seen = set()
        for row in reversed(self.dispatches):
            if row["pr_number"] is None or row["pr_number"] in seen:
                continue
            seen.add(row["pr_number"])
            yield {
                "upstream_key": "pytorch/pytorch",
                "number": row["pr_number"],
                "title": row["pr_title"],
                "author": row["author"],
                "head_sha": row["head_sha"],
                "base_ref": "main",
                "labels": [],
                "draft": False,
                "open": True,
                "told_at": "2026-11-29T00:00:00Z",
                "heard_at": row["created_at"],
            }

    def effects(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.dispatches):
            for k, kind in enumerate(("dispatch", "check_run", "check_run", "hud")):
                id = 4 * n + k + 1
                state = "parked" if id % 997 == 0 else "sent"
                yield {
                    "id": id,
                    "key": f"{kind}:{id}",
                    "kind": kind,
                    "stream": f"{kind}:{row['id']}",
                    "dispatch_id": row["id"],
                    "target": row["upstream" if kind == "check_run" else "downstream"],
                    "payload": {"big": "x" * 300},
                    "state": state,
                    "due_at": None,
                    "not_before": 0.0,
                    "attempts": 1,
                    "ambiguous": False,
                    "last_status": 404 if state == "parked" else 204,
                    "created_at": row["created_at"],
                    "last_error": "the repository is gone, or the app may not write to it"
                    if state == "parked"
                    else None,
                    "sent_at": row["created_at"] + 1,
                }

    def hud_rows(self) -> Iterator[dict[str, Any]]:
        for n in range(4 * self.size.runs):
            at = self.now - self.size.days * DAY * (4 * self.size.runs - n) / (4 * self.size.runs)
            repo = f"elsewhere-{n % 30:02}/backend"
            yield {
                "key": f"{repo}/{n}/CI/unit/{n}",
                "repo": repo,
                "repo_key": repo,
                "level": "L2",
                "event": "pull_request",
                "delivery_id": f"far-{n:08}",
                "upstream": "pytorch/pytorch",
                "pr_number": 150_000 + n % 900,
                "head_sha": hashlib.sha1(f"far {n // 20}".encode(), usedforsecurity=False).hexdigest(),
                "workflow": "CI",
                "job": f"unit-{n % 7}",
                "run_id": str(n),
                "attempt": 1,
                "check_run_id": str(n),
                "status": "completed",
                "conclusion": "failure" if n % 9 == 0 else "success",
                "queue_s": 12.0,
                "execution_s": 300.0,
                "url": "https://ci.example/run",
                "results": None,
                "body": {"k": "v" * 100},
                "created_at": at,
                "updated_at": at,
            }

    def workers(self) -> Iterator[dict[str, Any]]:
        for n in range(40):
            yield {
                "name": f"emulator-{n}",
                "device": "spyre",
                "queue": "shards.spyre",
                "torch": "2.13.0",
                "runtimes": ["overlay"],
                "info": {},
                "seen_at": self.now - (3 if n < 30 else 9000),
            }

    def levels(self) -> Iterator[dict[str, Any]]:
        for name in self.backends:
            ours = name == self.backends[0]
            level, above = ("L4", None) if ours else ("L2", "L3")
            lacks = () if ours else ("pass rate 83 %, asked for: at least 90 %",)
            measured = Readiness(level, above, 120, 0.93 if ours else 0.83, 40.0, 0.0, 900.0, 0.0, lacks, ())
            yield {
                "downstream_key": name,
                "downstream": name,
                "level": level,
                "measured": measured.as_map(),
                "updated_at": self.now,
            }

    def quarantined(self) -> Iterator[dict[str, Any]]:
        for n in range(20):
            yield {
                "id": n + 1,
                "device": "spyre",
                "test": self.tests[n],
                "variant": "",
                "reason": "races",
                "evidence": "",
                "issue": "a/b#1",
                "until": self.now + DAY,
                "created_at": self.now - DAY,
            }

    def proposals(self) -> Iterator[dict[str, Any]]:
        for n in range(30):
            yield {
                "id": n + 1,
                "key": f"{n:064}",
                "device": "spyre",
                "kind": "promote",
                "subject": self.tests[n],
                "reason": "passed 30 times",
                "evidence": [],
                "issue": "",
                "until": "",
                "state": "open",
                "created_at": self.now - DAY,
                "updated_at": self.now - n,
            }

    def names(self) -> Iterator[dict[str, Any]]:
        for name in self.tests:
            path, owner, method = name.split("::")
            yield {
                "test": name,
                "file_key": path.rpartition("/")[2],
                "class_key": owner.casefold(),
                "method_key": method,
            }

    def audit(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.dispatches):
            yield {
                "id": n + 1,
                "at": row["created_at"],
                "actor": "relay",
                "action": "dispatch.sent",
                "target": row["downstream"],
                "detail": {},
                "dispatch_id": row["id"],
            }
