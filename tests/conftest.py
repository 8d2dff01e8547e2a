"""What every test may use: the shared reference data, a migrated database, and the rule about skipped tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import private_postgres
import pytest
import pytorch_source
from sqlalchemy import Engine

from relay.store.db import migrate, open_engine

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
REQUIRE_ALL = os.environ.get("REQUIRE_ALL") == "1"
NO_SOURCE = "NOT RUN: PyTorch's source package is not in the cache"
"""the one reason to skip that REQUIRE_ALL lets pass: a machine may have no way to get the package"""


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real payloads, configs and statistics beside the checkout."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"NOT RUN: the reference data is not beside the checkout ({SHARED.name}/data)")
    return SHARED


@pytest.fixture(scope="session")
def pytorch_tree() -> Path:
    """PyTorch's source tree as the distribution packs it: a git repository with one commit, not to be written to."""
    tree = pytorch_source.cached()
    if tree is None:
        pytest.skip(f"{NO_SOURCE}: python tests/pytorch_source.py gets it, where apt has a Debian archive")
    return tree


@pytest.fixture(scope="session")
def postgres() -> Iterator[private_postgres.Cluster]:
    """A PostgreSQL server of the tests' own."""
    if private_postgres.binaries() is None:
        pytest.skip(private_postgres.NOT_THERE)
    with private_postgres.private_cluster() as cluster:
        yield cluster


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked ``both_databases`` that use ``engine`` run on SQLite and on PostgreSQL."""
    if "engine" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_databases"):
        metafunc.parametrize("engine", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A migrated database of its own: SQLite in a file, or where a test asks for both, PostgreSQL as well."""
    if getattr(request, "param", "sqlite") == "postgresql":
        cluster: private_postgres.Cluster = request.getfixturevalue("postgres")
        url = cluster.new_database()
        engine = open_engine(url)
        yield engine
        engine.dispose()
        cluster.drop_database(url)
        return
    engine = open_engine(f"sqlite:///{tmp_path / 'relay.sqlite3'}")
    migrate(engine)
    yield engine
    engine.dispose()


def _skipped(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    return [one for one in reporter.stats.get("skipped", []) if NO_SOURCE not in str(one.longrepr)]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if REQUIRE_ALL and reporter is not None and _skipped(reporter) and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = _skipped(terminalreporter)
    if pytorch_source.cached() is None:
        terminalreporter.write_line(f"{NO_SOURCE}: no test of a real tree ran", yellow=True)
    if REQUIRE_ALL and skipped:
        terminalreporter.write_line(f"REQUIRE_ALL=1: {len(skipped)} tests were skipped, and none may be", red=True)
