"""What every page and every twin has in common: an error of a page is a page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from relay.errors import BadRequest, RelayError
from relay.web.pages_render import render


class PageRoute(APIRoute):
    """An error of a page is a page; an error of its twin is left to the application, which makes it problem+json."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await answer(request)
            except (RelayError, RequestValidationError) as exc:
                error = exc if isinstance(exc, RelayError) else _bad_query(exc)
                if request.url.path.endswith(".json"):
                    raise error from exc
                return error_page(request, error)

        return handler


def error_page(request: Request, error: RelayError) -> HTMLResponse:
    """The error as a page people can read: what happened, what to do, the stable code."""
    html = render(request, "error.html", error=error, page_title=error.message)
    return HTMLResponse(html, status_code=error.status)


def _bad_query(exc: RequestValidationError) -> BadRequest:
    first = exc.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return BadRequest(f"{where}: {first['msg']}", "correct it in the address")
