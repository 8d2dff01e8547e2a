"""A command that looks into the relay's database must not make an empty one, nor say that nothing is there."""

from __future__ import annotations

import sqlite3

import pytest

from relay.cli import backup, outbox, quarantine
from relay.errors import SettingsError
from relay.store.db import migrate, open_engine, open_migrated
from relay.store.migrating import mend_of

LOOKS = {
    "outbox list": lambda config, _: outbox.run_list(config, ["due"], None, None, 9, False),
    "outbox retry": lambda config, _: outbox.run_retry(config, [1], False, None, None),
    "quarantine list": lambda config, _: quarantine.show(config),
    "quarantine end": lambda config, _: quarantine.end(config, 1),
    "audit": lambda config, _: backup.show(config, 9, None, None, None, False),
    "backup": lambda config, folder: backup.save(config, folder / "saved"),
}


@pytest.mark.parametrize("command", LOOKS)
def test_wrong_settings_lead_to_no_database_and_that_is_said(tmp_path, command):
    config = tmp_path / "relay.toml"
    config.write_text(f'data_dir = "{tmp_path / "elsewhere"}"\n')
    with pytest.raises(SettingsError, match=r"there is no database at .*elsewhere/relay.sqlite3") as raised:
        LOOKS[command](str(config), tmp_path)
    assert "--config or RELAY_CONFIG" in raised.value.hint
    assert [p.name for p in tmp_path.iterdir()] == ["relay.toml"], "nothing was made"


def test_a_database_that_no_relay_has_been_in_is_left_as_it_is(tmp_path):
    file = tmp_path / "empty.sqlite3"
    sqlite3.connect(file).close()
    file.touch()
    with pytest.raises(SettingsError, match="no relay has been here"):
        open_migrated(f"sqlite:///{file}")
    with sqlite3.connect(file) as conn:
        assert conn.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_database_that_a_relay_made_is_opened(tmp_path):
    url = f"sqlite:///{tmp_path / 'relay.sqlite3'}"
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()
    open_migrated(url).dispose()


@pytest.mark.parametrize(
    ("url", "said", "mend"),
    [
        ("sqlite://relay.sqlite3", "no address of an SQLite file", "sqlite:////an/absolute/file"),
        ("postgres://u:hunter2@h/d", "postgres is neither sqlite nor postgresql", "write postgresql://"),
        ("mysql://u:hunter2@h/d", "mysql is neither sqlite nor postgresql", "postgresql://user@host/name"),
        ("postgresql+nosuch://u:hunter2@h/d", "postgresql+nosuch://u:***@h/d", "psycopg"),
        ("relay.sqlite3", "Could not parse", "sqlite:////var/lib/relay/relay.sqlite3"),
    ],
)
def test_an_address_of_no_database_is_said_with_what_to_write(url, said, mend):
    for opened in (open_engine, open_migrated):
        with pytest.raises(SettingsError) as raised:
            opened(url)
        assert said in raised.value.message
        assert mend in raised.value.hint
        assert "hunter2" not in raised.value.message + raised.value.hint


def test_what_to_do_about_a_database_goes_by_what_it_said(tmp_path):
    with pytest.raises(SettingsError, match=r"Connection refused|connection to server") as raised:
        open_migrated("postgresql://u:hunter2@127.0.0.1:1/d")
    assert "is it running there" in raised.value.hint
    assert "hunter2" not in raised.value.message
    engine = open_engine(f"sqlite:///{tmp_path}/full.sqlite3")
    assert mend_of(engine, "database or disk is full") == "make room on its disk"
    assert mend_of(engine, "unable to open database file") == "give a database that can be written"
