"""The running relay for scenario tests: ``relay up`` as its own processes, the recording local GitHub and token issuer
in this one, everything said by HTTP."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import secrets
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from outbound_servers import World, local_github

from relay.demo.children import start
from relay.demo.play import free_port, toml
from relay.demo.webhook import sign

ROOT = Path(__file__).resolve().parents[1]
SECRET = "first secret"
WORKER_KEY = "worker key"
UPSTREAM = "pytorch/pytorch"
AUDIENCE = "pytorch-cross-repo-ci-relay"
APP = 424242
_ids = itertools.count(1)


@dataclass
class Service:
    """A relay at ``url``, its local GitHub ``world``, its database file."""

    url: str
    world: World
    folder: Path
    opened: dict[str, Any]
    texts: dict[str, str]
    buildkite: World
    http: httpx2.Client = field(default_factory=lambda: httpx2.Client(trust_env=False, timeout=30))

    # ------------------------------------------------------------------------------------------------ webhooks

    def event(self, action: str = "opened", number: int | None = None, sha: str | None = None, **over: Any) -> dict:
        body = copy.deepcopy(self.opened)
        body["action"] = action
        body["repository"]["full_name"] = UPSTREAM
        number = number or 100_000 + next(_ids)
        body["number"] = body["pull_request"]["number"] = number
        body["pull_request"]["head"]["sha"] = sha or secrets.token_hex(20)
        body["pull_request"]["labels"] = [{"name": name} for name in over.pop("labels", ())]
        body["pull_request"]["updated_at"] = over.pop("told_at", "2026-08-01T00:00:00Z")
        return {**body, **over}

    def webhook(
        self, body: Any, event: str = "pull_request", delivery: str | None = None, secret: str = SECRET, **headers: Any
    ) -> httpx2.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": delivery or f"delivery-{secrets.token_hex(8)}",
            "X-Hub-Signature-256": sign(secret, raw),
            **headers,
        }
        return self.http.post(f"{self.url}/github/webhook", content=raw, headers=given)

    def dispatched(self, repo: str, **event: Any) -> str:
        """A delivery that has arrived at ``repo``; -> its id."""
        delivery = f"delivery-{secrets.token_hex(8)}"
        assert self.webhook(self.event(**event), delivery=delivery).status_code == 202
        self.wait(lambda: any(c["status"] == 204 for c in self.dispatches(delivery, repo)))
        return delivery

    def dispatches(self, delivery: str, repo: str | None = None) -> list[dict[str, Any]]:
        calls = self.world.calls("POST", f"/repos/{repo}/dispatches" if repo else "/dispatches")
        return [c for c in calls if ((c["body"] or {}).get("client_payload") or {}).get("delivery_id") == delivery]

    # ----------------------------------------------------------------------------------------------- callbacks

    def token(self, repo: str, run_id: str = "55", attempt: str = "1", **claims: Any) -> str:
        known = {"aud": AUDIENCE, "repository": repo, "run_id": run_id, "run_attempt": attempt}
        return self.world.hub.ledger.mint({**known, **claims})

    def callback(self, repo: str, body: Any, token: str | None = None, **headers: str) -> httpx2.Response:
        if token is None:
            flow = body["workflow"]
            token = self.token(repo, str(flow["run_id"]), str(flow.get("run_attempt", 1)))
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(
            f"{self.url}/github/callback", content=raw, headers={"authorization": f"Bearer {token}", **headers}
        )

    # --------------------------------------------------------------------------------------------------- seeing

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Evidence from the database, read only."""
        with contextlib.closing(
            sqlite3.connect(f"file:{self.folder / 'relay.sqlite3'}?mode=ro", uri=True)
        ) as connection:
            return connection.execute(query, values).fetchall()

    def hud(self, delivery: str) -> list[dict[str, Any]]:
        """The dashboard's bodies about a delivery, in order."""
        bodies = self.world.hub.hud.received
        return [b for b in bodies if b["untrusted"]["callback_payload"]["delivery_id"] == delivery]

    def wait(self, true: Callable[[], Any], seconds: float = 180.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := true()):
            assert time.monotonic() < deadline, "it does not come"
            time.sleep(0.05)
        return found


def report(delivery: str, status: str = "completed", conclusion: str | None = "success", **flow: Any) -> dict[str, Any]:
    workflow = {
        "schema_version": "1", "status": status, "conclusion": conclusion if status == "completed" else None,
        "name": "ci", "job_name": "tests", "url": "https://github.com/x/y/actions/runs/55", "run_id": "55",
        "run_attempt": "1", "check_run_id": "99", "started_at": None, "completed_at": "2026-01-01T00:00:00Z", **flow,
    }  # fmt: skip
    return {"event_type": "pull_request", "delivery_id": delivery, "payload": {}, "workflow": workflow}


@contextlib.contextmanager
def running(folder: Path, shared: Path, allowlist: str, **settings: Any) -> Iterator[Service]:
    """``relay up`` without a worker, its allowlist on the local GitHub."""
    (folder / "github").mkdir(parents=True)
    (folder / "buildkite").mkdir()
    # the second one is an issuer alone, whose tokens are of another kind
    with local_github(folder / "github") as world, local_github(folder / "buildkite") as buildkite:
        path = ".github/allowlist.yml"
        texts = world.hub.files.repos.setdefault(UPSTREAM, {}).setdefault("main", {})
        texts[path] = allowlist
        world.hub.contained[UPSTREAM, "main"] = set()
        own = tuple(
            f"example-org/{name}" for name in ("one", "leaving", "renamed", "careful", "queue-only", "labelled")
        )
        world.hub.ledger.repos = (*world.hub.ledger.repos, *own, "Ascend/pytorch", "vllm-project/vllm")
        (folder / "secrets").write_text("second secret\n")
        values = {
            "data_dir": str(folder),
            "port": free_port(8490),
            "upstream_repo": UPSTREAM,
            "allowlist": f"https://github.com/{UPSTREAM}/blob/main/{path}",
            "configs_dir": str(ROOT / "test_configs" / "spyre"),
            "github_api_url": world.url,
            "github_app_id": str(APP),
            "hud_url": f"{world.url}/api/crcr/results",
            "hud_bot_key": "hud-key",
            "webhook_secrets_file": str(folder / "secrets"),
            "oidc_issuers": [{"issuer": world.url}, {"issuer": buildkite.url, "provider": "buildkite"}],
            "document_s": 1.0,
            "reconcile_s": 2.0,
            **settings,
        }
        config = folder / "relay.toml"
        config.write_text(toml(values))
        env = {
            "RELAY_WORKER_KEY": WORKER_KEY,
            "RELAY_WEBHOOK_SECRETS": json.dumps([SECRET]),
            "RELAY_GITHUB_PRIVATE_KEY": world.hub.ledger.app_key.pem,
        }
        command = [sys.executable, "-m", "relay.cli", "up", "--no-worker", "--config", str(config)]
        relay = start("relay-up", command, env, folder / "logs")
        try:
            url = relay.wait_ready(180)["url"]
            opened = json.loads((shared / "data/relay/webhook/pull_request_opened.json").read_text())
            yield Service(url, world, folder, opened, texts, buildkite)
        finally:
            relay.stop(10)


def run_client(service_url: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The callback client as a downstream runs it: the file alone, an environment of its own."""
    command = [sys.executable, "-I", str(ROOT / "relay" / "report.py"), "--callback-url", service_url, *options]
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, text=True, timeout=60, check=False
    )
