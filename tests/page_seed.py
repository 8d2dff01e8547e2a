"""A database as a busy year leaves it, for the pages: made by bulk inserts, the same for the same seed.

``Size()`` is 1,000,000 results in 5,000 runs of 200 backends. Words are invented; nothing in it is a measurement.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Engine, Table, text

from relay.artifacts import Artifacts
from relay.domain.readiness import Readiness
from relay.services import log_tails
from relay.store import schema

DAY = 86400.0
OUTCOMES = ["passed"] * 92 + ["self_skipped"] * 4 + ["xfailed"] * 2 + ["failed", "error"]
OPS = ["add", "mm", "logit", "softmax", "clamp", "where", "cat", "sum", "mean", "exp", "bmm", "relu", "sigmoid", "pow"]
LOG = "\n".join(f"  step {n:03}: aten::{OPS[n % len(OPS)]} on spyre, 32 x 128 sticks" for n in range(120))
"""some 6 kB, of the 8 that a worker sends"""
JOBS = ["build", "unit (3.11)", "unit (3.12)", "ops", "distributed", "docs", "nightly wheel"]


@dataclass(frozen=True)
class Size:
    """How much there is. ``tests`` are different tests, shared out over the runs of our own workers."""

    runs: int = 5000
    worker_runs: int = 500
    backends: int = 200
    results: int = 1_000_000
    tests: int = 4000
    days: int = 90


SMALL = Size(runs=400, worker_runs=60, backends=40, results=24_000, tests=600, days=30)


@dataclass(frozen=True)
class Seeded:
    """Where to look: a run with results, a run in progress, a pull request, a test, a backend."""

    run: str
    open_run: str
    pr: int
    test: str
    backend: str
    sha: str


def seed(engine: Engine, size: Size, now: float, store: Artifacts | None = None, number: int = 7) -> Seeded:
    """Fills an empty, migrated database, and ``store`` with the ends of its failures' logs."""
    made = _Made(size, now, random.Random(number), store)
    with engine.begin() as conn:
        load = _copy if engine.dialect.name == "postgresql" else _executemany
        for table, rows in made.tables():
            load(conn, table, rows)
        if engine.dialect.name == "postgresql":
            for table in ("decision", "result", "outbox", "quarantine", "proposal", "audit"):
                # what comes after it gets numbers after it
                conn.execute(text(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"))
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("VACUUM ANALYZE"))  # autovacuum does that by itself
    return made.seeded()


def again(size: Size, now: float, number: int = 7) -> Seeded:
    """What ``seed`` answered for the same arguments."""
    return _Made(size, now, random.Random(number), None).seeded()


def _executemany(conn: Any, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    names = [column.name for column in table.columns]
    marks = ", ".join("?" for _ in names)
    quoted = ", ".join(f'"{name}"' for name in names)
    conn.connection.cursor().executemany(
        f'INSERT INTO "{table.name}" ({quoted}) VALUES ({marks})', _values(table, rows)
    )


def _copy(conn: Any, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    quoted = ", ".join(f'"{column.name}"' for column in table.columns)
    with conn.connection.cursor().copy(f'COPY "{table.name}" ({quoted}) FROM STDIN') as copy:
        for row in _values(table, rows):
            copy.write_row(row)


def _values(table: Table, rows: Iterable[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    plan = []
    for column in table.columns:
        default = None
        if column.default is not None and getattr(column.default, "is_scalar", False):
            default = column.default.arg
        elif column.default is not None and column.default.is_callable:
            default = []
        plan.append((column.name, isinstance(column.type, JSON), default))
    for row in rows:
        yield tuple(
            json.dumps(value) if is_json and value is not None else value
            for name, is_json, default in plan
            for value in [row.get(name, default)]
        )


class _Made:
    def __init__(self, size: Size, now: float, draw: random.Random, store: Artifacts | None) -> None:
        self.size, self.now, self.draw, self.store = size, now, draw, store
        self.tails: list[dict[str, Any]] = []
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
        self.shards = list(self._shards())

    def tables(self) -> Iterator[tuple[Table, Iterable[dict[str, Any]]]]:
        """Parents before children."""
        yield schema.delivery, self._deliveries()
        yield schema.dispatch, self.dispatches
        yield schema.pull_request, self._pulls()
        yield schema.job, self._jobs()
        yield schema.plan, self._plans()
        yield schema.shard, self.shards
        yield schema.result, self._results()
        yield schema.log_tail, self.tails
        yield schema.decision, self._decisions()
        yield schema.outbox, self._effects()
        yield schema.hud_row, self._hud_rows()
        yield schema.worker, self._workers()
        yield schema.level_proposal, self._levels()
        yield schema.quarantine, self._quarantined()
        yield schema.proposal, self._proposals()
        yield schema.test_name, self._names()
        yield schema.audit, self._audit()

    def seeded(self) -> Seeded:
        done = [row for row in self.ours if row["conclusion"] == "failure"]
        return Seeded(
            run=done[-1]["id"],
            open_run=next(row["id"] for row in self.ours if row["state"] == "running"),
            pr=done[-1]["pr_number"],
            test=self.tests[0],
            backend=self.backends[1],
            sha=done[-1]["head_sha"],
        )

    # ----------------------------------------------------------------------------------------------------- the rows

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
                "base_sha": f"{event:040x}",
                "head_sha": f"{0xABCDEF * (event + 1):040x}"[-40:],
                "base_ref": "main",
                "labels": [],
                "state": state,
                "attempts": 1,
                "tries": 1,
                "created_at": at,
                "compare_sha": f"{event:040x}",
                "selected_at": at + 3,
                "started_at": at + 8,
                "ran_at": None if last else at + 400,
                "closed_at": None if last else at + 420,
                "conclusion": word,
                "code": {"failure": "regressions", "success": "passed", "neutral": "nothing-to-run"}.get(word or ""),
                "summary": f"It {word}." if word else None,
                "shows": 0,
            }

    def _deliveries(self) -> Iterator[dict[str, Any]]:
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

    def _pulls(self) -> Iterator[dict[str, Any]]:
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

    def _jobs(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.dispatches):
            at, over = row["created_at"], row["closed_at"] is not None
            for k, name in enumerate(JOBS if row["executor"] == "github" else JOBS[:1]):
                bad = row["conclusion"] == "failure" and k == n % 5
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

    def _plans(self) -> Iterator[dict[str, Any]]:
        for n, row in enumerate(self.ours):
            tests = [
                {
                    "test": self._test(n, k),
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
                    "spec": {"tests": [self._test(n, k) for k in range(index, 60, 8)]},
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

    def _results(self) -> Iterator[dict[str, Any]]:
        """A run's at a time: as workers report, fifty of a shard are a report."""
        id = 0
        for n, row in enumerate(self.ours):
            shards: dict[str, list[dict[str, Any]]] = {}
            for line in self._lines(n, row):
                shards.setdefault(line["shard_id"], []).append(line)
            for shard_id, lines in shards.items():
                for start in range(0, len(lines), 50):
                    for told in self._reported(shard_id, lines[start : start + 50], row["created_at"] + 60):
                        id += 1
                        yield {"id": id, **told}

    def _reported(self, shard_id: str, lines: list[dict[str, Any]], at: float) -> list[dict[str, Any]]:
        if self.store is None:
            return [{key: value for key, value in line.items() if key != "log_tail"} for line in lines]
        told, made = log_tails.keep(self.store, shard_id, lines)
        if made is not None:
            self.tails.append({"shard_id": shard_id, "name": made, "stored_at": at})
        return told

    def _lines(self, n: int, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        draw, bad = self.draw, row["conclusion"] == "failure"
        for k in range(self.per_run):
            test = self._test(n, k % 60)
            outcome = draw.choice(OUTCOMES) if bad else "passed" if k % 20 else "self_skipped"
            message = f"AssertionError: mismatch number {k % 7}" if outcome in ("failed", "error") else None
            yield {
                "dispatch_id": row["id"],
                "shard_id": f"{n:024x}{k % 8:08x}",
                "side": "head",
                "test": test,
                "variant": f"{test.rpartition('::')[2]}_{k:05}_spyre_float32",
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

    def _decisions(self) -> Iterator[dict[str, Any]]:
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
                        "subject": self._test(n, k),
                        "verdict": verdict,
                        "code": code,
                        "reason": "the change edits what it calls",
                        "evidence": [
                            {"kind": "op", "detail": "edited", "path": "torch/a.py", "line": 3, "symbol": "add"}
                        ],
                        "confidence": 0.9,
                        "by": "rules",
                    }

    def _effects(self) -> Iterator[dict[str, Any]]:
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
                    "last_status": 204,
                    "created_at": row["created_at"],
                    "last_error": "gone: HTTP 404" if state == "parked" else None,
                    "sent_at": row["created_at"] + 1,
                }

    def _hud_rows(self) -> Iterator[dict[str, Any]]:
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
                "head_sha": f"{0xFEDCBA * (n // 20 + 1):040x}"[-40:],
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

    def _workers(self) -> Iterator[dict[str, Any]]:
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

    def _levels(self) -> Iterator[dict[str, Any]]:
        for name in self.backends:
            measured = Readiness("L2", "L3", 120, 0.93, 40.0, 0.0, 900.0, 0.01, ("passed 93 %, asked are 95 %",), ())
            yield {
                "downstream_key": name,
                "downstream": name,
                "level": "L2",
                "measured": measured.as_map(),
                "updated_at": self.now,
            }

    def _quarantined(self) -> Iterator[dict[str, Any]]:
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

    def _proposals(self) -> Iterator[dict[str, Any]]:
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

    def _names(self) -> Iterator[dict[str, Any]]:
        for name in self.tests:
            path, owner, method = name.split("::")
            yield {
                "test": name,
                "file_key": path.rpartition("/")[2],
                "class_key": owner.casefold(),
                "method_key": method,
            }

    def _audit(self) -> Iterator[dict[str, Any]]:
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

    def _test(self, run: int, k: int) -> str:
        return self.tests[(run * 17 + k) % len(self.tests)]
