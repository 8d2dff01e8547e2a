"""Settings and secrets that change while the relay runs: what was in force stays until the new is, and no restart."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi.testclient import TestClient
from fleet import fleet
from pydantic import SecretStr
from worker_web import wait_for

from relay import broker
from relay.hud.client import Hud
from relay.reload import LIVE, Reloader
from relay.services import secret_files
from relay.services.effects import make_clients
from relay.settings import Settings, load
from relay.web.app import create_app


def write(folder: Path, name: str, text: str) -> None:
    """As Kubernetes does: the new file takes the old one's place."""
    fresh = folder / f".{name}"
    fresh.write_text(text)
    fresh.replace(folder / name)


def private_key() -> tuple[str, str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    raw = serialization.Encoding.PEM
    pem = key.private_bytes(raw, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    public = key.public_key().public_bytes(raw, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    return pem, public


def test_a_worker_key_is_rotated_while_workers_enrol(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    write(folder, "worker_key", "old\n")
    app = create_app(Settings(data_dir=tmp_path / "data", secrets_dir=folder))

    def code(key: str) -> int:
        hello = {"name": "w", "device": "spyre", "queue": "spyre.x.torch-2.13", "torch": "2.13.0", "runtimes": []}
        headers = {"authorization": f"Bearer {key}"}
        return int(client.post("/worker/hello", json=hello, headers=headers).status_code)

    with TestClient(app) as client:
        assert (code("old"), code("new")) == (200, 401)
        write(folder, "worker_key", "old\nnew\n")
        assert (code("old"), code("new")) == (200, 200)
        write(folder, "worker_key", "new\n")
        assert (code("old"), code("new")) == (401, 200)
        (folder / "worker_key").unlink()
        assert code("new") == 200, "half of a rotation locks nobody out"
        write(folder, "worker_key", "")
        assert code("new") == 200
        assert code("") == 401
    app.state.engine.dispose()


def test_the_app_signs_with_the_key_of_now(tmp_path: Path) -> None:
    (old, old_public), (new, new_public) = private_key(), private_key()
    write(tmp_path, "github_private_key", old)
    clients = make_clients(Settings(data_dir=tmp_path, secrets_dir=tmp_path, github_app_id="7"))
    first = clients.github.app_token()
    assert jwt.decode(first, old_public, algorithms=["RS256"])["iss"] == "7"
    assert clients.github.app_token() == first, "it is good for some minutes"
    write(tmp_path, "github_private_key", new)
    second = clients.github.app_token()
    assert jwt.decode(second, new_public, algorithms=["RS256"])["iss"] == "7"
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(second, old_public, algorithms=["RS256"])
    clients.close()


def test_the_dashboard_gets_the_key_of_now(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, secrets_dir=tmp_path, hud_bot_key="from-settings")
    seen = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers["x-hud-internal-bot"])
        return httpx2.Response(200, json={"ok": True})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    hud = Hud("http://hud.invalid/", lambda: secret_files.one_of(settings, "hud_bot_key"), http=http)
    hud.post({})
    write(tmp_path, "hud_bot_key", "from-file\n")
    hud.post({})
    assert seen == ["from-settings", "from-file"]
    hud.close()


def test_a_setting_changes_at_once_or_is_named_for_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "relay.toml"
    path.write_text('debounce_s = 8\nworker_key = "one"\n')
    settings = load(path)
    reloader = Reloader(settings, path)
    assert reloader.step() == []
    write(tmp_path, "relay.toml", 'debounce_s = 3\nworker_key = "two"\nport = 1234\n')
    assert reloader.step() == ["debounce_s", "worker_key"]
    assert (settings.debounce_s, settings.port) == (3, Settings.model_fields["port"].default)
    assert settings.worker_key == SecretStr("two")
    said = capsys.readouterr()
    assert "in force after a restart" in said.out + said.err
    assert "two" not in said.out + said.err, "a secret is not logged"
    write(tmp_path, "relay.toml", "debounce_s = 'soon'\n")
    assert reloader.step() == []
    assert settings.debounce_s == 3, "a file that is wrong changes nothing"
    path.unlink()
    assert reloader.step() == []


def test_every_live_setting_is_one() -> None:
    assert set(Settings.model_fields) >= LIVE


@pytest.mark.broker
def test_sighup_makes_a_running_web_process_read_its_file(tmp_path: Path) -> None:
    server = broker.prepare(tmp_path)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL)
    config = tmp_path / "relay.toml"
    config.write_text("max_body_bytes = 1000000\n")
    try:
        with fleet(
            tmp_path / "fleet", f"sqlite:///{tmp_path / 'relay.sqlite3'}", server.url, RELAY_CONFIG=str(config)
        ) as relay:
            relay.start("web")
            relay.open(7)
            write(tmp_path, "relay.toml", "max_body_bytes = 100\n")
            os.kill(relay.processes["web"].pid, signal.SIGHUP)
            wait_for(lambda: any(line["event"] == "settings in force" for line in relay.lines("web")), 20)
            answer = httpx2.post(f"{relay.url}/github/webhook", content=b" " * 200, trust_env=False)
            assert answer.status_code == 413
    finally:
        process.kill()
        process.wait()
        server.remove()
