"""Around the local GitHub: every call is recorded, and any call can be made to fail, wait or lose its answer.

An ASGI wrapper, so that what is recorded is what went over the wire, faults included.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, field_validator, model_validator

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Fault(BaseModel, extra="forbid"):
    """One rule. ``path`` is a regular expression for the whole path; the first rule that fits a call is applied.

    ``status`` answers without processing; ``retry_after`` (seconds) makes that GitHub's secondary rate limit (default
    status 403); ``delay_s`` waits before processing; ``drop`` processes the call and then closes the connection
    without an answer, which leaves the sender in doubt. ``skip`` lets that many fitting calls through first; ``count``
    calls are hit, None: all. ``lie`` with ``status``: processes the call and answers that all the
    same. ``body``: JSON, or the text of a page.
    """

    path: str = ".*"
    method: str | None = None
    status: int | None = Field(None, ge=200, le=599)
    retry_after: int | None = Field(None, ge=0)
    delay_s: float = Field(0.0, ge=0)
    drop: bool = False
    lie: bool = False
    count: int | None = Field(1, ge=1)
    skip: int = Field(0, ge=0)
    body: Any = None
    hits: int = 0

    @field_validator("path")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as exc:
            raise ValueError(f"not a regular expression: {exc}") from exc
        return value

    @model_validator(mode="after")
    def _one_thing(self) -> Fault:
        if self.drop and (self.status is not None or self.retry_after is not None):
            raise ValueError("drop processes the call; it cannot be joined with status or retry_after")
        if self.lie and self.status is None:
            raise ValueError("lie answers a status although the call was processed; it needs status")
        return self

    def fits(self, method: str, path: str) -> bool:
        return self.method in (None, method) and re.fullmatch(self.path, path) is not None


@dataclass
class Recorder:
    """Records into ``calls`` and into ``file`` (one JSON line a call). Paths under ``/_control/`` are left alone."""

    app: App
    clock: Callable[[], float]
    file: Path
    faults: list[Fault] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/_control/"):
            await self.app(scope, receive, send)
            return
        body = await _read(receive)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        call: dict[str, Any] = {
            "n": len(self.calls) + 1,
            "at": self.clock(),
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode("latin-1"),
            "headers": {k: v for k, v in headers.items() if k.startswith(("x-", "user-agent", "content-type"))},
            # whose token it was is told, the token itself is not kept
            "auth": headers.get("authorization", "").partition(" ")[0].casefold() or None,
            "body": _json(body),
            "status": None,
            "fault": None,
        }
        call["headers"].pop("x-hud-internal-bot", None)
        self.calls.append(call)
        try:
            await self._answer(call, scope, _replay(body, receive), send)
        finally:
            call["seconds"] = round(self.clock() - call["at"], 4)
            self._write(call)

    async def _answer(self, call: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._take(call["method"], call["path"])

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                call["status"] = message["status"]
            if fault is None or not fault.drop:
                await send(message)

        if fault is not None:
            call["fault"] = fault.model_dump(exclude_defaults=True, exclude={"hits"})
            await asyncio.sleep(fault.delay_s)
            if fault.status is not None or fault.retry_after is not None:
                if fault.lie:
                    await self.app(scope, receive, _nowhere)
                await _refuse(fault, noted)
                return
        await self.app(scope, receive, noted)
        if fault is not None and fault.drop:
            _hang_up(send)

    def _take(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.fits(method, path) and (fault.count is None or fault.hits < fault.skip + fault.count):
                fault.hits += 1
                return fault if fault.hits > fault.skip else None
        return None

    def _write(self, call: dict[str, Any]) -> None:
        # opened for each: nobody tells a recorder when it is over
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(call, separators=(",", ":"), default=str) + "\n")


async def _nowhere(_message: Message) -> None:
    """An answer that nobody gets."""


async def _refuse(fault: Fault, send: Send) -> None:
    page = isinstance(fault.body, str)
    headers = [(b"content-type", b"text/html" if page else b"application/json")]
    status, message = fault.status or 403, "Server Error"
    if fault.retry_after is not None:
        message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
        headers += [(b"retry-after", str(fault.retry_after).encode()), (b"x-ratelimit-remaining", b"0")]
    said = json.dumps(fault.body if fault.body is not None else {"message": message, "status": str(status)})
    body = (fault.body if page else said).encode()
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _hang_up(send: Send) -> None:
    """Closes the connection below uvicorn's request cycle: ASGI has no word for it."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        raise RuntimeError("cannot drop the connection: this server hides its transport")
    transport.abort()


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return {"not_json": body[:2000].decode("utf-8", "replace"), "bytes": len(body)}
