"""A shard's log: a window of it that opens at the failure, and the whole of it as text.

However long a log is, a page reads two or three pieces of it. A line's address is the byte at which it begins, which
needs no counting of lines and stays right for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from relay.artifacts import artifacts
from relay.errors import BadRequest
from relay.services import printing
from relay.store import views_log
from relay.store.db import reading
from relay.web.ansi import Painter
from relay.web.page_route import PageRoute
from relay.web.pages_render import render
from relay.web.pages_text import SIDES, tag

Map = dict[str, Any]
router = APIRouter(route_class=PageRoute, include_in_schema=False)
WINDOW = 64 << 10
"""Bytes of a page."""
BEFORE = 8 << 10
"""Bytes of context above the place that was asked for."""
FOUND = 32 << 20
"""Bytes that one search looks through; the page offers to go on."""
HEAD = b"=== "
GLANCE = 2_000
"""Bytes of a failure that are seen at once: what is longer opens where its error begins."""

Lease = Annotated[int | None, Query(ge=0, lt=2**31)]
At = Annotated[int | None, Query(ge=0, lt=2**41)]


def log_data(
    request: Request, id: str, shard: str, lease: int | None, at: int | None, find: str, failure: int | None
) -> Map:
    """A window of the log: from ``at``, from the next line with ``find``, or at the error of the failure that stands at
    byte ``failure`` (without any of them: of the first)."""
    state = request.app.state
    with reading(state.engine) as conn:
        found = views_log.of_shard(conn, id, shard, lease)
        if at is None and not find and found["failures"]:
            at = _error(found["failures"], failure, partial(views_log.message, conn, shard, found["lease"]))
    store = artifacts(state.settings)
    size, fence = found["size"], found["lease"]

    def read(start: int, stop: int) -> bytes:
        return printing.window(state.engine, store, shard, fence, start, stop)

    failures = found["failures"]
    searched = None
    if find:
        at, searched = _search(read, find, at or 0, size)
    if at is None:
        at = max(0, size - WINDOW + BEFORE)
    if at > size:
        raise BadRequest(f"at: byte {at} of a log of {size}", f"0 to {size}")
    start = max(0, at - BEFORE)
    data = read(start, min(size, start + WINDOW))
    skipped = data.find(b"\n") + 1 if start else 0  # a line that began above the window
    if skipped > at - start:
        skipped = at - start
    end = data.rfind(b"\n") + 1 if start + len(data) < size else len(data)
    if end <= skipped:
        end = len(data)  # one line fills the window
    here = _place(failures, at)
    span = (failures[here]["begin"], failures[here]["end"] or at + 1) if here is not None else (0, 0)
    lines = _lines(data[skipped:end], start + skipped, at, span, find)
    return {
        **found,
        "at": at,
        "begin": start + skipped,
        "end": start + end,
        "find": find or None,
        "failure": here,
        "searched": searched,
        "earlier": max(0, start + skipped - WINDOW + BEFORE * 2) if start + skipped else None,
        "later": start + end if start + end < size else None,
        "lines": lines,
    }


def _error(failures: list[Map], begin: int | None, message: Callable[[int], str | None]) -> int:
    """Where to open for a failure: at what it printed, or where that is long at its error, which stands last."""
    one = next((f for f in failures if f["begin"] == begin), None) if begin is not None else failures[0]
    if one is None:
        raise BadRequest(
            f"failure: none of this log's failures stands at byte {begin}", "the log's own page lists them"
        )
    if one["end"] is None or one["end"] - one["begin"] <= GLANCE:
        return int(one["begin"])
    told = len((message(one["begin"]) or "").rstrip().encode("utf-8", "replace"))
    return int(max(one["begin"], one["end"] - 1 - told))


def _search(read: Any, find: str, at: int, size: int) -> tuple[int, Map]:
    """Where the line with ``find`` begins, after the line that ``at`` is in, and how the search went."""
    wanted = find.encode("utf-8", "replace")
    position, until = at + 1 if at else 0, min(size, at + FOUND)
    while position < until:
        stop = min(until, position + printing.MAX_PIECE)
        data = read(position, min(size, stop + len(wanted)))
        hit = data.find(wanted)
        if hit >= 0:
            line = data.rfind(b"\n", 0, hit) + 1
            return position + line, {"hit": True, "until": position + hit, "more": True}
        position = stop
    return at, {"hit": False, "until": until, "more": until < size}


def _place(failures: list[Map], at: int) -> int | None:
    """Which of the failures ``at`` is in, from 0; None when it is in none."""
    return next((n for n, one in enumerate(failures) if one["begin"] <= at < (one["end"] or one["begin"] + 1)), None)


def _lines(data: bytes, begin: int, at: int, span: tuple[int, int], find: str) -> list[Map]:
    painter, lines, position = Painter(), [], begin
    for raw in data.split(b"\n")[: -1 if data.endswith(b"\n") else None]:
        text = raw.decode("utf-8", "replace")
        after = position + len(raw) + 1
        lines.append(
            {
                "at": position,
                "here": position <= at < after,
                "mark": span[0] <= position < span[1],
                "head": raw.startswith(HEAD),
                "hit": bool(find) and find in text,
                "spans": painter.line(text),
            }
        )
        position = after
    return lines


@router.get("/run/{id}/log/{shard}.txt")
def log_text(request: Request, id: str, shard: str, lease: Lease = None) -> StreamingResponse:
    """The whole log, as it was printed."""
    state = request.app.state
    with reading(state.engine) as conn:
        found = views_log.of_shard(conn, id, shard, lease)
    pieces = printing.chunks(state.engine, artifacts(state.settings), shard, found["lease"], 0, found["size"])
    name = f"{tag(id)}-{found['shard']['side']}-{found['shard']['index'] + 1}.txt"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(found["size"])}
    return StreamingResponse(pieces, media_type="text/plain; charset=utf-8", headers=headers)


Find = Annotated[str, Query(max_length=200)]


@router.get("/run/{id}/log/{shard}.json")
def log_json(
    request: Request, id: str, shard: str, lease: Lease = None, at: At = None, find: Find = "", failure: At = None
) -> Map:
    data = log_data(request, id, shard, lease, at, find, failure)
    text = [{"at": line["at"], "text": "".join(part for _, part in line["spans"])} for line in data["lines"]]
    return {**data, "lines": text}


@router.get("/run/{id}/log/{shard}", response_class=HTMLResponse)
def log_page(
    request: Request, id: str, shard: str, lease: Lease = None, at: At = None, find: Find = "", failure: At = None
) -> str:
    data = log_data(request, id, shard, lease, at, find, failure)
    title = f"Log of shard {data['shard']['index'] + 1}, {SIDES[data['shard']['side']]} · {data['run']['downstream']}"
    twin = f"/run/{id}/log/{shard}.json"
    query = {"lease": lease, "at": at, "find": find or None, "failure": failure}
    return render(request, "log.html", page_title=title, twin=twin, query=query, **data)
