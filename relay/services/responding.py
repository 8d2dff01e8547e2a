"""The check of a level 4 downstream that waits for its first report: there from the dispatch on, so that a downstream
that never answers is seen, and a merge does not slip through before the first job has begun."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.domain.check_output import inert
from relay.domain.conclusions import TABLE, gate_sentence
from relay.domain.effects import iso
from relay.store import outbox
from relay.store.schema import dispatch
from relay.store.schema import outbox as table

WORKFLOW, JOB = "relay", "response"


def wanted(run: Row[Any]) -> bool:
    """Only of a downstream with a CI of its own, and not of an event that nobody reports on."""
    return run.level == "L4" and run.executor == "github" and run.action != "closed" and bool(run.head_sha)


def ask(conn: Connection, url: str, ids: Iterable[str], now: float, at: float) -> None:
    """Asks for the waiting checks of those of the dispatches that get one. ``url``: where our pages are."""
    runs = conn.execute(select(dispatch).where(dispatch.c.id.in_(list(ids)))).all()
    rows = [
        outbox.request(
            f"response:{run.id}:queued",
            "check_run",
            stream_of(run.id),
            run.upstream,
            _body(run, url, "queued", None, f"{inert(run.downstream)} was told and has not reported yet."),
            now=now,
            at=at,
            dispatch_id=run.id,
        )
        for run in runs
        if wanted(run)
    ]
    outbox.enqueue_all(conn, rows)


def settle(conn: Connection, url: str, run: Row[Any], outcome: str, sentence: str, now: float) -> None:
    """Ends the waiting check: ``outcome`` is a row of the table of conclusions, ``sentence`` Markdown. Whatever comes
    later is not said here: doing it again for the same outcome changes nothing."""
    if not wanted(run):
        return
    unsent = update(table).where(
        table.c.key == f"response:{run.id}:queued", table.c.state == "due", table.c.attempts == 0
    )
    if conn.execute(unsent.values(state="dropped", due_at=None, last_error=f"{outcome} before it was sent")).rowcount:
        return
    asked = select(table.c.id).where(table.c.key == f"response:{run.id}:queued")
    if conn.execute(asked).first() is None:
        return
    outbox.enqueue(
        conn,
        key=f"response:{run.id}:{outcome}",
        kind="check_run",
        stream=stream_of(run.id),
        target=run.upstream,
        payload=_body(run, url, "completed", outcome, sentence) | {"completed_at": iso(now)},
        now=now,
        dispatch_id=run.id,
    )


def stream_of(dispatch_id: str) -> str:
    """The stream of effects of the check that waits."""
    return f"check:{dispatch_id}:response"


def _body(run: Row[Any], url: str, status: str, outcome: str | None, sentence: str) -> dict[str, Any]:
    conclusion = TABLE[outcome].conclusion if outcome is not None else None
    title = "Waiting for the first report" if outcome is None else TABLE[outcome].words.capitalize()
    if outcome == "passed":
        title = "The downstream has reported"
    page = f"{url}/run/{run.id}"
    number = f":{run.pr_number}" if run.pr_number is not None else ""
    body = {
        "name": f"crcr/{run.downstream}/{WORKFLOW}/{JOB}",
        "head_sha": run.head_sha,
        "status": status,
        "details_url": page,
        "external_id": f"{run.id}{number}",
        "output": {
            "title": title,
            "summary": "\n\n".join((sentence, gate_sentence(run.level, status, conclusion), f"[The run]({page})")),
        },
    }
    return body if conclusion is None else {**body, "conclusion": conclusion}
