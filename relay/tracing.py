"""Traces by OpenTelemetry, where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says whereto (extra ``otel``); else nothing.

The messages of the broker carry ids and no context, so the context comes from the ids: a delivery's trace and its root
span have numbers that anybody can compute. Whichever process does a step of it, on whichever machine, at whatever try,
its span joins the same trace.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from relay.errors import SettingsError

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_tracer: Any = None


def trace_id(delivery: str) -> int:
    """128 bits, never 0."""
    return int.from_bytes(hashlib.sha256(b"trace\0" + delivery.encode()).digest()[:16], "big") or 1


def root_id(delivery: str) -> int:
    """64 bits, never 0."""
    return int.from_bytes(hashlib.sha256(b"root\0" + delivery.encode()).digest()[:8], "big") or 1


def setup(service: str) -> None:
    """Starts sending spans of this process, if the environment names a collector. SettingsError when it does and the
    packages are not there."""
    global _tracer
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import IdGenerator
    except ImportError as exc:
        raise SettingsError(
            f"{ENDPOINTS[1]} is set, and {exc.name} is not installed", "pip install 'crcr-relay[otel]', or unset it"
        ) from exc
    numbers: IdGenerator = type("Ids", (_Ids, IdGenerator), {})()
    resource = Resource.create({"service.name": f"relay-{service}"})
    provider = TracerProvider(resource=resource, id_generator=numbers)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer("relay")


@contextlib.contextmanager
def span(name: str, delivery: str, *, root: bool = False, began: float | None = None, **about: Any) -> Iterator[None]:
    """A span around the body, in the trace of ``delivery``. ``root``: the one that all others belong to. ``began``:
    seconds since the epoch, when it began before the body did. ``about`` become its attributes."""
    if _tracer is None:
        yield
        return
    from opentelemetry import trace

    parent = trace.SpanContext(trace_id(delivery), root_id(delivery), is_remote=True, trace_flags=trace.TraceFlags(1))
    context = trace.set_span_in_context(trace.INVALID_SPAN if root else trace.NonRecordingSpan(parent))
    wanted = _Ids.wanted
    token = wanted.set(delivery) if root else None
    try:
        start = int(began * 1e9) if began is not None else time.time_ns()
        made = _tracer.start_span(name, context=context, start_time=start, attributes=_plain(delivery, about))
    finally:
        if token is not None:
            wanted.reset(token)
    try:
        yield
    except Exception as exc:
        made.record_exception(exc)
        made.set_status(trace.StatusCode.ERROR, type(exc).__name__)
        raise
    finally:
        made.end()


def _plain(delivery: str, about: dict[str, Any]) -> dict[str, Any]:
    told = {f"relay.{key}": value if isinstance(value, int | float) else str(value) for key, value in about.items()}
    return {"relay.delivery": delivery, **told}


class _Ids:
    """The SDK's port for numbers: a root span's are computed, the others' are random."""

    wanted: ContextVar[str | None] = ContextVar("root", default=None)

    def generate_trace_id(self) -> int:
        delivery = self.wanted.get()
        return trace_id(delivery) if delivery is not None else int.from_bytes(os.urandom(16), "big") or 1

    def generate_span_id(self) -> int:
        delivery = self.wanted.get()
        return root_id(delivery) if delivery is not None else int.from_bytes(os.urandom(8), "big") or 1

    def is_trace_id_random(self) -> bool:
        return False
