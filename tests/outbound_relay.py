"""The running service for tests of what leaves: the real web application over HTTP, its queue and its sweeper driven
by a clock of the test's, against the local GitHub and dashboard."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from outbound_servers import World, local_github, serving
from pydantic import SecretStr
from sqlalchemy import Engine, select

from relay.demo.ledger import APP_ID
from relay.domain.effects import iso
from relay.services import effects, gates, rerunning, routing, sending, sweeping
from relay.services.effects import Clients
from relay.store import outbox
from relay.store.db import open_engine, reading
from relay.store.schema import delivery, dispatch
from relay.store.schema import outbox as table
from relay.web.app import create_app

SECRET = "webhook-secret"
UPSTREAM = "pytorch/pytorch"
LABEL = "ciflow/crcr/spyre"
A, B, C = "a" * 40, "c" * 40, "d" * 40
NAMES = [
    ":nvidia: (B200) a/b",
    "310",
    "007",
    "3_11",
    "тест / 試験 \N{SNOWMAN}",
    "x" * 300,
    "@org/team <b>|`*_[l](http://e)",
]
ON_BOTH = pytest.mark.parametrize("relay", ["sqlite", "postgresql"], indirect=True)
"""where queries and locks are the point"""
_numbers = itertools.count(1)


@dataclass
class Relay:
    """``now`` is the clock of everything but the web process: seconds since the epoch, ``ahead`` of the real one."""

    world: World
    engine: Engine
    clients: Clients
    url: str
    http: httpx2.Client
    ahead: float = 0.0
    swept: dict[str, Any] = field(default_factory=dict)

    @property
    def now(self) -> float:
        return time.time() + self.ahead

    # ------------------------------------------------------------------------------------------------- from outside

    def webhook(self, event: str, body: dict[str, Any]) -> str:
        """Sends a webhook as GitHub does; -> its delivery id."""
        raw = json.dumps(body).encode()
        number = f"00000000-0000-4000-8000-{next(_numbers):012d}"
        headers = {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": number,
            "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest(),
            "Content-Type": "application/json",
        }
        answer = self.http.post(f"{self.url}/github/webhook", content=raw, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        return number

    def push(self, action: str = "opened", sha: str = "a" * 40, labels: tuple[str, ...] = (), **more: Any) -> str:
        """A pull_request event; -> its delivery id."""
        return self.webhook("pull_request", pull_request(action, sha, labels, **more))

    def report(self, delivery_id: str, status: str, conclusion: str | None = None, *, repo: str, **flow: Any) -> Any:
        """A downstream's report, with a token of its run; -> the answer."""
        workflow = {
            "schema_version": "1", "status": status, "conclusion": conclusion, "name": "ci", "job_name": "tests",
            "run_id": "55", "run_attempt": "1", "check_run_id": "99", **flow,
        }  # fmt: skip
        workflow.setdefault("url", f"https://github.com/{repo}/actions/runs/{workflow['run_id']}")
        claims = {
            "aud": self.world.settings.oidc_audience, "repository": repo, "run_id": workflow["run_id"],
            "run_attempt": workflow["run_attempt"], "sha": "5" * 40, "ref": "refs/heads/main",
        }  # fmt: skip
        if "repository_id" in workflow:
            claims["repository_id"] = workflow.pop("repository_id")
        token = self.world.hub.ledger.mint(claims)
        body = {"event_type": "pull_request", "delivery_id": delivery_id, "payload": {}, "workflow": workflow}
        headers = {"authorization": f"Bearer {token}"}
        answer = self.http.post(f"{self.url}/github/callback", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    # --------------------------------------------------------------------------------------------------- the queues

    def turn(self) -> int:
        """Everything that is due now, until nothing is: routing, reruns, deadlines, sending; -> effects handed over."""
        total = 0
        while True:
            with reading(self.engine) as conn:
                due = delivery.c.due_at <= self.now
                waiting = conn.execute(select(delivery.c.id).where(due, delivery.c.state == "received")).scalars().all()
            for one in waiting:
                routing.route_delivery(self.engine, self.world.settings, one, self.now)
            asked = rerunning.step(self.engine, self.world.settings, self.now)["asked"]
            self.swept = sweeping.sweep(self.engine, self.world.settings, self.swept, self.now)
            gates.revive_if_any(self.engine, self.now)
            ids = self.due()
            if ids:
                sending.send(self.engine, self.clients, ids, self.now)
                total += len(ids)
            elif not waiting and not asked:
                return total

    def due(self) -> list[int]:
        with self.engine.begin() as conn:
            return [one.id for one in outbox.due(conn, self.now, 1000)]

    def wait(self, seconds: float) -> int:
        """Moves the clock on and does what is due then."""
        self.ahead += seconds
        return self.turn()

    # ---------------------------------------------------------------------------------------------------- what is there

    def rows(self, found: Any = table, **where: Any) -> list[Any]:
        with reading(self.engine) as conn:
            rows = conn.execute(select(found).order_by(*found.primary_key.columns)).all()
        return [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]

    def checks(self, name: str = "") -> list[dict[str, Any]]:
        """Check runs on GitHub whose name ends so, oldest first."""
        runs = sorted(self.world.hub.ledger.check_runs.values(), key=lambda run: run["id"])
        return [run for run in runs if run["name"].endswith(name)]

    def comments(self) -> list[dict[str, Any]]:
        return list(self.world.hub.ledger.comments.values())


def pull_request(
    action: str, sha: str, labels: tuple[str, ...] = (), *, number: int = 7, **more: Any
) -> dict[str, Any]:
    """The body of a pull_request webhook, as far as the relay reads it."""
    top = {key: more.pop(key) for key in ("label", "changes") if key in more}
    return {
        "action": action,
        "number": number,
        "pull_request": {
            "number": number,
            "state": "closed" if action == "closed" else "open",
            "title": "Change logit",
            "body": more.pop("body", ""),
            "user": {"login": "ann"},
            "author_association": "MEMBER",
            "draft": False,
            "merged": False,
            "updated_at": iso(1767225600.0 + next(_numbers)),  # later with every event
            "head": {"sha": sha, "ref": "topic", "repo": {"full_name": "ann/pytorch"}},
            "base": {"sha": "b" * 40, "ref": "main", "repo": {"full_name": UPSTREAM}},
            "labels": [{"name": name} for name in labels],
            **more,
        },
        "repository": {"id": 65600975, "full_name": UPSTREAM},
        "sender": {"login": "ann"},
        **top,
    }


def rerequested(event: str, sha: str, number: int, app_id: int = APP_ID) -> dict[str, Any]:
    """The body of check_run.rerequested and check_suite.rerequested."""
    about = {"id": number, "head_sha": sha, "app": {"id": app_id}}
    about |= {"name": "x"} if event == "check_run" else {}
    return {
        "action": "rerequested", event: about, "repository": {"full_name": UPSTREAM}, "sender": {"login": "ann"},
    }  # fmt: skip


@contextlib.contextmanager
def running(folder: Path, allowlist: str, database: str = "", **settings: Any) -> Iterator[Relay]:
    """The service with ``allowlist`` (YAML) in force. Every repository that it names has the App. ``database``: its
    URL, else SQLite in ``folder``."""
    (folder / "github").mkdir()
    place = folder / "allowlist.yml"
    place.write_text(allowlist)
    told = {"allowlist": str(place), "upstream_repo": UPSTREAM, "webhook_secrets": [SecretStr(SECRET)], **settings}
    with local_github(folder / "github", **told) as world:
        named = {word.strip(" -:") for word in allowlist.split() if "/" in word}
        world.hub.ledger.repos = (*world.hub.ledger.repos, *sorted(named))
        world.settings.database_url = database or f"sqlite:///{folder / 'relay.sqlite3'}"
        app = create_app(world.settings)
        listener = socket.create_server(("127.0.0.1", 0))
        world.settings.public_url = url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        engine, clients = open_engine(world.settings.database), effects.make_clients(world.settings)
        with serving(app, listener), httpx2.Client(trust_env=False, timeout=30) as http:
            yield Relay(world, engine, clients, url, http)
        clients.close()
        engine.dispose()
        app.state.engine.dispose()


def of(relay: Relay, repo: str) -> Any:
    """The last dispatch to a downstream repository."""
    return [row for row in relay.rows(dispatch) if row.downstream == repo][-1]
