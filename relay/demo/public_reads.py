"""What anybody may read of the local GitHub's public repositories: a file as it is, and what a branch contains."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import FastAPI, Request, Response

from relay.demo.ledger import GithubError, Ledger

Contained = dict[tuple[str, str], set[str]]
"""(owner/name case folded, branch) -> the commits it contains."""


def raw_file(request: Request, text: str) -> Response:
    """A file's text for ``Accept: application/vnd.github.raw``, or the news that the reader has it already."""
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"etag": etag})
    return Response(text.encode(), headers={"etag": etag, "content-type": "application/vnd.github.raw+json"})


def wants_raw(request: Request) -> bool:
    return "vnd.github.raw" in request.headers.get("accept", "")


def add_public_reads(app: FastAPI, ledger: Ledger, contained: Contained) -> None:
    @app.get("/repos/{owner}/{repo}/compare/{pair}")
    async def compare(owner: str, repo: str, pair: str, request: Request) -> Any:
        if "authorization" in request.headers:  # none is needed, and one that is shown must be good
            ledger.check_token(request.headers["authorization"], f"{owner}/{repo}", "contents", "read")
        name = f"{owner}/{repo}".casefold()
        base, _, head = pair.partition("...")
        held = contained.get((name, base))
        everywhere = set().union(*(shas for (of, _), shas in contained.items() if of == name))
        if held is None or head not in everywhere:
            raise GithubError(404, "Not Found")
        return {"status": "behind" if head in held else "diverged", "commits": []}
