"""A process that parses: frames of source in, frames of records out (four bytes of length, then the bytes).

A plain child process and not a ``multiprocessing`` pool: it can be started from any thread, from a Celery worker and
from a program without a main guard.
"""

from __future__ import annotations

import gc
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from selector.discover import records
from selector.discover.parse import parse
from selector.errors import SelectorError

_ROOT = Path(__file__).resolve().parents[2]


class ParserDied(SelectorError):
    """A parsing process ended before it had answered."""

    code = "parser-died"


def parse_many(
    sources: Sequence[bytes], processes: int = 2, done: Callable[[int, bytes], None] | None = None
) -> list[bytes]:
    """The records (as bytes) of many sources, in order. ``done`` hears of each as it comes (its place and the record),
    from several threads. Raises ParserDied when a process does not answer."""
    shares: list[list[int]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for index in sorted(range(len(sources)), key=lambda i: -len(sources[i])):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += len(sources[index])
    out: list[bytes] = [b""] * len(sources)
    faults: list[Exception] = []

    def serve(share: list[int]) -> None:
        try:
            _one_process(sources, share, out, done)
        except Exception as exc:  # noqa: BLE001 - raised below, by the thread that asked
            faults.append(exc)

    threads = [threading.Thread(target=serve, args=(share,), daemon=True) for share in shares if share]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return out


def _one_process(
    sources: Sequence[bytes], share: list[int], out: list[bytes], done: Callable[[int, bytes], None] | None
) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
    }
    command = [sys.executable, "-P", "-c", "from selector.discover.parser_process import main; main()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for index in share:
                answer = _answer(process.stdin, process.stdout, sources[index])
                if answer is None:
                    raise ParserDied(
                        f"a process that parses upstream's files ended early: exit code {process.wait()}",
                        "look at its output above; give it more memory or select with fewer changed files",
                    )
                out[index] = answer
                if done is not None:
                    done(index, answer)
        except BaseException:
            process.kill()
            raise


def _answer(to: IO[bytes], back: IO[bytes], source: bytes) -> bytes | None:
    """None: it is gone. The child reads a whole frame before it answers: neither side can fill the other's pipe."""
    try:
        _write(to, source)
        return _read(back)
    except OSError:
        return None


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(struct.pack(">I", len(data)))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = struct.unpack(">I", head)[0]
    data = stream.read(size)
    return data if len(data) == size else None


def main() -> None:
    gc.disable()  # syntax trees are freed by reference counts; the collector only walks them in vain
    while (source := _read(sys.stdin.buffer)) is not None:
        _write(sys.stdout.buffer, records.to_bytes(parse(source)))
