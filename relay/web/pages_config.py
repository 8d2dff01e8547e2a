"""/config: the allowlist in force, and the entries of the device's configs that somebody has to keep true."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from relay.domain.words import plural
from relay.errors import BadRequest, DocumentError, RelayError, SettingsError
from relay.services import allowlists
from relay.services.config_entries import STATES, Line, blame, counted, entries
from relay.settings import Settings
from relay.store import views_config
from relay.store.allowlists import stamp
from relay.store.db import reading
from relay.web import configured
from relay.web.page_route import PageRoute
from relay.web.pages_render import render
from selector.errors import SelectorError

router = APIRouter(route_class=PageRoute, include_in_schema=False)
PER_PAGE = 25
_lock = threading.Lock()
_blamed: dict[Path, tuple[int, dict[int, Line]]] = {}

Word = Annotated[str | None, Query(max_length=200)]
Page = Annotated[int, Query(ge=1, le=10_000)]


def config_data(
    request: Request, state: str | None, file: str | None, owner: str | None, find: str | None, page: int
) -> dict[str, Any]:
    if state is not None and state not in STATES:
        raise BadRequest(f"state: {state!r} is none", f"one of {', '.join(STATES)}")
    now = time.time()
    settings: Settings = request.app.state.settings
    with reading(request.app.state.engine) as conn:
        dead = views_config.dead(conn, settings.device)
    all_rows, problem = _entries(settings, now, dead)
    wanted = {"state": state, "file": file, "owner": owner}
    rows = [row for row in all_rows if all(v is None or _word(row[k]) == v for k, v in wanted.items())]
    if find:
        rows = [row for row in rows if find.casefold() in _text(row)]
    rows.sort(key=lambda row: STATES.index(row["state"]))
    pages = max(1, -(-len(rows) // PER_PAGE))
    if page > pages:
        raise BadRequest(f"there is no page {page}", f"the last page is {pages}")
    return {
        "now": now,
        "sentence": _sentence(all_rows, problem),
        "problem": problem,
        "device": settings.device,
        "folder": settings.configs_dir.name,
        "states": {name: counted(all_rows, "state").get(name, 0) for name in STATES},
        "files": counted(all_rows, "file"),
        "owners": counted(all_rows, "owner"),
        "filter": {**wanted, "find": find},
        "total": len(rows),
        "page": page,
        "pages": pages,
        "rows": rows[(page - 1) * PER_PAGE : page * PER_PAGE],
        "allowlist": _allowlist(request, now),
    }


@router.get("/config.json")
def config_json(
    request: Request, state: Word = None, file: Word = None, owner: Word = None, find: Word = None, page: Page = 1
) -> dict[str, Any]:
    return config_data(request, state, file, owner, find, page)


@router.get("/config", response_class=HTMLResponse)
def config_page(
    request: Request, state: Word = None, file: Word = None, owner: Word = None, find: Word = None, page: Page = 1
) -> str:
    data = config_data(request, state, file, owner, find, page)
    return render(request, "config.html", page_title="Config", twin="/config.json", **data)


def _entries(settings: Settings, now: float, dead: dict[str, str]) -> tuple[list[dict[str, Any]], str]:
    folder = settings.configs_dir
    try:
        configs = configured.device_of(folder).configs
    except (RelayError, SelectorError, OSError) as exc:
        return [], str(exc)
    lines = {path.name: _blame(path) for path in sorted(folder.glob("*.yaml"))}
    return entries(configs, today=datetime.fromtimestamp(now, UTC).date(), dead=dead, lines=lines), ""


def _blame(path: Path) -> dict[int, Line]:
    stamp = path.stat().st_mtime_ns
    with _lock:
        known = _blamed.get(path)
        if known is None or known[0] != stamp:
            known = _blamed[path] = (stamp, blame(path))
        return known[1]


def _allowlist(request: Request, now: float) -> dict[str, Any]:
    state = request.app.state
    source = state.settings.allowlist
    if not source.startswith("https:"):
        source = Path(source).name  # where it lies on this machine is nobody's to know
    found: dict[str, Any] = {"source": source, "problem": "", "since": None, "entries": []}
    try:
        listed = allowlists.current(state.engine, state.settings, now)
    except (SettingsError, DocumentError) as exc:
        return {**found, "problem": _nowhere(state.settings, str(exc))}
    with reading(state.engine) as conn:
        version = stamp(conn)
    found["since"] = version[1] if version is not None else None
    problem = allowlists.problem(state.engine, state.settings)
    found["problem"] = _nowhere(state.settings, str(problem)) if problem else ""
    found["entries"] = [
        {
            "repo": e.repo,
            "level": e.level,
            "device": e.device,
            "executor": e.executor,
            "events": list(e.events),
            "oncalls": list(e.oncalls),
            "line": e.line,
        }
        for e in listed.entries
    ]
    return found


def _nowhere(settings: Settings, text: str) -> str:
    """``text`` with the allowlist's name in place of its whole path."""
    path = settings.allowlist
    return text.replace(path, Path(path).name) if path and not path.startswith("https:") else text


def _sentence(rows: list[dict[str, Any]], problem: str) -> str:
    if problem:
        return "The configs of the device cannot be read"
    counts = counted(rows, "state")
    todo = {"dead": "name nothing any more", "expired": "have passed their end", "unexplained": "have no reason"}
    said = [f"{counts[name]:,} {words}" for name, words in todo.items() if counts.get(name)]
    return f"{plural(len(rows), 'entry', 'entries')}: {', '.join(said) if said else 'each has its reason and holds'}"


def _word(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _text(row: dict[str, Any]) -> str:
    return " ".join((*row["names"], row["path"], row["reason"], row["issue"], row["place"])).casefold()
