"""More of the local GitHub: comments, runs that are cancelled or run again, repositories by number, renames."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from relay.demo.ledger import APP_ID, APP_SLUG, GithubError, Ledger, stamp

Body = Callable[[Request], Awaitable[dict[str, Any]]]
Allow = Callable[..., None]


def add_renames(app: FastAPI, ledger: Ledger) -> None:
    """Calls under a name that a repository gave up are answered with its number, as GitHub does."""

    @app.middleware("http")
    async def moved(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        words = request.url.path.split("/")
        if words[1:2] == ["repos"] and len(words) > 3:
            number = ledger.renamed.get(f"{words[2]}/{words[3]}".casefold())
            if number is not None:
                place = "/".join(["", "repositories", str(number), *words[4:]])
                status = 301 if request.method == "GET" else 307
                message = {"message": "Moved Permanently", "url": ledger.url + place}
                return JSONResponse(message, status_code=status, headers={"location": ledger.url + place})
        return await call_next(request)

    @app.get("/repositories/{number}/installation")
    async def installation(number: int, request: Request) -> Any:
        ledger.check_app(request.headers.get("authorization"))
        return ledger.installation(ledger.installation_of(ledger.named(number).split("/")[0]))

    @app.get("/repositories/{number}")
    async def repository(number: int, request: Request) -> Any:
        name = ledger.named(number)
        ledger.check_token(request.headers.get("authorization"), name, "metadata", "read")
        return {"id": number, "full_name": name, "name": name.split("/")[1]}


def add_comments(app: FastAPI, ledger: Ledger, allow: Allow, body: Body) -> None:
    @app.post("/repos/{owner}/{repo}/issues/{number}/comments", status_code=201)
    async def create(owner: str, repo: str, number: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "pull_requests")
        text = (await body(request)).get("body")
        if not isinstance(text, str) or not text.strip() or len(text) > 65_536:
            raise GithubError(422, "Validation Failed: body")
        found = ledger.next_id()
        now = stamp(ledger.clock())
        row = {
            "id": found,
            "repo": f"{owner}/{repo}",
            "number": number,
            "body": text,
            "html_url": f"https://github.com/{owner}/{repo}/pull/{number}#issuecomment-{found}",
            "created_at": now,
            "updated_at": now,
            "performed_via_github_app": {"id": APP_ID, "slug": APP_SLUG},
        }
        ledger.comments[found] = row
        return row

    @app.patch("/repos/{owner}/{repo}/issues/comments/{comment}")
    async def change(owner: str, repo: str, comment: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "pull_requests")
        if comment not in ledger.comments:
            raise GithubError(404, "Not Found")
        text = (await body(request)).get("body")
        ledger.comments[comment] |= {"body": text, "updated_at": stamp(ledger.clock())}
        return ledger.comments[comment]

    @app.delete("/repos/{owner}/{repo}/issues/comments/{comment}", status_code=204)
    async def delete(owner: str, repo: str, comment: int, request: Request) -> Response:
        allow(request, f"{owner}/{repo}", "pull_requests")
        if ledger.comments.pop(comment, None) is None:
            raise GithubError(404, "Not Found")
        return Response(status_code=204)

    @app.get("/repos/{owner}/{repo}/issues/{number}/comments")
    async def listed(owner: str, repo: str, number: int, request: Request, since: str = "") -> Any:
        allow(request, f"{owner}/{repo}", "pull_requests", "read")
        name = f"{owner}/{repo}".casefold()
        rows = [row for row in ledger.comments.values() if (row["repo"].casefold(), row["number"]) == (name, number)]
        return [row for row in rows if row["updated_at"] >= since]


def add_runs(app: FastAPI, ledger: Ledger, allow: Allow) -> None:
    def run_of(owner: str, repo: str, number: int) -> dict[str, Any]:
        row = ledger.runs.get(number)
        if row is None or row["repo"].casefold() != f"{owner}/{repo}".casefold():
            raise GithubError(404, "Not Found")
        return row

    @app.get("/repos/{owner}/{repo}/actions/runs/{number}")
    async def one(owner: str, repo: str, number: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "actions", "read")
        return run_of(owner, repo, number)

    @app.post("/repos/{owner}/{repo}/actions/runs/{number}/cancel", status_code=202)
    async def cancel(owner: str, repo: str, number: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "actions")
        row = run_of(owner, repo, number)
        if row["status"] == "completed":
            raise GithubError(409, "Cannot cancel a workflow run that is completed.")
        row.update(status="completed", conclusion="cancelled")
        return {}

    async def again(owner: str, repo: str, number: int, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "actions")
        row = run_of(owner, repo, number)
        if row["status"] != "completed":
            raise GithubError(403, "The workflow run is already running")
        attempt = int(row.get("run_attempt") or 1) + 1
        row.update(status="queued", conclusion=None, run_attempt=attempt)
        return {}

    for what in ("rerun", "rerun-failed-jobs"):
        app.post(f"/repos/{{owner}}/{{repo}}/actions/runs/{{number}}/{what}", status_code=201)(again)
