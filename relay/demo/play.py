"""``make demo``: starts the relay and a small GitHub, plays a pull request through both, and says what happened."""

from __future__ import annotations

import contextlib
import fcntl
import json
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import relay
from relay.cli.terminal import Terminal
from relay.demo import report
from relay.demo.children import ChildProcess, start, tail
from relay.demo.github_people import CLIENT_ID, CLIENT_SECRET
from relay.demo.realtree import Source, real_upstream
from relay.demo.report import GITHUB_REPO, UPSTREAM_REPO, WORKERS_REPO, Facts
from relay.demo.upstream import DemoError, DemoUpstream, build
from relay.demo.webhook import opened_event, pull_request
from relay.settings import Settings

READY_S = 90.0
VERDICT_S = 240.0
REAL_VERDICT_S = 1800.0
"""a real tree's change may reach as many tests as the budget holds"""
SETTLE_S = 0.5
KEPT = ("cache", "worker")
"""caches below the folder that a later run may use; everything else is made anew"""
MARK = ".relay-demo"

ALLOWLIST = f"""\
# Two downstreams: one whose tests the relay selects and runs itself, and one with a CI of its own.
L2:
  - {GITHUB_REPO}
L4:
  - {WORKERS_REPO}:
      executor: workers
      device: spyre
      oncalls: ["@spyre-oncall"]
"""


def main(dir: Path, once: bool, port: int | None, source: Source | None = None) -> int:
    """Plays the demo in ``dir``, on a real tree where ``source`` names one. ``once``: ends when all is done, 0 only if
    every step happened and was right (else 1); otherwise stays until Ctrl-C. Raises DemoError when it cannot even
    start."""
    console = Terminal(soft_wrap=True)
    # also where we were started with SIGINT ignored, as a script's background job is
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _folder(dir) as folder, Demo(folder, console, source) as demo:
            return demo.play(once, port)
    except KeyboardInterrupt:
        console.print("\nStopped.")
        return 130 if once else 0


@contextlib.contextmanager
def _folder(dir: Path) -> Iterator[Path]:
    """The demo's folder, emptied of an earlier run's state but not of its caches, and locked against a second demo."""
    folder = dir.absolute()
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise DemoError(f"{folder} is not empty and no demo made it", "give a new or empty folder with --dir")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / MARK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise DemoError(f"another demo runs in {folder}", "stop it, or give another folder with --dir") from exc
        for entry in folder.iterdir():
            if entry.name in (MARK, *KEPT):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        yield folder


class Demo:
    """One play: the folder, the children, and what is known so far."""

    def __init__(self, folder: Path, console: Console, source: Source | None = None) -> None:
        self.folder = folder
        self.source = source
        self.console = console
        self.children: list[ChildProcess] = []
        self.http = httpx2.Client(timeout=15, trust_env=False)
        self.secret, self.hud_key = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.github = self.url = ""

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        # an impatient second Ctrl-C must not leave half of them running
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.http.close()
        for child in reversed(self.children):
            child.stop(grace_s=10)

    def play(self, once: bool, port: int | None) -> int:
        began = time.monotonic()
        port = free_port(Settings.model_fields["port"].default) if port is None else port
        self._start_github()
        upstream = self._upstream()
        self._start_relay(upstream, port)
        self.console.print(f"The relay is up after {time.monotonic() - began:.1f} s: {self.url}")
        self._put(f"/_control/pulls/{UPSTREAM_REPO}", pull_request(upstream, UPSTREAM_REPO))
        self._put(f"/_control/ci/{GITHUB_REPO}", {"callback_url": f"{self.url}/github/callback", "work_s": 2.0})
        facts = self._send(upstream)
        self.console.print(f"PR #{upstream.pr['number']} is open. Watch it: {self.url}/pr/{upstream.pr['number']}\n")
        try:
            self._follow(facts)
        except DemoError as exc:
            self._read_all(facts)
            self._print_timeline(facts)
            self._complain([exc.message, *report.problems(facts)])
            return 1
        wrong = report.problems(facts)
        self._print_timeline(facts)
        self._print_links(facts)
        if wrong:
            self._complain(wrong)
        if once:
            said = " and the verdict is right" if self.source is None else ""
            if not wrong:
                self.console.print(f"\nEvery step happened{said} ({time.monotonic() - began:.1f} s).")
            return 1 if wrong else 0
        self.console.print("\nCtrl-C ends the demo.")
        while True:
            for child in self.children:
                child.check()
            time.sleep(0.5)

    # ------------------------------------------------------------------------------------------------------- starting

    def _upstream(self) -> DemoUpstream:
        where = self.folder / "upstream"
        if self.source is None:
            return build(where, sys.executable)
        with self.console.status(f"reading {self.source.upstream}"):
            made = real_upstream(where, self.source, self.folder / "cache" / "clones")
        self.console.print(f"Upstream is {self.source.upstream} at {made.base_sha[:12]}; the PR: {made.pr['title']}")
        return made

    def _start_github(self) -> None:
        command = [sys.executable, "-m", "relay.demo.github", "--dir", str(self.folder / "github")]
        child = start("github", command, {"RELAY_HUD_BOT_KEY": self.hud_key}, self.folder / "logs")
        self.children.append(child)

    def _start_relay(self, upstream: DemoUpstream, port: int) -> None:
        said = self.children[0].wait_ready(READY_S)
        self.github = said["url"]
        config = self.folder / "relay.toml"
        allowlist = self.folder / "allowlist.yml"
        allowlist.write_text(ALLOWLIST, encoding="utf-8")
        values: dict[str, Any] = {
            "data_dir": str(self.folder),
            "port": port,
            "upstream_repo": UPSTREAM_REPO,
            "upstream_url": str(upstream.path),
            "upstream_partial": upstream.partial,
            "allowlist": str(allowlist),
            "configs_dir": str(_configs()),
            "github_api_url": self.github,
            "github_url": self.github,
            "oauth_client_id": CLIENT_ID,
            "operators": ["pytorch/relay-operators"],
            "github_app_id": str(said["app_id"]),
            "hud_url": f"{self.github}/api/crcr/results",
            "shard_seconds": 5.0,
            # what a run draws goes by its commit, which is another one each time: the demo's verdict is to be the same
            "explore_share": 0.0,
            "oidc_issuers": [{"issuer": self.github}],
        }
        config.write_text(toml(values), encoding="utf-8")
        env = {
            "RELAY_WEBHOOK_SECRETS": json.dumps([self.secret]),
            "RELAY_WORKER_KEY": secrets.token_urlsafe(24),
            "RELAY_GITHUB_PRIVATE_KEY": Path(said["pem"]).read_text(),
            "RELAY_HUD_BOT_KEY": self.hud_key,
            "RELAY_OAUTH_CLIENT_SECRET": CLIENT_SECRET,
        }
        command = [sys.executable, "-m", "relay.cli", "up", "--config", str(config)]
        child = start("relay-up", command, env, self.folder / "logs")
        self.children.append(child)
        with self.console.status("starting the relay: broker, web, pump, workers"):
            self.url = child.wait_ready(READY_S)["url"]

    # ----------------------------------------------------------------------------------------------- playing, watching

    def _send(self, upstream: DemoUpstream) -> Facts:
        """One event, delivered three times, twice of them at the same instant, as can happen with a redelivery."""
        headers, body = opened_event(upstream, UPSTREAM_REPO, secret=self.secret)
        what = {"url": f"{self.url}/github/webhook", "headers": headers, "payload": body.decode()}
        facts = Facts(upstream, time.time(), [])

        def once() -> Any:
            return self.http.post(f"{self.github}/_control/webhook", json=what).raise_for_status().json()

        with ThreadPoolExecutor(2) as pool:
            facts.answers += [pending.result() for pending in [pool.submit(once), pool.submit(once)]]
        facts.answers.append(once())
        return facts

    def _follow(self, facts: Facts) -> None:
        """Returns when everything has happened that can still happen. DemoError when it takes too long."""
        limit = VERDICT_S if self.source is None else REAL_VERDICT_S
        deadline = time.monotonic() + limit
        with Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} tests  {task.fields[found]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        ) as bar:
            task = bar.add_task("waiting", total=1, found="")
            while True:
                for child in self.children:
                    child.check()
                try:
                    self._read(facts)
                except httpx2.TransportError:
                    # a process that died is being started again; what it was asked for is in the database
                    bar.update(task, description="waiting for the relay to answer")
                else:
                    _show(bar, task, facts)
                if report.finished(facts):
                    break
                if time.monotonic() > deadline:
                    raise DemoError(f"there is no verdict, or not all is reported, after {limit:.0f} s")
                time.sleep(0.15)
            time.sleep(SETTLE_S)  # a double would come now
        self._read_all(facts)

    def _read(self, facts: Facts) -> None:
        answer = self.http.get(f"{self.url}/pr/{facts.upstream.pr['number']}.json")
        if answer.status_code != 404:  # 404: not routed yet
            facts.pr = _json(answer)
        facts.github = _json(self.http.get(f"{self.github}/_control/state"))

    def _read_all(self, facts: Facts) -> None:
        self._read(facts)
        facts.calls = _json(self.http.get(f"{self.github}/_control/calls"))
        for run in facts.pr.get("dispatches", ()):
            facts.runs[run["downstream"]] = _json(self.http.get(f"{run['url']}.json"))
            if run["executor"] == "workers":
                facts.results = list(self._pages(run["url"], "results", {}, "page"))
                facts.triage = list(self._pages(run["url"], "decisions", {"stage": "triage"}, "dpage"))

    def _pages(self, url: str, part: str, query: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
        page = pages = 1
        while page <= pages:
            found = _json(self.http.get(f"{url}.json", params={**query, "per": 200, key: page}))[part]
            yield from found["rows"]
            page, pages = page + 1, found["pages"]

    def _put(self, path: str, body: Any) -> None:
        self.http.put(self.github + path, json=body).raise_for_status()

    # -------------------------------------------------------------------------------------------------------- telling

    def _print_timeline(self, facts: Facts) -> None:
        for after, text in report.timeline(facts):
            self.console.print(f"  {after:7.2f} s  {text}")

    def _print_links(self, facts: Facts) -> None:
        self.console.print(f"\nThe pull request: {self.url}/pr/{facts.upstream.pr['number']}")
        for run in facts.pr.get("dispatches", ()):
            if run["executor"] == "workers":
                self.console.print(f"The run:          {run['url']}")
        self.console.print(f"Logs:             {self.folder / 'logs'}")

    def _complain(self, wrong: list[str]) -> None:
        self.console.print("\nNot as it must be:", style="bold red")
        for line in wrong:
            self.console.print(f"  - {line}")
        for name, lines in troubled(self.folder / "logs"):
            self.console.print(f"\n{name}:", style="bold")
            self.console.print(lines)
        self.console.print(f"\nLogs: {self.folder / 'logs'}; calls to GitHub: {self.folder / 'github/calls.jsonl'}")


def _show(bar: Progress, task: TaskID, facts: Facts) -> None:
    """The bar follows the run on the workers: its tests, on the head and then on the base."""
    run = next((r for r in facts.pr.get("dispatches", ()) if r["downstream"] == WORKERS_REPO), None)
    if run is None:
        bar.update(task, description="routing")
        return
    shards = run["shards"]
    done = sum(s["tests"] if s["state"] == "done" else min(s["tests"], s["tests_started"]) for s in shards)
    found = f"{run['counts']['variants_done']} variants, {run['counts']['failing']} failing"
    bar.update(task, description=run["state"], total=sum(s["tests"] for s in shards) or 1, completed=done, found=found)


def _json(answer: httpx2.Response) -> Any:
    if not answer.is_success:
        raise DemoError(f"{answer.request.url} answered {answer.status_code}: {answer.text[:300]}")
    return answer.json()


def troubled(logs: Path) -> Iterator[tuple[str, str]]:
    """The logs that speak of trouble, each with its last lines."""
    for log in sorted(logs.glob("*.log")):
        text = log.read_text(errors="replace")
        if any(word in text for word in ("Traceback", '"level": "error"', '"level": "warning"', "No module named")):
            yield log.name, tail(log, 8)


def _configs() -> Path:
    folder = Path(relay.__file__).resolve().parents[1] / "test_configs" / "spyre"
    if not (folder / "capability.yaml").is_file():
        raise DemoError(f"{folder} has no capability.yaml", "run the demo from a checkout: make demo")
    return folder


def free_port(wanted: int) -> int:
    """``wanted``, or any free port where it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DemoError("no free port on 127.0.0.1")


def toml(values: dict[str, Any]) -> str:
    """The settings as TOML; JSON's strings, numbers and lists are TOML's too, and tables are written inline."""
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in values.items())


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return json.dumps(value)
