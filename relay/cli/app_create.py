"""The body of ``relay app create``: GitHub's manifest flow, from a page on this machine to files with the secrets.

    browser ──▶ page here ──form──▶ GitHub, where a person says yes ──redirect with a code──▶ here ──▶ GitHub's API

The code is good for an hour and once. What comes back (private key, webhook secret, client secret) goes into files that
only this user can read, and is never printed.
"""

from __future__ import annotations

import html
import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import typer

from relay.domain.app_manifest import form_url, manifest
from relay.errors import BadRequest, Conflict, Unavailable
from relay.github.http import make_http
from relay.settings import load

FILES = {"pem": "github_private_key", "webhook_secret": "webhook_secrets", "client_secret": "oauth_client_secret"}
"""What GitHub answers -> the file of ``secrets_dir``."""


@dataclass(frozen=True, slots=True)
class Made:
    """The App as GitHub made it, without its secrets."""

    id: str
    slug: str
    client_id: str
    page: str


def run(
    config: str | None,
    folder: Path,
    name: str,
    organization: str,
    port: int,
    code: str,
    print_only: bool,
    wait_s: float,
) -> int:
    """Walks through it; -> exit code. BadRequest, Conflict, Unavailable."""
    settings = load(config)
    webhook = settings.url.startswith("https://")
    wanted = manifest(settings.url, name, webhook=webhook)
    if print_only:
        typer.echo(json.dumps(wanted, indent=2))
        return 0
    _must_be_free(folder)
    if not webhook:
        typer.echo(
            f"{settings.url} is not https: the webhook is left switched off. Set public_url first, if it is known."
        )
    if not code:
        code = _ask(wanted, settings.github_url, organization, port, wait_s, typer.echo)
    made = exchange(settings.github_api_url, code, folder)
    typer.echo(f"Made: {made.page}\nIts secrets are in {folder}, readable by this user alone. For relay.toml:\n")
    typer.echo(f'github_app_id = "{made.id}"\nsecrets_dir = "{folder.absolute()}"\n')
    typer.echo(f'For people to sign in: oauth_client_id = "{made.client_id}", and in the environment')
    typer.echo(f"RELAY_OAUTH_CLIENT_SECRET from {folder / 'oauth_client_secret'}.\n")
    typer.echo(
        f"Next: install it at upstream and the downstreams ({made.page}/installations/new), then `relay doctor`."
    )
    return 0


def exchange(api_url: str, code: str, folder: Path) -> Made:
    """Takes the App's secrets for the ``code`` of the redirect and writes them into ``folder``. BadRequest for a code
    that GitHub does not know (used, or older than an hour), Conflict where there are secrets, Unavailable."""
    _must_be_free(folder)
    if not code or not all(c.isalnum() or c in "-_" for c in code):
        raise BadRequest("the code is not one of GitHub's", "it is the value of code= in the address GitHub leads to")
    http = make_http(api_url)
    try:
        answer = http.post(
            f"{api_url}/app-manifests/{code}/conversions", headers={"Accept": "application/vnd.github+json"}
        )
        body = answer.json() if answer.status_code == 201 else {}
    except (httpx2.HTTPError, ValueError) as exc:
        raise Unavailable(f"{api_url} does not answer: {exc}", "try again: the code is good for an hour") from exc
    finally:
        http.close()
    if answer.status_code in (404, 422):
        raise BadRequest("GitHub does not know this code", "it is good once and for an hour: begin anew")
    missing = [key for key in ("id", *FILES) if not body.get(key)]
    if answer.status_code != 201 or missing:
        said = f"without {', '.join(missing)}" if answer.status_code == 201 else f"with {answer.status_code}"
        raise Unavailable(f"GitHub answered {said}", "look at the App on GitHub's page, and make its keys there")
    _keep(folder, {name: str(body[key]) for key, name in FILES.items()})
    return Made(str(body["id"]), str(body.get("slug")), str(body.get("client_id")), str(body.get("html_url")))


def _must_be_free(folder: Path) -> None:
    for name in FILES.values():
        if (folder / name).exists():
            raise Conflict(
                f"{folder / name} is there already", "give another --secrets folder, or move the old ones away"
            )


def _keep(folder: Path, found: Mapping[str, str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in found.items():
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(text.strip() + "\n")


def _ask(
    wanted: dict[str, Any], github_url: str, organization: str, port: int, wait_s: float, say: Callable[[str], None]
) -> str:
    """Serves the page, and waits for GitHub to lead the browser back; -> the code."""
    state, back = secrets.token_urlsafe(24), threading.Event()
    codes: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path)
            if path.path == "/":
                self._answer(
                    200, _page(wanted | {"redirect_url": f"{here}/made"}, form_url(github_url, organization, state))
                )
                return
            asked = parse_qs(path.query)
            if path.path != "/made" or not secrets.compare_digest(asked.get("state", [""])[0], state):
                self._answer(404, "<p>There is nothing here.")
                return
            codes.append(asked.get("code", [""])[0])
            self._answer(200, "<p>The App is made. The rest is said where <code>relay app create</code> runs.")
            back.set()

        def _answer(self, status: int, text: str) -> None:
            body = f"<!doctype html><meta charset=utf-8><title>relay app create</title>{text}".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """The address has the code."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Page)
    except OSError as exc:
        raise BadRequest(f"cannot listen on 127.0.0.1:{port}: {exc.strerror}", "give another --port") from exc
    here = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    tunnel = f"ssh -L {server.server_port}:127.0.0.1:{server.server_port} …"
    say(f"Open {here}/ in a browser on this machine (from elsewhere by a tunnel: {tunnel}).")
    try:
        if not back.wait(wait_s):
            raise Unavailable(
                f"nobody came back from GitHub within {wait_s:g} s",
                "with the browser elsewhere, give the code= of the address it ends at: relay app create --code …",
            )
    finally:
        server.shutdown()
        server.server_close()
    return codes[0]


def _page(wanted: dict[str, Any], to: str) -> str:
    told = "".join(
        f"<li><code>{html.escape(n)}: {html.escape(v)}</code>" for n, v in wanted["default_permissions"].items()
    )
    return (
        f"<h1>Make the GitHub App “{html.escape(wanted['name'])}”</h1>"
        f"<p>For the relay at {html.escape(wanted['url'])}, with these permissions where it is installed:"
        f"<ul>{told}</ul>"
        f'<form action="{html.escape(to)}" method="post">'
        f'<input type="hidden" name="manifest" value="{html.escape(json.dumps(wanted))}">'
        "<button>On to GitHub</button></form>"
    )
