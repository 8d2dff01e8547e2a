"""A run's page and its JSON twin."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from relay.artifacts import artifacts
from relay.services import log_tails
from relay.store import views_run
from relay.store.db import reading
from relay.store.views_parts import FAILING
from relay.web.hud import DAY_S
from relay.web.page_route import PageRoute
from relay.web.pages_gantt import seconds_left
from relay.web.pages_render import render
from relay.web.pages_sentences import run_sentence
from relay.web.pages_stages import progress, shard_progress, stages
from relay.web.pages_text import tag

Map = dict[str, Any]
LOG_SHOWN = 8000
"""Characters of the end of a log that a page carries."""
router = APIRouter(route_class=PageRoute, include_in_schema=False)


def run_words(found: Map, now: float) -> Map:
    """A run's view with what is derived from it: sentence, stages, progress, an estimate of the seconds left."""
    head = found["outcomes"]["head"]
    counts = {
        "planned": (found["plan"] or {"counts": {}})["counts"].get("planned"),
        "variants_done": sum(head.values()),
        "failing": sum(head.get(o, 0) for o in FAILING),
    }
    done = progress(found["shards"])
    return {
        **found,
        "sentence": run_sentence(found["run"], counts, found["jobs"]),
        "counts": counts,
        "progress": done,
        "left_s": seconds_left(found["run"], found["shards"], done, now),
        "stages": stages(found["run"], found["plan"], found["outcomes"], found["shards"]),
        "shards": [{**s, "progress": round(shard_progress(s), 4)} for s in found["shards"]],
    }


class RunQuery:
    """The query string of a run's page."""

    def __init__(
        self,
        side: str = "head",
        outcome: str | None = None,
        page: Annotated[int, Query(ge=1)] = 1,
        per: int = views_run.PER_PAGE,
        stage: str | None = None,
        dpage: Annotated[int, Query(ge=1)] = 1,
    ) -> None:
        self.values: Map = {"side": side, "outcome": outcome, "page": page, "per": per, "stage": stage, "dpage": dpage}

    def given(self) -> Map:
        """What is not at its default: what a link to the same view has to carry."""
        return {k: v for k, v in self.values.items() if v != RUN_DEFAULTS[k]}


RUN_DEFAULTS: Map = RunQuery().values


def run_data(request: Request, id: str, query: RunQuery) -> Map:
    state = request.app.state
    now = time.time()
    with reading(state.engine) as conn:
        found = views_run.run(conn, id, base_url=state.settings.url, now=now, **query.values)
    log_tails.Ends(artifacts(state.settings)).fill(found["results"]["rows"], LOG_SHOWN)
    return run_words(found, now)


@router.get("/run/{id}.json")
def run_json(request: Request, id: str, query: Annotated[RunQuery, Depends()]) -> Map:
    return run_data(request, id, query)


@router.get("/run/{id}", response_class=HTMLResponse)
def run_page(request: Request, id: str, query: Annotated[RunQuery, Depends()]) -> str:
    data = run_data(request, id, query)
    title = f"{data['run']['downstream']} · run {tag(id)}"
    days: float = request.app.state.settings.keep_details_days
    kept = f"{days:g} day{'' if days == 1 else 's'}" if _tidied(data, days) else None
    look = {"twin": f"/run/{id}.json", "query": query.given(), "tidied": kept}
    return render(request, "run.html", page_title=title, **look, **data)


def _tidied(data: Map, days: float) -> bool:
    """Whether what the run did was kept for ``days`` and is gone: its page is not to look as if it had done nothing."""
    run = data["run"]
    ended = run["closed_at"]
    old = ended is not None and ended < data["now"] - days * DAY_S
    return old and run["executor"] == "workers" and run["started_at"] is not None and data["plan"] is None
