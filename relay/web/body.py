"""Reading a request's body within a limit, and JSON that a database can hold."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from relay.errors import BadRequest, BodyTooLarge

Model = TypeVar("Model", bound=BaseModel)
HEARD_BYTES = 4 * 1024 * 1024
HEARD_S = 2.0
"""so much of what is too large, and for so long, is read and thrown away, so that its sender hears why"""
WEBHOOK_HINT = "send less, or raise max_body_bytes"


async def read_body(request: Request, limit: int, hint: str = WEBHOOK_HINT) -> bytes:
    """The whole body. BodyTooLarge as soon as ``limit`` bytes are passed, before the rest is kept; when Content-Length
    already says so, before anything is kept."""
    stream = request.stream()
    declared = request.headers.get("content-length")
    if declared is not None:
        if not (declared.isascii() and declared.isdigit()):
            raise BadRequest(f"Content-Length is not a number: {declared[:40]!r}")
        if int(declared) > limit:
            await _throw_away(stream)
            raise _too_large(limit, hint)
    chunks: list[bytes] = []
    size = 0
    async for chunk in stream:
        size += len(chunk)
        if size > limit:
            break
        chunks.append(chunk)
    else:
        return b"".join(chunks)
    await _throw_away(stream)
    raise _too_large(limit, hint)


async def _throw_away(stream: AsyncIterator[bytes]) -> None:
    """Reads on for a while: to a sender that still sends when the connection ends the answer is lost."""
    size = 0
    with suppress(TimeoutError, ClientDisconnect):  # it may have sent no more than the announcement
        async with asyncio.timeout(HEARD_S):
            async for chunk in stream:
                size += len(chunk)
                if size > HEARD_BYTES:
                    return


def body_of(model: type[Model], limit: int, hint: str) -> Callable[[Request], Awaitable[Model]]:
    """A dependency: the body as a ``model``, at most ``limit`` bytes. BodyTooLarge, BadRequest naming the field."""

    async def read(request: Request) -> Model:
        return parse(model, await read_body(request, limit, "send less"), hint)

    return read


def parse(model: type[Model], raw: bytes, hint: str, where: str = "") -> Model:
    """``raw`` as a ``model``; ``where`` stands before the field in an error. Text loses NUL and lone surrogates, which
    JSON can spell and no database stores. BadRequest for all else: broken JSON, numbers that are not finite."""
    try:
        value = _plain(json.loads(raw))
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"{where}not JSON that can be read: {str(exc)[:200]}", hint) from exc
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        errors = [{"path": ".".join(str(p) for p in e["loc"]) or "body", "problem": e["msg"]} for e in exc.errors()]
        raise BadRequest(f"{where}{errors[0]['path']}: {errors[0]['problem']}", hint, errors=errors[:20]) from exc


def _plain(value: Any, path: str = "") -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path or 'body'} is not a finite number")
    if isinstance(value, list):
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {_plain(key): _plain(item, f"{path}.{key}"[-100:] if path else key[:100]) for key, item in value.items()}
    return value


def _too_large(limit: int, hint: str) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit} bytes", hint, limit=limit)
