"""What an operator sees of one event: a trace from the webhook to the check run, logs that name delivery and run, and
the audit log of what left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from collector import collector
from fleet import DOWNSTREAM, SECRET, fleet

from relay import broker, tracing
from relay.errors import SettingsError
from relay.logs import hide_secrets
from relay.store import audit
from relay.store.db import reading

pytestmark = pytest.mark.broker


def test_one_event_as_trace_logs_and_audit(tmp_path: Path) -> None:
    server = broker.prepare(tmp_path)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL)
    try:
        with collector() as (endpoint, spans), fleet(
            tmp_path / "fleet", f"sqlite:///{tmp_path / 'relay.sqlite3'}", server.url,
            OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_BSP_SCHEDULE_DELAY="200",
        ) as relay:  # fmt: skip
            relay.start("web", "pump", "relay")
            delivery = relay.open(7)
            run = relay.concluded(delivery)
            for name in ("relay", "pump", "web"):
                relay.stop(name)  # what they have not sent yet is sent now
            hexadecimal = f"{tracing.trace_id(delivery):032x}"
            mine = [span for span in spans if span.trace == hexadecimal]
            (root,) = [span for span in mine if span.parent == ""]
            assert (root.name, root.service) == ("webhook", "relay-web")
            assert {span.parent for span in mine if span is not root} == {root.id}
            by_name = {span.name: span for span in mine}
            assert {"webhook", "route", "send dispatch", "callback", "send check_run", "send hud"} <= set(by_name)
            assert by_name["send dispatch"].service == "relay-route-outbox"
            assert by_name["callback"].attributes["relay.run"] == run.id
            assert root.begin <= by_name["route"].begin <= by_name["send dispatch"].begin < by_name["callback"].begin
            assert max(span.end for span in mine if span.name == "send check_run") > by_name["callback"].end

            lines = [line for name in ("web", "pump", "relay") for line in relay.lines(name)]
            assert all({"event", "level", "timestamp", "service"} <= set(line) for line in lines)
            events = {line["event"] for line in lines if line.get("delivery") == delivery}
            assert {"delivery", "routed", "effect sent", "callback"} <= events
            assert {line["run"] for line in lines if line["event"] in ("effect sent", "callback")} == {run.id}
            written = json.dumps(lines)
            secrets = [SECRET, relay.env["RELAY_HUD_BOT_KEY"], relay.env["RELAY_GITHUB_PRIVATE_KEY"][40:100]]
            assert not [one for one in secrets if one in written]

            with reading(relay.engine) as conn:
                rows = audit.listed(conn, limit=100, dispatch_id=run.id)
                assert audit.listed(conn, limit=100, action="dispatch", target=DOWNSTREAM)[0].actor == "relay"
            left = [(row.action, row.target) for row in rows]
            assert left.count(("dispatch.sent", DOWNSTREAM)) == 1
            posted = [c for c in relay.world.hub.asgi.calls if c["method"] in ("POST", "PATCH")]
            checks = [c for c in posted if "/check-runs" in c["path"] and c["status"] < 300]
            assert len([one for one in left if one[0] == "check_run.sent"]) == len(checks)
    finally:
        process.kill()
        process.wait()
        server.remove()


def test_an_endpoint_without_the_packages_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingsError, match="OTEL_EXPORTER_OTLP_ENDPOINT is set, and"):
        tracing.setup("web")


def test_secrets_are_not_logged_under_their_names() -> None:
    told = {"event": "x", "lease_token": "a", "Authorization": "b", "key": "outbox-7", "secrets_read": 2}
    assert hide_secrets(None, "info", dict(told)) == {**told, "lease_token": "***", "Authorization": "***"}


def test_what_libraries_log_is_json_too(tmp_path: Path) -> None:
    code = (
        "from relay.logs import setup; import logging, warnings, structlog\n"
        "setup('x'); structlog.contextvars.bind_contextvars(run='r1')\n"
        "logging.getLogger('lib').warning('said %s', 1); warnings.warn('careful')\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: logging.getLogger('lib').exception('broke')\n"
    )
    env = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    said, warned, broke = [json.loads(line) for line in done.stderr.splitlines()]
    assert (said["event"], said["logger"], said["run"], said["service"]) == ("said 1", "lib", "r1", "x")
    assert "careful" in warned["event"]
    assert "ZeroDivisionError" in broke["exception"]
    assert time.strptime(said["timestamp"][:19], "%Y-%m-%dT%H:%M:%S")
