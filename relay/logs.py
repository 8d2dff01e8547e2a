"""Logs: one JSON object a line on stderr, times in UTC, secrets never among the values.

Lines of a step (``relay.steps``) name the delivery and the run that it is about. What libraries log by the standard
library comes out in the same form.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

QUIET = {"kombu.transport.native_delayed_delivery": logging.ERROR}
"""Loggers with a level of their own. That one complains about delays, which we never ask a broker for."""
SECRET = ("authorization", "password", "private_key", "secret", "token", "worker_key")
"""Names under which nothing is ever logged, alone or as the end of a name (``lease_token``)."""


def setup(service: str = "", level: int = logging.INFO) -> None:
    """Configures structlog and the standard library's root logger for a process, which calls itself ``service``."""
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
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
