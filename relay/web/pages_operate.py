"""/queues for everybody, /outbox and /audit for operators, and /about."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

from alembic.migration import MigrationContext
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from relay import __version__
from relay.domain.words import plural
from relay.errors import BadRequest, Forbidden, Unauthorized
from relay.store import views_health, views_ops
from relay.store.db import reading
from relay.store.outbox_ops import STATES
from relay.web.page_route import SIGN_IN, PageRoute
from relay.web.pages_render import render
from relay.web.pages_sentences import stuck
from relay.web.pages_text import duration
from relay.web.viewers import viewer_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Word = Annotated[str | None, Query(max_length=255)]
Page = Annotated[int, Query(ge=1, le=10_000)]
STARTED = time.time()


def operator(request: Request, action: str) -> None:
    """Unauthorized or Forbidden, unless the viewer may."""
    viewer = viewer_of(request)
    if viewer is None:
        raise Unauthorized("this is for operators", SIGN_IN)
    if not viewer.may(action):
        raise Forbidden(f"{viewer.login} is no operator", "the setting operators says who is: docs/access.md")


# --------------------------------------------------------------------------------------------------------------- queues


def queues_data(request: Request) -> dict[str, Any]:
    now = time.time()
    with reading(request.app.state.engine) as conn:
        found = views_ops.queues(conn, now)
    return {"sentence": _queues_sentence(found), **found}


def _queues_sentence(found: dict[str, Any]) -> str:
    if lonely := stuck(found["queues"]):
        return f"Stuck: nobody works on {', '.join(queue['queue'] for queue in lonely)}"
    if not found["queued"]:
        return "Nothing waits for a worker"
    return f"{plural(found['queued'], 'shard')} waiting, the oldest for {duration(found['oldest_wait_s'])}"


@router.get("/queues.json")
def queues_json(request: Request) -> dict[str, Any]:
    return queues_data(request)


@router.get("/queues", response_class=HTMLResponse)
def queues_page(request: Request) -> str:
    return render(request, "queues.html", page_title="Queues", twin="/queues.json", **queues_data(request))


# --------------------------------------------------------------------------------------------------------------- outbox


def outbox_data(request: Request, state: str, kind: str | None, target: str | None, page: int) -> dict[str, Any]:
    operator(request, "replay")
    if state not in STATES:
        raise BadRequest(f"state: {state!r} is none", f"one of {', '.join(STATES)}")
    now = time.time()
    with reading(request.app.state.engine) as conn:
        found = views_ops.effects(conn, state=state, kind=kind or None, target=target or None, page=page)
    return {"now": now, "state": state, "kind": kind, "target": target, "page": page, **found}


@router.get("/outbox.json")
def outbox_json(
    request: Request, state: str = "parked", kind: Word = None, target: Word = None, page: Page = 1
) -> dict[str, Any]:
    return outbox_data(request, state, kind, target, page)


@router.get("/outbox", response_class=HTMLResponse)
def outbox_page(request: Request, state: str = "parked", kind: Word = None, target: Word = None, page: Page = 1) -> str:
    data = outbox_data(request, state, kind, target, page)
    return render(request, "outbox.html", page_title="Outbox", twin="/outbox.json", **data)


# ---------------------------------------------------------------------------------------------------------------- audit


def audit_data(request: Request, before: int | None, action: str | None, actor: str | None) -> dict[str, Any]:
    operator(request, "audit")
    with reading(request.app.state.engine) as conn:
        found = views_ops.actions(conn, before=before, action=action or None, actor=actor or None)
    return {"now": time.time(), "before": before, "action": action, "actor": actor, **found}


Before = Annotated[int | None, Query(ge=1, lt=2**31)]


@router.get("/audit.json")
def audit_json(request: Request, before: Before = None, action: Word = None, actor: Word = None) -> dict[str, Any]:
    return audit_data(request, before, action, actor)


@router.get("/audit", response_class=HTMLResponse)
def audit_page(request: Request, before: Before = None, action: Word = None, actor: Word = None) -> str:
    data = audit_data(request, before, action, actor)
    return render(request, "audit.html", page_title="Audit", twin="/audit.json", **data)


# ---------------------------------------------------------------------------------------------------------------- about


def about_data(request: Request) -> dict[str, Any]:
    state, now = request.app.state, time.time()
    with reading(state.engine) as conn:
        schema = MigrationContext.configure(conn).get_current_revision()
        chores = views_health.chores(conn, now)
    late = [one["name"] for one in chores if one["late_s"] or one["error"]]
    return {
        "now": now,
        "version": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "database": state.engine.dialect.name,
        "schema": schema,
        "up_s": round(now - STARTED, 1),
        "upstream": state.settings.upstream_repo,
        "device": state.settings.device,
        "private": state.settings.pages_private,
        "late_chores": late,
        "healthy": not late,
    }


@router.get("/about.json")
def about_json(request: Request) -> dict[str, Any]:
    return about_data(request)


@router.get("/about", response_class=HTMLResponse)
def about_page(request: Request) -> str:
    return render(request, "about.html", page_title="About", twin="/about.json", **about_data(request))
