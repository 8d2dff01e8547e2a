"""``relay quarantine``: a reason, an issue and an end, or nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from relay.cli import quarantine as cli_quarantine
from relay.errors import BadRequest, NotFound
from relay.store import trunk
from relay.store.db import migrate, open_engine

TEST = "test/test_x.py::TestX::test_a"


@pytest.fixture
def config(tmp_path):
    (tmp_path / "relay.toml").write_text(f'data_dir = "{tmp_path}"\n')
    engine = open_engine(f"sqlite:///{tmp_path}/relay.sqlite3")
    migrate(engine)
    engine.dispose()
    return str(tmp_path / "relay.toml")


def day(n):
    return (datetime.now(UTC) + timedelta(days=n)).date().isoformat()


def held(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path}/relay.sqlite3")
    with engine.connect() as conn:
        found = trunk.quarantined(conn, "spyre", time.time())
    engine.dispose()
    return found


def test_an_entry_holds_until_it_is_ended(config, tmp_path, capsys):
    assert cli_quarantine.add(config, TEST, "", "races", "a/b#1", day(7), "run 3") == 0
    (one,) = held(tmp_path)
    assert (str(one.test), one.variant, one.reason, one.issue) == (TEST, "", "races", "a/b#1")
    assert 6 * 86400 < one.until - time.time() < 8 * 86400
    assert cli_quarantine.end(config, 1) == 0
    assert held(tmp_path) == []
    assert "ended" in capsys.readouterr().out
    with pytest.raises(NotFound, match="no entry 1"):
        cli_quarantine.end(config, 1)


@pytest.mark.parametrize(
    ("test", "reason", "issue", "until", "says"),
    [
        ("test_a", "r", "a/b#1", day(1), "not a test id"),
        (TEST, "r", "a/b#1", "soon", "soon"),
        (TEST, "r", "a/b#1", day(-2), "not one of the next"),
        (TEST, "r", "a/b#1", day(200), "not one of the next"),
        (TEST, " ", "a/b#1", day(1), "a reason and an issue"),
        (TEST, "r", "", day(1), "a reason and an issue"),
    ],
)
def test_what_cannot_be_is_said(config, test, reason, issue, until, says):
    with pytest.raises(BadRequest, match=says):
        cli_quarantine.add(config, test, "", reason, issue, until, "")
