"""Runs one leased shard: lease, tree, runner, results, completion. Holds no credentials but the key and the lease.

Everything may be cut off at any point: a lost lease, a cancelled run or a stopping worker ends the runner; results go
out any number of times; an unreachable relay is waited for as long as the lease may still be ours.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from pathlib import Path
from typing import Any

import structlog

from relay.errors import Conflict, LeaseLost, NotFound, RelayError, Unavailable
from relay.protocol import LOGS, RELEASE
from relay.worker import adapters, overlay, room, sandbox
from relay.worker.client import Client, Refused, patient
from relay.worker.config import WorkerConfig
from relay.worker.runners import Runners
from relay.worker.running import Order, Running
from relay.worker.shipping import Shipping
from relay.worker.trees import Trees
from selector.faults import environment_fault

log = structlog.get_logger(__name__)

FLUSH_S = 0.25
FLUSH_LINES = 50
BUFFERED_LINES = 2000
"""Results kept while the relay does not answer; then the runner waits, too."""
END_S = 3.0
"""Seconds a runner gets to tidy up before it is killed."""
MAX_LINE = 1 << 20
RUNNERS = 3
"""Runners that one lease starts when they are killed: each goes on after what the one before has said."""
TRACE_S = 10.0
"""Seconds that a trace waits for the relay, or its store, at the end of its shard."""


def run_shard(
    shard_id: str, config: WorkerConfig, stop: threading.Event | None = None, runners: Runners | None = None
) -> None:
    """Leases and runs a shard, once there is room for it on the disk and torch is imported. Returns quietly when there
    is nothing to do (done, taken, lost, cancelled, stopping).

    ``runners`` holds warm processes of this thread's; without it the shard's runner is started cold.
    Raises RelayError only when not even the relay could be told what went wrong.
    """
    stop = stop or threading.Event()
    runners = runners or Runners(config.folder, adapters.of(config.device, config.plugin))
    if not room.wait(config.folder, stop) or not runners.wait(stop):
        return
    with Client(config.url, config.key) as client:
        try:
            lease = patient(
                lambda: client.lease(shard_id, config.name),
                until=time.monotonic() + config.give_up_s,
                stop=stop.is_set,
            )
        except (Conflict, NotFound) as exc:
            log.info("shard not leased", shard=shard_id, why=exc.message)
            return
    with Client(config.url, str(lease["token"])) as client:
        _Leased(shard_id, lease, config, client, stop, runners).run()


class _Leased:
    """A shard under a lease."""

    def __init__(
        self, shard_id: str, lease: dict[str, Any], config: WorkerConfig, client: Client, stop: threading.Event,
        runners: Runners,
    ) -> None:  # fmt: skip
        self._runners = runners
        self._id, self._lease, self._config, self._client, self._stop = shard_id, lease, config, client, stop
        self._beat_s = float(lease.get("heartbeat_s") or 3.0)
        self._over = threading.Event()  # nothing more to send: lost, cancelled, stopping
        self._cancelled = False
        self._heard = self._began = time.monotonic()
        self._said: list[str] = []
        """Keys of the variants that a runner of this lease has an outcome of."""

    def run(self) -> None:
        beats = threading.Thread(target=self._beat, name=f"heartbeat-{self._id}", daemon=True)
        beats.start()
        try:
            self._work()
        except LeaseLost as exc:
            log.warning("lease lost", shard=self._id, why=exc.message)
        except Unavailable as exc:
            log.error("relay unreachable, shard dropped", shard=self._id, why=exc.message)
        finally:
            self._over.set()
            beats.join(timeout=self._beat_s + 5)

    def _work(self) -> None:
        shard = self._lease["shard"]
        try:
            files = tuple(str(name) for name in shard["runtime"].get("files") or ())
            trees = Trees(self._config.folder / "trees")
            tree = trees.get(str(shard["commit"]), files, self._fetch)
            self._runners.sweep()
            with sandbox.private_tmp("relay-lease-", self._runners.room) as tmp:
                ended = self._runner(tmp, tree, files)
        except (LeaseLost, Unavailable):
            raise
        except (RelayError, OSError) as exc:
            ended = {"failed": str(exc)}
        except Exception as exc:
            # a fault of ours: told at once, rather than found out when five workers have lost the lease
            log.exception("shard failed", shard=self._id)
            ended = {"failed": f"the worker failed: {type(exc).__name__}: {exc}"}
        if self._cancelled:
            ended = {"failed": "cancelled by the relay"}
        elif self._over.is_set():
            return
        elif self._stop.is_set():
            self._hand_back("stopping")
            return
        elif _spoilt(ended) and (why := room.lacking(self._config.folder)):
            # the shard's own folder is gone by now: others have filled the disk, and nothing was found out
            self._hand_back(why)
            return
        failed = ended.get("failed")
        status = "done" if failed is None else "failed"
        report = ended.get("report") or {}
        self._patiently(lambda: self._client.complete(self._id, status, failed, report))
        log.info("shard ended", shard=self._id, status=status, error=failed)

    def _hand_back(self, why: str) -> None:
        """Another worker goes on where this one was. Where the relay cannot be told, the lease runs out."""
        self._over.set()  # a heartbeat that is answered afterwards says nothing new
        if int(self._lease.get("protocol") or 1) < RELEASE:
            log.info("the lease runs out", shard=self._id, reason=why)
            return
        try:
            self._client.release(self._id)
        except RelayError as exc:
            log.warning("shard not handed back: its lease runs out", shard=self._id, why=exc.message)
            return
        log.info("shard handed back", shard=self._id, reason=why)

    def _patiently(self, call: Any) -> Any:
        """As long as the lease may be ours: the heartbeat finds out when it is not."""
        return patient(call, until=self._heard + self._config.give_up_s, stop=lambda: self._stop.is_set() or self._lost)

    @property
    def _lost(self) -> bool:
        return self._over.is_set() and not self._cancelled

    def _fetch(self, to: Path, etag: str | None) -> str | None:
        answer: str | None = self._patiently(lambda: self._client.tree(self._id, to, etag))
        return answer

    # ---------------------------------------------------------------------------------------------------- heartbeats

    def _beat(self) -> None:
        with Client(self._config.url, str(self._lease["token"]), timeout=self._beat_s) as client:
            pause = self._beat_s
            while not self._over.wait(pause):
                try:
                    answer = client.heartbeat(self._id)
                except Unavailable as exc:
                    if time.monotonic() - self._heard > self._config.give_up_s:
                        log.error("no heartbeat for too long", shard=self._id, why=exc.message)
                        self._over.set()
                    pause = min(0.5, self._beat_s)  # a relay that comes back must hear of us before it gives us up
                    continue
                except RelayError as exc:
                    log.warning("heartbeat refused", shard=self._id, why=exc.message)
                    self._over.set()
                    return
                self._heard = time.monotonic()
                pause = self._beat_s
                if answer.get("cancel"):
                    self._cancelled = True
                    self._over.set()

    # -------------------------------------------------------------------------------------------------------- runner

    def _runner(self, tmp: Path, tree: Path, files: tuple[str, ...]) -> dict[str, Any]:
        """Runs the runner and sends its lines. Returns its last line: ``{"report": …}`` or ``{"failed": …}``."""
        spec, shard = tmp / "spec.json", self._lease["shard"]
        told = {
            "plugin": self._config.plugin,
            "nodes": self._config.nodes,
            "module_packages": self._config.module_packages,
        }
        shipping = None
        if int(self._lease.get("protocol") or 1) >= LOGS:
            told["log"] = str(tmp / "printed.log")
            shipping = Shipping(self._client, self._id, tmp / "printed.log")
        trace = tmp / "trace.gz"
        if shard.get("follow"):
            told["trace"] = str(trace)
        for left in reversed(range(RUNNERS)):
            limits = shard.get("limits") or {}
            if "shard_s" in limits:  # the lease's time, not each runner's
                limits = {**limits, "shard_s": max(1.0, limits["shard_s"] - (time.monotonic() - self._began))}
            done = [*(self._lease.get("done") or ()), *self._said]
            spec.write_text(json.dumps({**told, "shard": {**shard, "limits": limits}, "done": done}))
            ended, how = self._one_runner(tmp, tree, files, shipping)
            if ended is not None or self._over.is_set() or self._stop.is_set():
                break
            log.warning("the runner was lost", shard=self._id, why=how, said=len(self._said), left=left)
        if shipping is not None and not self._over.is_set():
            shipping.finish(stop=lambda: self._stop.is_set() or self._lost)
        if trace.exists() and not self._over.is_set() and not self._stop.is_set():
            self._tell(trace.read_bytes())
        return {"failed": how} if ended is None else ended

    def _one_runner(
        self, tmp: Path, tree: Path, files: tuple[str, ...], shipping: Shipping | None
    ) -> tuple[dict[str, Any] | None, str]:
        """(the last line of one runner, None when it had none; how it ended)."""
        spec = tmp / "spec.json"
        read, write = os.pipe()
        with open(tmp / "runner.log", "wb") as out:
            order = Order(
                spec, tree.absolute(), write, out.fileno(), self._head(tree), self._overlaid(tree, files),
                self._config.trust == "strict",
            )  # fmt: skip
            running = self._runners.run(order)
        os.close(write)
        try:
            last = self._stream(read, shipping)
        finally:
            os.close(read)
            _end(running)
            self._runners.done(running)
        words = (tmp / "runner.log").read_bytes()[-2000:].decode("utf-8", "replace").strip()
        return last, f"{running.how}: {words}" if words else running.how

    def _tell(self, trace: bytes) -> None:
        """What the tests ran. The relay without it has the results all the same, and asks again another day."""
        until = time.monotonic() + TRACE_S
        try:
            patient(lambda: self._client.trace(self._id, trace), until=until, stop=self._over.is_set)
        except (Refused, Unavailable) as exc:
            log.warning("a trace is lost", shard=self._id, size=len(trace), why=exc.message)

    def _head(self, tree: Path) -> str:
        """What a process that imported this head's code is good for: shards of this run on this commit."""
        # the inode: a tree that was fetched anew is another folder of the same name
        return f"{self._lease['shard'].get('dispatch_id')}:{tree}:{tree.stat().st_ino}"

    def _overlaid(self, tree: Path, files: tuple[str, ...]) -> bool:
        """Whether torch must be imported anew: it is the head's, or another device than the worker's own is asked."""
        wanted_device = adapters.of(str(self._lease["shard"]["device"]), self._config.plugin)
        if wanted_device.key != self._runners.adapter.key:
            return True
        site = overlay.installed_site()
        wanted = self._lease["shard"]["runtime"]["kind"] == "overlay" and site is not None
        return wanted and site is not None and overlay.needed(tree, files, site)

    def _stream(self, fd: int, shipping: Shipping | None) -> dict[str, Any] | None:
        """Reads lines until the runner closes the pipe; sends them every FLUSH_S or FLUSH_LINES, and the log beside."""
        buffer, pending, last = b"", [], None
        sent_at = time.monotonic()
        pipe_open = True
        while pipe_open and not self._over.is_set() and not self._stop.is_set():
            ready, _, _ = select.select([fd], [], [], FLUSH_S)
            if ready:
                chunk = os.read(fd, 1 << 16)
                pipe_open = bool(chunk)
                *lines, buffer = (buffer + chunk).split(b"\n")
                if len(buffer) > MAX_LINE:
                    raise RelayError(f"the runner wrote a line of more than {MAX_LINE} bytes")
                for line in lines:
                    value = json.loads(line)
                    if "report" in value or "failed" in value:
                        last = value
                    else:
                        pending.append(value)
                        self._said.append(f"{value['test'].rpartition('::')[0]}::{value['variant']}")
            now = time.monotonic()
            if pending and (len(pending) >= FLUSH_LINES or now - sent_at >= FLUSH_S or not pipe_open):
                sent_at = now
                try:
                    self._send(pending)
                except Unavailable:
                    # the relay restarts: keep the lines and go on, until there are too many of them
                    if len(pending) > BUFFERED_LINES or not pipe_open:
                        self._patiently(lambda: self._send(pending))
            if shipping is not None:
                shipping.go_on()
        return last

    def _send(self, pending: list[dict[str, Any]]) -> None:
        """Sends and empties ``pending``. A line that the relay does not take becomes an error with the reason."""
        while pending:
            lines = pending[:FLUSH_LINES]
            try:
                self._client.results(self._id, lines)
            except Refused as exc:
                for line in lines:
                    self._send_one(line, exc)
            del pending[: len(lines)]

    def _send_one(self, line: dict[str, Any], first: Refused) -> None:
        try:
            self._client.results(self._id, [line])
        except Refused as exc:
            log.error("result refused", shard=self._id, variant=str(line.get("variant"))[:200], why=exc.message)
            told = {key: str(line.get(key))[:500] for key in ("test", "variant")}
            reason = f"the result could not be recorded: {exc.message}"[:2000]
            self._client.results(
                self._id, [{**told, "mode": line["mode"], "outcome": "error", "seconds": 0.0, "message": reason}]
            )


def _spoilt(ended: dict[str, Any]) -> bool:
    """Whether a shard could not be run, or parts of it not, for want of room."""
    return "failed" in ended or environment_fault(json.dumps(ended.get("report") or {})) == "no-space"


def _end(running: Running) -> None:
    """Asks the runner to end, then makes it. Its host and the tests die with it."""
    # at the end of a shard it is about to leave by itself
    if not running.wait(0.5):
        running.terminate()
        if not running.wait(END_S):
            running.kill()
