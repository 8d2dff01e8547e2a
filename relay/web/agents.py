"""What models were asked about a run, word for word. The run's page shows the rest (``_agents.html``)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from relay.errors import NotFound
from relay.store import dispatches, views_agents
from relay.store.db import reading
from relay.web.page_route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/run/{id}/agents.json")
def agents_json(request: Request, id: str) -> dict[str, Any]:
    """Every record of the run, with its transcript. Strangers' text is in it: data, as JSON."""
    with reading(request.app.state.engine) as conn:
        if dispatches.get(conn, id) is None:
            raise NotFound(f"no run {id}", "its address comes from a check run, from /pr/<number> or from /")
        return views_agents.of_run(conn, id, transcripts=True)
