"""Reading a request's body within a limit."""

from __future__ import annotations

from fastapi import Request

from relay.errors import BadRequest, BodyTooLarge


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. BodyTooLarge as soon as ``limit`` bytes are passed, before the rest is read; when Content-Length
    already says so, before anything is read."""
    declared = request.headers.get("content-length")
    if declared is not None:
        if not (declared.isascii() and declared.isdigit()):
            raise BadRequest(f"Content-Length is not a number: {declared[:40]!r}")
        if int(declared) > limit:
            raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit} bytes", "send less, or raise max_body_bytes", limit=limit)
