"""What the demo's local GitHub knows: its keys, tokens, check runs, workflow runs, webhook deliveries, HUD rows.

Everything is in memory and belongs to one event loop. Ids count up from fixed numbers, times come from ``clock``.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "pytorch-cross-repo-ci-relay"
APP_ID = 424242
APP_SLUG = "cross-repo-ci-relay-demo"
PERMISSIONS = {"actions": "write", "checks": "write", "contents": "write", "metadata": "read", "pull_requests": "write"}


class GithubError(Exception):
    """An answer other than success, in GitHub's own shape."""

    def __init__(self, status: int, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
        self.body.update(extra)


def stamp(at: float) -> str:
    """Seconds since the epoch as GitHub writes them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Key:
    """An RSA key pair; ``pem`` is the private half."""

    kid: str
    private: rsa.RSAPrivateKey

    @classmethod
    def make(cls) -> Key:
        return cls(secrets.token_hex(8), rsa.generate_private_key(public_exponent=65537, key_size=2048))

    @property
    def pem(self) -> str:
        return self.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ).decode()

    @property
    def jwk(self) -> dict[str, Any]:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig", "alg": "RS256"}


@dataclass(frozen=True, slots=True)
class Token:
    """An installation token: what it may do, for which repositories (None: all of the installation), until when."""

    installation: int
    permissions: dict[str, str]
    repos: frozenset[str] | None
    expires_at: float


@dataclass
class Ledger:
    """The state behind the API. ``repos`` are ``owner/name``; each owner has one installation of the App."""

    url: str
    repos: tuple[str, ...]
    clock: Callable[[], float]
    app_key: Key = field(default_factory=Key.make)
    oidc_key: Key = field(default_factory=Key.make)
    tokens: dict[str, Token] = field(default_factory=dict)
    pulls: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    deliveries: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    """owners (case folded) whose installation is suspended"""
    numbers: dict[int, str] = field(default_factory=dict)
    renamed: dict[str, int] = field(default_factory=dict)
    """names (case folded) that repositories gave up: their numbers"""
    dispatches: Counter[tuple[str, str]] = field(default_factory=Counter)
    """dispatches accepted, by (repository, key): the dispatch key where the sender gave one, else the delivery id"""
    _last_id: int = 70_000_000_000

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def number_of(self, repo: str) -> int:
        """GitHub's number of a repository, which stays when it is renamed."""
        for number, name in self.numbers.items():
            if name.casefold() == repo.casefold():
                return number
        number = 10_000_000 + len(self.numbers)
        self.numbers[number] = repo
        return number

    def named(self, number: int) -> str:
        if number not in self.numbers:
            raise GithubError(404, "Not Found")
        return self.numbers[number]

    def rename(self, old: str, new: str) -> int:
        """Renames or transfers a repository; -> its number."""
        number = self.number_of(old)
        self.numbers[number] = new
        self.renamed[old.casefold()] = number
        self.repos = (*(repo for repo in self.repos if repo.casefold() != old.casefold()), new)
        return number

    # ------------------------------------------------------------------------------------------------ who is asking

    def installation_of(self, owner: str) -> int:
        owners = sorted({repo.split("/")[0].casefold() for repo in self.repos})
        if owner.casefold() not in owners:
            raise GithubError(404, "Not Found")
        return 5_000_000 + owners.index(owner.casefold())

    def installation(self, number: int) -> dict[str, Any]:
        """The installation in the shape of GET /app/installations."""
        for repo in self.repos:
            owner = repo.split("/")[0]
            if self.installation_of(owner) == number:
                return {
                    "id": number,
                    "account": {"login": owner, "id": number + 1_000_000, "type": "Organization"},
                    "repository_selection": "selected",
                    "access_tokens_url": f"{self.url}/app/installations/{number}/access_tokens",
                    "repositories_url": f"{self.url}/installation/repositories",
                    "html_url": f"https://github.com/organizations/{owner}/settings/installations/{number}",
                    "app_id": APP_ID,
                    "app_slug": APP_SLUG,
                    "target_id": number + 1_000_000,
                    "target_type": "Organization",
                    "permissions": PERMISSIONS,
                    "events": ["check_run", "check_suite", "pull_request", "push", "repository"],
                    "created_at": "2026-01-01T00:00:00Z",
                    "updated_at": "2026-01-01T00:00:00Z",
                    "suspended_at": None,
                    "suspended_by": None,
                }
        raise GithubError(404, "Not Found")

    def installations(self) -> list[dict[str, Any]]:
        return [self.installation(n) for n in sorted({self.installation_of(r.split("/")[0]) for r in self.repos})]

    def check_app(self, authorization: str | None) -> None:
        """Verifies the App's JWT as GitHub does: RS256, issued by the App, at most ten minutes long."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.casefold() != "bearer" or not token:
            raise GithubError(401, "A JSON web token could not be decoded")
        try:
            claims = jwt.decode(
                token,
                self.app_key.private.public_key(),
                algorithms=["RS256"],
                options={"require": ["exp", "iat", "iss"], "verify_iss": False},
            )
        except jwt.ExpiredSignatureError as exc:
            raise GithubError(401, "'Expiration time' claim ('exp') must be a numeric value in the future") from exc
        except jwt.PyJWTError as exc:
            raise GithubError(401, "A JSON web token could not be decoded") from exc
        if str(claims["iss"]) != str(APP_ID):
            raise GithubError(401, "'Issuer' claim ('iss') must be the App's id")
        if claims["exp"] - self.clock() > 600:
            raise GithubError(401, "'Expiration time' claim ('exp') is too far in the future")

    def make_token(self, installation: int, wanted: dict[str, Any]) -> tuple[str, Token]:
        """A token for an hour. Permissions and repositories narrow it; more than the App has is a 422."""
        if self.installation(installation)["account"]["login"].casefold() in self.suspended:
            raise GithubError(403, "This installation has been suspended")
        permissions = dict(wanted.get("permissions") or PERMISSIONS)
        for name, level in permissions.items():
            if level not in ("read", PERMISSIONS.get(name)) or name not in PERMISSIONS:
                raise GithubError(422, "The permissions requested are not granted to this installation.")
        names = wanted.get("repositories") or [self.named(n).split("/")[1] for n in wanted.get("repository_ids") or ()]
        repos = None
        if names:
            of_owner = [r for r in self.repos if self.installation_of(r.split("/")[0]) == installation]
            mine = {repo.split("/")[1].casefold(): repo for repo in of_owner}
            missing = [name for name in names if name.casefold() not in mine]
            if missing:
                raise GithubError(422, "There is at least one repository that does not exist or is not accessible")
            repos = frozenset(mine[name.casefold()].casefold() for name in names)
        text = f"ghs_{secrets.token_hex(18)}"
        self.tokens[text] = token = Token(installation, permissions, repos, self.clock() + 3600)
        return text, token

    def check_token(self, authorization: str | None, repo: str, permission: str, level: str = "write") -> None:
        """The token may do ``permission`` on ``repo``: 401 bad or expired, 404 other repository, 403 not permitted."""
        scheme, _, text = (authorization or "").partition(" ")
        token = self.tokens.get(text) if scheme.casefold() in ("bearer", "token") else None
        if token is None or token.expires_at <= self.clock():
            raise GithubError(401, "Bad credentials")
        known = repo.casefold() in {name.casefold() for name in self.repos}
        if not known or self.installation_of(repo.split("/")[0]) != token.installation:
            raise GithubError(404, "Not Found")
        if token.repos is not None and repo.casefold() not in token.repos:
            raise GithubError(404, "Not Found")
        if permission == "metadata":
            return  # every token may read it
        granted = token.permissions.get(permission)
        if granted is None or (level == "write" and granted != "write"):
            raise GithubError(403, "Resource not accessible by integration")

    def mint(self, claims: dict[str, Any], lifetime: float = 300) -> str:
        """An OIDC token of this issuer with ``claims`` and the times that belong to now."""
        now = int(self.clock())
        whole = {"iss": self.url, "iat": now, "nbf": now, "exp": now + int(lifetime), "jti": secrets.token_hex(16)}
        key = self.oidc_key
        return jwt.encode({**whole, **claims}, key.private, algorithm="RS256", headers={"kid": key.kid})

    # -------------------------------------------------------------------------------------------------- check runs

    def put_check_run(self, repo: str, body: dict[str, Any], number: int | None = None) -> dict[str, Any]:
        """Creates (``number`` None) or updates a check run. Raises 404, or 422 as GitHub does."""
        if number is None:
            missing = [name for name in ("name", "head_sha") if not isinstance(body.get(name), str) or not body[name]]
            if missing:
                raise GithubError(422, f"Invalid request.\n\n{', '.join(missing)} wasn't supplied.")
            shas = {sha for (name, _), pull in self.pulls.items() if name == repo.casefold() for sha in _shas(pull)}
            if shas and body["head_sha"] not in shas:
                raise GithubError(422, f"No commit found for SHA: {body['head_sha']}")
            number = self.next_id()
            row: dict[str, Any] = {
                "id": number,
                "node_id": f"CR_{number}",
                "head_sha": body["head_sha"],
                "url": f"{self.url}/repos/{repo}/check-runs/{number}",
                "html_url": f"https://github.com/{repo}/runs/{number}",
                "status": "queued",
                "conclusion": None,
                "started_at": stamp(self.clock()),
                "completed_at": None,
                "external_id": "",
                "details_url": None,
                "output": {"title": None, "summary": None, "text": None, "annotations_count": 0},
                "app": {"id": APP_ID, "slug": APP_SLUG},
                "pull_requests": [
                    {"number": n}
                    for (name, n), pull in self.pulls.items()
                    if name == repo.casefold() and pull["head"]["sha"] == body["head_sha"]
                ],
                "repo": repo,
            }
        elif number in self.check_runs and self.check_runs[number]["repo"].casefold() == repo.casefold():
            row = dict(self.check_runs[number])
        else:
            raise GithubError(404, "Not Found")
        _apply(row, body, stamp(self.clock()))
        self.check_runs[number] = row
        return row

    def find_check_runs(self, repo: str, sha: str, name: str | None, latest: bool) -> list[dict[str, Any]]:
        """The check runs of a commit, newest first; ``latest``: only the newest of each name."""
        rows = [
            row
            for row in sorted(self.check_runs.values(), key=lambda r: -r["id"])
            if row["repo"].casefold() == repo.casefold() and row["head_sha"] == sha and name in (None, row["name"])
        ]
        return list({row["name"]: row for row in reversed(rows)}.values())[::-1] if latest else rows


STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS = (
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "skipped",
    "stale",
    "success",
    "timed_out",
)


def _apply(row: dict[str, Any], body: dict[str, Any], now: str) -> None:
    for name, allowed in (("status", STATUSES), ("conclusion", CONCLUSIONS)):
        if body.get(name) is not None and body[name] not in allowed:
            raise GithubError(422, f"Invalid request.\n\n{body[name]} is not a member of {list(allowed)}.")
    output = body.get("output")
    if output is not None:
        summary, title = output.get("summary"), output.get("title")
        if not isinstance(summary, str) or (not isinstance(title, str) and row["output"]["title"] is None):
            raise GithubError(422, "Invalid request.\n\ntitle, summary weren't supplied.")
        for part in ("summary", "text"):
            if len(output.get(part) or "") > 65535:
                raise GithubError(422, f"Invalid request.\n\nOnly 65535 characters are allowed for {part}.")
        if len(output.get("annotations") or ()) > 50:
            raise GithubError(422, "Invalid request.\n\nNo more than 50 annotations are allowed per request.")
        row["output"] = {**row["output"], **output, "annotations_count": len(output.get("annotations") or ())}
    for name in ("name", "external_id", "details_url", "status", "conclusion", "started_at", "completed_at"):
        if body.get(name) is not None:
            row[name] = body[name]
    if body.get("conclusion") is not None or body.get("completed_at") is not None:
        row["status"] = "completed"
    if row["status"] == "completed":
        if row["conclusion"] is None:
            raise GithubError(422, "Invalid request.\n\nconclusion is required when status is completed.")
        row["completed_at"] = row["completed_at"] or now
    else:
        row["conclusion"] = row["completed_at"] = None


def _shas(pull: dict[str, Any]) -> Iterable[str]:
    return pull["head"]["sha"], pull["base"]["sha"]
