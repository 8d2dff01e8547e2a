"""What every test may use: the shared reference data, a migrated database, and the rule about skipped tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from relay.store.db import migrate, open_engine

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
REQUIRE_ALL = os.environ.get("REQUIRE_ALL") == "1"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real payloads, configs and statistics beside the checkout."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"NOT RUN: the reference data is not beside the checkout ({SHARED.name}/data)")
    return SHARED


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A migrated SQLite database in a file of its own."""
    engine = open_engine(f"sqlite:///{tmp_path / 'relay.sqlite3'}")
    migrate(engine)
    yield engine
    engine.dispose()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if REQUIRE_ALL and reporter is not None and reporter.stats.get("skipped") and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if REQUIRE_ALL and skipped:
        terminalreporter.write_line(f"REQUIRE_ALL=1: {len(skipped)} tests were skipped, and none may be", red=True)
