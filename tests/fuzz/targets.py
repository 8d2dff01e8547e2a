"""What reads bytes of strangers, each as a function of bytes: it returns when they were understood or refused by name,
and raises for whatever nobody has thought of. Used by ``make fuzz`` (atheris), and on seeds in the suite."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from relay.domain import allowlist, callback, events, providers
from relay.errors import RelayError
from relay.web.ansi import Painter
from relay.worker.protocol import ProtocolError, _parse
from selector.configs import ConfigSource, lint
from selector.configs.capability import load_capability
from selector.errors import SelectorError

CORPUS = Path(__file__).resolve().parents[1] / "data" / "fuzz"
EVENTS = ("pull_request", "push", "merge_group", "check_run", "check_suite", "installation", "repository")
SHOWN = frozenset(chr(n) for n in (*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0), 0x202E, 0x2066))


def _said(error: RelayError | SelectorError) -> None:
    """A refusal says what is wrong, and where it has a place, a place that is there."""
    if not error.message or min(getattr(error, "line", 1), getattr(error, "column", 1)) < 1:
        raise ValueError("an error that says nothing") from error


def webhook(data: bytes) -> None:
    """A body whose signature was good, as each event that is wanted."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return
    for event in EVENTS:
        try:
            kind = events.kind_of(event, body)
            interest = events.classify(kind, "pytorch/pytorch", app_id="1")
            assert interest.code
            if event in ("pull_request", "push", "merge_group"):
                json.dumps(dataclasses.asdict(events.parse(event, body))).encode("utf-8")
        except RelayError as exc:
            _said(exc)


def report(data: bytes) -> None:
    """A downstream's report: what was understood goes back to the wire as JSON that a database holds."""
    try:
        found = callback.parse(data)
    except RelayError as exc:
        _said(exc)
        return
    wire = json.dumps(found.wire("https://example.org/"), allow_nan=False)
    assert "\\u0000" not in wire
    wire.encode("utf-8")


def yaml(data: bytes) -> None:
    """A config, a capability sheet, an allowlist, a table of providers: a value, or an error with its place."""
    text = data.decode("utf-8", "replace")
    for problem in lint([ConfigSource("fuzz.yaml", text)]):
        assert problem.line >= 1
        assert problem.column >= 1
    try:
        load_capability(text, "capability.yaml")
    except SelectorError as exc:
        _said(exc)
    for parse in (allowlist.parse, providers.parse):
        try:
            parse(text)
        except RelayError as exc:
            _said(exc)


def log(data: bytes) -> None:
    """What a test printed, as the page shows it; and as a line of the runner's protocol."""
    painter = Painter()
    for line in data.decode("utf-8", "replace").split("\n"):
        for words, text in painter.line(line):
            assert not SHOWN & set(text)
            assert all(word[0] in "af" and word[1:].isdigit() for word in words.split())
    for raw in data.split(b"\n"):
        with contextlib.suppress(ProtocolError):
            assert isinstance(_parse(raw), dict)


TARGETS: dict[str, Callable[[bytes], None]] = {"webhook": webhook, "callback": report, "yaml": yaml, "log": log}
