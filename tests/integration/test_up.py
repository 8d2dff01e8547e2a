"""``relay up`` as a process: what keeps it from starting is one sentence, a hint and exit code 2."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Folder:
    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        (tmp / "allowlist.yml").write_text("L4:\n  - org/one: {executor: workers, device: spyre}\n")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")}
        self.env |= {"PYTHONPATH": str(ROOT), "RELAY_WEBHOOK_SECRETS": '["s"]'}

    def start(self, **over: object) -> subprocess.Popen[str]:
        values = {
            "data_dir": str(self.tmp / "data"),
            "port": 0,
            "allowlist": str(self.tmp / "allowlist.yml"),
            "configs_dir": str(ROOT / "test_configs" / "spyre"),
            **over,
        }
        config = self.tmp / "relay.toml"
        config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
        command = [sys.executable, "-m", "relay.cli", "up", "--config", str(config), "--no-worker"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.tmp, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def refused(self, **over: object) -> str:
        """What it says when it does not start."""
        process = self.start(**over)
        out, said = process.communicate(timeout=60)
        assert process.returncode == 2, said
        assert "Traceback" not in out + said
        assert out == ""
        assert said.startswith("relay: ")
        return said


@pytest.fixture
def folder(tmp_path) -> Folder:
    return Folder(tmp_path)


def test_a_port_that_is_taken(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use\n  set port" in folder.refused(port=port)


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"host": "no.such.host.invalid"}, "cannot listen on no.such.host.invalid:0: "),
        ({"data_dir": "/proc/nobody/writes/here"}, "data_dir: /proc/nobody/writes/here: "),
        ({"data_dir": "FILE"}, "FILE: "),
        ({"database_url": "sqlite:////proc/nobody/relay.sqlite3"}, "database_url: /proc/nobody: "),
        ({"database_url": "sqlite:///FILE"}, "file is not a database"),
        ({"database_url": "mysql+nosuchdriver://u:secret@h/x"}, "database_url: mysql+nosuchdriver://u:***@h/x: "),
        ({"broker_url": "redis://127.0.0.1:1/0"}, "broker_url: the broker does not answer: "),
        ({"broker_url": "carrier-pigeon://x"}, "broker_url: the broker does not answer: "),
        ({"allowlist": ""}, "allowlist: no file is set"),
        ({"configs_dir": "nowhere"}, "nowhere/capability.yaml: No such file"),
        ({"secrets_dir": "nowhere"}, "secrets_dir: nowhere: No such file"),
        ({"secrets_dir": "FILE"}, "secrets_dir: FILE: Not a directory"),
        ({"webhook_secrets_file": "nowhere"}, "webhook_secrets_file: nowhere: No such file"),
        ({"database_url": "sqlite://x.sqlite3"}, "database_url: sqlite://x.sqlite3 is no address of an SQLite file"),
    ],
)
def test_what_keeps_it_from_starting_is_said_in_one_sentence(folder, over, told):
    file = folder.tmp / "file"
    file.write_text("this is no database, and no folder\n" * 200)
    said = folder.refused(**{key: value.replace("FILE", str(file)) for key, value in over.items()})
    assert told.replace("FILE", str(file)) in said


def test_a_second_relay_in_the_same_folder_is_turned_away_and_the_first_goes_on(folder):
    first = folder.start()
    try:
        ready = json.loads(first.stdout.readline())
        assert not ready["url"].endswith(":0"), "port 0 takes a free one, and says which"
        assert f"another relay runs in {folder.tmp / 'data'}" in folder.refused()
        with urllib.request.urlopen(f"{ready['url']}/readyz", timeout=5) as answer:
            assert answer.status == 200
    finally:
        first.terminate()
        first.communicate(timeout=30)
    assert first.returncode == 0
    again = folder.start()
    try:
        assert json.loads(again.stdout.readline())["event"] == "ready", "its lock went with it"
    finally:
        again.terminate()
        again.communicate(timeout=30)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


HOSTS = [("0.0.0.0", "http://0.0.0.0:"), *([("::1", "http://[::1]:")] if _has_ipv6() else [])]


@pytest.mark.parametrize(("host", "url"), HOSTS)
def test_it_becomes_ready_on_every_kind_of_address(folder, host, url):
    relay = folder.start(host=host)
    try:
        assert json.loads(relay.stdout.readline())["url"].startswith(url)
    finally:
        relay.terminate()
        relay.communicate(timeout=30)
