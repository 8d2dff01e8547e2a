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
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from relay.errors import BodyTooLarge, RateLimited, RelayError, Unauthorized, Unavailable
from relay.store.ids import new_id
from relay.web.page_route import NO_PAGES, error_page
from relay.web.pages_headers import stamp
from relay.web.viewers import nobody

log = structlog.get_logger(__name__)
_CODES = {404: "not-found", 405: "method-not-allowed", 413: "body-too-large", 401: "unauthorized", 403: "forbidden"}
WEBHOOK = "/github/webhook"
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


async def _relay_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RelayError)
    if exc.status >= 500 and not isinstance(exc, Unavailable):
        return await _logged(request, exc)
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
    return await _answer(request, exc.status, exc.code, exc.message, exc.hint, headers, **extra)


async def _invalid(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    errors = [{"path": _path(error["loc"]), "problem": str(error["msg"])} for error in exc.errors()]
    first = f"{errors[0]['path']}: {errors[0]['problem']}" if errors else "the request is not valid"
    return await _answer(request, 400, "bad-request", first, "every wrong field is listed under errors", errors=errors)


async def _http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    detail, hint = str(exc.detail), ""
    if exc.status_code == 404 and detail == _phrase(404):
        detail = f"there is nothing at {request.url.path}"
        hint = "look for it with the search box: a pull request, a commit, a test or a repository"
    elif exc.status_code == 405:
        allowed = (exc.headers or {}).get("Allow") or (exc.headers or {}).get("allow") or "another method"
        detail = f"{request.method} is not possible at {request.url.path}; {allowed} is"
    code = _CODES.get(exc.status_code, "bad-request" if exc.status_code < 500 else "internal-error")
    return await _answer(request, exc.status_code, code, detail, hint, exc.headers)


async def _gone(_: Request, __: Exception) -> Response:
    # nobody is there to read it; the server only wants to be told that the request is over
    return problem(400, "bad-request", "the client went away in the middle of the body")


async def _no_database(request: Request, exc: Exception) -> Response:
    """Busy, away or read-only for a while: whoever asked is to come again."""
    reason = str(exc.orig) if isinstance(exc, DBAPIError) else str(exc)
    log.error("database does not answer", method=request.method, path=request.url.path, error=reason)
    nobody(request)  # the page about it must not ask the database who looks
    _missed(request)
    return await _relay_error(request, Unavailable("the database does not answer", "try again a little later"))


async def _unexpected(request: Request, exc: Exception) -> Response:
    nobody(request)
    _missed(request)
    response = await _logged(request, exc)
    stamp(request.scope, response.headers)  # it passes no middleware
    return response


def _missed(request: Request) -> None:
    """A webhook that is refused is sent once only, unless somebody asks for it again."""
    if request.url.path == WEBHOOK:
        request.app.state.missed.note()


async def _logged(request: Request, exc: Exception) -> Response:
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
    detail = "something went wrong here, not with your request"
    return await _answer(request, 500, "internal-error", detail, hint, incident=incident)


async def _answer(
    request: Request,
    status: int,
    code: str,
    detail: str,
    hint: str = "",
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """A problem, or a page about it for whoever asks with a browser."""
    if not _is_browser(request):
        return problem(status, code, detail, hint, headers=headers, **members)
    error = RelayError(detail, hint)
    error.status, error.code = status, code
    page = await run_in_threadpool(error_page, request, error)
    page.headers.update(headers or {})
    return page


def _is_browser(request: Request) -> bool:
    """Whether HTML is what is liked best, and what was asked for is not a file by its name."""
    liked = request.headers.get("accept", "").partition(",")[0].partition(";")[0].strip()
    return liked == "text/html" and not request.url.path.endswith(NO_PAGES)


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
