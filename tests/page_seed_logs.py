"""What the tests of a busy year's failing shards printed: a log a shard, as a worker sends it, in the artifact store.
The same for the same rows; among it what logs are full of: colours, a progress bar, markup that wants to be some."""

from __future__ import annotations

import zlib
from typing import Any

from relay.artifacts import Artifacts
from relay.services import printing

Line = dict[str, Any]
OPS = ("add", "mm", "logit", "softmax", "clamp", "where", "cat", "sum")
SETUP = "".join(f"  step {n:03}: aten::{OPS[n % len(OPS)]} on spyre, 32 x 128 sticks\n" for n in range(400))
RAISED = (
    "\x1b[1;31mE   AssertionError\x1b[0m: Tensor-likes are not close!\n"
    "\x1b[31mE\x1b[0m   Mismatched elements: 12 / 25 (48.0%)\n"
    "\x1b[33mUserWarning\x1b[0m: </script><script>window.pwned = 1</script><img src=x onerror=window.pwned=2>\n"
    "compiling:  3 %\rcompiling: 57 %\rcompiling: 100 %\n"
)


def shard_log(lines: list[Line]) -> tuple[list[Line], bytes]:
    """-> the lines with the bytes each stands at, and the log; untouched and empty where none of them failed."""
    if not any(line["message"] for line in lines):
        return lines, b""
    log, placed = bytearray(), []
    for line in lines:
        begin = len(log)
        key = f"{line['test'].rpartition('::')[0]}::{line['variant']}"
        log += f"=== {key}: {line['outcome']}, {line['seconds']:.3f} s\n".encode()
        if line["message"]:
            log += (SETUP + RAISED + line["message"] + "\n").encode()
        else:
            log += f"ok {line['op']} {line['dtype']}, 12 kernels\n".encode()
        placed.append({**line, "log_begin": begin, "log_end": len(log)})
    return placed, bytes(log)


def keep(store: Artifacts, shard_id: str, fence: int, log: bytes, at: float) -> list[Line]:
    """Puts a log into the store; -> rows of ``log_piece``."""
    rows = []
    for begin in range(0, len(log), printing.MAX_PIECE):
        piece = log[begin : begin + printing.MAX_PIECE]
        store.put(printing.name(shard_id, fence, begin), zlib.compress(piece, 3))
        rows.append({"shard_id": shard_id, "fence": fence, "begin": begin, "size": len(piece), "stored_at": at})
    return rows
