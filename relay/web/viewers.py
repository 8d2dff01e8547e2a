"""Who looks at a page, found once a request from the session's cookie; and what has to be so before a form acts."""

from __future__ import annotations

import hmac
import time
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from relay.domain.access import Policy, Viewer
from relay.domain.allowlist import Allowlist
from relay.errors import BadRequest, DocumentError, Forbidden, SettingsError, Unauthorized
from relay.services import allowlists
from relay.settings import Settings
from relay.store import web_sessions
from relay.store.db import reading
from relay.web import sessions
from relay.web.body import read_body

_KEY = "relay_viewer"
FORM = "application/x-www-form-urlencoded"
FORM_BYTES = 64 * 1024


def viewer_of(request: Request) -> Viewer | None:
    """The person who has signed in, None: nobody has. Reads the database, so not on the event loop."""
    if _KEY not in request.scope:
        request.scope[_KEY] = _find(request)
    viewer: Viewer | None = request.scope[_KEY]
    return viewer


def nobody(request: Request) -> None:
    """From now on nobody looks, as far as this request is concerned."""
    request.scope[_KEY] = None


def named_teams(request: Request) -> bool:
    """Whether any team is named where rights are given: then people's teams have to be asked for."""
    settings: Settings = request.app.state.settings
    oncalls = [name for _, names in _oncalls(request) for name in names]
    return bool(settings.access.teams()) or any("/" in name for name in oncalls)


async def form_of(request: Request) -> tuple[Viewer, dict[str, list[str]]]:
    """The viewer and the fields of a form that acts. Unauthorized: nobody has signed in. Forbidden: it does not come
    from one of our pages and this session. BadRequest: it is not a form."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("this form was not sent by a page of this relay", "open the page and use its button")
    viewer = await run_in_threadpool(viewer_of, request)
    if viewer is None:
        raise Unauthorized("nobody has signed in", "sign in first: /sign-in")
    if request.headers.get("content-type", "").partition(";")[0].strip().casefold() != FORM:
        raise BadRequest(f"the body is not a form ({FORM})", "send the fields as a browser's form does")
    raw = await read_body(request, FORM_BYTES, f"a form has at most {FORM_BYTES // 1024} KiB")
    fields: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), errors="strict"):
            fields.setdefault(name, []).append(value)
    except (UnicodeDecodeError, ValueError) as exc:
        raise BadRequest(f"the form cannot be read: {exc}", "send the fields as a browser's form does") from exc
    given = fields.pop("csrf", [""])[0]
    if not hmac.compare_digest(given.encode(), viewer.csrf.encode()):
        raise Forbidden("the form is of another session", "reload the page and use its button again")
    return viewer, fields


def may_ever(viewer: Viewer, action: str) -> bool:
    """Whether there is anything on which ``viewer`` may do it."""
    return viewer.may(action) or any(viewer.may(action, one) for one in viewer.downstreams)


def _find(request: Request) -> Viewer | None:
    token = sessions.token_of(request)
    if token is None:
        return None
    settings: Settings = request.app.state.settings
    with reading(request.app.state.engine) as conn:
        session = web_sessions.get(conn, token, time.time())
    if session is None:
        return None
    names = {session.login.casefold(), *session.teams}
    own = {repo for repo, oncalls in _oncalls(request) if names & {name.casefold() for name in oncalls}}
    policy: Policy = settings.access
    return Viewer(
        login=session.login,
        teams=frozenset(session.teams),
        downstreams=frozenset(own),
        home=_home(request),
        csrf=sessions.csrf_of(settings, token),
        policy=policy,
    )


def _oncalls(request: Request) -> list[tuple[str, tuple[str, ...]]]:
    listed = _allowlist(request)
    return [(entry.key, entry.oncalls) for entry in listed.entries] if listed else []


def _home(request: Request) -> str | None:
    """The downstream of this relay's own device."""
    listed, device = _allowlist(request), request.app.state.settings.device
    return next((e.key for e in listed.entries if e.device == device), None) if listed else None


def _allowlist(request: Request) -> Allowlist | None:
    state = request.app.state
    try:
        return allowlists.current(state.engine, state.settings, time.time())
    except (SettingsError, DocumentError):
        return None  # the status page says what is wrong with it; without one nobody is an oncall
