"""A batch in its forked child: runs the variants, says how each ended, and stops when one left the process changed."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from relay.device import METER
from relay.worker import protocol
from relay.worker.leaks import State
from relay.worker.outcome import RAW

FRAMES = 6
"""Places of a failure's stack that its message ends with."""
_PASS_ON = ("torch/testing/", "relay/")
_NO_BRACKETS = str.maketrans("()", "[]")


def run(
    items: Sequence[Any],
    out: int,
    go: int,
    failed_subtests: list[str],
    more: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Runs pytest items one by one; returns early when a variant leaked: the rest then runs in a fresh child.

    ``out`` takes the lines, ``go`` brings a byte for each leave to go on, ``failed_subtests`` is filled by a plugin;
    ``more`` gives what else the line of a variant's end says.
    """
    from _pytest.runner import runtestprotocol

    _drain(go)  # a permission that a killed child did not take
    # a fork of this process that comes back out of its test must not speak for it
    for fd in (out, go):
        os.register_at_fork(after_in_child=partial(os.close, fd))
    state = State()
    for i, item in enumerate(items):
        protocol.send(out, {"start": i})
        failed_subtests.clear()
        following = items[i + 1] if i + 1 < len(items) else None
        reports = runtestprotocol(item, log=False, nextitem=following)
        end = _summary(reports, failed_subtests)
        if end["raw"] in ("failed", "error"):
            _forget_frames()
        leaked = state.changed()
        METER.tell()
        with suppress(OSError, ValueError):  # a test may close them
            sys.stdout.flush()
            sys.stderr.flush()
        protocol.send(out, {"end": i, **end, **({"leaked": leaked} if leaked else {}), **more()})
        if leaked:
            return
        state.put_back()
        # the supervisor reads the meter while nothing runs
        if os.read(go, 1) != b"g":
            return


def _forget_frames() -> None:
    """pytest keeps the last failure's frames for a debugger, and they keep whatever the test had in memory."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()


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
    return {"raw": raw, "seconds": seconds, "message": cut(message), "reason": cut(reason, 500)}


def _failure(report: Any) -> str:
    """The message, and the places of the stack, innermost first, without those of the test library."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr)
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ())
    ats = [crash, *(entry.reprfileloc for entry in reversed(entries) if getattr(entry, "reprfileloc", None))]
    places = list(dict.fromkeys(f"{_place(str(at.path))}:{at.lineno}" for at in ats))
    own = [place for place in places if not place.startswith(_PASS_ON)] or places[:1]
    stack = ", from ".join(place.translate(_NO_BRACKETS) for place in own[:FRAMES])
    return f"{crash.message}\n(at {stack})"


def _skip_reason(report: Any) -> str:
    longrepr = report.longrepr
    text = str(longrepr[2]) if isinstance(longrepr, tuple) and len(longrepr) == 3 else str(longrepr)
    return text.removeprefix("Skipped: ")


def cut(text: str | None, limit: int = protocol.MAX_MESSAGE) -> str | None:
    """At most ``limit`` characters: the beginning and the end."""
    if text is None or len(text) <= limit:
        return text
    half = limit // 2 - 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _drain(fd: int) -> None:
    os.set_blocking(fd, False)
    with suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass
    os.set_blocking(fd, True)


def _place(path: str) -> str:
    """A file's place without the machine's part of it: from the package or the test folder on, so that the same
    failure reads the same wherever it ran."""
    roots = sorted(filter(None, sys.path), key=len, reverse=True)
    roots.append(os.getcwd())
    for base in roots:
        # pytest names files relative to the folder it was started for, which may hold an overlay's, too
        whole = path if os.path.isabs(path) else os.path.join(base, path)
        root = next((root for root in roots if whole.startswith(f"{root}{os.sep}")), None)
        if root is not None and os.path.exists(whole):
            parts = whole.split(os.sep)
            if "test" in parts[:-1] and "site-packages" not in parts:
                return "/".join(parts[len(parts) - 1 - parts[::-1].index("test") :])
            return whole[len(root) + 1 :]
    return os.path.basename(path)
