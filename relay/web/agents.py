"""What models were asked about a run, word for word: a page and its twin. The run's page has it in brief
(``_agents.html``)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from relay.errors import NotFound
from relay.store import dispatches, views_agents
from relay.store.db import reading
from relay.web.page_route import PageRoute
from relay.web.pages_render import render

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SHOWN = 20_000
"""Characters of one message that the page carries; the twin has all of it."""


@router.get("/run/{id}/agents.json")
def agents_json(request: Request, id: str) -> dict[str, Any]:
    """Every record of the run, with its transcript. Strangers' text is in it: data, as JSON."""
    return _asked(request, id)[1]


@router.get("/run/{id}/agents", response_class=HTMLResponse)
def agents_page(request: Request, id: str) -> str:
    run, found = _asked(request, id)
    title = f"Models asked about {run.downstream}"
    return render(request, "agents.html", page_title=title, twin=f"/run/{id}/agents.json", run=run, most=SHOWN, **found)


def _asked(request: Request, id: str) -> tuple[Any, dict[str, Any]]:
    with reading(request.app.state.engine) as conn:
        run = dispatches.get(conn, id)
        if run is None:
            raise NotFound(f"no run {id}", "its address comes from a check run, from /pr/<number> or from /")
        return run, views_agents.of_run(conn, id, transcripts=True)
