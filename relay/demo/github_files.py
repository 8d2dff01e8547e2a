"""The local GitHub's files, branches and pull requests that somebody opens, as far as a proposed change needs them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request

from relay.demo.ledger import GithubError
from relay.demo.public_reads import raw_file, wants_raw

Branches = dict[str, dict[str, str]]


@dataclass
class Files:
    """``repos``: owner/name (case folded) -> branch -> path -> text; ``opened``: the pull requests."""

    repos: dict[str, Branches] = field(default_factory=dict)
    opened: list[dict[str, Any]] = field(default_factory=list)

    def branch(self, repo: str, name: str) -> dict[str, str]:
        branches = self.repos.get(repo.casefold(), {})
        if name not in branches:
            raise GithubError(404, "Not Found")
        return branches[name]

    def below(self, repo: str, branch: str, folder: str) -> list[dict[str, Any]]:
        """What lies directly in a folder, in GitHub's shape."""
        start = folder.rstrip("/") + "/"
        inside = [path for path in self.branch(repo, branch) if path.startswith(start)]
        kinds = {rest.split("/")[0]: "dir" if "/" in rest else "file" for rest in (p[len(start) :] for p in inside)}
        return [{"name": name, "path": start + name, "type": kind} for name, kind in sorted(kinds.items())]

    def text(self, repo: str, branch: str, path: str) -> str:
        files = self.branch(repo, branch)
        if path not in files:
            raise GithubError(404, "Not Found")
        return files[path]


def blob_id(text: str) -> str:
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def tip_of(files: dict[str, str]) -> str:
    return hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


def add_files(app: FastAPI, files: Files, allow: Callable[[Request, str, str, str], None]) -> None:
    """``allow(request, repo, permission, level)`` checks the token."""

    @app.get("/repos/{owner}/{repo}/git/ref/heads/{name:path}")
    async def get_ref(owner: str, repo: str, name: str, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "contents", "read")
        return _ref(name, files.branch(f"{owner}/{repo}", name))

    @app.post("/repos/{owner}/{repo}/git/refs", status_code=201)
    async def make_ref(owner: str, repo: str, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "contents", "write")
        body = await request.json()
        name, branches = body["ref"].removeprefix("refs/heads/"), files.repos.get(f"{owner}/{repo}".casefold(), {})
        if name in branches:
            raise GithubError(422, "Reference already exists")
        source = next((held for held in branches.values() if tip_of(held) == body["sha"]), None)
        if source is None:
            raise GithubError(422, "Object does not exist")
        branches[name] = dict(source)
        return _ref(name, source)

    @app.get("/repos/{owner}/{repo}/contents/{path:path}")
    async def get_contents(owner: str, repo: str, path: str, request: Request, ref: str = "main") -> Any:
        if not wants_raw(request) or "authorization" in request.headers:
            allow(request, f"{owner}/{repo}", "contents", "read")
        below = files.below(f"{owner}/{repo}", ref, path)
        if below:
            return below
        text = files.text(f"{owner}/{repo}", ref, path)
        if wants_raw(request):
            return raw_file(request, text)
        coded = base64.encodebytes(text.encode()).decode()
        whole = {"type": "file", "encoding": "base64", "size": len(text.encode()), "content": coded}
        return {**whole, "name": path.rpartition("/")[2], "path": path, "sha": blob_id(text), "url": str(request.url)}

    @app.put("/repos/{owner}/{repo}/contents/{path:path}")
    async def put_contents(owner: str, repo: str, path: str, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "contents", "write")
        body = await request.json()
        held = files.branch(f"{owner}/{repo}", body["branch"])
        if path in held and blob_id(held[path]) != body.get("sha"):
            raise GithubError(409, f"{path} does not match {body.get('sha')}")
        held[path] = base64.b64decode(body["content"]).decode()
        commit = {"sha": tip_of(held), "url": str(request.url), "message": body["message"]}
        return {"content": {"path": path, "sha": blob_id(held[path]), "url": str(request.url)}, "commit": commit}

    @app.get("/repos/{owner}/{repo}/pulls")
    async def list_pulls(
        owner: str, repo: str, request: Request, head: str = "", base: str = "", state: str = "open"
    ) -> Any:
        allow(request, f"{owner}/{repo}", "pull_requests", "read")
        return [
            pull
            for pull in files.opened
            if pull["repo"] == f"{owner}/{repo}".casefold()
            and head in ("", pull["head"]["label"])
            and base in ("", pull["base"]["ref"])
            and state in ("all", pull["state"])
        ]

    @app.post("/repos/{owner}/{repo}/pulls", status_code=201)
    async def open_pull(owner: str, repo: str, request: Request) -> Any:
        allow(request, f"{owner}/{repo}", "pull_requests", "write")
        body = await request.json()
        name = f"{owner}/{repo}"
        changed, before = files.branch(name, body["head"]), files.branch(name, body["base"])
        if changed == before:
            raise GithubError(422, f"No commits between {body['base']} and {body['head']}")
        number = 100 + len(files.opened)
        address = f"{str(request.base_url).rstrip('/')}/repos/{name}/pulls/{number}"
        pull = {
            "number": number,
            "url": address,
            "html_url": address,
            "state": "open",
            "merged": False,
            "title": body["title"],
            "body": body["body"],
            "head": {"label": f"{owner}:{body['head']}", "ref": body["head"], "sha": tip_of(changed)},
            "base": {"label": f"{owner}:{body['base']}", "ref": body["base"], "sha": tip_of(before)},
            "repo": name.casefold(),
        }
        files.opened.append(pull)
        return pull


def _ref(name: str, held: dict[str, str]) -> dict[str, Any]:
    sha = tip_of(held)
    place = {"sha": sha, "type": "commit", "url": f"/git/commits/{sha}"}
    return {"ref": f"refs/heads/{name}", "url": f"/git/refs/heads/{name}", "object": place}
