"""How long a delivery takes to be acknowledged, and to be dispatched to everybody.

    python tests/bench/acknowledge.py [--rate 100] [--seconds 10] [--downstreams 32] [--latency-ms 50] [--drain 60]

Starts a relay of its own (SQLite, embedded broker, all its processes) and a local GitHub whose every answer takes
``--latency-ms``; sends signed ``pull_request.opened`` deliveries at ``--rate`` for ``--seconds``, each of another pull
request, as GitHub would: on time, whether or not the last was answered. Prints the times to acknowledge, then how many
dispatches left in ``--drain`` seconds and the rate at which they leave, then one fan-out alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

from relay.demo.children import ChildProcess, start
from relay.demo.play import free_port, toml
from relay.demo.upstream import build
from relay.demo.webhook import opened_event, sign

CONFIGS = Path(__file__).resolve().parents[2] / "test_configs" / "spyre"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--downstreams", type=int, default=32)
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--drain", type=float, default=60)
    parser.add_argument("--keep", type=Path, help="folder the logs are copied to")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as name:
        folder, secret = Path(name), secrets.token_urlsafe(16)
        repos = [f"example-org/backend-{n}" for n in range(args.downstreams)]
        github, relay, url, api = start_all(folder, secret, repos)
        try:
            httpx2.post(f"{api}/_control/faults", json=slowly(args.latency_ms))
            body = opened_event(build(folder / "upstream", sys.executable), secret=secret)[1]
            times = asyncio.run(_burst(url, secret, json.loads(body), args))
            _print_times(times, args)
            _print_drain(folder, args)
            if args.keep:
                shutil.copytree(folder / "logs", args.keep, dirs_exist_ok=True)
        finally:
            relay.stop(10)
            github.stop(10)


def slowly(latency_ms: float) -> list[dict[str, Any]]:
    """The rule that makes every call of GitHub's API take so long."""
    return [{"path": "/(repos|app)/.*", "delay_s": latency_ms / 1000, "count": None}]


def start_all(folder: Path, secret: str, repos: list[str]) -> tuple[ChildProcess, ChildProcess, str, str]:
    """A local GitHub where ``repos`` have the App, and a relay that tells them; -> both, and their addresses."""
    command = [sys.executable, "-m", "relay.demo.github", "--dir", str(folder / "github")]
    command += [word for repo in repos for word in ("--repo", repo)]
    github = start("github", command, {"RELAY_HUD_BOT_KEY": "k"}, folder / "logs")
    said = github.wait_ready(30)
    allowlist = folder / "allowlist.yml"
    allowlist.write_text("L1:\n" + "".join(f"  - {repo}\n" for repo in repos))
    config = folder / "relay.toml"
    values = {
        "data_dir": str(folder),
        "port": free_port(8461),
        "allowlist": str(allowlist),
        "configs_dir": str(CONFIGS),
        "github_api_url": said["url"],
        "github_app_id": str(said["app_id"]),
        "github_budget": 1_000_000,
    }
    config.write_text(toml(values))
    env = {"RELAY_WEBHOOK_SECRETS": json.dumps([secret]), "RELAY_GITHUB_PRIVATE_KEY": Path(said["pem"]).read_text()}
    command = [sys.executable, "-m", "relay.cli", "up", "--no-worker", "--config", str(config)]
    relay = start("relay-up", command, env, folder / "logs")
    ready = relay.wait_ready(60)
    _settle(list(ready["pids"].values()))
    return github, relay, ready["url"], said["url"]


def _settle(pids: list[int]) -> None:
    """Until the relay's processes have started: their imports are no part of the burst."""
    for _ in range(60):
        before = _ticks(pids)
        time.sleep(1.0)
        if _ticks(pids) - before < 0.15 * os.sysconf("SC_CLK_TCK"):
            return


def _ticks(pids: list[int]) -> int:
    """Processor time of processes so far, in clock ticks."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(one[11]) + int(one[12]) for one in fields)


async def _burst(url: str, secret: str, event: dict, args: argparse.Namespace) -> list[float]:
    """Seconds from sending to the answer, for each delivery."""
    bodies = []
    for number in range(int(args.rate * args.seconds)):
        event["number"] = event["pull_request"]["number"] = 200_000 + number
        event["pull_request"]["head"]["sha"] = secrets.token_hex(20)
        bodies.append(json.dumps(event, separators=(",", ":")).encode())
    times: list[float] = []
    async with httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=200)) as client:

        async def one(number: int, due: float) -> None:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            headers = {
                "X-GitHub-Event": "pull_request",
                "X-GitHub-Delivery": f"bench-{number}",
                "X-Hub-Signature-256": sign(secret, bodies[number]),
            }
            answer = await client.post(f"{url}/github/webhook", content=bodies[number], headers=headers)
            answer.raise_for_status()
            times.append(time.perf_counter() - due)

        began = time.perf_counter() + 0.5
        await asyncio.gather(*(one(n, began + n / args.rate) for n in range(len(bodies))))
    return times


def _print_times(times: list[float], args: argparse.Namespace) -> None:
    ordered = sorted(t * 1000 for t in times)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(
        f"{len(ordered)} deliveries at {args.rate:.0f}/s, {args.downstreams} downstreams, "
        f"{args.latency_ms:.0f} ms API: acknowledged in p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {ordered[-1]:.1f} ms"
    )


def _print_drain(folder: Path, args: argparse.Namespace) -> None:
    connection = sqlite3.connect(f"file:{folder / 'relay.sqlite3'}?mode=ro", uri=True)
    count = "select count(*) from outbox where state = 'sent'"
    began, first = time.monotonic(), connection.execute(count).fetchone()[0]
    wanted = int(args.rate * args.seconds) * args.downstreams
    while time.monotonic() - began < args.drain and connection.execute(count).fetchone()[0] < wanted:
        time.sleep(0.5)
    spent, sent = time.monotonic() - began, connection.execute(count).fetchone()[0]
    rate = (sent - first) / spent
    print(
        f"{first} dispatches had left when the burst ended; {sent} of {wanted} after {spent:.0f} s more: {rate:.0f} "
        f"dispatches/s, which is {rate / args.downstreams:.2f} deliveries/s; "
        f"all would take {wanted / max(rate, 1e-9):.0f} s"
    )


if __name__ == "__main__":
    main()
