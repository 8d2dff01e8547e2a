"""The runs of a busy year, and everything that belongs to one: jobs, plans, shards, results, decisions. The same for
the same seed; words are invented, nothing is a measurement."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import page_seed_logs

from relay.artifacts import Artifacts
from relay.services import log_tails
from selector.model import Cause, Conclusion, Outcome, TestId, Verdict
from selector.verify.serialise import to_map

DAY = 86400.0
OPS = ["add", "mm", "logit", "softmax", "clamp", "where", "cat", "sum", "mean", "exp", "bmm", "relu", "sigmoid", "pow"]
LOG = "\n".join(f"  step {n:03}: aten::{OPS[n % len(OPS)]} on spyre, 32 x 128 sticks" for n in range(120))
"""some 6 kB, of the 8 that a worker sends"""
JOBS = ["build", "unit (3.11)", "unit (3.12)", "ops", "distributed", "docs", "nightly wheel"]
CODES = {"failure": "regressions", "success": "passed", "neutral": "nothing-to-run"}
SAYS = {
    "failure": "1 job of 7 failed.",
    "success": "7 jobs passed.",
    "neutral": "It ran nothing: no file that it builds was changed.",
}


@dataclass(frozen=True)
class Size:
    """How much there is. ``tests`` are different tests, shared out over the runs of our own workers."""

    runs: int = 5000
    worker_runs: int = 500
    backends: int = 200
    results: int = 1_000_000
    tests: int = 4000
    days: int = 90


class Runs:
    """What ``Size`` asks for, in rows."""

    def __init__(self, size: Size, now: float, draw: random.Random, store: Artifacts | None) -> None:
        self.size, self.now, self.draw, self.store = size, now, draw, store
        self.tails: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.backends = ["torch-spyre/torch-spyre"] + [
            f"lab-{n:03}/accelerator-{n:03}" for n in range(size.backends - 1)
        ]
        self.tests = [
            f"test/test_part{n % 40:02}.py::TestPart{n % 40:02}::test_{OPS[n % len(OPS)]}_{n:05}"
            for n in range(size.tests)
        ]
        self.dispatches = list(self._dispatches())
        self.ours = [row for row in self.dispatches if row["executor"] == "workers"]
        self.per_run = size.results // max(1, len(self.ours))
        for n, row in enumerate(self.ours):
            verdict = self._verdict(n, row["conclusion"])
            if verdict is not None:
                row |= {"summary": verdict.sentence, "verdict": to_map(verdict), "conclusion": verdict.conclusion.value}
                row["code"] = verdict.code
        self.shards = list(self._shards())

    def _dispatches(self) -> Iterator[dict[str, Any]]:
        size, draw = self.size, self.draw
        every = max(1, size.runs // size.worker_runs)
        at_once = max(1, size.backends // 20)
        for n in range(size.runs):
            at = self.now - size.days * DAY * (size.runs - n) / size.runs - 60
            mine = n % every == 0
            event = n // at_once  # one event goes to several backends
            pr = 150_000 + event // 2
            downstream = self.backends[0] if mine else self.backends[1 + (n * 7) % (size.backends - 1)]
            last = n >= size.runs - 3 * every
            state = "running" if last else "superseded" if draw.random() < 0.05 else "completed"
            word = None if state != "completed" else draw.choice(["success"] * 7 + ["failure"] * 2 + ["neutral"])
            yield {
                "id": f"{int(at * 1000):012x}{n:020x}",
                "delivery_id": f"seed-{n:08}",
                "downstream": downstream,
                "downstream_key": downstream,
                "level": "L4" if mine else f"L{1 + n % 3}",
                "device": "spyre" if mine else None,
                "oncalls": [],
                "executor": "workers" if mine else "github",
                "event": "pull_request" if event % 10 else "push",
                "action": "synchronize",
                "upstream": "pytorch/pytorch",
                "pr_number": pr if event % 10 else None,
                "pr_title": f"Change number {event} of the {OPS[event % len(OPS)]} kernels",
                "author": f"author-{event % 300}",
                "author_trusted": True,
                "base_sha": _sha("base", event),
                "head_sha": _sha("head", event),
                "base_ref": "main",
                "labels": [],
                "state": state,
                "attempts": 1,
                "tries": 1,
                "created_at": at,
                "compare_sha": _sha("base", event),
                "selected_at": at + 3,
                "started_at": at + 8,
                "ran_at": None if last else at + 400,
                "closed_at": None if last else at + 420,
                "conclusion": word,
                "code": CODES.get(word or ""),
                "summary": SAYS.get(word or ""),
                "shows": 0,
            }

    def jobs(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.dispatches):
            at, over = row["created_at"], row["closed_at"] is not None
            for k, name in enumerate(JOBS if row["executor"] == "github" else JOBS[:1]):
                bad = row["conclusion"] == "failure" and (k == n % 5 or row["executor"] == "workers")
                yield {
                    "id": f"{n:026x}{k:06x}",
                    "dispatch_id": row["id"],
                    "workflow": "CI",
                    "name": name,
                    "run_id": str(10**9 + n),
                    "attempt": 1,
                    "status": "completed" if over else "in_progress",
                    "conclusion": ("failure" if bad else "success") if over else None,
                    "url": f"https://github.com/{row['downstream']}/actions/runs/{10**9 + n}",
                    "queued_at": at + 10,
                    "started_at": at + 25 + k,
                    "completed_at": at + 300 + 20 * k if over else None,
                    "start_known": True,
                    "results": {"passed": 900 + n % 90, "failed": int(bad), "skipped": 7},
                    "presumed": False,
                    "version": 2,
                }

    def plans(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.ours):
            tests = [
                {
                    "test": self.test(n, k),
                    "mode": "mandatory_success",
                    "priority": 1.0,
                    "est_seconds": 2.0,
                    "codes": ["op-edited"],
                    "config": None,
                    "ops": [],
                }
                for k in range(60)
            ]
            yield {
                "dispatch_id": row["id"],
                "runtime": {"kind": "overlay", "torch": "2.13.0", "files": ["torch/a.py"]},
                "partial": False,
                "tests": tests,
                "left_out": [],
                "not_exercised": [],
                "counts": {
                    "files": 3,
                    "tests": 24000,
                    "impacted": 90,
                    "relevant": 70,
                    "irrelevant": 18,
                    "ask": 2,
                    "planned": 60,
                    "left_out": 0,
                    "est_variants": self.per_run,
                },
                "timings": {"inventory": 0.4, "discover": 0.2, "triage": 0.1, "plan": 0.1},
                "warnings": [],
                "created_at": row["created_at"] + 3,
            }

    def _shards(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.ours):
            at, over = row["created_at"], row["closed_at"] is not None
            for index in range(8):
                state = "done" if over or index < 3 else "leased" if index < 5 else "queued"
                ended = at + 200 + 20 * index if state == "done" else None
                yield {
                    "id": f"{n:024x}{index:08x}",
                    "dispatch_id": row["id"],
                    "side": "head",
                    "index": index,
                    "queue": "shards.spyre",
                    "spec": {"tests": [self.test(n, k) for k in range(index, 60, 8)]},
                    "est_seconds": 20.0,
                    "state": state,
                    "fence": 1,
                    "handed_back": 0,
                    "worker": f"emulator-{index % 40}" if state != "queued" else None,
                    "lease_until": self.now + 9 if state == "leased" else None,
                    "attempts": 1,
                    "created_at": at + 4,
                    "started_at": at + 9 if state != "queued" else None,
                    "finished_at": ended,
                }

    def results(self) -> Iterator[dict[str, Any]]:
        """A run's at a time: as workers report, fifty of a shard are a report."""
        id = 0
        for n, row in enumerate(self.ours):
            shards: dict[str, list[dict[str, Any]]] = {}
            for line in self._lines(n, row):
                shards.setdefault(line["shard_id"], []).append(line)
            for shard_id, lines in shards.items():
                at = row["created_at"] + 60
                if self.store is not None:
                    lines, log = page_seed_logs.shard_log(lines)
                    self.logs += page_seed_logs.keep(self.store, shard_id, 1, log, at)
                for start in range(0, len(lines), 50):
                    for told in self._reported(shard_id, lines[start : start + 50], at):
                        id += 1
                        yield {"id": id, **told}

    def _reported(self, shard_id: str, lines: list[dict[str, Any]], at: float) -> list[dict[str, Any]]:
        if self.store is None:
            return [{key: value for key, value in line.items() if key != "log_tail"} for line in lines]
        told, made = log_tails.keep(self.store, shard_id, lines)
        if made is not None:
            self.tails.append({"shard_id": shard_id, "name": made, "stored_at": at})
        return told

    def _outcome(self, n: int, k: int, bad: bool) -> str:
        if bad and (n + k) % 97 == 7:
            return "failed"
        if bad and (n + k) % 389 == 9:
            return "error"
        return "self_skipped" if k % 25 == 3 else "xfailed" if k % 50 == 4 else "passed"

    def failing_shard(self, row: dict[str, Any]) -> str:
        """A shard of a failed run that has a failure, and so a log."""
        n = self.ours.index(row)
        bad = next(k for k in range(self.per_run) if self._outcome(n, k, True) in ("failed", "error"))
        return f"{n:024x}{bad % 8:08x}"

    def _variant(self, n: int, k: int) -> str:
        return f"{self.test(n, k % 60).rpartition('::')[2]}_{k:05}_spyre_float32"

    def _verdict(self, n: int, word: str | None) -> Verdict | None:
        """Of a run of our own workers that concluded."""
        if word is None or word == "neutral":
            return None
        outcomes = [self._outcome(n, k, word == "failure") for k in range(self.per_run)]
        counts = {one: outcomes.count(one) for one in sorted(set(outcomes))}
        causes = []
        for k, outcome in enumerate(outcomes):
            if outcome not in ("failed", "error"):
                continue
            test = self.test(n, k % 60)
            causes.append(
                Cause(
                    key=f"{test.rpartition('::')[0]}::{self._variant(n, k)}",
                    test=TestId.parse(test),
                    kind="regression",
                    outcome=Outcome(outcome),
                    message=f"AssertionError: mismatch number {k % 7}",
                    codes=("op-edited",),
                    changes=(f"torch/a.py:{OPS[k % len(OPS)]}",),
                    why_selected="the change edits what it calls",
                )
            )
        if not causes:
            return Verdict(Conclusion.SUCCESS, "passed", f"All {self.per_run} variants passed.", counts)
        tests = len({str(cause.test) for cause in causes})
        sentence = f"{len(causes)} variants of {tests} tests fail with this change and pass without it."
        return Verdict(Conclusion.FAILURE, "regressions", sentence, counts, causes=tuple(causes))

    def _lines(self, n: int, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        bad = row["conclusion"] == "failure"
        for k in range(self.per_run):
            test = self.test(n, k % 60)
            outcome = self._outcome(n, k, bad)
            message = f"AssertionError: mismatch number {k % 7}" if outcome in ("failed", "error") else None
            yield {
                "dispatch_id": row["id"],
                "shard_id": f"{n:024x}{k % 8:08x}",
                "side": "head",
                "test": test,
                "variant": self._variant(n, k),
                "attempt": 0,
                "op": OPS[k % len(OPS)],
                "dtype": "float32",
                "mode": "mandatory_success",
                "outcome": outcome,
                "seconds": 0.01,
                "kernels": 12,
                "modelled_us": 61.0 + k % 50,
                "message": message,
                "log_tail": f"{message}\n{LOG}" if message else None,
                "fence": 1,
                "recorded_at": row["created_at"] + 60,
            }

    def decisions(self) -> Iterator[dict[str, Any]]:
        id = 0
        for n, row in enumerate(self.ours):
            for stage, verdict, code in (
                ("discover", "impacted", "op-edited"),
                ("triage", "relevant", "engages-device"),
                ("plan", "planned", "fits-budget"),
            ):
                for k in range(60):
                    id += 1
                    yield {
                        "id": id,
                        "dispatch_id": row["id"],
                        "stage": stage,
                        "subject": self.test(n, k),
                        "verdict": verdict,
                        "code": code,
                        "reason": "the change edits what it calls",
                        "evidence": [
                            {"kind": "op", "detail": "edited", "path": "torch/a.py", "line": 3, "symbol": "add"}
                        ],
                        "confidence": 0.9,
                        "by": "rules",
                    }

    def test(self, run: int, k: int) -> str:
        return self.tests[(run * 17 + k) % len(self.tests)]


def _sha(of: str, event: int) -> str:
    return hashlib.sha1(f"{of} {event}".encode(), usedforsecurity=False).hexdigest()
