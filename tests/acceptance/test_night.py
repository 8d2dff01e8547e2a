"""Nights inside a live relay: ``relay up`` with its emulator worker looks at upstream, compares, runs both sides, tells
the dashboard and finds the commit. Nothing is played: commits go in, and what the pages say comes out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from night_trunk import ALLOWLIST, CONFIG, DAY, FILE, SHEET, START, Trunk
from outbound_servers import HUD_KEY, World, local_github

pytestmark = [pytest.mark.torch, pytest.mark.broker]
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 180.0
ADDS = """\
    def test_{name}(self, device):
        x = torch.ones(4, device=device)
        y = x + {added}
        self.assertEqual(y.cpu(), torch.full((4,), {expected}.0))
"""


def source(**tests: tuple[int, int]) -> str:
    """A file of tests that add to one: name -> (what, what the test expects)."""
    bodies = (ADDS.format(name=name, added=added, expected=expected) for name, (added, expected) in tests.items())
    return FILE.format(tests="\n".join(bodies))


def ago(days: int) -> float:
    """Noon (UTC) so many days ago, in days since the trunk's beginning."""
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=days)
    return (noon.timestamp() - START) / DAY


def night(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).date().isoformat()


class Live:
    """A relay with its processes, and the trunk that it looks at."""

    def __init__(self, tmp: Path, world: World) -> None:
        self.trunk, self.world = Trunk(tmp / "upstream"), world
        configs = tmp / "configs"
        configs.mkdir()
        (configs / "capability.yaml").write_text(SHEET)
        (configs / "x.yaml").write_text(CONFIG)
        (tmp / "allowlist.yaml").write_text(ALLOWLIST)
        values = {
            "data_dir": str(tmp / "data"),
            "port": 0,
            "upstream_url": str(self.trunk.folder),
            "configs_dir": str(configs),
            "allowlist": str(tmp / "allowlist.yaml"),
            "hud_url": world.settings.hud_url,
            "nightly_ref": "main",
            "nightly_look_s": 1.0,
        }
        self.config = tmp / "relay.toml"
        self.config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
        self.log = tmp / "up.log"

    def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")}
        env |= {"PYTHONPATH": str(ROOT), "RELAY_WEBHOOK_SECRETS": '["s"]', "RELAY_HUD_BOT_KEY": HUD_KEY}
        command = [sys.executable, "-m", "relay.cli", "up", "--config", str(self.config)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.config.parent, env=env, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said()
        self.url = json.loads(line)["url"]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            text = answer.read().decode()
        return json.loads(text) if path.partition("?")[0].endswith(".json") else text

    def nights(self) -> dict[str, dict[str, Any]]:
        return {one["night"]: one for one in self.get("/upgrade.json")["nights"]}

    def wait_for(self, what: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            found = what()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"it did not happen: {self.nights()}\n{self.said()}")

    def said(self) -> str:
        logs = sorted((self.config.parent / "data" / "logs").glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in [self.log, *logs])


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    (tmp_path / "github").mkdir()
    with local_github(tmp_path / "github") as world:
        relay = Live(tmp_path, world)
        yield relay
        if relay.process.poll() is None:
            relay.stop()


def test_nights_are_run_told_and_searched_by_a_live_relay(live: Live) -> None:
    first = live.trunk.commit(ago(3), source=source(old=(1, 2), other=(2, 3)))
    live.start()
    live.wait_for(lambda: live.get("/index.json")["workers"])
    live.wait_for(lambda: live.nights().get(night(3), {}).get("state") == "completed")

    # two nights more: a good one, and one of two commits, the second of which breaks a test and adds one that fails
    live.trunk.git("switch", "-q", "-c", "next")
    good = live.trunk.commit(ago(2), source=source(old=(1, 2), other=(3, 4)))
    harmless = live.trunk.commit(ago(1), source=source(old=(4, 5), other=(3, 4)))
    bad = live.trunk.commit(ago(1) + 0.1, source=source(old=(4, 6), other=(3, 4), new=(7, 9)))
    live.trunk.git("branch", "-f", "main")  # the relay, which looks every second, sees all of them at once
    live.wait_for(lambda: live.nights().get(night(1), {}).get("state") == "completed")

    nights = live.nights()
    assert [(nights[night(n)]["new_sha"], nights[night(n)]["good"]) for n in (3, 2, 1)] == [
        (first, True),
        (good, True),
        (bad, False),
    ]
    assert nights[night(1)]["old_sha"] == good, "held against the last good night"
    standings = {name: n for name, n in nights[night(1)]["standings"].items() if n}
    assert standings == {"regression": 1, "newcomer-fails": 1}
    assert "<polyline" in live.get("/upgrade"), "the trend"
    pair = live.get(f"/upgrade/{good}..{bad}.json")
    assert {c["test"].rpartition("::")[2]: c["standing"] for c in pair["changes"]} == {
        "test_old": "regression",
        "test_new": "newcomer-fails",
    }
    assert "Tensor-likes are not" in next(c["message"] for c in pair["changes"] if c["standing"] == "regression")
    assert pair["progress"]["left"] == 0

    def told() -> dict[str, str]:
        rows = (r for r in live.world.hub.hud.received if r["untrusted"]["callback_payload"]["event_type"] == "nightly")
        payloads = (row["untrusted"]["callback_payload"] for row in rows)
        return {one["delivery_id"]: one["workflow"]["conclusion"] for one in payloads}

    assert live.wait_for(lambda: len(told()) == 2 and told()) == {good: "success", bad: "failure"}

    def found() -> Any:
        return [s for s in live.get("/quality.json")["bisections"] if s["state"] != "open"]

    (search,) = live.wait_for(found)
    assert (search["state"], search["first_bad"], search["last_good"]) == ("found", bad, harmless)
    assert search["test"].endswith("::test_old")
    assert live.stop() == 0
