"""Webhooks of the local GitHub: sending one, and the deliveries API by which a missed one is found and sent again."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from relay.demo.ledger import GithubError, Ledger, stamp


def add_hooks(app: FastAPI, ledger: Ledger, spawn: Callable[[Coroutine[Any, Any, Any]], None]) -> None:
    """Routes of ``/app/hook/deliveries``; ``spawn`` runs a coroutine beside the request."""

    @app.get("/app/hook/deliveries")
    async def deliveries(request: Request, per_page: int = 30, cursor: int | None = None) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        rows = [
            {k: v for k, v in row.items() if k not in ("request", "response", "url")}
            for row in sorted(ledger.deliveries.values(), key=lambda r: -r["id"])
            if cursor is None or row["id"] < cursor
        ]
        page = rows[: max(1, min(per_page, 100))]
        if len(rows) == len(page):
            return page
        after = f"{ledger.url}/app/hook/deliveries?per_page={per_page}&cursor={page[-1]['id']}"
        return JSONResponse(page, headers={"link": f'<{after}>; rel="next"'})

    @app.get("/app/hook/deliveries/{number}")
    async def delivery(number: int, request: Request) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        if number not in ledger.deliveries:
            raise GithubError(404, "Not Found")
        return ledger.deliveries[number]

    @app.post("/app/hook/deliveries/{number}/attempts", status_code=202)
    async def redeliver(number: int, request: Request) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        if number not in ledger.deliveries:
            raise GithubError(404, "Not Found")
        old = ledger.deliveries[number]
        spawn(deliver(ledger, old["url"], old["request"]["headers"], old["request"]["payload"], True))
        return {}


async def deliver(
    ledger: Ledger, url: str, headers: dict[str, str], payload: str, again: bool = False
) -> dict[str, Any]:
    """Sends one webhook, waits ten seconds for the answer as GitHub does, and keeps it for redelivery."""
    body, started = json.loads(payload), ledger.clock()
    row: dict[str, Any] = {
        "id": ledger.next_id(),
        "guid": headers.get("X-GitHub-Delivery", ""),
        "delivered_at": stamp(started),
        "redelivery": again,
        "status": "OK",
        "status_code": 0,
        "event": headers.get("X-GitHub-Event", ""),
        "action": body.get("action"),
        "installation_id": (body.get("installation") or {}).get("id"),
        "repository_id": (body.get("repository") or {}).get("id"),
        "throttled_at": None,
        "url": url,
        "request": {"headers": headers, "payload": payload},
        "response": {"headers": {}, "payload": ""},
    }
    try:
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as client:
            answer = await client.post(url, content=payload.encode(), headers=headers)
        row["status_code"] = answer.status_code
        row["status"] = "OK" if answer.is_success else f"Invalid HTTP Response: {answer.status_code}"
        row["response"] = {"headers": dict(answer.headers), "payload": answer.text[:20_000]}
    except httpx2.TimeoutException:
        row["status"] = "timed out"
    except httpx2.HTTPError as exc:
        row["status"] = f"failed to connect to host: {exc}"
    row["duration"] = round(ledger.clock() - started, 3)
    ledger.deliveries[row["id"]] = row
    return row
