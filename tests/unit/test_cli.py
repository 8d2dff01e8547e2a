"""The command line: every failure is one sentence and a hint with exit code 2; commands say what they did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def relay(*args, **env):
    return subprocess.run(
        [sys.executable, "-m", "relay.cli", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "COLUMNS": "120", **env},
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["up", "--config", "no-such.toml"], "no-such.toml: No such file or directory"),
        (["config", "lint", "no-such.yaml"], "no-such.yaml: No such file or directory"),
        (["allowlist", "lint", "no-such.yml"], "no-such.yml: No such file or directory"),
        (["select", "--upstream", "/nonexistent", "--base", "a", "--head", "b"], "/nonexistent"),
    ],
)
def test_what_is_not_there_is_one_sentence(args, said):
    done = relay(*args)
    assert done.returncode == 2
    assert done.stderr.startswith("relay: ")
    assert done.stderr.splitlines()[1].startswith("  "), "and a hint"
    assert said in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_setting_of_the_environment_that_is_wrong_is_named():
    done = relay("migrate", RELAY_PORT="many")
    assert done.returncode == 2
    assert "setting port" in done.stderr


def test_lint_names_the_place_and_exits_1(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("test_suite_config:\n  files:\n    - pth: test/test_x.py\n")
    done = relay("config", "lint", str(path))
    assert done.returncode == 1
    assert f"{path}:3:" in done.stdout


def test_the_shipped_configs_are_clean():
    done = relay("config", "lint", "test_configs")
    assert done.returncode == 0, done.stdout
    assert " 0 errors, 0 warnings" in done.stdout


def test_an_allowlist_error_names_line_and_column(tmp_path):
    path = tmp_path / "allowlist.yml"
    path.write_text("L1:\n  - torch-spyre\n")
    done = relay("allowlist", "lint", str(path))
    assert done.returncode == 2
    assert f"{path}:2:5:" in done.stderr


def test_doctor_says_what_is_there():
    done = relay("doctor")
    assert done.returncode in (0, 1)
    assert "torch" in done.stdout
    assert "sandbox" in done.stdout


@pytest.mark.parametrize("args", [["outbox", "list"], ["quarantine", "list"]])
def test_a_command_that_is_the_first_to_look_at_the_database_finds_nothing_in_it(tmp_path, args):
    done = relay(*args, RELAY_DATA_DIR=str(tmp_path / "new"))
    assert done.returncode == 2
    assert f"relay: there is no database at {tmp_path}/new/relay.sqlite3\n  name the relay's settings" in done.stderr
    assert relay("migrate", RELAY_DATA_DIR=str(tmp_path / "new")).returncode == 0
    done = relay(*args, RELAY_DATA_DIR=str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No ")
    assert "Traceback" not in done.stdout + done.stderr


def test_doctor_names_the_file_that_the_environment_names(tmp_path):
    file = tmp_path / "relay.toml"
    file.write_text(f'data_dir = "{tmp_path}"\n')
    assert f"settings: {file}\n" in relay("doctor", "--no-worker", RELAY_CONFIG=str(file)).stdout
