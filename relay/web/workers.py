"""The worker API (docs/worker-api.md): parse, call one service, answer."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlalchemy import Engine

from relay.artifacts import artifacts
from relay.errors import BadRequest, Forbidden, Unauthorized
from relay.protocol import WORKER_API
from relay.queue.names import is_shard_queue
from relay.services import leasing, printing, traces
from relay.services.secret_files import worker_keys
from relay.services.upstream import mirror
from relay.store import workers
from relay.web.body import body_of, parse, read_body
from selector.errors import SelectorError
from selector.model import Mode, Outcome, TestId
from selector.opdb import from_json

router = APIRouter(prefix="/worker")
MAX_RESULTS_BYTES = 8 * 1024 * 1024
MAX_REPORT_BYTES = 8 * 1024 * 1024
MAX_HELLO_BYTES = 256 * 1024
SHAPES = "docs/worker-api.md shows what each call takes"
MAX_OPDB_BYTES = 32 * 1024 * 1024
BASE_FOLDER = ".base"
NOT_SENT = ("test/cpp", "test/dynamo_expected_failures", "test/dynamo_skips")
"""parts of upstream's ``test/`` that no Python test on a device reads; in number most of its files"""


class Hello(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=128)
    device: str = Field(max_length=64)
    queue: str = Field(max_length=64)
    torch: str = Field(max_length=64)
    runtimes: list[Literal["tests-only", "overlay", "pr-build"]]
    info: dict[str, Any] = Field(default_factory=dict)
    opdb_digest: str | None = Field(None, max_length=64)

    @field_validator("queue")
    @classmethod
    def _is_a_shard_queue(cls, value: str) -> str:
        if not is_shard_queue(value):
            raise ValueError("the name of a queue of shards: letters, digits and _ . + -, none of the relay's own")
        return value


class Take(BaseModel):
    worker: str = Field(max_length=128)


MeterName = Literal[
    "bytes_read", "bytes_written", "sticks", "padding_bytes", "h2d_bytes", "d2h_bytes", "d2d_bytes", "spills",
    "fallbacks", "refused_ops", "refused_dtypes",
]  # fmt: skip
MeterCount = Annotated[int, Field(ge=0, le=2**53)]


class ResultLine(BaseModel):
    """One result; the bounds keep one hostile test from filling the database."""

    model_config = ConfigDict(extra="forbid")
    test: str = Field(max_length=1024)
    variant: str = Field(min_length=1, max_length=512)
    op: str | None = Field(None, max_length=128)
    dtype: str | None = Field(None, max_length=32)
    mode: Mode = Mode.MANDATORY_SUCCESS
    outcome: Outcome
    reason: str | None = Field(None, max_length=4096)
    seconds: float = Field(ge=0, le=86400)
    kernels: int | None = Field(None, ge=0, le=2**53)
    modelled_us: float | None = Field(None, ge=0, le=1e15)
    meter: dict[MeterName, MeterCount] | None = None
    message: str | None = Field(None, max_length=8192)
    log_tail: str | None = Field(None, max_length=16384)
    log_begin: int | None = Field(None, ge=0, le=2**40)
    log_end: int | None = Field(None, ge=0, le=2**40)
    attempt: int = Field(0, ge=0, le=100)

    @field_validator("test")
    @classmethod
    def _is_a_test(cls, value: str) -> str:
        TestId.parse(value)
        return value


class Complete(BaseModel):
    status: Literal["done", "failed"]
    error: str | None = Field(None, max_length=8192)
    report: dict[str, Any] = Field(default_factory=dict)


def _bearer(authorization: Annotated[str | None, Header()] = None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("no bearer token", "send Authorization: Bearer <worker key or lease token>")
    return token.strip()


Token = Annotated[str, Depends(_bearer)]


def _worker_key(request: Request, token: Token) -> None:
    keys = worker_keys(request.app.state.settings)
    if not keys:
        raise Forbidden("this relay takes no workers", "set worker_key")
    # a list: every key is compared, so that the time does not tell which one fits
    if not any([hmac.compare_digest(key.encode(), token.encode()) for key in keys]):  # noqa: C419
        raise Unauthorized("wrong worker key", "the key is RELAY_WORKER_KEY of the relay")


Key = Depends(_worker_key)


@router.post("/hello", dependencies=[Key])
def hello(body: Annotated[Hello, Depends(body_of(Hello, MAX_HELLO_BYTES, SHAPES))], request: Request) -> dict[str, Any]:
    state = request.app.state
    values = body.model_dump()
    digest = values.pop("opdb_digest")
    with state.engine.begin() as conn:
        workers.hello(conn, values, time.time())
        wanted = not workers.has_opdb(conn, body.torch, digest)
    return {"protocol": WORKER_API, "heartbeat_s": state.settings.heartbeat_s, "opdb_wanted": wanted}


@router.put("/opdb/{torch}", dependencies=[Key], status_code=204)
async def put_opdb(torch: str, request: Request) -> Response:
    if not 0 < len(torch) <= 64:
        raise BadRequest(f"torch: {len(torch)} characters, a version has at most 64", SHAPES)
    body = await read_body(request, MAX_OPDB_BYTES, "leave out what is not in docs/worker-api.md")
    try:
        from_json(body)
    except SelectorError as exc:
        raise BadRequest(exc.message, exc.hint) from exc
    await to_thread.run_sync(_store_opdb, request.app.state.engine, torch, body)
    return Response(status_code=204)


@router.post("/shards/{shard_id}/lease", dependencies=[Key])
def lease(
    shard_id: str, body: Annotated[Take, Depends(body_of(Take, MAX_HELLO_BYTES, SHAPES))], request: Request
) -> dict[str, Any]:
    state = request.app.state
    return leasing.take(state.engine, state.settings, shard_id, body.worker, time.time())


@router.post("/leases/{shard_id}/heartbeat")
def heartbeat(shard_id: str, token: Token, request: Request) -> dict[str, Any]:
    state = request.app.state
    return leasing.beat(state.engine, state.settings, shard_id, token, time.time())


@router.get("/leases/{shard_id}/tree")
def tree(shard_id: str, token: Token, request: Request) -> Response:
    state = request.app.state
    row = leasing.holder(state.engine, shard_id, token)
    commit, files = row.spec["commit"], tuple(row.spec["runtime"]["files"])
    # the base's text of the overlaid files, so that the worker sees how far it is from what it has installed
    base = leasing.compared_with(state.engine, row) if files else None
    etag = f'"{commit}.{base}"' if base else f'"{commit}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"ETag": etag})
    packed = mirror(state.settings).archive(
        commit, ("test", *files), without=NOT_SENT, base=base, base_paths=files, base_folder=BASE_FOLDER
    )

    def chunks() -> Iterator[bytes]:
        yield from packed

    return StreamingResponse(chunks(), media_type="application/gzip", headers={"ETag": etag})


@router.post("/leases/{shard_id}/results")
async def results(shard_id: str, token: Token, request: Request) -> dict[str, int]:
    state = request.app.state
    body = await read_body(request, MAX_RESULTS_BYTES, "send fewer lines at a time")

    def store() -> dict[str, int]:
        lines = [
            parse(ResultLine, raw, "docs/worker-api.md shows a result", f"line {number}: ").model_dump(mode="json")
            for number, raw in enumerate(body.splitlines(), 1)
            if raw.strip()
        ]
        return leasing.record(state.engine, state.settings, shard_id, token, lines, time.time())

    return await to_thread.run_sync(store)


@router.post("/leases/{shard_id}/release")
def release(shard_id: str, token: Token, request: Request) -> dict[str, bool]:
    """Since version 2: a worker that stops gives its shard back."""
    leasing.release(request.app.state.engine, shard_id, token, time.time())
    return {"ok": True}


@router.put("/leases/{shard_id}/log")
async def log(
    shard_id: str, token: Token, request: Request, begin: Annotated[int, Query(ge=0, le=2**40)]
) -> dict[str, int]:
    """Since version 2: a piece of what the shard's tests printed; answers where the next one begins."""
    state = request.app.state
    data = await read_body(request, printing.MAX_PIECE, "send at most 1 MiB at a time")
    store = artifacts(state.settings)
    end = await to_thread.run_sync(printing.take, state.engine, store, shard_id, token, begin, data, time.time())
    return {"end": end}


@router.put("/leases/{shard_id}/trace", status_code=204)
async def trace(shard_id: str, token: Token, request: Request) -> Response:
    """Since version 3: what the tests of a shard ran that the relay asked to follow."""
    state = request.app.state
    data = await read_body(request, traces.MAX_BYTES, "a shard's trace has at most 16 MiB")
    await to_thread.run_sync(traces.take, state.engine, artifacts(state.settings), shard_id, token, data)
    return Response(status_code=204)


@router.post("/leases/{shard_id}/complete")
def complete(
    shard_id: str,
    body: Annotated[Complete, Depends(body_of(Complete, MAX_REPORT_BYTES, SHAPES))],
    token: Token,
    request: Request,
) -> dict[str, bool]:
    state = request.app.state
    leasing.complete(
        state.engine,
        state.settings,
        shard_id,
        token,
        status=body.status,
        error=body.error,
        report=body.report,
        now=time.time(),
    )
    return {"ok": True}


def _store_opdb(engine: Engine, torch: str, body: bytes) -> None:
    with engine.begin() as conn:
        workers.store_opdb(conn, torch, body, time.time())
