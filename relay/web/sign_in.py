"""Signing in with GitHub, and out again."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from relay.errors import NotFound, Unauthorized
from relay.github.people import People, Person
from relay.settings import Settings
from relay.store import audit, web_sessions
from relay.web import sessions
from relay.web.limits import limits_of
from relay.web.page_route import PageRoute, address, open_to_all
from relay.web.viewers import form_of, named_teams

log = structlog.get_logger(__name__)
router = APIRouter(route_class=PageRoute, include_in_schema=False)


def people_of(settings: Settings) -> People:
    """NotFound where signing in is not set up."""
    if not settings.signing_in:
        raise NotFound("nobody can sign in here", "the operator sets oauth_client_id and oauth_client_secret")
    return People(
        site_url=settings.github_url,
        api_url=settings.github_api_url,
        client_id=settings.oauth_client_id,
        client_secret=settings.oauth_client_secret.get_secret_value(),
    )


def local(path: str) -> str:
    """``path`` where it is one of this site, else ``/``: nobody is sent elsewhere from here."""
    return path if re.fullmatch(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*", path) else "/"


@router.get("/sign-in")
@open_to_all
def sign_in(request: Request, next: Annotated[str, Query(max_length=2000)] = "/") -> RedirectResponse:
    settings: Settings = request.app.state.settings
    people = people_of(settings)
    limits_of(request).signing_in.take(address(request), "sign-ins")
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    teams = named_teams(request)
    url = people.sign_in_url(redirect=_redirect(settings), state=state, verifier=verifier, teams=teams)
    response = RedirectResponse(url, status_code=303)
    kept = {"state": state, "verifier": verifier, "next": local(next), "teams": "yes" if teams else ""}
    sessions.keep(response, settings, kept)
    return response


@router.get("/sign-in/callback")
@open_to_all
def callback(
    request: Request,
    code: Annotated[str, Query(max_length=500)] = "",
    state: Annotated[str, Query(max_length=500)] = "",
    error: Annotated[str, Query(max_length=100)] = "",
) -> RedirectResponse:
    """Where GitHub sends the browser back to. A new session in any case: one from before is over."""
    settings: Settings = request.app.state.settings
    people = people_of(settings)
    limits_of(request).signing_in.take(address(request), "sign-ins")
    kept = sessions.kept(request)
    if kept is None or not hmac.compare_digest(kept["state"].encode(), state.encode()):
        raise Unauthorized("this sign-in was not begun in this browser, or too long ago", "begin again at /sign-in")
    if error or not code:
        response = RedirectResponse(kept["next"], status_code=303)
        sessions.say(response, settings, "You did not sign in.", bad=True)
        sessions.forget_kept(response, settings)
        return response
    found = people.person(code=code, redirect=_redirect(settings), verifier=kept["verifier"], teams=bool(kept["teams"]))
    return _signed_in(request, settings, found, kept["next"])


def _signed_in(request: Request, settings: Settings, found: Person, target: str) -> RedirectResponse:
    now, token, before = time.time(), sessions.new_token(), sessions.token_of(request)
    with request.app.state.engine.begin() as conn:
        if before is not None:
            web_sessions.end(conn, before)
        expires = now + settings.session_hours * 3600
        web_sessions.begin(
            conn, token, github_id=found.id, login=found.login, teams=found.teams, now=now, expires_at=expires
        )
        audit.record(conn, [audit.entry("session.begin", "pages", now=now, actor=found.login)])
    log.info("signed in", login=found.login)
    response = RedirectResponse(target, status_code=303)
    sessions.give_token(response, settings, token)
    sessions.forget_kept(response, settings)
    return response


@router.post("/sign-out")
@open_to_all
async def sign_out(request: Request) -> RedirectResponse:
    settings: Settings = request.app.state.settings
    await form_of(request)
    await run_in_threadpool(_end, request)
    response = RedirectResponse("/", status_code=303)
    sessions.take_token(response, settings)
    return response


def _end(request: Request) -> None:
    token = sessions.token_of(request)
    if token is not None:
        with request.app.state.engine.begin() as conn:
            web_sessions.end(conn, token)


def _redirect(settings: Settings) -> str:
    return f"{settings.url}/sign-in/callback"
