"""`relay app create` against the local GitHub, as a person with a browser does it; and what `relay doctor` says."""

from __future__ import annotations

import html
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from outbound_servers import World, local_github

from relay.cli import app_create, checkup, doctor
from relay.cli.terminal import Terminal
from relay.demo.ledger import APP_ID
from relay.domain.app_manifest import EVENTS, OPTIONAL, PERMISSIONS, beyond, lacking, manifest
from relay.domain.events import Kind, classify
from relay.errors import BadRequest, Conflict, Unavailable
from relay.github import changes, client, reads
from relay.store.db import migrate, open_engine

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "github").mkdir()
    with local_github(tmp_path / "github") as made:
        yield made


@pytest.fixture
def config(tmp_path: Path, world: World) -> Path:
    (tmp_path / "allowlist.yml").write_text("L2:\n  - example-org/backend-ci\n")
    told = {
        "data_dir": str(tmp_path / "data"),
        "public_url": "https://relay.example.org",
        "github_url": world.url,
        "github_api_url": world.url,
        "github_app_id": str(APP_ID),
        "secrets_dir": str(tmp_path / "secrets"),
        "allowlist": str(tmp_path / "allowlist.yml"),
        "configs_dir": str(ROOT / "test_configs" / "spyre"),
        "worker_key": "key",
    }
    path = tmp_path / "relay.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items()))
    return path


def test_a_page_and_two_clicks_make_the_app(config: Path, tmp_path: Path, world: World) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("RELAY_")}
    command = [sys.executable, "-m", "relay.cli", "app", "create", "--config", str(config), "--org", "example-org"]
    process = subprocess.Popen(
        [*command, "--secrets", str(tmp_path / "secrets")], env={**env, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    here = re.findall(r"http://127\.0\.0\.1:\d+/", line)[0]
    with httpx2.Client(trust_env=False, follow_redirects=False) as browser:
        page = browser.get(here).text
        action, told = (html.unescape(re.findall(p, page)[0]) for p in (r'action="([^"]+)"', r'value="([^"]+)"'))
        assert action.startswith(f"{world.url}/organizations/example-org/settings/apps/new?state=")
        wanted = json.loads(told)
        assert wanted["hook_attributes"] == {"url": "https://relay.example.org/github/webhook", "active": True}
        assert browser.get(f"{here}made?code=stolen&state=guessed").status_code == 404, "somebody else's redirect"
        sent = browser.post(action, data={"manifest": told})
        assert sent.status_code == 302
        assert "The App is made" in browser.get(sent.headers["location"]).text
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert f'github_app_id = "{APP_ID}"' in out

    folder = tmp_path / "secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in app_create.FILES.values():
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert (folder / name).read_text().strip() not in out + said, "a secret is not printed"
    assert (folder / "github_private_key").read_text() == world.hub.ledger.app_key.pem.strip() + "\n"

    engine = open_engine(f"sqlite:///{tmp_path / 'data' / 'relay.sqlite3'}")
    migrate(engine)
    engine.dispose()
    found = checkup.report(str(config))
    assert [f for f in found if f.level == "error"] == []
    assert [f.what for f in found if f.level == "warning"] == ["pump: no pump is heard of"]
    assert f"GitHub App: cross-repo-ci-relay-demo, id {APP_ID}" in [f.what for f in found]


def test_a_code_is_good_once_and_nothing_is_overwritten(tmp_path: Path, world: World) -> None:
    told = manifest("https://relay.example.org", "A relay") | {"redirect_url": "http://127.0.0.1:1/made"}
    sent = httpx2.post(f"{world.url}/settings/apps/new?state=s", data={"manifest": json.dumps(told)}, trust_env=False)
    code = parse_qs(urlsplit(sent.headers["location"]).query)["code"][0]
    assert app_create.exchange(world.url, code, tmp_path / "one").id == str(APP_ID)
    with pytest.raises(BadRequest, match="GitHub does not know this code"):
        app_create.exchange(world.url, code, tmp_path / "two")
    with pytest.raises(Conflict, match="is there already"):
        app_create.exchange(world.url, code, tmp_path / "one")
    with pytest.raises(BadRequest, match="not one of GitHub's"):
        app_create.exchange(world.url, "../x", tmp_path / "two")
    world.fail(path=".*/conversions", status=500)
    with pytest.raises(Unavailable, match="answered with 500"):
        app_create.exchange(world.url, "abc", tmp_path / "two")
    with pytest.raises(Unavailable, match="does not answer"):
        app_create.exchange("http://127.0.0.1:1", "abc", tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_nobody_comes_back(config: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"nobody came back from GitHub within 0\.1 s"):
        app_create.run(str(config), tmp_path / "s", "n", "", 0, "", False, 0.1)


def test_the_manifest_asks_for_what_effects_use_and_no_more() -> None:
    """Every right that a token is asked for with anywhere, and each of them is used."""
    used: dict[str, str] = {"metadata": "read"}
    for module in (client, changes, reads):
        for value in vars(module).values():
            if isinstance(value, dict) and value and all(level in ("read", "write") for level in value.values()):
                for name, level in value.items():
                    used[name] = max(used.get(name, ""), level)  # "read" < "write"
    assert used == dict(PERMISSIONS)
    assert lacking(PERMISSIONS) == []
    assert lacking({"contents": "read"})[2] == "contents: write (has read)"
    assert beyond({**PERMISSIONS, **OPTIONAL, "administration": "write"}) == ["administration: write"]


@pytest.mark.parametrize("event", EVENTS)
def test_the_app_is_told_of_what_the_relay_reads(event: str) -> None:
    actions = ("opened", "rerequested", "renamed", None)
    kinds = [Kind(event, action, "o/r", "refs/heads/main" if event == "push" else "7") for action in actions]
    assert any(classify(kind, "o/r", app_id="7").what != "ignore" for kind in kinds)


def test_doctor_says_what_is_wrong_with_a_relay(
    config: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with config.open("a") as out:
        out.write('broker_url = "redis://127.0.0.1:1/0"\n')
    (tmp_path / "allowlist.yml").write_text("L9:\n  - x/y\n")
    console = Terminal(soft_wrap=True)
    assert doctor.run(None, str(config), worker=False, console=console) == 1
    said = capsys.readouterr().out
    assert f"ERROR    allowlist: {tmp_path / 'allowlist.yml'}:1:1:" in said
    assert "ERROR    schema: the database has schema none" in said
    assert "ERROR    broker: it does not answer" in said
    assert "ERROR    github_private_key is not set" in said
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "github_private_key").write_text("-----BEGIN nothing")
    assert doctor.run(None, str(config), worker=False, console=console) == 1
    assert "cannot sign as App" in capsys.readouterr().out
    (tmp_path / "secrets" / "github_private_key").write_text(world.hub.ledger.app_key.pem)
    world.fail(path="/app", status=401)
    assert doctor.run(None, str(config), worker=False, console=console) == 1
    assert f"GitHub App: {world.url} answers 401" in capsys.readouterr().out
