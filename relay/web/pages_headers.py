"""Security headers on every answer. Pages show text that anybody who opens a pull request can write.

Each answer has a nonce of its own. Scripts must be our files, and htmx acts upon an element only when its ``hx-nonce``
is the page's (htmx's own policy extension): markup that slipped into a page does nothing at all.
"""

from __future__ import annotations

import secrets

from fastapi import FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types htmx"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def nonce_of(request: Request) -> str:
    """The nonce that the policy of this very answer names."""
    nonce: str = request.scope["relay_nonce"]
    return nonce


def stamp(scope: Scope, headers: MutableHeaders) -> None:
    """Adds what an answer lacks. For the middleware, and for the answer to a fault of ours, which passes none."""
    headers.setdefault("Content-Security-Policy", POLICY.format(nonce=scope.setdefault("relay_nonce", "")))
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    if headers.get("content-type", "").startswith("text/html"):
        # made for one reader, and htmx gets less of it
        headers.setdefault("Cache-Control", "private, no-cache")
        headers.add_vary_header("HX-Request, HX-History-Restore-Request")
    if "relay_said" in scope:  # a sentence that this page has said
        headers.append("Set-Cookie", scope["relay_said"])


class SecurityHeaders:
    """ASGI middleware; adds POLICY and HEADERS unless the answer set its own. Streams pass through untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["relay_nonce"] = secrets.token_urlsafe(18)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                stamp(scope, MutableHeaders(scope=message))
            await send(message)

        await self.app(scope, receive, sending)


def add_security_headers(app: FastAPI) -> None:
    app.add_middleware(SecurityHeaders)
