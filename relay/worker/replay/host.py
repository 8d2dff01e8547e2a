"""A replay's host, ``python -m relay.worker.replay.host JOB ORDERS OUT``: torch, device and collected files, once.

It forks a child for each order, and in the child alone a fault is put in. There is no sandbox: the tree and the torch
are the user's own, and a replay runs no change of anybody else.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from relay.reuse.policy import Reuse, activate
from relay.reuse.registry import Registry
from relay.services.device_configs import load_device
from relay.worker import adapters, child, protocol, sandbox
from relay.worker.collect import INI, Collected, FileProgress, SubtestFailures, arguments, record_of
from relay.worker.host import end_others, import_torch
from relay.worker.outcome import RAW, died
from relay.worker.replay import moved, patching
from relay.worker.replay.job import MEMORY_MB, HostJob, share_of, taken
from relay.worker.replay.tracing import Tracer
from selector.model import Mode

BAD = ("failed", "error")


def main(job_file: Path, orders: int, out: int) -> int:
    """Collects, says which variants the pool may hold, and serves orders until they are closed."""
    job = HostJob.unpack(job_file.read_bytes())

    def say(kind: str, **values: Any) -> None:
        protocol.send(out, {"t": kind, **values}, protocol.MAX_ORDER)

    import_torch()
    moved.put_back()
    device = load_device(job.configs)
    adapters.of(device.capability.device).begin(device.capability)
    reuse = Reuse(job.tree, device.configs, device.capability, Registry())
    activate(reuse)
    sys.path.insert(0, str(job.tree / "test"))
    ini = Path(tempfile.gettempdir(), "pytest.ini")
    ini.write_text(INI, encoding="utf-8")
    progress = FileProgress(
        reuse, lambda file, state, error, _: say("file", file=file, state=state, error=child.cut(error))
    )
    collected = Collected(reuse)
    host = _Host(job, reuse, collected, orders, say)
    gc.disable()
    code = pytest.main(arguments(job.tree, ini, job.files), plugins=[progress, collected, host])
    return 0 if host.ran else int(code) or 1


class _Host(SubtestFailures):
    """A pytest plugin in the place of pytest's own loop."""

    def __init__(self, job: HostJob, reuse: Reuse, collected: Collected, orders: int, say: Any) -> None:
        super().__init__()
        self._job, self._reuse, self._collected, self._orders, self._say = job, reuse, collected, orders, say
        self._items: dict[str, Any] = {}
        self._modules: patching.Modules | None = None
        self._probes: list[tuple[FunctionType, CodeType, CodeType]] = []
        """functions with their own code and the one with probes"""
        self.ran = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        self.ran = True
        self._collected.others = session.items
        paths = {fault.path for fault in self._job.faults if not fault.native}
        self._modules = patching.Modules(self._job.site, paths)
        self._announce()
        gc.enable()
        gc.collect()
        gc.freeze()
        lines = protocol.Lines(self._orders, protocol.MAX_ORDER)
        while not lines.closed:
            select.select([lines.fd], [], [])
            for order in lines.read():
                self._say("done", **self._serve(order))
        return True

    def _announce(self) -> None:
        job = self._job
        wanted = set(job.tests)
        by_file: dict[str, list[Any]] = {}
        for candidate in self._collected.candidates(job.tests, None):
            by_file.setdefault(self._reuse.file_of(candidate.path), []).append(candidate)
        kept = None if job.keys is None else set(job.keys)
        # a variant's key names the class as it is written, which only its record knows; its method is seen before
        methods = {(key.partition("::")[0], key.rpartition("::")[2]) for key in kept or ()}
        for file, candidates in by_file.items():
            share = share_of(len(candidates), job) if kept is None else 1.0
            rows = []
            for candidate in candidates:
                name = f"{file}::{candidate.cls.__name__}::{candidate.method}"
                if not taken(job.seed, name, share) or (kept is not None and (file, candidate.method) not in methods):
                    continue
                record = record_of(candidate, self._reuse)
                if kept is not None and record.key not in kept:
                    continue
                if record.test in wanted and record.mode is not Mode.SKIP and record.key not in self._items:
                    self._items[record.key] = candidate.item()
                    rows.append([record.key, str(record.test), record.op_name])
            self._say("rows", file=file, share=share, variants=len(candidates), rows=rows)
        self._say("ready")

    def _serve(self, order: dict[str, Any]) -> dict[str, Any]:
        """Runs an order and says how each variant ended. Returns ``changed``: how many places the fault had, ``late``:
        time was over."""
        keys, number = order["keys"], order.get("fault")
        fault = None if number is None else self._job.faults[number]
        deadline = time.monotonic() + order["total_s"]
        if order.get("probe"):
            self._put_probes()
        at, changed, late = 0, 0, False
        while at < len(keys) and not late:
            batch = _Child(
                self._items, keys[at:], fault, self._modules, self._failed_subtests, bool(order.get("probe"))
            )
            if order.get("probe"):
                batch.ops = {f.op: n for n, f in enumerate(self._job.faults) if f.native}
            if order.get("trace"):
                batch.tracer = Tracer(str(self._job.site))
            changed, done, late, stopped = batch.run(
                lambda i, told, at=at: self._say("end", key=keys[at + i], **told),
                order["variant_s"], deadline, stop=order["stop"],
            )  # fmt: skip
            at += done
            if stopped or (fault is not None and not changed):
                break
        if order.get("probe"):
            for function, code, _ in self._probes:
                function.__code__ = code
        return {"changed": changed, "late": late}

    def _put_probes(self) -> None:
        """Compiled once: a hundred modules take seconds."""
        if not self._probes:
            assert self._modules is not None
            found = self._modules.probe(dict(enumerate(self._job.faults)))
            self._probes = [(function, code, function.__code__) for function, code in found]
        for function, _, probed in self._probes:
            function.__code__ = probed


class _Child:
    """One forked process with a fault in it, and this process's side of it."""

    def __init__(
        self, items: dict[str, Any], keys: list[str], fault: Any, modules: Any, failed: list[str], probe: bool
    ):
        self._items, self._keys, self._fault, self._modules = items, keys, fault, modules
        self._failed, self._probe = failed, probe
        self.ops: dict[str, int] = {}
        self.tracer: Tracer | None = None

    def run(self, end: Any, variant_s: float, deadline: float, *, stop: bool) -> tuple[int, int, bool, bool]:
        """(places the fault had, variants that have an outcome, time was over, the first failure was met)."""
        out_r, out_w = os.pipe()
        go_r, go_w = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(out_r)
            os.close(go_w)
            self._inside(out_w, go_r)
        os.close(out_w)
        os.close(go_r)
        lines = protocol.Lines(out_r, protocol.MAX_ORDER)
        changed, at, running, late, stopped = 0, 0, False, False, False
        ran: dict[str, Any] = {}
        since = time.monotonic()
        try:
            while not lines.closed and not stopped and at < len(self._keys):
                now = time.monotonic()
                limit = min(since + variant_s, deadline)
                if now >= limit:
                    late = now >= deadline
                    if not late or running:
                        end(at, {"raw": "timed_out", "s": round(now - since, 4)})
                        at += 1
                    stopped = stop and not late
                    break
                select.select([lines.fd], [], [], limit - now)
                for line in lines.read():
                    if "changed" in line:
                        changed, since = int(line["changed"]), time.monotonic()
                    elif line.get("start") == at:
                        running, since = True, time.monotonic()
                    elif "ran" in line:
                        ran = line
                    elif line.get("end") == at and line.get("raw") in RAW:
                        more = ran | ({"hits": line["hits"]} if line.get("hits") else {})
                        ran = {}
                        message = child.cut(line.get("message") or line.get("reason"), 300)
                        end(at, {"raw": line["raw"], "s": line["seconds"], "m": message, **more})
                        at, running, since = at + 1, False, time.monotonic()
                        if stop and line["raw"] in BAD:
                            stopped = True
                            break
                        if at < len(self._keys):
                            with suppress(BrokenPipeError):
                                os.write(go_w, b"g")
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(out_r)
            os.close(go_w)
            end_others(False, pid)
        if running and lines.closed and not stopped and not late:
            end(at, {"raw": "crashed", "s": round(time.monotonic() - since, 4), "m": died(status)})
            at += 1
            stopped = stop
        elif at == 0 and not late and not stopped and changed:
            end(at, {"raw": "crashed", "s": 0.0, "m": died(status)})
            at += 1
        return changed, at, late, stopped

    def _inside(self, out: int, go: int) -> None:
        status = 1
        try:
            os.setpgid(0, 0)
            sandbox.die_with_parent(os.getppid())
            sandbox.limit(MEMORY_MB)
            changed = 1
            if self._fault is not None:
                changed = patching.inject(self._fault, self._modules)
            if self.ops:
                self._record()
            protocol.send(out, {"changed": changed})
            if changed:
                if self.tracer is not None:
                    self.tracer.begin()
                child.run([self._items[key] for key in self._keys], out, go, self._failed, partial(self._more, out))
            status = 0
        except BaseException as exc:  # noqa: BLE001 - a forked child must never return into its parent's frames
            print(f"the test process gave up: {exc!r}", file=sys.stderr)  # noqa: T201
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _record(self) -> None:
        from relay.worker.replay.kernels import record_ops

        hits = getattr(__import__("builtins"), patching.HITS)
        numbers = self.ops

        def hit(name: str) -> None:
            number = numbers.get(name)
            if number is not None:
                hits[number] = 1

        record_ops(hit)

    def _more(self, out: int) -> dict[str, Any]:
        if self.tracer is not None:  # in a line of its own, which may be long
            protocol.send(out, self.tracer.take(), protocol.MAX_ORDER)
        return {"hits": patching.take_hits()} if self._probe else {}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
