"""A small local GitHub: the REST calls the relay makes, in GitHub's real shapes, a token issuer, and the HUD's intake.

    python -m relay.demo.github --port 8470 --dir .relay/demo/github

It is a test double with teeth: tokens, permissions, limits and bodies are checked as GitHub checks them, every call is
recorded (``calls.jsonl`` and ``GET /_control/calls``), and ``POST /_control/faults`` makes calls fail, wait or lose
their answer; see docs/demo.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from relay.demo.downstream import DownstreamCI
from relay.demo.github_app import add_app_manifests
from relay.demo.github_files import Files, add_files
from relay.demo.github_more import add_comments, add_renames, add_runs
from relay.demo.github_people import People, add_people
from relay.demo.hooks import add_hooks, deliver
from relay.demo.hud import Hud, add_hud
from relay.demo.ledger import APP_ID, PERMISSIONS, GithubError, Key, Ledger, stamp
from relay.demo.public_reads import Contained, add_public_reads
from relay.demo.recorder import Fault, Recorder
from relay.domain.app_manifest import EVENTS

REPOS = ("pytorch/pytorch", "torch-spyre/torch-spyre", "example-org/backend-ci")
PEOPLE = {"spyre-oncall": (), "oscar": ("pytorch/relay-operators",), "a-passer-by": ()}
"""Who can sign in: an oncall of the demo's downstream, an operator, and somebody with no rights."""
EVENT_TYPE_MAX, PAYLOAD_KEYS_MAX, PAYLOAD_CHARS_MAX = 100, 10, 65_535


class LocalGithub:
    """The application and what stands behind it. ``asgi`` is what a server runs."""

    def __init__(
        self,
        url: str,
        folder: Path,
        hud_key: str,
        clock: Callable[[], float] = time.time,
        more_repos: Sequence[str] = (),
        keys: tuple[Key, Key] | None = None,
    ) -> None:
        """``keys``: the App's and the token issuer's; made here where none are given, which takes a while."""
        app_key, oidc_key = keys or (Key.make(), Key.make())
        self.ledger = Ledger(url, (*REPOS, *more_repos), clock, app_key, oidc_key)
        self.hud = Hud(hud_key)
        self.ci: dict[str, DownstreamCI] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.app = FastAPI(title="A small local GitHub", docs_url=None, redoc_url=None, openapi_url=None)
        self.app.add_exception_handler(GithubError, _as_github)  # type: ignore[arg-type]
        self.app.add_exception_handler(RequestValidationError, _as_unprocessable)  # type: ignore[arg-type]
        _add_app_routes(self.app, self)
        _add_repo_routes(self.app, self)
        add_hooks(self.app, self.ledger, self.spawn)
        add_renames(self.app, self.ledger)
        add_app_manifests(self.app, self.ledger)
        self.files = Files()
        add_files(self.app, self.files, self.allow)
        self.contained: Contained = {}
        add_public_reads(self.app, self.ledger, self.contained)
        self.people = People(clock)
        for login, teams in PEOPLE.items():
            self.people.add(login, *teams)
        add_people(self.app, self.people)
        _add_issuer(self.app, self)
        add_hud(self.app, self.hud)
        self.asgi = Recorder(self.app, clock, folder / "calls.jsonl")
        _add_control(self.app, self)

    def allow(self, request: Request, repo: str, permission: str, level: str) -> None:
        """Raises GithubError where the request's token may not do this to the repository."""
        self.ledger.check_token(request.headers.get("authorization"), repo, permission, level)

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def _as_github(_request: Request, exc: GithubError) -> JSONResponse:
    return JSONResponse(exc.body, status_code=exc.status)


async def _as_unprocessable(_request: Request, exc: RequestValidationError) -> JSONResponse:
    first = exc.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"message": f"Invalid request.\n\n{where}: {first['msg']}", "status": "422"}, status_code=422)


async def _body(request: Request) -> dict[str, Any]:
    raw = await request.body()
    try:
        value = json.loads(raw) if raw else {}
    except ValueError as exc:
        raise GithubError(400, "Problems parsing JSON") from exc
    if not isinstance(value, dict):
        raise GithubError(400, "Body should be a JSON object")
    return value


def _add_app_routes(app: FastAPI, hub: LocalGithub) -> None:
    ledger = hub.ledger

    @app.get("/app")
    async def this_app(request: Request) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        told = {"id": APP_ID, "slug": "cross-repo-ci-relay-demo", "name": "Cross-repository CI relay (demo)"}
        return {**told, "permissions": PERMISSIONS, "events": list(EVENTS)}

    @app.get("/app/installations")
    async def installations(request: Request, per_page: int = 30, page: int = 1) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        return _paged(ledger.installations(), per_page, page)

    @app.get("/repos/{owner}/{repo}/installation")
    async def repo_installation(owner: str, repo: str, request: Request) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        if f"{owner}/{repo}".casefold() not in {name.casefold() for name in ledger.repos}:
            raise GithubError(404, "Not Found")
        return ledger.installation(ledger.installation_of(owner))

    @app.post("/app/installations/{number}/access_tokens", status_code=201)
    async def access_token(number: int, request: Request) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        text, token = ledger.make_token(number, await _body(request))
        return {
            "token": text,
            "expires_at": stamp(token.expires_at),
            "permissions": token.permissions,
            "repository_selection": "selected",
        }


def _add_repo_routes(app: FastAPI, hub: LocalGithub) -> None:
    ledger = hub.ledger

    def allow(request: Request, repo: str, permission: str, level: str = "write") -> None:
        ledger.check_token(request.headers.get("authorization"), repo, permission, level)

    @app.post("/repos/{owner}/{repo}/dispatches", status_code=204)
    async def dispatch(owner: str, repo: str, request: Request) -> Response:
        name = f"{owner}/{repo}"
        allow(request, name, "contents")
        body = await _body(request)
        event_type, payload = body.get("event_type"), body.get("client_payload") or {}
        if not isinstance(event_type, str) or not 1 <= len(event_type) <= EVENT_TYPE_MAX:
            raise GithubError(422, f"Invalid request.\n\nevent_type must have 1 to {EVENT_TYPE_MAX} characters.")
        if not isinstance(payload, dict):
            raise GithubError(422, "Invalid request.\n\nclient_payload must be an object.")
        if len(payload) > PAYLOAD_KEYS_MAX:
            limit = f"No more than {PAYLOAD_KEYS_MAX} properties are allowed; {len(payload)} were supplied."
            raise GithubError(422, f"Invalid request.\n\n{limit}")
        if len(json.dumps(payload, ensure_ascii=False, separators=(",", ":"))) > PAYLOAD_CHARS_MAX:
            raise GithubError(422, "Invalid request.\n\nclient_payload is too large.")
        ours = payload.get("relay")
        key = str((ours.get("dispatch_key") if isinstance(ours, dict) else None) or payload.get("delivery_id") or "")
        ledger.dispatches[name.casefold(), key] += 1
        ci = hub.ci.get(name.casefold())
        if ci is not None:
            hub.spawn(ci.started(key, event_type, payload))
        return Response(status_code=204)

    @app.post("/repos/{owner}/{repo}/check-runs", status_code=201)
    async def create_check_run(owner: str, repo: str, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "checks")
        return ledger.put_check_run(f"{owner}/{repo}", await _body(request))

    @app.patch("/repos/{owner}/{repo}/check-runs/{number}")
    async def update_check_run(owner: str, repo: str, number: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "checks")
        return ledger.put_check_run(f"{owner}/{repo}", await _body(request), number)

    @app.get("/repos/{owner}/{repo}/check-runs/{number}")
    async def get_check_run(owner: str, repo: str, number: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "checks", "read")
        row = ledger.check_runs.get(number)
        if row is None or row["repo"].casefold() != f"{owner}/{repo}".casefold():
            raise GithubError(404, "Not Found")
        return row

    @app.get("/repos/{owner}/{repo}/commits/{sha}/check-runs")
    async def list_check_runs(
        owner: str,
        repo: str,
        sha: str,
        request: Request,
        check_name: str | None = None,
        filter: str = "latest",
        per_page: int = 30,
        page: int = 1,
    ) -> Any:
        allow(request, f"{owner}/{repo}", "checks", "read")
        rows = ledger.find_check_runs(f"{owner}/{repo}", sha, check_name, filter == "latest")
        return {"total_count": len(rows), "check_runs": _page(rows, per_page, page)}

    @app.get("/repos/{owner}/{repo}/actions/runs")
    async def list_runs(
        owner: str,
        repo: str,
        request: Request,
        event: str | None = None,
        status: str | None = None,
        per_page: int = 30,
        page: int = 1,
    ) -> Any:
        allow(request, f"{owner}/{repo}", "actions", "read")
        rows = [
            row
            for row in sorted(ledger.runs.values(), key=lambda r: -r["id"])
            if row["repo"].casefold() == f"{owner}/{repo}".casefold()
            and event in (None, row["event"])
            and status in (None, row["status"], row["conclusion"])
        ]
        return {"total_count": len(rows), "workflow_runs": _page(rows, per_page, page)}

    add_comments(app, ledger, allow, _body)
    add_runs(app, ledger, allow)

    @app.get("/repos/{owner}/{repo}/pulls/{number}")
    async def pull(owner: str, repo: str, number: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "pull_requests", "read")
        row = ledger.pulls.get((f"{owner}/{repo}".casefold(), number))
        if row is None:
            raise GithubError(404, "Not Found")
        return row


def _add_issuer(app: FastAPI, hub: LocalGithub) -> None:
    @app.get("/.well-known/openid-configuration")
    async def configuration() -> Any:
        return {
            "issuer": hub.ledger.url,
            "jwks_uri": f"{hub.ledger.url}/.well-known/jwks",
            "subject_types_supported": ["public", "pairwise"],
            "response_types_supported": ["id_token"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid"],
        }

    @app.get("/.well-known/jwks")
    async def jwks() -> Any:
        return {"keys": [hub.ledger.oidc_key.jwk]}


def _add_control(app: FastAPI, hub: LocalGithub) -> None:
    """What a test or the demo's player sets and reads; not GitHub's, and not recorded."""

    @app.get("/_control/calls")
    async def calls(path: str = Query("", description="only calls whose path starts with this")) -> Any:
        return [call for call in hub.asgi.calls if call["path"].startswith(path)]

    @app.get("/_control/tally")
    async def tally(end: str = Query("", description="only calls whose path ends so")) -> Any:
        """How many calls were answered how, and when the last one was over: what a measurement needs."""
        found = [call for call in hub.asgi.calls if call["path"].endswith(end) and "seconds" in call]
        last = max((call["at"] + call["seconds"] for call in found), default=None)
        return {"calls": Counter(str(call["status"]) for call in found), "last_at": last}

    @app.post("/_control/faults")
    async def faults(rules: list[Fault]) -> Any:
        hub.asgi.faults[:] = rules
        return {"rules": len(rules)}

    @app.get("/_control/faults")
    async def list_faults() -> Any:
        return hub.asgi.faults

    @app.put("/_control/pulls/{owner}/{repo}")
    async def put_pull(owner: str, repo: str, pull: dict[str, Any]) -> Any:
        hub.ledger.pulls[f"{owner}/{repo}".casefold(), int(pull["number"])] = pull
        return {}

    @app.put("/_control/ci/{owner}/{repo}")
    async def put_ci(owner: str, repo: str, how: dict[str, Any]) -> Any:
        """``{callback_url, work_s?, results?}``: from now on dispatches to this repository start its CI."""
        hub.ci[f"{owner}/{repo}".casefold()] = DownstreamCI(f"{owner}/{repo}", ledger=hub.ledger, **how)
        return {}

    @app.post("/_control/webhook")
    async def webhook(what: dict[str, Any]) -> Any:
        """``{url, headers, payload}`` (payload: the exact text): sends it, and answers what came back."""
        return await deliver(hub.ledger, what["url"], what["headers"], what["payload"])

    @app.get("/_control/state")
    async def state() -> Any:
        return {
            "check_runs": list(hub.ledger.check_runs.values()),
            "runs": list(hub.ledger.runs.values()),
            "dispatches": [{"repo": repo, "key": key, "count": n} for (repo, key), n in hub.ledger.dispatches.items()],
            "callbacks": [{"repo": ci.repo, **note} for ci in hub.ci.values() for note in ci.callbacks],
            "doubles": {ci.repo: sum(n - 1 for n in ci.seen.values()) for ci in hub.ci.values()},
            "hud": hub.hud.received,
            "hud_rows": hub.hud.rows,
            "deliveries": list(hub.ledger.deliveries.values()),
        }


def _page(rows: list[dict[str, Any]], per_page: int, page: int) -> list[dict[str, Any]]:
    size = max(1, min(per_page, 100))
    return rows[(page - 1) * size : page * size]


def _paged(rows: list[dict[str, Any]], per_page: int, page: int) -> JSONResponse:
    """A list answer with GitHub's Link header where there is more."""
    part = _page(rows, per_page, page)
    more = len(rows) > (page - 1) * max(1, min(per_page, 100)) + len(part)
    return JSONResponse(part, headers={"link": f'<?per_page={per_page}&page={page + 1}>; rel="next"'} if more else {})


def listen(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; 0 takes a free port."""
    # asyncio sets TCP_NODELAY only where the protocol is named; without it small answers wait 40 ms
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener


def main(argv: list[str] | None = None) -> int:
    """Serves until SIGTERM. Prints one JSON line ``{"event": "ready", "url": ...}``; ``app.pem`` is in the folder."""
    parser = argparse.ArgumentParser(prog="python -m relay.demo.github", description="A small local GitHub.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--dir", type=Path, required=True, help="folder for calls.jsonl and app.pem")
    parser.add_argument("--repo", action="append", default=[], help="one more owner/name that has the App installed")
    args = parser.parse_args(argv)
    try:
        args.dir.mkdir(parents=True, exist_ok=True)
        listener = listen(args.port)
    except OSError as exc:
        print(f"cannot start: {exc} (choose another --port or --dir)", file=sys.stderr)  # noqa: T201
        return 2
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    hub = LocalGithub(url, args.dir, os.environ.get("RELAY_HUD_BOT_KEY", ""), more_repos=args.repo)
    pem = args.dir / "app.pem"
    pem.touch(mode=0o600)
    pem.write_text(hub.ledger.app_key.pem)
    # no proxy headers and no access log: the recorder must be the outermost layer
    config = uvicorn.Config(hub.asgi, log_level="warning", access_log=False, proxy_headers=False, lifespan="off")
    server = uvicorn.Server(config)
    print(json.dumps({"event": "ready", "url": url, "app_id": APP_ID, "pem": str(pem)}), flush=True)  # noqa: T201
    server.run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
