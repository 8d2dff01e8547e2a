"""Forms that act. Each names what it wants, brings the session's token, and sends the browser back to where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from relay.domain.access import Viewer
from relay.errors import BadRequest, RelayError
from relay.services import acting, quarantining
from relay.web import sessions
from relay.web.limits import limits_of
from relay.web.page_route import PageRoute, open_to_all
from relay.web.sign_in import local
from relay.web.viewers import form_of

log = structlog.get_logger(__name__)
router = APIRouter(prefix="/act", route_class=PageRoute, include_in_schema=False)
MOST_EFFECTS = 500

Fields = Mapping[str, Sequence[str]]


@router.post("/rerun")
@open_to_all
async def rerun(request: Request) -> RedirectResponse:
    def act(conn: Connection, viewer: Viewer, fields: Fields, now: float) -> str:
        return acting.run_again(conn, viewer, one(fields, "run"), one(fields, "scope", "failed"), now)

    return await do(request, "rerun", act)


@router.post("/quarantine")
@open_to_all
async def quarantine(request: Request) -> RedirectResponse:
    def act(conn: Connection, viewer: Viewer, fields: Fields, now: float) -> str:
        acting.need(viewer, "quarantine")
        names = ("test", "variant", "reason", "issue", "until", "evidence")
        told = {name: one(fields, name, "" if name in ("variant", "evidence") else None) for name in names}
        quarantining.add(conn, device=request.app.state.settings.device, **told, actor=viewer.login, now=now)
        return f"{told['test']} is in quarantine until {told['until']}: its failures count against nobody."

    return await do(request, "quarantine", act)


@router.post("/quarantine/end")
@open_to_all
async def quarantine_end(request: Request) -> RedirectResponse:
    def act(conn: Connection, viewer: Viewer, fields: Fields, now: float) -> str:
        acting.need(viewer, "quarantine")
        test = quarantining.end(conn, number(fields, "entry"), actor=viewer.login, now=now)
        return f"{test} is out of quarantine: its failures count again."

    return await do(request, "quarantine", act)


@router.post("/outbox")
@open_to_all
async def outbox(request: Request) -> RedirectResponse:
    """``what``: retry or drop (with ``reason``); ``effect``: one or more numbers. What cannot be done of several is
    said, and does not keep the others from it."""

    def act(conn: Connection, viewer: Viewer, fields: Fields, now: float) -> str:
        acting.need(viewer, "replay")
        what = one(fields, "what")
        if what not in ("retry", "drop"):
            raise BadRequest(f"what: {what!r} is neither retry nor drop", "use the button of the page")
        reason = one(fields, "reason", "")
        numbers = [whole(text, "effect") for text in fields.get("effect", ())]
        if not 0 < len(numbers) <= MOST_EFFECTS:
            raise BadRequest(f"effect: choose 1 to {MOST_EFFECTS}", "tick the boxes of those you mean")
        said, failed = [], []
        for id in dict.fromkeys(numbers):
            try:
                with conn.begin_nested():
                    if what == "retry":
                        said.append(acting.send_again(conn, viewer, id, now))
                    else:
                        said.append(acting.drop(conn, viewer, id, reason, now))
            except RelayError as exc:
                if len(numbers) == 1:
                    raise
                failed.append(exc.message)
        if not said:
            raise BadRequest("; ".join(failed[:3]), "nothing was done")
        sentence = said[0] if len(said) == 1 else f"{len(said)} effects: {what} done."
        return sentence + (f" Not done: {'; '.join(failed[:3])}." if failed else "")

    return await do(request, "replay", act)


async def do(
    request: Request, action: str, act: Callable[[Connection, Viewer, Fields, float], str]
) -> RedirectResponse:
    """Checks the form, acts in one transaction, and goes back with a sentence about it."""
    viewer, fields = await form_of(request)
    limits_of(request).acting.take(viewer.login, "actions")

    def run() -> str:
        with request.app.state.engine.begin() as conn:
            return act(conn, viewer, fields, time.time())

    sentence = await run_in_threadpool(run)
    log.info("acted", action=action, login=viewer.login, said=sentence)
    response = RedirectResponse(local(one(fields, "back", "/")), status_code=303)
    sessions.say(response, request.app.state.settings, sentence)
    return response


def one(fields: Fields, name: str, default: str | None = None) -> str:
    """The only value of a field. BadRequest."""
    values = fields.get(name, ())
    if not values and default is not None:
        return default
    if len(values) != 1 or "\x00" in values[0]:
        raise BadRequest(f"{name}: the form has {len(values)} values of it", "use the form of the page")
    return values[0]


def number(fields: Fields, name: str) -> int:
    return whole(one(fields, name), name)


def whole(text: str, name: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 15:
        raise BadRequest(f"{name}: {text!r} is not a number", "use the form of the page")
    return int(text)
