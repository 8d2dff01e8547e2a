"""The collector: a fork of the host that imports the test files with pytest and forks a child a batch of variants.

Collects once, for any number of shards of its files: for a file of 20,000 variants that is most of the work. It runs
upstream's code at import.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from relay.reuse.model_ops import allow_packages
from relay.reuse.policy import Reuse, activate
from relay.reuse.registry import Registry
from relay.worker import adapters, child, protocol, sandbox, stacks
from relay.worker.collect import INI, Collected, FileProgress, SubtestFailures, arguments, find
from relay.worker.host import Job, Pipes, end_others
from relay.worker.scratch import Scratch, folders

ROWS_A_LINE = 20


def main(job: Job, pipes: Pipes, alone: bool) -> int:
    """Runs until the supervisor says ``quit`` or closes the orders. Returns the exit status."""

    def say(kind: str, **values: Any) -> None:
        protocol.send(pipes.host_out, {"t": kind, **values})

    say("collector", pid=os.getpid())
    adapter = adapters.of(job.shard.device, job.shard.plugin)
    adapter.begin(job.capability)
    allow_packages(job.shard.module_packages)
    files = Path(job.shard.input_files) if job.shard.input_files else None
    reuse = Reuse(job.tree, job.configs, job.capability, Registry(), files)
    activate(reuse)
    # upstream's files import their neighbours, and pytest adds the folder of each file itself
    sys.path.insert(0, str(job.tree / "test"))
    ini = Path(os.environ["TMPDIR"], "pytest.ini")
    ini.write_text(INI, encoding="utf-8")
    progress = FileProgress(
        reuse,
        lambda file, state, error, left: say("file", file=file, state=state, error=child.cut(error, 4000), left=left),
    )
    collected = Collected(reuse)
    loop = _Loop(job, pipes, reuse, say, alone, collected, progress)
    stacks.remember_frames_without_module()
    stacks.keep_no_stacks_of_calls_put_off()
    gc.disable()  # millions of objects come, and none of them goes
    code = pytest.main(arguments(job.tree, ini, job.files), plugins=[progress, collected, loop])
    # a file that ends the session (sys.exit, KeyboardInterrupt at import) never gets to the loop: the supervisor sees
    # this process end while that file was being imported
    return 0 if loop.ran else int(code) or 1


class _Loop(SubtestFailures):
    """A pytest plugin in the place of pytest's own loop: runs what the supervisor orders, in forked children."""

    def __init__(
        self, job: Job, pipes: Pipes, reuse: Reuse, say: Any, alone: bool, collected: Collected, progress: FileProgress
    ) -> None:
        super().__init__()
        self._job, self._pipes, self._reuse, self._say, self._alone = job, pipes, reuse, say, alone
        self._collected, self._progress = collected, progress
        self._items: dict[str, Any] = {}
        self._clean = Scratch(())
        self.ran = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        self.ran = True
        self._collected.others = session.items
        gc.enable()
        try:
            adapters.of(self._job.shard.device, self._job.shard.plugin).check_untouched()
        except adapters.AlreadyInitialised as exc:
            self._say("unusable", message=str(exc))
            return True
        self._clean = Scratch(folders(self._alone))  # a file's own, made while it was imported, stay
        self.announce()
        self.serve()
        return True

    def announce(self) -> None:
        """Says what the shard at hand finds in the collection."""
        shard = self._job.shard
        looked: set[str] = set()

        def begins(file: str) -> None:
            looked.add(file)
            self._say("file", file=file, state="start")

        found = find(self._collected, shard, self._reuse, begins)
        for file in looked:
            self._say("file", file=file, state="end")
        for file, why in found.unfit.items():
            self._say("file", file=file, state="end", error=why)
        gc.freeze()  # a child that collects garbage copies no page for it
        self._items = found.items
        rows = [
            {
                "test": str(r.test),
                "variant": r.variant,
                "op": r.op_name,
                "dtype": r.dtype,
                "mode": r.mode.value,
                "reason": child.cut(" ".join(p for p in (r.reason, r.issue and f"[{r.issue}]") if p), 700) or None,
                "source": r.source or None,
                "tags": list(r.tags),
            }
            for r in found.records
        ]
        for start in range(0, len(rows), ROWS_A_LINE):
            self._say("rows", rows=rows[start : start + ROWS_A_LINE])
        for test, reason in found.emptied.items():
            self._say("emptied", test=str(test), reason=child.cut(reason, 500))
        for test in sorted(found.matched):
            self._say("matched", test=str(test))
        self._say("collected", items=self._collected.size(self._job.files))

    def serve(self) -> None:
        """Forks a child for each order until there are no more; ``next`` is another shard of the same files."""
        orders = protocol.Lines(self._pipes.orders_in, protocol.MAX_ORDER)
        while not orders.closed:
            select.select([orders.fd], [], [])
            for order in orders.read():
                if "quit" in order:
                    return
                if "run" in order:
                    self._say("exited", status=self._fork(order["run"], orders))
                if "next" in order:
                    self._job = Job.unpack(order["next"])
                    self._progress.again(self._job.files)
                    self.announce()

    def _following(self, out: int) -> Callable[[], dict[str, Any]]:
        """In the child: from now on what it runs is seen, where the shard asks for it."""
        shard = self._job.shard
        if not shard.trace:
            return dict
        import torch

        from relay.worker.replay.tracing import Tracer

        tracer = Tracer(str(Path(torch.__file__).parents[1]))
        tracer.begin(ops=adapters.of(shard.device, shard.plugin).metered)
        return partial(tracer.tell, out)

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
                for fd in (1, 2):
                    os.dup2(self._pipes.tests_log, fd)
                os.close(self._pipes.tests_log)
                os.close(self._pipes.host_log)
                faulthandler.enable(file=sys.__stderr__ or 2)
                sandbox.limit(self._job.shard.limits.memory_mb)
                items = [self._items[key] for key in keys]
                adapters.of(self._job.shard.device, self._job.shard.plugin).awake()
                more = self._following(self._pipes.child_out)
                child.run(items, self._pipes.child_out, self._pipes.go_in, self._failed_subtests, more)
                status = 0
            except BaseException as exc:  # noqa: BLE001 - a forked child must never return into its parent's frames
                with suppress(OSError, ValueError):
                    print(f"the test process gave up: {exc!r}", file=sys.stderr)  # noqa: T201 - the tests' log
            finally:
                with suppress(OSError, ValueError):
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
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        end_others(self._alone, pid)  # whatever the tests left running must not write into the next batch
        self._clean.clear(caches=True)
        return status


def _end_group(pid: int) -> None:
    """The child and its process group; a child that left its group is killed all the same."""
    os.kill(pid, signal.SIGKILL)  # not yet waited for: the number is still its own
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
