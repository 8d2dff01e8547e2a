"""Errors over HTTP: problem+json (RFC 9457) for everything, with a stable code and a hint; never a traceback."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from relay.errors import BodyTooLarge, RateLimited, RelayError, Unauthorized, Unavailable
from relay.store.ids import new_id

log = structlog.get_logger(__name__)
_CODES = {404: "not-found", 405: "method-not-allowed", 413: "body-too-large", 401: "unauthorized", 403: "forbidden"}
_RETRY_AFTER = {RateLimited: 30, Unavailable: 5}
"""Seconds, where the error itself does not know better."""


def problem(
    status: int,
    code: str,
    detail: str,
    hint: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> JSONResponse:
    """A problem+json answer; ``members`` are further members of it. ``code`` is listed in docs/errors.md."""
    body: dict[str, Any] = {
        "type": f"urn:crcr-relay:error:{code}",
        "title": _phrase(status),
        "status": status,
        "detail": detail,
        "code": code,
    }
    if hint:
        body["hint"] = hint
    body |= {name: value for name, value in members.items() if name not in body}
    return JSONResponse(body, status, dict(headers or {}), media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Makes every error of ``app`` a problem."""
    app.add_exception_handler(RelayError, _relay_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    for unreachable in (OperationalError, InterfaceError, PoolTimeout):
        app.add_exception_handler(unreachable, _no_database)
    app.add_exception_handler(Exception, _unexpected)


async def _relay_error(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RelayError)
    if exc.status >= 500 and not isinstance(exc, Unavailable):
        return _logged(request, exc)
    extra = {name: value for name, value in exc.extra.items() if isinstance(value, str | int | float | bool | list)}
    headers = {}
    known = extra.pop("retry_after", None)
    retry_after = known if isinstance(known, int | float) else _RETRY_AFTER.get(type(exc))
    if retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
    if isinstance(exc, BodyTooLarge):
        headers["Connection"] = "close"  # or the server would read the rest only to throw it away
    if isinstance(exc, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return problem(exc.status, exc.code, exc.message, exc.hint, headers=headers, **extra)


async def _invalid(_: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RequestValidationError)
    errors = [{"path": _path(error["loc"]), "problem": str(error["msg"])} for error in exc.errors()]
    first = f"{errors[0]['path']}: {errors[0]['problem']}" if errors else "the request is not valid"
    return problem(400, "bad-request", first, "every wrong field is listed under errors", errors=errors)


async def _http(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, HTTPException)
    detail = str(exc.detail)
    if exc.status_code == 404 and detail == _phrase(404):
        detail = f"there is nothing at {request.url.path}"
    elif exc.status_code == 405:
        allowed = (exc.headers or {}).get("Allow") or (exc.headers or {}).get("allow") or "another method"
        detail = f"{request.method} is not possible at {request.url.path}; {allowed} is"
    code = _CODES.get(exc.status_code, "bad-request" if exc.status_code < 500 else "internal-error")
    return problem(exc.status_code, code, detail, headers=exc.headers)


async def _gone(_: Request, __: Exception) -> JSONResponse:
    # nobody is there to read it; the server only wants to be told that the request is over
    return problem(400, "bad-request", "the client went away in the middle of the body")


async def _no_database(request: Request, exc: Exception) -> JSONResponse:
    """Busy, away or read-only for a while: whoever asked is to come again."""
    reason = str(exc.orig) if isinstance(exc, DBAPIError) else str(exc)
    log.error("database does not answer", method=request.method, path=request.url.path, error=reason)
    return await _relay_error(request, Unavailable("the database does not answer", "try again a little later"))


async def _unexpected(request: Request, exc: Exception) -> JSONResponse:
    return _logged(request, exc)


def _logged(request: Request, exc: Exception) -> JSONResponse:
    """The log gets everything, the client an id to ask with."""
    incident = new_id()
    log.error(
        "request failed",
        incident=incident,
        method=request.method,
        path=request.url.path,
        error=f"{type(exc).__name__}: {exc}",
        traceback="".join(traceback.format_exception(exc)),
    )
    hint = f"the operator finds it in the log as incident {incident}"
    return problem(500, "internal-error", "something went wrong here, not with your request", hint, incident=incident)


def _path(loc: tuple[int | str, ...]) -> str:
    """``body.workflow.jobs[0]`` of pydantic's location."""
    path = ""
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "request"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
