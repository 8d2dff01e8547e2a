"""/crcr and /crcr/{owner}/{repo}: how the downstreams do, and one downstream's commits by job."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from relay.errors import BadRequest, NotFound
from relay.store import views_backend, views_backends
from relay.store.db import reading
from relay.web.hud import DAY_S, Days, Event
from relay.web.page_route import PageRoute
from relay.web.pages_render import render
from relay.web.pages_streak import longest_first, tell_rows

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Map = dict[str, Any]
ONLY = ("failing",)
GROUPS = ("workflow",)
LEVELS = ("L1", "L2", "L3", "L4")
MAX_PINS = 20
FRESH_S = 3.0
MOST_KNOWN = 50


def known_word(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value and value not in known:
        raise BadRequest(f"{name}: {value!r} is not known", "leave it away, or give " + " or ".join(known))


class Summaries:
    """What was shown last, by days and event; at most FRESH_S seconds old: many may look at once, and it is the widest
    look of all pages."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str | None], Map] = {}

    def get(self, request: Request, days: int, event: str | None) -> Map:
        found = self._known.get((days, event))
        if found is None or time.time() - found["now"] > FRESH_S:
            found = _summary(request, days, event)
            if len(self._known) > MOST_KNOWN:
                self.forget()
            self._known[(days, event)] = found
        return found

    def forget(self) -> None:
        self._known.clear()


def summary_data(request: Request, days: int, event: str | None) -> Map:
    known: Summaries = request.app.state.crcr_summaries
    return known.get(request, days, event)


def _summary(request: Request, days: int, event: str | None) -> Map:
    now = time.time()
    with reading(request.app.state.engine) as conn:
        backends = views_backends.summary(conn, since=now - days * DAY_S, now=now, event=event)
        standings = {row["downstream_key"]: row for row in views_backend.standings(conn)}
        marks = views_backends.marks(conn)
        for one in backends:
            key = one["repo"].casefold()
            one["standing"], one["marks"] = standings.get(key), marks.get(key, [])
        tell_rows(backends, "repo", partial(views_backends.failing_rows, conn))
    backends.sort(key=longest_first)
    return {"now": now, "days": days, "event": event, "newest": views_backends.NEWEST, "backends": backends}


class ListQuery:
    """The query string of the list of backends."""

    def __init__(
        self,
        days: Days = 14,
        event: Event = None,
        find: Annotated[str, Query(max_length=200)] = "",
        level: Annotated[str | None, Query(max_length=32)] = None,
        only: Annotated[str | None, Query(max_length=32)] = None,
    ) -> None:
        known_word("only", only, ONLY)
        known_word("level", level, LEVELS)
        self.days, self.event, self.find = days, event or None, find.strip()
        self.level, self.only = level or None, only or None

    def given(self) -> Map:
        """What is not at its default: what a link to the same view has to carry."""
        days = self.days if self.days != 14 else None
        return {"days": days, "event": self.event, "find": self.find or None, "level": self.level, "only": self.only}

    def keeps(self, backend: Map) -> bool:
        return (
            self.find.casefold() in backend["repo"].casefold()
            and self.level in (None, backend["level"])
            and (self.only is None or backend["fails"])
        )


Listing = Annotated[ListQuery, Depends()]


def listed_data(request: Request, query: ListQuery) -> Map:
    found = summary_data(request, query.days, query.event)
    backends = found["backends"]
    shown = [one for one in backends if query.keeps(one)]
    return {**found, "backends": shown, "known": len(backends), "failing": sum(one["fails"] for one in backends)}


@router.get("/crcr.json")
def summary_json(request: Request, query: Listing) -> Map:
    return listed_data(request, query)


@router.get("/crcr", response_class=HTMLResponse)
def summary_page(request: Request, query: Listing) -> str:
    found = listed_data(request, query)
    return render(request, "crcr.html", page_title="Backends", twin="/crcr.json", query=query.given(), **found)


class GridQuery:
    """The query string of a backend's page."""

    def __init__(
        self,
        days: Days = 14,
        event: Event = None,
        find: Annotated[str, Query(max_length=200)] = "",
        only: Annotated[str | None, Query(max_length=32)] = None,
        group: Annotated[str | None, Query(max_length=32)] = None,
        pin: Annotated[list[str] | None, Query()] = None,
    ) -> None:
        known_word("only", only, ONLY)
        known_word("group", group, GROUPS)
        self.days, self.event, self.find, self.only, self.group = (
            days,
            event or None,
            find.strip(),
            only or None,
            group or None,
        )
        self.pins = tuple(dict.fromkeys(pin or ()))[:MAX_PINS]

    def given(self) -> Map:
        """What is not at its default: what a link to the same view has to carry."""
        return {
            "days": self.days if self.days != 14 else None,
            "event": self.event,
            "find": self.find or None,
            "only": self.only,
            "group": self.group,
            "pin": list(self.pins) or None,
        }


def backend_data(request: Request, repo: str, query: GridQuery) -> Map:
    now = time.time()
    with reading(request.app.state.engine) as conn:
        found = views_backend.backend(
            conn,
            repo,
            since=now - query.days * DAY_S,
            event=query.event,
            find=query.find,
            failing=query.only == "failing",
            grouped=query.group == "workflow",
            pins=query.pins,
        )
        tell_rows([found], "repo", partial(views_backends.failing_rows, conn))
    if not found.pop("known"):
        raise NotFound(f"nothing is known of {repo}", "/crcr lists the downstreams that have reported")
    return {"now": now, "days": query.days, "event": query.event, **found}


Grid = Annotated[GridQuery, Depends()]


@router.get("/crcr/{owner}/{repo}.json")
def backend_json(request: Request, owner: str, repo: str, query: Grid) -> Map:
    return backend_data(request, f"{owner}/{repo}", query)


@router.get("/crcr/{owner}/{repo}", response_class=HTMLResponse)
def backend_page(request: Request, owner: str, repo: str, query: Grid) -> str:
    if repo.endswith(".json"):
        raise BadRequest(f"{repo}: not a repository", "leave .json away for the page")
    found = backend_data(request, f"{owner}/{repo}", query)
    twin = f"/crcr/{owner}/{repo}.json"
    return render(request, "crcr_backend.html", page_title=found["repo"], twin=twin, query=query.given(), **found)
