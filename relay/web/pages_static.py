"""Static files: read once, served from memory under names that carry a hash of their content."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import FastAPI, Request, Response

from relay.errors import NotFound

STATIC = Path(__file__).with_name("static")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".md": "text/plain; charset=utf-8",
    "": "text/plain; charset=utf-8",
}
HASHED = re.compile(r"^(?P<stem>.+)\.(?P<hash>[0-9a-f]{12})(?P<ext>\.[a-z]+)$")


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    packed: bytes
    digest: str
    media_type: str


@cache
def assets() -> dict[str, Asset]:
    """Every file under ``static``, by its path there. An unknown suffix is a mistake of ours and raises KeyError."""
    found = {}
    for path in sorted(STATIC.rglob("*")):
        if path.is_file():
            body = path.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:12]
            name = path.relative_to(STATIC).as_posix()
            found[name] = Asset(body, gzip.compress(body, 9, mtime=0), digest, TYPES[path.suffix])
    return found


@cache
def static_url(name: str) -> str:
    """``app.css`` → ``/static/app.3fa9c10b7e55.css``: changes with the content, so it may be kept for ever."""
    stem, dot, ext = name.rpartition(".")
    return f"/static/{stem}.{assets()[name].digest}{dot}{ext}"


def serve(request: Request, path: str) -> Response:
    match = HASHED.match(path)
    asset = assets().get(match["stem"] + match["ext"] if match else path)
    if asset is None:
        raise NotFound(f"no static file {path}", "reload the page: its files have names that change with a release")
    current = match is not None and match["hash"] == asset.digest
    headers = {
        # a page of an older release asks for an older hash: it gets what there is, but may not keep it
        "Cache-Control": "public, max-age=31536000, immutable" if current else "no-cache",
        "ETag": f'"{asset.digest}"',
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    body = asset.body
    if "gzip" in request.headers.get("accept-encoding", "") and len(asset.packed) < len(body):
        body = asset.packed
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=asset.media_type, headers=headers)


def favicon(request: Request) -> Response:
    """Where browsers look when an answer is no page of ours, as a twin's."""
    return serve(request, "icon.svg")


def mount_static(app: FastAPI) -> None:
    assets()  # a broken file stops the start, not a page
    app.add_api_route("/static/{path:path}", serve, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/favicon.ico", favicon, methods=["GET", "HEAD"], include_in_schema=False)
