"""A step of an event's way, as logs and traces tell of it: what it does, for which delivery, in which run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import structlog

from relay import tracing


@contextlib.contextmanager
def step(
    name: str,
    *,
    delivery: str | None = None,
    run: str | None = None,
    root: bool = False,
    began: float | None = None,
    **about: Any,
) -> Iterator[None]:
    """Log lines within carry ``delivery``, ``run`` and ``about``; a trace gets a span (``relay.tracing.span``), if the
    delivery is known."""
    told = {key: value for key, value in {"delivery": delivery, "run": run, **about}.items() if value is not None}
    with contextlib.ExitStack() as stack:
        stack.enter_context(structlog.contextvars.bound_contextvars(**told))
        if delivery is not None:
            more = {key: value for key, value in told.items() if key != "delivery"}
            stack.enter_context(tracing.span(name, delivery, root=root, began=began, **more))
        yield
