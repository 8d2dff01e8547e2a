"""A shard, from its spec to its report: what the supervisor does. See docs/runner.md."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay import device
from relay.errors import RelayError
from relay.worker import adapters, collection, namespaces, overlay, sandbox
from relay.worker.batch import Batch, Row
from relay.worker.following import Following
from relay.worker.groups import groups
from relay.worker.host import Job
from relay.worker.hostproc import HostGone, HostProcess, Surroundings
from relay.worker.outcome import moded
from relay.worker.printed import Printed
from relay.worker.spec import Shard
from selector.configs import Capability, ConfigSource, ReuseConfigs, load_capability, load_configs
from selector.errors import SelectorError
from selector.model import Mode, Outcome, RuntimeKind, TestId

BATCH = 50
"""Variants a forked child runs: measured, 9 % slower than none, and a crash costs one variant."""
CAPABILITY = "capability.yaml"
LEAKS = 100
"""Variants named in a report that left their process changed."""
RESTARTS = 8
"""Hosts that may die in the middle of running before the shard is given up."""

Emit = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Head:
    """What shards of one head share: the overlay, the host with the collector that the last one used, and the files
    that ended, blocked or overran whoever imported them, with how."""

    host: HostProcess | None = None
    site: Path | None = None
    broken: dict[str, str] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)
    """Files that change, when they are imported, what others would run under: each has a collector of its own."""


class RunnerError(RelayError):
    """The worker itself cannot run the shard: infrastructure, never the change's fault."""

    code = "runner-failed"


class Runner:
    """One shard, from its spec to its report. ``head``: what earlier shards of the same head left, to go on with."""

    def __init__(
        self, shard: Shard, tree: Path, tmp: Path, emit: Emit, *,
        batch: int = BATCH, strict: bool = False, head: Head | None = None,
    ) -> None:  # fmt: skip
        self.shard, self.tree, self.tmp = shard, tree.resolve(), tmp
        self.head = head or Head()
        self._emit, self._batch, self._strict = emit, 1 if shard.repeat > 1 else batch, strict
        self._attempt = 0
        self._began = time.monotonic()
        self._deadline = self._began + shard.limits.shard_s
        self._reported: set[str] = set()
        self._errors: dict[str, str] = {}
        self._matched: set[TestId] = set()
        self._emptied: dict[str, str] = {}
        self._leaks: list[dict[str, Any]] = []
        self._implausible: list[str] = []
        self._counted = [0, 0.0]
        self._following = Following(shard.runtime.torch) if shard.trace else None
        self._printed = Printed(Path(shard.log) if shard.log else None)
        self.governed: dict[str, dict[str, Any]] = {}
        """``entry`` (where the governing one stands, None: nowhere) and ``tags`` of each reported variant, by key."""
        self._collected = 0
        self._restarts = 0
        self._timings = {"prepare_s": 0.0, "import_s": 0.0, "collect_s": 0.0, "run_s": 0.0}
        self._isolation = sandbox.Isolation(False, False, False, False)
        self._refused: dict[str, str] = {}
        self._adapter = adapters.EMULATED
        self._configs: ReuseConfigs | None = None
        self._capability: Capability | None = None

    def run(self) -> dict[str, Any]:
        """Runs everything and returns the report. Raises RunnerError when this worker cannot."""
        before = device.METER.snapshot()
        self._prepare()
        for files in groups(self._there(), self.head.apart):
            self._attempt = 0
            self._round(files)
        spent = device.METER.snapshot() - before
        if self._following is not None:
            Path(self.shard.trace).write_bytes(self._following.trace().to_bytes())
        broken = set(self._errors)
        unmatched = [
            str(test)
            for test in self.shard.tests
            if test not in self._matched and str(test) not in self._emptied and test.file not in broken
        ]
        return {
            "collected": self._collected,
            "errors": [{"file": file, "message": message} for file, message in self._errors.items()],
            "unmatched": unmatched,
            "emptied": [{"test": test, "reason": reason} for test, reason in self._emptied.items()],
            "refused": [{"file": file, "message": message} for file, message in self._refused.items()],
            "leaks": self._leaks,
            "meter": {
                "kernels": self._counted[0],
                "h2d_bytes": max(0, spent.h2d_bytes),
                "d2h_bytes": max(0, spent.d2h_bytes),
                "modelled_us": round(self._counted[1], 3),
                "fallbacks": max(0, spent.fallbacks),
                # the tests' own process counts: what an untrusted author's code says of itself is evidence of no more
                "trusted": self.shard.trusted,
                "implausible": self._implausible[:LEAKS],
            },
            "timings": {key: round(value, 3) for key, value in self._timings.items()},
            "isolation": {**self._isolation.as_report(), "restarts": self._restarts},
        }

    def close(self) -> None:
        """Lets go of the log."""
        self._printed.close()

    # ------------------------------------------------------------------------------------------------------- before

    def _prepare(self) -> None:
        shard = self.shard
        try:
            if shard.configs:
                texts = dict(shard.configs)
                if shard.capability:
                    texts.setdefault(CAPABILITY, shard.capability)  # configs extend it by this name
                self._configs = load_configs(
                    [ConfigSource(name, text) for name, text in texts.items()], platform=platform.machine()
                )
            if shard.capability:
                self._capability = load_capability(shard.capability, CAPABILITY)
        except SelectorError as exc:
            raise RunnerError(f"the shard's configs cannot be used: {exc}") from exc
        if not self.tree.is_dir():
            raise RunnerError(f"there is no tree at {self.tree}")
        if shard.runtime.kind is RuntimeKind.PR_BUILD:
            raise RunnerError(
                "this worker has no build of the change", "plan the shard for the runtime overlay or tests-only"
            )
        self._adapter = adapters.of(shard.device, shard.plugin, shard.nodes)
        self._adapter.check()
        if not self._adapter.fits:
            raise RunnerError(f"this process has another device: it cannot have {shard.device} beside it")
        self._isolation = isolation_here(self.tmp)
        if shard.runtime.kind is RuntimeKind.OVERLAY:
            self._lay_over()
        if self._strict and not shard.trusted and self._isolation.lacking:
            raise RunnerError(
                f"untrusted code is not run here: the sandbox lacks {', '.join(self._isolation.lacking)}",
                "allow user namespaces on this machine, have the author trusted, or set RELAY_WORKER_TRUST=lenient",
            )
        self._timings["prepare_s"] = time.monotonic() - self._began

    def _lay_over(self) -> None:
        """The change's Python files over the installed torch: all of them or none, since they may need each other.
        Where one is refused, the tests run on torch as it is installed and the report names what that leaves out."""
        installed, files = overlay.installed_site(), self.shard.runtime.files
        if installed is None:
            raise RunnerError("torch is not installed", "install the extra `emulator`")
        refused = overlay.refusals(self.tree, files, installed)
        if refused:
            first = next(iter(refused))
            rest = f"not laid over the installed torch, because {first} cannot be"
            self._refused = {file: refused[file].message if file in refused else rest for file in files}
        elif self.head.site is None and overlay.needed(self.tree, files, installed):
            if "torch" in sys.modules:
                raise RunnerError("this process has imported the installed torch: it cannot lay the change over it")
            self.head.site = overlay.build(self.tree, files, installed, self.tmp / "site")

    def _there(self) -> list[str]:
        """The files that can be imported; of the others it is known why they cannot."""
        found = []
        for file in self.shard.files:
            if file in self.head.broken:
                self._errors[file] = self.head.broken[file]
            elif (self.tree / file).is_file():
                found.append(file)
            else:
                self._errors[file] = "the file is not in the tree"
        return found

    # ------------------------------------------------------------------------------------------------------ a round

    def _round(self, files: list[str]) -> None:
        """Collects and runs files; a host or collector that ends is replaced, and what it took with it is blamed. The
        collector stays, for the next shard of these files."""
        while files and not self._out_of_time(files):
            host = self._a_host()
            keep = False
            try:
                job = Job(self.shard, self.tree, tuple(files), self._configs, self._capability)
                if host.collected is not None and not collection.covers(host, job):
                    keep = host.finish()
                    continue
                got = self._collect(host, job)
                if got.blamed is not None:
                    files = [file for file in files if file != got.blamed]
                    continue
                if got.apart and len(files) > 1:
                    keep = host.finish()
                    self._split(files, got.apart)
                    return
                while True:  # a shard that repeats runs its variants again, each in a process of its own
                    self._run(host, got.rows)
                    if self._attempt + 1 >= self.shard.repeat or self._out_of_time(files):
                        break
                    self._attempt += 1
                    self._reported.clear()
                keep = True
                return
            except HostGone as gone:
                self._restarts += 1
                if self._restarts > RESTARTS:
                    raise RunnerError(f"the test host died {self._restarts} times; the last time: {gone}") from gone
            finally:
                if not keep:
                    self.end_host()

    def _split(self, files: list[str], apart: dict[str, list[str]]) -> None:
        """Runs files that cannot be in one collector in several; what the imports left is in the report."""
        for file, left in apart.items():
            if len(self._leaks) < LEAKS:
                self._leaks.append({"variant": file, "left": left})
        self.head.apart |= apart.keys()
        for group in groups(files, self.head.apart):
            self._round(group)

    def _a_host(self) -> HostProcess:
        if self.head.host is None:
            site = self.head.site
            packages = namespaces.packages((*namespaces.MODULES, *filter(None, [self._adapter.package])))
            given = (Path(self.shard.input_files),) if self.shard.input_files else ()
            readable = (self.tree, *packages, *((site,) if site else ()), *given)
            around = Surroundings(self.tmp, self._isolation, site, readable, self._adapter)
            self.head.host = HostProcess.start(around)
        return self.head.host

    def end_host(self) -> None:
        """Ends the host, if there is one, and all it started."""
        if self.head.host is not None:
            self.head.host.end()
            self.head.host = None
        sandbox.end_children()

    def _out_of_time(self, files: list[str]) -> bool:
        if time.monotonic() < self._deadline:
            return False
        for file in files:
            self._errors.setdefault(file, f"not run to its end: the shard's {self.shard.limits.shard_s:g} s were over")
        return True

    def _collect(self, host: HostProcess, job: Job) -> collection.Collected:
        """Takes the host's list, in which a file may be blamed that ended or blocked the host."""
        began = time.monotonic()
        got = collection.collect(host, job, self._deadline)
        self._timings["import_s"] += got.import_s
        self._timings["collect_s"] += time.monotonic() - began - got.import_s
        self._errors.update(got.errors)
        if got.blamed is not None:
            self._errors[got.blamed] = got.why
            if not got.late:
                self.head.broken[got.blamed] = got.why
        elif got.why:
            raise RunnerError(got.why)
        elif not (got.apart and len(job.files) > 1):
            self._collected += got.collected
            self._matched |= got.matched
            self._emptied.update(got.emptied)
        return got

    def _run(self, host: HostProcess, rows: list[Row]) -> None:
        began = time.monotonic()
        try:
            todo = []
            for row in rows:
                if row.key in self._reported:
                    continue
                if row.mode is Mode.SKIP:
                    self.result(row, Outcome.SKIPPED, reason=row.reason or f"skipped by {row.source or 'the config'}")
                else:
                    todo.append(row)
            while todo:
                if self._out_of_time(list(dict.fromkeys(row.test.file for row in todo))):
                    return
                batch = Batch(
                    host, todo[: self._batch], self.shard.limits, self._deadline, self.result, self._following
                )
                try:
                    batch.run()
                finally:
                    self._implausible += batch.implausible
                if batch.leaked and len(self._leaks) < LEAKS:
                    self._leaks.append({"variant": batch.last, "left": batch.leaked})
                todo = [row for row in todo if row.key not in self._reported]
        finally:
            self._timings["run_s"] += time.monotonic() - began

    def result(self, row: Row, outcome: Outcome | str, **values: Any) -> None:
        """Writes the one outcome of a variant; ``outcome`` as text is a test process's word and is moded here."""
        if row.key in self._reported:
            return
        self._reported.add(row.key)
        final = outcome if isinstance(outcome, Outcome) else moded(row.mode, outcome)
        reason = values.pop("reason", None) or (row.reason if row.mode is not Mode.MANDATORY_SUCCESS else None)
        self.governed[row.key] = {"entry": row.source, "tags": list(row.tags)}
        self._counted[0] += values.get("kernels") or 0
        self._counted[1] += values.get("modelled_us") or 0.0
        printed = values.pop("printed", None)
        if printed is not None:
            title = f"{row.key}: {final.value}, {values.get('seconds') or 0.0:.3f} s"
            output, start, end = printed
            values |= self._printed.keep(title, output, start, end, values.get("message"))
        self._emit(
            {
                "test": str(row.test),
                "variant": row.variant,
                "op": row.op,
                "dtype": row.dtype,
                "mode": row.mode.value,
                "outcome": final.value,
                "reason": reason,
                "seconds": 0.0,
                "kernels": None,
                "modelled_us": None,
                "meter": None,
                "message": None,
                "log_tail": None,
                **({"attempt": self._attempt} if self._attempt else {}),
                **values,
            }
        )


_isolation: list[sandbox.Isolation] = []


def isolation_here(folder: Path) -> sandbox.Isolation:
    """What this machine's kernel gives a sandbox; tried once a process, and known to those forked from it."""
    if not _isolation:
        stage = folder / "root"
        stage.mkdir(exist_ok=True)
        _isolation.append(sandbox.probe(stage))
    (folder / "root").mkdir(exist_ok=True)
    return _isolation[0]
