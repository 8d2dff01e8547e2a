"""The HUD's intake as its dashboard has it: ``POST /api/crcr/results``."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

MAX_BYTES = 2 * 1024 * 1024


@dataclass
class Hud:
    """``received``: every accepted body, in order; ``rows``: the table, by key, as an upsert of the set fields."""

    bot_key: str
    received: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def store(self, body: dict[str, Any]) -> tuple[str, str]:
        """Keeps the row; -> (its key, its status). Raises ValueError that names what is missing."""
        trusted, callback = body.get("trusted"), (body.get("untrusted") or {}).get("callback_payload")
        if not isinstance(trusted, dict) or not isinstance(callback, dict):
            raise ValueError("trusted or untrusted.callback_payload is missing")
        workflow = callback.get("workflow")
        if not isinstance(workflow, dict):
            raise ValueError("workflow is missing")
        for name in ("job_name", "check_run_id"):
            if not workflow.get(name):
                raise ValueError(f"workflow.{name} is missing")
        parts = (trusted["verified_repo"], callback["delivery_id"], workflow["name"])
        key = "/".join(str(p) for p in (*parts, workflow["job_name"], workflow["check_run_id"]))
        fields = {
            **{k: v for k, v in workflow.items() if v is not None},
            **{k: v for k, v in (trusted.get("ci_metrics") or {}).items() if v is not None},
            "level": trusted.get("downstream_repo_level"),
        }
        self.received.append(body)
        self.rows[key] = {**self.rows.get(key, {}), **fields}
        return key, str(workflow.get("status"))


def add_hud(app: FastAPI, hud: Hud) -> None:
    @app.post("/api/crcr/results")
    async def results(request: Request) -> JSONResponse:
        given = request.headers.get("x-hud-internal-bot", "")
        if not hud.bot_key or not secrets.compare_digest(given.encode(), hud.bot_key.encode()):
            return JSONResponse({"error": "Unauthorized"}, status_code=401)
        raw = await request.body()
        if len(raw) > MAX_BYTES:
            return JSONResponse({"error": "Body exceeds 2mb limit"}, status_code=413)
        try:
            key, status = hud.store(json.loads(raw))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            return JSONResponse({"error": f"Bad request: {exc}"}, status_code=400)
        return JSONResponse({"ok": True, "status": status, "dynamoKey": key})
