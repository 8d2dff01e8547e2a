"""What a fan-out costs: GitHub calls a dispatch, and how long until everybody has been told.

    python tests/bench/fanout.py [--downstreams 1 8 32 120] [--latency-ms 50] [--events 120] [--one-owner]

For each number of downstreams: a relay of its own (SQLite, embedded broker, all its processes) and a local GitHub whose
every answer takes ``--latency-ms``. One pull request event is sent and its dispatches are awaited, then the next.
Printed are the first event (no token is known yet), the median and the worst of the next ones, one event in whose
middle a quarter of the dispatches (at least one) meet a secondary limit that asks for ``--retry-after`` seconds, and
GitHub calls a dispatch over all of it. Times are from the webhook's sending to GitHub's receipt of the last dispatch.
Every downstream has an owner, and so an installation, of its own, unless ``--one-owner``.

A token is good for 55 minutes, so what all events together cost is what they would cost within 55 minutes: the first
line says how many an hour that is. With fewer, tokens weigh more: 1 + 1/(events in 55 minutes) calls a dispatch.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import acknowledge
import httpx2

from relay.demo.upstream import build
from relay.demo.webhook import opened_event, sign

TOKEN_MINUTES = 55


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--downstreams", type=int, nargs="+", default=[1, 8, 32, 120])
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--events", type=int, default=120, help="events after the first, for the amortised figure")
    parser.add_argument("--retry-after", type=int, default=3)
    parser.add_argument("--one-owner", action="store_true")
    args = parser.parse_args()
    events = args.events + 2
    print(
        f"{args.latency_ms:.0f} ms a call, secondary limit of {args.retry_after} s in the last of {events} events "
        f"({events / TOKEN_MINUTES * 60:.0f} an hour); {'one owner' if args.one_owner else 'an owner each'}"
    )
    print("downstreams  first s  median s  worst s  limited s  calls/dispatch  of a known token  doubles  lost")
    for number in args.downstreams:
        print(_row(number, args), flush=True)


def _row(number: int, args: argparse.Namespace) -> str:
    owner = "example-org" if args.one_owner else "org-{}"
    repos = [f"{owner.format(n)}/backend-{n}" for n in range(number)]
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as name:
        folder, secret = Path(name), secrets.token_urlsafe(16)
        github, relay, url, api = acknowledge.start_all(folder, secret, repos)
        try:
            bench = _Bench(url, api, secret, number, args.latency_ms)
            bench.event = json.loads(opened_event(build(folder / "upstream", sys.executable), secret=secret)[1])
            bench.wait_until_routing(folder / "relay.sqlite3")
            first = bench.fan_out()
            warm_from = bench.calls()
            warm = [bench.fan_out() for _ in range(args.events)]
            warm_calls = bench.calls() - warm_from
            hit = max(1, number // 4)
            limited = bench.fan_out({"path": ".*/dispatches", "retry_after": args.retry_after, "count": hit})
            total = number * (args.events + 2)
            counts = [row["count"] for row in bench.http.get(f"{api}/_control/state").json()["dispatches"]]
            return (
                f"{number:11d}  {first:7.2f}  {statistics.median(warm):8.2f}  {max(warm):7.2f}  {limited:9.2f}  "
                f"{bench.calls() / total:14.3f}  {warm_calls / (number * args.events):16.3f}  "
                f"{sum(counts) - len(counts):7d}  {total - len(counts):4d}"
            )
        finally:
            relay.stop(10)
            github.stop(10)


class _Bench:
    event: dict[str, Any]

    def __init__(self, url: str, api: str, secret: str, number: int, latency_ms: float) -> None:
        self.url, self.api, self.secret, self.number = url, api, secret, number
        self.latency_ms = latency_ms
        self.sent = 0
        # one for all: what makes a client costs more time than what is measured
        self.http = httpx2.Client(timeout=60, trust_env=False)

    def wait_until_routing(self, database: Path) -> None:
        """Returns when an event that starts nothing has gone all the way to a worker: every process has started."""
        zero, sha = "0" * 40, "1" * 40
        upstream = {"id": 65600975, "full_name": "pytorch/pytorch"}
        push = {
            "ref": "refs/heads/main",
            "before": sha,
            "after": zero,
            "created": False,
            "deleted": True,
            "forced": False,
        }
        self._post("push", {**push, "repository": upstream, "pusher": {"name": "x"}, "sender": {"login": "x"}})
        waiting = "select count(*) from delivery where state = 'received' or due_at is not null"
        deadline = time.monotonic() + 120
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            while connection.execute(waiting).fetchone()[0]:
                if time.monotonic() > deadline:
                    raise SystemExit("nothing is routed within 120 s")
                time.sleep(0.1)

    def _post(self, event: str, value: dict[str, Any]) -> None:
        body = json.dumps(value, separators=(",", ":")).encode()
        headers = {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": secrets.token_hex(16),
            "X-Hub-Signature-256": sign(self.secret, body),
            "Content-Type": "application/json",
        }
        self.http.post(f"{self.url}/github/webhook", content=body, headers=headers).raise_for_status()

    def fan_out(self, fault: dict[str, Any] | None = None) -> float:
        """Sends one event of another pull request; -> seconds until GitHub has the last dispatch of it."""
        rules = acknowledge.slowly(self.latency_ms)
        if fault is not None:
            before = {"path": fault["path"], "delay_s": self.latency_ms / 1000, "count": max(1, self.number // 2)}
            rules = [*([before] if self.number > 1 else []), {**fault, "delay_s": self.latency_ms / 1000}, *rules]
        self.http.post(f"{self.api}/_control/faults", json=rules).raise_for_status()
        self.sent += 1
        self.event["number"] = self.event["pull_request"]["number"] = 300_000 + self.sent
        self.event["pull_request"]["head"]["sha"] = secrets.token_hex(20)
        began = time.time()
        self._post("pull_request", self.event)
        deadline = time.monotonic() + 120
        wanted = self.number * self.sent
        while time.monotonic() < deadline:
            told = self._tally("/dispatches")
            if told["calls"].get("204", 0) >= wanted:
                return told["last_at"] - began
            time.sleep(0.02)
        raise SystemExit(f"only {told['calls']} of {wanted} dispatches arrived within 120 s")

    def _tally(self, end: str = "") -> dict[str, Any]:
        return self.http.get(f"{self.api}/_control/tally", params={"end": end}).json()

    def calls(self) -> int:
        return sum(self._tally()["calls"].values())


if __name__ == "__main__":
    main()
