"""What a person does by command is in the audit log with their name; so is a delivery that is asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.cli import backup, outbox
from relay.store import audit, outbox_ops
from relay.store import outbox as rows
from relay.store.db import migrate, open_engine, reading


def test_commands_on_effects_are_written_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "relay.toml"
    config.write_text(f'data_dir = "{tmp_path}"\n')
    engine = open_engine(f"sqlite:///{tmp_path / 'relay.sqlite3'}")
    migrate(engine)
    with engine.begin() as conn:
        for number in (1, 2):
            rows.enqueue(conn, key=f"k{number}", kind="hud", stream=f"s{number}", target="hud", payload={}, now=1.0)
            rows.mark_parked(conn, number, ambiguous=False, status=500, error="x", now=2.0)
    assert outbox.run_retry(str(config), [1], False, None, None) == 0
    assert outbox.run_drop(str(config), [2], "nobody reads it") == 0
    with reading(engine) as conn:
        told = [(r.action, r.target, r.actor, r.detail) for r in audit.listed(conn, limit=10, action="outbox")]
        assert {
            row.state for row in outbox_ops.listed(conn, states=["due", "dropped"], kind=None, target=None, limit=9)
        }
    me = outbox.who()
    assert me.startswith("cli:")
    assert told == [
        ("outbox.drop", "hud", me, {"effect": 2, "kind": "hud", "reason": "nobody reads it"}),
        ("outbox.retry", "hud", me, {"effect": 1, "kind": "hud"}),
    ]
    capsys.readouterr()
    assert backup.show(str(config), 10, "outbox", None, None, False) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert f"{me}  outbox.drop  hud  effect 2, kind hud, reason nobody reads it" in said[0]
    engine.dispose()
