"""A run's results as files: JSON lines, JUnit XML, CTRF. Written while they are read: a run of any size fits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from relay.artifacts import artifacts
from relay.domain import result_reports
from relay.errors import BadRequest
from relay.services import log_tails
from relay.store import views_downloads
from relay.web.page_route import PageRoute
from relay.web.pages_text import tag
from selector.model import Side

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Wanted = Annotated[str, Query(max_length=16)]
Map = dict[str, Any]


def _side(side: str) -> str:
    if side not in set(Side):
        raise BadRequest(f"side: {side!r} is not a side of a run", "one of " + ", ".join(Side))
    return side


def _file(parts: Iterable[str], media_type: str, name: str) -> StreamingResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(parts, media_type=media_type, headers=headers)


@router.get("/run/{id}/results.jsonl")
def jsonl(request: Request, id: str) -> StreamingResponse:
    """A line a result, of every side."""
    views_downloads.head(request.app.state.engine, id, None)  # 404 before the first byte
    lines = ("".join(json.dumps(row) + "\n" for row in page) for page in _pages(request, id, None))
    return _file(lines, "application/x-ndjson", f"{tag(id)}.jsonl")


@router.get("/run/{id}/junit.xml")
def junit(request: Request, id: str, side: Wanted = "head") -> StreamingResponse:
    found = views_downloads.head(request.app.state.engine, id, _side(side))
    suites = _suites(_pages(request, id, side))
    name = f"{found['downstream']} {tag(id)}"
    parts = result_reports.junit_parts(suites, found["counts"], found["seconds"], name)
    return _file(parts, "application/xml", f"{tag(id)}-{side}.xml")


@router.get("/run/{id}/ctrf.json")
def ctrf(request: Request, id: str, side: Wanted = "head") -> StreamingResponse:
    found = views_downloads.head(request.app.state.engine, id, _side(side))
    lines = (row for page in views_downloads.pages(request.app.state.engine, id, side) for row in page)
    began = found["started_at"] or found["created_at"]
    ended = found["closed_at"] or began
    parts = result_reports.ctrf_parts(lines, found["counts"], int(began * 1000), int(ended * 1000))
    return _file(parts, "application/json", f"{tag(id)}-{side}.ctrf.json")


def _pages(request: Request, id: str, side: str | None) -> Iterator[list[Map]]:
    """With the ends of the logs, which CTRF has no place for."""
    state = request.app.state
    ends = log_tails.Ends(artifacts(state.settings))
    for page in views_downloads.pages(state.engine, id, side):
        ends.fill(page)
        yield page


def _suites(pages: Iterable[list[Map]]) -> Iterator[tuple[str, list[Map]]]:
    for page in pages:
        for file, rows in groupby(page, key=lambda row: str(row["test"]).partition("::")[0]):
            yield file, list(rows)
