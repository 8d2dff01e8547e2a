"""What every page and every twin has in common: who may read it, how often, and that an error of a page is a page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from relay.errors import BadRequest, Forbidden, RelayError, Unauthorized
from relay.web.limits import limits_of
from relay.web.pages_render import render
from relay.web.viewers import may_ever, viewer_of

Handler = TypeVar("Handler", bound=Callable[..., Any])
SIGN_IN = "sign in first: /sign-in"
NO_PAGES = (".json", ".jsonl", ".xml", ".svg", ".atom", ".md", ".txt", "/events")
"""Ends of addresses whose errors are for programs."""


def open_to_all(handler: Handler) -> Handler:
    """A handler that answers everybody, where pages are private too: it says nothing, or checks by itself."""
    handler.open_to_all = True  # type: ignore[attr-defined]
    return handler


class PageRoute(APIRoute):
    """A page or a twin. An error of a page is a page; an error of its twin is left to the application, which makes it
    problem+json."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()
        anybody = getattr(self.endpoint, "open_to_all", False)

        async def handler(request: Request) -> Response:
            try:
                limits_of(request).reading.take(address(request), "reads")
                if request.app.state.settings.pages_private and not anybody:
                    await run_in_threadpool(check_reader, request)
                return await answer(request)
            except (RelayError, RequestValidationError) as exc:
                error = exc if isinstance(exc, RelayError) else _bad_query(exc)
                if not wants_page(request):
                    raise error from exc
                return await run_in_threadpool(error_answer, request, error)

        return handler


def wants_page(request: Request) -> bool:
    """Whether an error is to be a page: not that of a twin, a feed, a badge or a stream."""
    return not request.url.path.endswith(NO_PAGES)


def check_reader(request: Request) -> None:
    """Raises Unauthorized or Forbidden where pages are private and this is nobody who may read them."""
    viewer = viewer_of(request)
    if viewer is None:
        raise Unauthorized("these pages are for those who may read them", SIGN_IN)
    if not may_ever(viewer, "read"):
        raise Forbidden(f"{viewer.login} may not read these pages", "the operators give that right: docs/access.md")


def reader_only(request: Request) -> None:
    """A dependency: what ``PageRoute`` does for pages, for an address of programs."""
    limits_of(request).reading.take(address(request), "reads")
    if request.app.state.settings.pages_private:
        check_reader(request)


READERS = [Depends(reader_only)]


def error_answer(request: Request, error: RelayError) -> Response:
    """The error as a page; where signing in may help and a page was asked for, the way there."""
    asks = isinstance(error, Unauthorized) and request.method == "GET" and error.hint == SIGN_IN
    if asks and request.app.state.settings.signing_in:
        return RedirectResponse(f"/sign-in?next={quote(_here(request))}", status_code=303)
    return error_page(request, error)


def error_page(request: Request, error: RelayError) -> HTMLResponse:
    """The error as a page people can read: what happened, what to do, the stable code."""
    html = render(request, "error.html", error=error, page_title=error.message, description=error.hint)
    headers = {}
    wait = error.extra.get("retry_after")
    if isinstance(wait, int | float):
        headers["Retry-After"] = str(max(1, round(wait + 0.5)))
    return HTMLResponse(html, status_code=error.status, headers=headers)


def address(request: Request) -> str:
    """Who asks, as far as a limit is concerned."""
    return request.client.host if request.client else "somebody"


def _here(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _bad_query(exc: RequestValidationError) -> BadRequest:
    first = exc.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return BadRequest(f"{where}: {first['msg']}", "correct it in the address")
