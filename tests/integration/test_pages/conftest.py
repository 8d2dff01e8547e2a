"""A database in the real schema, filled the way the relay fills it, and the real application over it."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient
from sqlalchemy import Engine, insert, select, update

from relay.artifacts import Artifacts, artifacts
from relay.services import log_tails, printing
from relay.settings import Settings
from relay.store import agents, shard_logs
from relay.store.db import migrate, open_engine
from relay.store.schema import (
    agent_run,
    decision,
    delivery,
    dispatch,
    job,
    log_piece,
    log_tail,
    outbox,
    plan,
    result,
    shard,
    worker,
)
from relay.web.app import create_app
from selector.model import Cause, Conclusion, NotExercised, Outcome, TestId, Verdict
from selector.verify.serialise import to_map

HEAD = "5f1d9c0a77be0b6a4e3f2d1c0b9a88776655aa01"
OLD = "00aa11bb22cc33dd44ee55ff66778899aabbccdd"
UNARY = "test/test_unary_ufuncs.py::TestUnaryUfuncs::test_reference_numerics_normal"
LOGIT = "test/test_ops.py::TestCommon::test_out"
MESSAGE = "AssertionError: Tensor-likes are not close!\n\n"
MESSAGE += "Mismatched elements: 12 / 25 (48.0%)\nGreatest absolute difference: 0.51"


class World:
    """Factories. Each inserts committed rows and returns the id."""

    head = HEAD

    def __init__(self, engine: Engine, store: Artifacts) -> None:
        self.engine, self.store = engine, store
        self.now = time.time()
        self.n = 0

    def put(self, table: Any, *rows: dict[str, Any]) -> None:
        with self.engine.begin() as conn:
            conn.execute(insert(table), list(rows))

    def set(self, table: Any, id: str, **values: Any) -> None:
        with self.engine.begin() as conn:
            conn.execute(update(table).where(table.c.id == id).values(**values))

    def delivery(self, state: str = "routed", **values: Any) -> str:
        self.n += 1
        id = f"72d3162e-cc78-11e3-81ab-{self.n:012d}"
        row = {"event": "pull_request", "action": "synchronize", "repo": "pytorch/pytorch", "state": state}
        self.put(delivery, {"id": id, "received_at": self.now - 300 + self.n, "attempts": 1, **row, **values})
        return id

    def dispatch(self, state: str, delivery_id: str | None = None, **values: Any) -> str:
        self.n += 1
        id = f"{self.n:032x}"
        row = {
            "id": id,
            "delivery_id": delivery_id or self.delivery(),
            "downstream": "torch-spyre/torch-spyre",
            "level": "L3",
            "device": "spyre",
            "oncalls": ["ana"],
            "executor": "workers",
            "event": "pull_request",
            "action": "synchronize",
            "upstream": "pytorch/pytorch",
            "pr_number": 171234,
            "pr_title": "Faster logit reference for half types",
            "author": "mruberry-fan",
            "base_sha": OLD,
            "head_sha": HEAD,
            "state": state,
            "created_at": self.now - 90 + self.n / 10,
            "attempts": 1,
            "author_trusted": False,
            **values,
        }
        row["downstream_key"] = row["downstream"].casefold()
        self.put(dispatch, row)
        return id

    def plan(self, dispatch_id: str, **values: Any) -> None:
        row = {
            "runtime": {"kind": "overlay", "torch": "2.13.0", "files": ["torch/_refs/__init__.py"]},
            "partial": False,
            "tests": [],
            "left_out": [],
            "not_exercised": [],
            "counts": {
                "files": 3, "tests": 24233, "impacted": 61, "relevant": 44, "irrelevant": 15, "ask": 2,
                "planned": 44, "left_out": 0, "est_variants": 520,
            },
            "timings": {"inventory": 0.41, "discover": 0.22, "triage": 0.05, "plan": 0.01},
            "warnings": [],
            "created_at": self.now - 80,
        }  # fmt: skip
        self.put(plan, {"dispatch_id": dispatch_id, **row, **values})

    def shard(self, dispatch_id: str, index: int, state: str = "queued", tests: int = 4, **values: Any) -> str:
        self.n += 1
        id = f"5{self.n:031x}"
        spec = {"device": "spyre", "tests": [f"test/test_x.py::TestX::test_{i}" for i in range(tests)]}
        row = {
            "side": "head", "queue": "shards.spyre", "spec": spec, "est_seconds": 18.5, "fence": 1, "attempts": 1,
            "created_at": self.now - 70,
        }  # fmt: skip
        self.put(shard, {"id": id, "dispatch_id": dispatch_id, "index": index, "state": state, **row, **values})
        return id

    def results(self, dispatch_id: str, shard_id: str, test: str, outcome: str, n: int, **values: Any) -> None:
        method = test.rpartition("::")[2]
        self.n += 1
        row = {
            "side": "head", "op": "logit", "dtype": "float32", "mode": "mandatory_success", "seconds": 0.013,
            "kernels": 12, "modelled_us": 61.4, "fence": 1, "recorded_at": self.now - 30,
        }  # fmt: skip
        rows = [
            {
                "dispatch_id": dispatch_id, "shard_id": shard_id, "test": test, "outcome": outcome,
                "variant": f"{method}_logit_{self.n}_{i}_spyre_float32", **row, **values,
            }
            for i in range(n)
        ]  # fmt: skip
        told, made = log_tails.keep(self.store, shard_id, rows)
        self.put(result, *told)
        if made is not None:
            self.put(log_tail, {"shard_id": shard_id, "name": made, "stored_at": self.now})

    def unmetered(self, dispatch_id: str) -> None:
        with self.engine.begin() as conn:
            conn.execute(update(result).where(result.c.dispatch_id == dispatch_id).values(modelled_us=None))

    def decision(self, dispatch_id: str, stage: str, subject: str, verdict: str, code: str, reason: str) -> None:
        evidence = [
            {"kind": "op", "detail": "the change edits the reference of logit", "path": "torch/_refs/__init__.py",
             "line": 612, "symbol": "logit"}
        ]  # fmt: skip
        row = {"evidence": evidence, "confidence": 0.9, "by": "rules"}
        self.put(decision, {"dispatch_id": dispatch_id, "stage": stage, "subject": subject, "verdict": verdict,
                            "code": code, "reason": reason, **row})  # fmt: skip

    def asked(self, dispatch_id: str, *transcript: tuple[str, str], reason: str = "two of three were taken") -> None:
        """A model was asked about the run; ``transcript``: roles and what they said."""
        row = {
            "device": "spyre", "stage": "triage", "agent": "model", "model": "api.example/m-1", "prompt_version": "7",
            "abilities": "tools", "in_force": True, "code": "agent-answered", "reason": reason, "steps": 2,
            "tokens_read": 1200, "tokens_written": 80, "usd": 0.0123, "seconds": 3.5, "refused": [],
            "taken": [{"subject": UNARY, "said": "relevant", "reason": "runs over all ops", "code": ""}],
        }  # fmt: skip
        told = agents.pack([{"role": role, "text": said} for role, said in transcript])
        self.put(agent_run, {"dispatch_id": dispatch_id, "created_at": self.now - 79, "transcript": told, **row})

    def effect(self, dispatch_id: str | None, kind: str, state: str = "sent", **values: Any) -> None:
        self.n += 1
        row = {
            "key": f"{kind}:{self.n}", "stream": f"{kind}:{dispatch_id}", "target": "pytorch/pytorch",
            "payload": {"secret-looking": "never shown"}, "attempts": 1, "ambiguous": False,
            "created_at": self.now - 20, "sent_at": self.now - 19 if state == "sent" else None,
        }  # fmt: skip
        self.put(outbox, {"dispatch_id": dispatch_id, "kind": kind, "state": state, **row, **values})

    def job(self, dispatch_id: str, name: str, status: str, conclusion: str | None = None, **values: Any) -> None:
        self.n += 1
        row = {
            "workflow": "CI", "run_id": str(self.n), "attempt": 1, "queued_at": self.now - 60,
            "started_at": self.now - 50, "completed_at": self.now - 10 if status == "completed" else None,
            "version": 1, "start_known": True, "url": f"https://github.com/x/y/actions/runs/{self.n}",
        }  # fmt: skip
        self.put(job, {"id": f"7{self.n:031x}", "dispatch_id": dispatch_id, "name": name, "status": status,
                       "conclusion": conclusion, **row, **values})  # fmt: skip

    def worker(self, name: str, seen: float = 4.0, **values: Any) -> None:
        row = {"device": "spyre", "queue": "shards.spyre", "torch": "2.13.0", "runtimes": ["overlay", "tests-only"]}
        self.put(worker, {"name": name, "info": {}, "seen_at": self.now - seen, **row, **values})

    # ------------------------------------------------------------------------------------------------ whole stories

    def failed_run(self, **values: Any) -> str:
        """A run that ended with two regressions, one old failure, and a header that it could not exercise."""
        tests = [(LOGIT, "test_out_logit_spyre_float16"), (LOGIT, "test_out_logit_spyre_bfloat16")]
        causes = [
            Cause(
                key=f"{test.rpartition('::')[0]}::{variant}",
                test=TestId.parse(test),
                kind="regression",
                outcome=Outcome.FAILED,
                message=MESSAGE,
                codes=("op-edited",),
                changes=("torch/_refs/__init__.py:logit",),
                why_selected="the change edits the Python reference of logit, which this test runs over all ops",
            )
            for test, variant in tests
        ]
        causes.append(
            Cause(
                key="test/test_unary_ufuncs.py::TestUnaryUfuncs::test_reference_numerics_normal_i0_spyre_float32",
                test=TestId.parse(UNARY),
                kind="pre-existing",
                outcome=Outcome.ERROR,
                message="NotImplementedError: aten::i0.out on spyre",
                codes=("op-edited",),
                changes=(),
                why_selected="runs over all unary ops",
            )
        )
        verdict = Verdict(
            conclusion=Conclusion.FAILURE,
            code="regressions",
            sentence="2 variants of 1 test fail with this change and pass without it: test_out on logit.",
            counts={"passed": 230, "failed": 2, "error": 1, "engaged": 228, "unengaged": 5, "unproven": 0},
            causes=tuple(causes),
            not_exercised=(NotExercised("aten/src/ATen/native/cpu/UnaryOpsKernel.cpp", "the overlay holds no C++"),),
            warnings=("the operator database of torch 2.13.0 is 6 days old",),
        )
        id = self.dispatch(
            "completed",
            conclusion="failure",
            code="regressions",
            summary=verdict.sentence,
            verdict=to_map(verdict),
            selected_at=self.now - 82,
            started_at=self.now - 80,
            ran_at=self.now - 20,
            closed_at=self.now - 12,
            **values,
        )
        self.plan(id, not_exercised=[asdict(n) for n in verdict.not_exercised])
        first = self.shard(id, 0, "done", worker="emulator-1", started_at=self.now - 80, finished_at=self.now - 40)
        second = self.shard(id, 1, "done", worker="emulator-2", started_at=self.now - 79, finished_at=self.now - 20)
        base = self.shard(
            id, 0, "done", side="base", worker="emulator-1", started_at=self.now - 18, finished_at=self.now - 13
        )
        self.results(id, first, UNARY, "passed", 180)
        self.results(id, first, UNARY, "error", 1, message="NotImplementedError: aten::i0.out on spyre", kernels=0)
        self.results(id, second, LOGIT, "passed", 50)
        self.results(
            id, second, LOGIT, "failed", 2, message=MESSAGE, log_tail="line one of the log\nline two of the log"
        )
        self.results(id, base, UNARY, "error", 1, side="base", message="NotImplementedError: aten::i0.out on spyre")
        self.results(id, base, LOGIT, "passed", 2, side="base")
        self.decision(
            id, "discover", LOGIT, "impacted", "op-edited", "runs over all ops, and logit's reference changed"
        )
        self.decision(id, "discover", UNARY, "impacted", "op-edited", "runs over all unary ops")
        self.decision(id, "triage", LOGIT, "relevant", "engages-device", "instantiated for the device, uses its ops")
        self.decision(id, "plan", LOGIT, "planned", "fits-budget", "runs as mandatory_success")
        self.effect(id, "check_run", response={"html_url": "https://github.com/pytorch/pytorch/runs/1"})
        self.effect(id, "hud", target="hud.pytorch.org")
        return id

    def failed_run_with_log(self, printed: str = "the \x1b[31mtensor\x1b[0m was 0.51 off", **values: Any) -> str:
        """``failed_run`` with the log of its shard that failed, and variants called as the verdict has them."""
        run = self.failed_run(**values)
        noise = "".join(f"=== test/test_ops.py::TestCommon::test_{n}: passed\nnoise {n}\n" for n in range(3000))
        mine = (result.c.dispatch_id == run, result.c.test == LOGIT)
        with self.engine.begin() as conn:
            for side, outcome in (("head", "failed"), ("base", "passed")):
                found = select(result.c.id).where(*mine, result.c.side == side, result.c.outcome == outcome)
                ids = conn.execute(found.order_by(result.c.id)).scalars().all()
                for id, dtype in zip(ids, ("float16", "bfloat16"), strict=True):
                    name = {"variant": f"test_out_logit_spyre_{dtype}"}
                    conn.execute(update(result).where(result.c.id == id).values(name))
            failing = select(result).where(*mine, result.c.side == "head", result.c.outcome == "failed")
            one = conn.execute(failing.order_by(result.c.id).limit(1)).one()
            log = (noise + f"=== {LOGIT.rpartition('::')[0]}::{one.variant}: failed\n{printed}\n").encode()
            self.store.put(printing.name(one.shard_id, one.fence, 0), zlib.compress(log))
            shard_logs.add(conn, one.shard_id, one.fence, 0, len(log), self.now)
            place = {"log_begin": len(noise), "log_end": len(log)}
            conn.execute(update(result).where(result.c.id == one.id).values(place))
        return run

    def log_of(self, run: str) -> str:
        """The address of the only log of a run."""
        with self.engine.connect() as conn:
            [id] = conn.execute(select(log_piece.c.shard_id).join(shard).where(shard.c.dispatch_id == run)).scalars()
        return f"/run/{run}/log/{id}"

    def running(self, **values: Any) -> tuple[str, list[str]]:
        """A run in the middle: one shard done, one leased, one waiting."""
        id = self.dispatch(
            "running", selected_at=self.now - 30, started_at=self.now - 28, created_at=self.now - 31, **values
        )
        self.plan(id)
        shards = [
            self.shard(id, 0, "done", worker="emulator-1", started_at=self.now - 28, finished_at=self.now - 12),
            self.shard(id, 1, "leased", worker="emulator-2", started_at=self.now - 11, lease_until=self.now + 6),
            self.shard(id, 2, "queued"),
        ]
        self.results(id, shards[0], UNARY, "passed", 140)
        self.results(id, shards[1], LOGIT, "passed", 21)
        self.effect(id, "check_run", state="due", due_at=self.now)
        return id, shards


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, public_url="https://relay.example")


@pytest.fixture
def make_world(settings: Settings) -> Callable[[Engine], World]:
    """A world over an engine of the test's own."""
    return lambda engine: World(engine, artifacts(settings))


@pytest.fixture
def world(settings: Settings) -> Iterator[World]:
    engine = open_engine(settings.database)
    migrate(engine)
    yield World(engine, artifacts(settings))
    engine.dispose()


@pytest.fixture
def client(world: World, settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), base_url="https://relay.example") as client:
        yield client


@pytest.fixture
def server(world: World, settings: Settings) -> Iterator[str]:
    """The address of the application behind a real server: streams need one."""
    config = uvicorn.Config(
        create_app(settings), port=0, log_level="warning", timeout_graceful_shutdown=1, lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server did not start")
    [socket] = server.servers[0].sockets
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive(), "a stream kept the server from stopping"


def wait_until(true: Callable[[], bool], otherwise: str, seconds: float = 10) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, otherwise
        time.sleep(0.02)
