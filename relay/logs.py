"""Logs: one JSON object a line on stderr, times in UTC, secrets never among the values.

Lines of a step (``relay.steps``) name the delivery and the run that it is about. What libraries log by the standard
library comes out in the same form. A line that cannot be written, on a full disk, ends no work; how many there were is
the next that can.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import MutableMapping
from typing import Any, TextIO, cast

import structlog

QUIET = {"kombu.transport.native_delayed_delivery": logging.ERROR}
"""Loggers with a level of their own. That one complains about delays, which we never ask a broker for."""
SECRET = ("authorization", "password", "private_key", "secret", "token", "worker_key")
"""Names under which nothing is ever logged, alone or as the end of a name (``lease_token``)."""


def setup(service: str = "", level: int = logging.INFO) -> None:
    """Configures structlog and the standard library's root logger for a process, which calls itself ``service``."""
    out = Lines(sys.stderr)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _name(service),
        hide_secrets,
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, out)),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=repr),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(least)
    logging.captureWarnings(True)


class Lines:
    """Whole lines to ``stream``, past its buffer, which would hold on to what could not be written. ``lost`` are those
    that could not be, since the last that could. Safe for threads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._guard = threading.Lock()
        self._cut = False  # the last line was written in part
        self.lost = 0

    def write(self, text: str) -> int:
        with self._guard:
            try:
                if self.lost:
                    said = {"event": "lines of this log could not be written", "level": "error", "lines": self.lost}
                    self._put(json.dumps(said) + "\n")
                    self.lost = 0
                self._put(text)
            except OSError:
                self.lost += 1
        return len(text)

    def _put(self, text: str) -> None:
        try:
            fd = self._stream.fileno()
        except (OSError, AttributeError):  # no file behind it: a test's
            self._stream.write(text)
            return
        data = (b"\n" if self._cut else b"") + text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(fd, data) :]
            self._cut = bool(data)

    def flush(self) -> None:
        """Nothing waits."""


def only_stderr() -> None:
    """Sends standard output nowhere: what Celery says there when it stops is no line of a log."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _name(service: str) -> structlog.typing.Processor:
    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if service:
            event.setdefault("service", service)
        return event

    return add


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor: whatever stands under a secret's name is not written."""
    for name in event:
        if name.casefold().endswith(SECRET):
            event[name] = "***"
    return event
