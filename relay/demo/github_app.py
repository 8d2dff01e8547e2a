"""The local GitHub's side of making an App: the form that takes a manifest, and the exchange of its code."""

from __future__ import annotations

import json
import secrets
from typing import Any
from urllib.parse import parse_qs, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse

from relay.demo.ledger import APP_ID, PERMISSIONS, GithubError, Ledger

NEEDED = ("name", "url", "redirect_url", "default_permissions", "default_events")


def add_app_manifests(app: FastAPI, ledger: Ledger) -> None:
    """Routes of the manifest flow. A code is good once; whoever posts a manifest is taken to be signed in."""
    codes: dict[str, dict[str, Any]] = {}

    async def take(request: Request, state: str = "") -> Any:
        form = parse_qs((await request.body()).decode())
        try:
            wanted = json.loads(form["manifest"][0])
        except (KeyError, ValueError) as exc:
            raise GithubError(422, "Invalid GitHub App configuration: the manifest is not JSON") from exc
        missing = [key for key in NEEDED if not wanted.get(key)]
        unknown = [key for key in wanted["default_permissions"] if key not in PERMISSIONS] if not missing else []
        if missing or unknown:
            raise GithubError(422, f"Invalid GitHub App configuration: {', '.join(missing or unknown)}")
        code = secrets.token_hex(20)
        codes[code] = wanted
        return RedirectResponse(f"{wanted['redirect_url']}?{urlencode({'code': code, 'state': state})}", 302)

    app.add_api_route("/settings/apps/new", take, methods=["POST"])
    app.add_api_route("/organizations/{org}/settings/apps/new", take, methods=["POST"])

    @app.post("/app-manifests/{code}/conversions", status_code=201)
    async def convert(code: str) -> Any:
        wanted = codes.pop(code, None)
        if wanted is None:
            raise GithubError(404, "Not Found")
        return {
            "id": APP_ID,
            "slug": wanted["name"].casefold().replace(" ", "-"),
            "name": wanted["name"],
            "client_id": "Iv23liDEMO",
            "client_secret": secrets.token_hex(20),
            "webhook_secret": secrets.token_hex(20),
            "pem": ledger.app_key.pem,
            "html_url": f"{ledger.url}/apps/{wanted['name'].casefold().replace(' ', '-')}",
            "permissions": wanted["default_permissions"],
            "events": wanted["default_events"],
        }
