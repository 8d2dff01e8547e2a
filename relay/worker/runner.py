"""Runs one shard: ``python -m relay.worker.runner --spec spec.json --tree DIR --out results.jsonl``.

This process is the supervisor. It runs no upstream code and no operator; it forks the *host* (``relay.worker.host``),
which forks a collector, which forks a child a batch; and it alone writes outcomes. See docs/runner.md.

Output: one JSON line a variant (docs/worker-api.md) and, last, ``{"report": …}`` or ``{"failed": message}``.
Exit status: 0 the shard was run, 2 the arguments cannot be used, 3 it could not be run (infrastructure).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay import device
from relay.domain import result_reports as reports
from relay.errors import BadRequest, RelayError
from relay.worker import sandbox
from relay.worker.shard_run import BATCH, Head, Runner
from relay.worker.spec import Shard, read_spec

SHARD_FOLDER = "relay-shard-"
"""Prefix of a supervisor's folder; its pid follows, so that folders of the dead can be swept."""
IDLE_S = 300.0
"""Seconds after which a supervisor that waits for another shard of its head ends."""
KEPT = frozenset(("PATH", "LANG", "PYTHONPATH", "TMPDIR", "LD_LIBRARY_PATH"))


def _start_over_without_secrets() -> None:
    """Executes this program again with nothing in its environment but KEPT, if there is more.

    Taking variables out of ``os.environ`` does not take them out of ``/proc/self/environ``, which forked children of
    this process share.
    """
    if set(os.environ) - KEPT:
        env = {key: value for key, value in os.environ.items() if key in KEPT}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], env)


@contextmanager
def supervising(room: Path | None = None) -> Iterator[Path]:
    """Makes this process a supervisor: its folder (in ``room``), its signals, and the end of all it started."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sandbox.adopt_orphans()
    device.METER.bind(device.new_meter_map())  # shared with what this process forks, and with nothing else
    room = room or Path(tempfile.gettempdir())
    sandbox.sweep(room, SHARD_FOLDER)
    try:
        with sandbox.private_tmp(SHARD_FOLDER, room) as tmp:
            os.environ.clear()
            os.environ.update(sandbox.environment(tmp))
            tempfile.tempdir = str(tmp)  # the module remembers the folder that it was first asked for
            sandbox.hide_process()
            try:
                yield tmp
            finally:
                sandbox.end_children()
    finally:
        sandbox.end_children()


def writer(fd: int) -> Callable[[dict[str, Any]], None]:
    """Writes JSON lines to a descriptor, whole ones."""

    def emit(line: dict[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        while data:
            data = data[os.write(fd, data) :]

    return emit


def run_one(
    shard: Shard, tree: Path, tmp: Path, emit: Callable[[dict[str, Any]], None], *,
    batch: int = BATCH, strict: bool = False, head: Head | None = None,
    governed: dict[str, dict[str, Any]] | None = None, quiet: bool = False,
) -> int:  # fmt: skip
    """Runs a shard and writes its lines. Returns the exit status; the host stays in ``head``, if one is given.

    ``governed`` is filled with the entry and the tags that the configs have for each variant. ``quiet``: why a shard
    failed is said in its last line only, not to stderr, too.
    """
    if head is not None and head.host is not None:
        head.host.wake()
    runner = Runner(shard, tree, tmp, emit, batch=batch, strict=strict, head=head)
    try:
        emit({"report": runner.run()})
        status = 0
    except RelayError as exc:
        emit({"failed": str(exc)})
        if not quiet:
            print(f"relay-runner: {exc}", file=sys.stderr)  # noqa: T201
        status = 3
    finally:
        runner.close()
    if head is None or status:
        runner.end_host()
    elif head.host is not None:
        head.host.rest()
    if governed is not None:
        governed.update(runner.governed)
    return status


def serve(control: socket.socket, room: Path) -> int:
    """Runs the shards that a worker asks for, one after the other; all of one head. Returns the exit status.

    A request is a JSON object ``{spec, tree, strict, keep}`` with two descriptors: for the lines, and for the log. The
    answer is ``{"ended": status}``. Without ``keep`` the first is the last.
    """
    head = Head()
    control.settimeout(IDLE_S)
    with supervising(room) as tmp:
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(control, 1 << 16, 2)
            except TimeoutError:
                return 0
            if not data:
                return 0
            for fd in fds:
                os.set_inheritable(fd, False)
            out, log = fds
            os.dup2(log, 1)
            os.dup2(log, 2)
            request = json.loads(data)
            try:
                shard = read_spec(Path(request["spec"]).read_text(encoding="utf-8"))
                status = run_one(
                    shard, Path(request["tree"]), tmp, writer(out),
                    strict=request["strict"], head=head if request["keep"] else None,
                )  # fmt: skip
            except (OSError, UnicodeDecodeError, BadRequest) as exc:
                writer(out)({"failed": str(exc)})
                status = 2
            sys.stderr.flush()
            os.close(out)
            os.close(log)
            control.send(json.dumps({"ended": status}).encode())
            if not request["keep"] or status:
                return status


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m relay.worker.runner", description="Run one shard.")
    parser.add_argument("--spec", required=True, help="JSON of the shard, as in a lease")
    parser.add_argument("--tree", required=True, help="folder that holds the commit's test/ and overlaid files")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", help="file the results are written to")
    where.add_argument("--out-fd", type=int, help="descriptor the results are written to")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"variants a forked process runs (default {BATCH})")
    parser.add_argument("--junit", help="file for JUnit XML of the results")
    parser.add_argument("--ctrf", help="file for the results in the Common Test Report Format")
    parser.add_argument("--governed", help="file for each variant's entry of the configs, and its tags, by key")
    parser.add_argument("--input-files", default="", help="folder that tensors of `init: file` are read from")
    parser.add_argument("--strict", action="store_true", help="refuse untrusted code where the sandbox is incomplete")
    parser.add_argument("--quiet", action="store_true", help="leave it to the last line why the shard failed")
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if argv is None:
        _start_over_without_secrets()
    if args.parent:
        sandbox.die_with_parent(args.parent)
    try:
        shard = replace(read_spec(Path(args.spec).read_text(encoding="utf-8")), input_files=args.input_files)
        if args.out:
            fd = os.open(args.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        else:
            fd = args.out_fd
            os.set_inheritable(fd, False)
    except (OSError, UnicodeDecodeError, BadRequest) as exc:
        print(f"relay-runner: {exc}", file=sys.stderr)  # noqa: T201
        return 2
    tree = Path(args.tree).resolve()
    began, kept, write = time.time(), list[dict[str, Any]](), writer(fd)
    governed: dict[str, dict[str, Any]] = {}

    def emit(line: dict[str, Any]) -> None:
        write(line)
        kept.append(line)

    with supervising() as tmp:
        status = run_one(
            shard, tree, tmp, emit, batch=max(1, args.batch), strict=args.strict, governed=governed, quiet=args.quiet
        )
    *lines, last = kept
    for line in lines:
        line |= governed[f"{line['test'].rpartition('::')[0]}::{line['variant']}"]
    if args.governed:
        Path(args.governed).write_text(json.dumps(governed), encoding="utf-8")
    if args.junit:
        Path(args.junit).write_text(reports.junit(lines, last.get("report", {}).get("errors", ())), encoding="utf-8")
    if args.ctrf:
        told = reports.ctrf(lines, int(began * 1000), int(time.time() * 1000), "relay-runner")
        Path(args.ctrf).write_text(json.dumps(told, indent=1), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
