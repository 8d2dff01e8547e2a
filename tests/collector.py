"""A collector of traces for tests: takes OTLP over HTTP as protobuf and keeps the spans."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """Numbers in hexadecimal; ``service`` is who sent it."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    begin: float
    end: float
    attributes: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def collector() -> Iterator[tuple[str, list[Span]]]:
    """-> (the endpoint for OTEL_EXPORTER_OTLP_ENDPOINT, the spans so far)."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _spans(request: Any) -> Iterator[Span]:
    for resource in request.resource_spans:
        told = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.name, told.get("service.name", ""), span.trace_id.hex(), span.span_id.hex(),
                    span.parent_span_id.hex(), span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9,
                    {one.key: one.value.string_value for one in span.attributes},
                )  # fmt: skip
