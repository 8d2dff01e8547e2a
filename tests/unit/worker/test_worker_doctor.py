"""What the doctor says of a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.errors import SettingsError
from relay.worker import config, doctor, sandbox


def test_what_lacks_is_named_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "isolation", lambda: sandbox.Isolation(True, False, True, False))
    (found,) = [f for f in doctor.report(tmp_path) if "sandbox" in f.what]
    assert found.level == "warning"
    assert "file system of its own, a filter of system calls" in found.what
    assert "RELAY_WORKER_TRUST=strict" in found.hint


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("network", "a network of its own"),
        ("processes", "processes and a file system of its own"),
        ("rights", "no new privileges"),
        ("calls", "a filter of system calls"),
    ],
)
def test_each_means_that_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, field: str, words: str
) -> None:
    there = {name: name != field for name in ("network", "processes", "rights", "calls")}
    monkeypatch.setattr(doctor, "isolation", lambda: sandbox.Isolation(**there))
    (found,) = [f for f in doctor.report(tmp_path) if "sandbox" in f.what]
    assert found.what == f"the sandbox of tests lacks {words}"


def test_this_machine_is_looked_at(tmp_path: Path) -> None:
    found = doctor.report(tmp_path / "not" / "made" / "yet")
    assert len(found) == 3
    assert {f.level for f in found} <= {"ok", "warning", "error"}


def test_a_trust_that_does_not_exist_is_refused() -> None:
    env = {"RELAY_URL": "http://r", "RELAY_WORKER_KEY": "k", "RELAY_BROKER_URL": "redis://b"}
    assert config.from_environment({**env, "RELAY_WORKER_TRUST": "strict"}).trust == "strict"
    with pytest.raises(SettingsError, match="RELAY_WORKER_TRUST is 'maybe'"):
        config.from_environment({**env, "RELAY_WORKER_TRUST": "maybe"})
