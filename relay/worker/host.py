"""The host of a shard: imports torch, installs the device, collects, and forks a child a batch. Runs upstream's code.

Started by a fork of the supervisor (``relay.worker.runner``), which believes nothing it cannot check. The host never
runs a test and no operator itself: a child of a process that used autograd's threads cannot use autograd.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relay import device
from relay.reuse.policy import Reuse, activate
from relay.reuse.registry import Registry
from relay.worker import protocol, sandbox
from relay.worker.outcome import RAW
from relay.worker.spec import Shard
from selector.configs import Capability, ReuseConfigs

ROWS_A_LINE = 20


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What one host is for. ``files`` are collected together; ``site`` (overlay) goes first on ``sys.path``."""

    shard: Shard
    tree: Path
    tmp: Path
    files: tuple[str, ...]
    site: Path | None
    configs: ReuseConfigs | None
    capability: Capability | None
    cut_network: bool


@dataclass(frozen=True, slots=True)
class Pipes:
    """Descriptors of the host: its own lines out, the children's lines out, orders in, permissions to go on in."""

    host_out: int
    child_out: int
    orders_in: int
    go_in: int


def main(plan: HostPlan, pipes: Pipes) -> int:
    """Runs until the supervisor closes the orders. Returns the exit status."""

    def say(kind: str, **values: Any) -> None:
        protocol.send(pipes.host_out, {"t": kind, **values})

    tests_dir = plan.tree / "test"
    hook = Path(sys.modules["relay.reuse"].__path__[0]) / "torch_test_device.py"
    os.environ["TORCH_TEST_DEVICES"] = str(hook)
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "privateuse1"
    sys.dont_write_bytecode = True
    os.chdir(plan.tmp)
    if plan.site is not None:
        sys.path.insert(0, str(plan.site))
    began = time.monotonic()
    try:
        import torch
    except ImportError as exc:
        say("unusable", message=f"torch cannot be imported: {exc}")
        return 1
    torch.set_num_threads(1)
    policy = device.Policy.from_capability(plan.capability) if plan.capability is not None else None
    device.install(policy)
    reuse = Reuse(plan.tree, plan.configs, plan.capability, Registry())
    activate(reuse)
    device.comparing()
    say("ready", torch=torch.__version__, import_s=round(time.monotonic() - began, 3))

    from relay.worker import collect

    # upstream's files import their neighbours, and pytest adds the folder of each file itself
    sys.path.insert(1 if plan.site is not None else 0, str(tests_dir))
    ini = plan.tmp / "pytest.ini"
    ini.write_text(collect.INI)
    progress = collect.FileProgress(
        reuse, lambda file, state, error: say("file", file=file, state=state, error=_cut(error, 4000))
    )
    loop = _Loop(plan, pipes, reuse, say)
    code = pytest.main(collect.arguments(plan.tree, ini, plan.files), plugins=[progress, loop])
    # a file that ends the session (sys.exit, KeyboardInterrupt at import) never gets to the loop: the supervisor sees
    # this process end while that file was being imported
    return 0 if loop.ran else int(code) or 1


class _Loop:
    """A pytest plugin in the place of pytest's own loop: runs what the supervisor orders, in forked children."""

    def __init__(self, plan: HostPlan, pipes: Pipes, reuse: Reuse, say: Any) -> None:
        self._plan, self._pipes, self._reuse, self._say = plan, pipes, reuse, say
        self._items: dict[str, Any] = {}
        self._failed_subtests: list[str] = []
        self.ran = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        # subtests come by this hook only; the main report of a test says nothing of them
        if type(report).__name__ == "SubtestReport" and report.failed:
            self._failed_subtests.append(str(report.longrepr))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        self.ran = True
        self.announce(session.items)
        self.serve()
        return True

    def announce(self, items: Sequence[Any]) -> None:
        from relay.worker.collect import find

        found = find(items, self._plan.shard, self._reuse)
        self._items = found.items
        rows = [
            {
                "test": str(r.test),
                "variant": r.variant,
                "op": r.op_name,
                "dtype": r.dtype,
                "mode": r.mode.value,
                "reason": _cut(" ".join(part for part in (r.reason, r.issue and f"[{r.issue}]") if part), 700) or None,
                "source": r.source or None,
            }
            for r in found.records
        ]
        for start in range(0, len(rows), ROWS_A_LINE):
            self._say("rows", rows=rows[start : start + ROWS_A_LINE])
        wanted = set(self._plan.shard.tests)
        for emptied in self._reuse.registry.emptied:
            if emptied.test in wanted:
                self._say("emptied", test=str(emptied.test), reason=_cut(emptied.reason, 500))
        for test in sorted(found.matched):
            self._say("matched", test=str(test))
        self._say("collected", items=found.collected)

    def serve(self) -> None:
        """Forks a child for each order until there are no more."""
        gc.collect()
        gc.freeze()
        orders = protocol.Lines(self._pipes.orders_in)
        while not orders.closed:
            select.select([orders.fd], [], [])
            for order in orders.read():
                if "run" in order:
                    self._say("exited", status=self._fork(order["run"], orders))

    def _fork(self, keys: list[str], orders: protocol.Lines) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 3
            try:
                os.setpgid(0, 0)
                sandbox.die_with_parent(parent)
                sandbox.hide_process(False)  # tests look at /proc/self; the host they must not look at stays hidden
                os.close(self._pipes.host_out)
                os.close(self._pipes.orders_in)
                _redirect(self._plan.tmp / "tests.log")
                sandbox.limit(self._plan.shard.limits.memory_mb)
                self._run(keys)
                status = 0
            except BaseException as exc:  # noqa: BLE001 - a forked child must never return into its parent's frames
                print(f"the test process gave up: {exc!r}", file=sys.stderr)  # noqa: T201 - the tests' log
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        with suppress(OSError):
            os.setpgid(pid, pid)  # whoever of the two is first
        self._say("forked", pid=pid)
        ended = os.pidfd_open(pid)
        try:
            while True:
                ready, _, _ = select.select([ended, orders.fd], [], [])
                if orders.fd in ready and (any("kill" in order for order in orders.read()) or orders.closed):
                    _end_group(pid)
                if ended in ready:
                    break
        finally:
            os.close(ended)
        _end_group(pid)  # whatever the tests left running must not write into the next batch
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _run(self, keys: list[str]) -> None:
        from _pytest.runner import runtestprotocol

        items = [self._items[key] for key in keys]
        out = self._pipes.child_out
        _drain(self._pipes.go_in)  # a permission that a killed child did not take
        for i, item in enumerate(items):
            protocol.send(out, {"start": i})
            self._failed_subtests.clear()
            following = items[i + 1] if i + 1 < len(items) else None
            reports = runtestprotocol(item, log=False, nextitem=following)
            end = _summary(reports, self._failed_subtests)
            sys.stdout.flush()
            sys.stderr.flush()
            protocol.send(out, {"end": i, **end})
            # the supervisor reads the meter while nothing runs
            if os.read(self._pipes.go_in, 1) != b"g":
                return


def _summary(reports: Sequence[Any], failed_subtests: Sequence[str]) -> dict[str, Any]:
    """The raw outcome of pytest's reports of one test: ``raw``, ``seconds``, ``message``, ``reason``."""
    raw, message, reason = "passed", None, None
    for report in reports:
        if report.failed:
            raw = "failed" if report.when == "call" else "error"
            message = _failure(report)
            break
        if report.skipped and raw == "passed":
            if hasattr(report, "wasxfail"):
                raw, reason = "xfailed", report.wasxfail or "upstream expects this test to fail"
            else:
                raw, reason = "self_skipped", _skip_reason(report)
    if failed_subtests and raw not in ("failed", "error"):
        raw, message = "failed", f"{len(failed_subtests)} subtests failed; the first: {failed_subtests[0]}"
    assert raw in RAW
    seconds = round(sum(r.duration for r in reports), 6)
    return {"raw": raw, "seconds": seconds, "message": _cut(message), "reason": _cut(reason, 500)}


def _failure(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return f"{crash.message}\n(at {crash.path}:{crash.lineno})"
    return str(report.longrepr)


def _skip_reason(report: Any) -> str:
    longrepr = report.longrepr
    text = str(longrepr[2]) if isinstance(longrepr, tuple) and len(longrepr) == 3 else str(longrepr)
    return text.removeprefix("Skipped: ")


def _cut(text: str | None, limit: int = protocol.MAX_MESSAGE) -> str | None:
    if text is None or len(text) <= limit:
        return text
    half = limit // 2 - 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _redirect(log: Path) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    faulthandler.enable(file=sys.__stderr__ or 2)


def _drain(fd: int) -> None:
    os.set_blocking(fd, False)
    with suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass
    os.set_blocking(fd, True)


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
