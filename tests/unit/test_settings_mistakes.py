"""What an operator mistypes in the file or the environment: one sentence that names the place, and the mend."""

from __future__ import annotations

import os

import pytest

from relay.errors import SettingsError
from relay.settings import Settings, load


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("RELAY_"):
            monkeypatch.delenv(name)


def refused(path):
    with pytest.raises(SettingsError) as raised:
        load(path)
    return raised.value


@pytest.mark.parametrize(
    ("text", "said", "mend"),
    [
        ('alowlist = "x"\n', "there is no setting alowlist", "did you mean allowlist?"),
        ('[agents]\nmoed = "on"\n', "there is no setting agents.moed", "did you mean mode?"),
        (
            '[[oidc_issuers]]\nissuer = "https://x"\nprovidr = "gitlab"\n',
            "oidc_issuers.0.providr",
            "did you mean provider?",
        ),
        ("zzzz = 1\n", "there is no setting zzzz", "docs/settings.md lists every key"),
        ("poll_s = -1\n", "setting poll_s: Input should be greater than 0", "docs/settings.md"),
    ],
)
def test_a_key_of_the_file_is_named_with_the_nearest_of_its_table(tmp_path, text, said, mend):
    path = tmp_path / "relay.toml"
    path.write_text(text)
    found = refused(path)
    assert str(path) in found.message
    assert said in found.message
    assert mend in found.hint


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("RELAY_WEBHOOK_SECRET", "RELAY_WEBHOOK_SECRETS"),
        ("RELAY_SECRET_DIR", "RELAY_SECRETS_DIR"),
        ("relay_allow_list", "RELAY_ALLOWLIST"),
        ("RELAY_AGENTS__MODELL", "RELAY_AGENTS__MODEL"),
    ],
)
def test_a_variable_that_is_all_but_a_setting_is_not_passed_over(monkeypatch, name, mend):
    monkeypatch.setenv(name, "x")
    found = refused(None)
    assert name in found.message
    assert found.hint == f"did you mean {mend}?"


def test_what_workers_and_clusters_name_like_settings_is_none_of_them(monkeypatch):
    others = (
        "RELAY_CONFIG", "RELAY_URL", "RELAY_WORKER_NAME", "RELAY_WORKER_DEVICE", "RELAY_WORKER_DIR",
        "RELAY_WORKER_SHARDS", "RELAY_WORKER_QUEUE", "RELAY_WORKER_TRUST", "RELAY_WORKER_DRAIN_S", "RELAY_WORKER_NODES",
        "RELAY_WORKER_LAB", "RELAY_WORKER_IMAGE", "RELAY_WORKER_PLUGIN", "RELAY_ALIVE_FILE", "RELAY_MODULE_PACKAGES",
        "RELAY_OIDC_TOKEN", "RELAY_CHECK_RUN_ID", "RELAY_WEB_PORT", "RELAY_WEB_SERVICE_HOST", "RELAY_WEB_SERVICE_PORT",
    )  # fmt: skip
    for name in others[1:]:
        monkeypatch.setenv(name, "x")
    for name in ("RELAY_PORT", "relay_host"):
        monkeypatch.setenv(name, "8461")
    assert isinstance(load(None), Settings)


def test_a_secret_that_is_not_a_list_is_said_without_the_secret(monkeypatch):
    monkeypatch.setenv("RELAY_WEBHOOK_SECRETS", "hunter2")
    found = refused(None)
    assert "webhook_secrets" in found.message
    assert "JSON" in found.hint
    assert "hunter2" not in found.message + found.hint
