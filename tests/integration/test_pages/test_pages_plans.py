"""No page reads a big table from end to end: the plans of every query that the pages make, on both databases."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import page_seed
import page_sign_in
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection, Engine, event, text

from relay.artifacts import Artifacts
from relay.settings import Settings
from relay.store.db import migrate, open_engine
from relay.web.app import create_app

BIG = ("result", "decision", "delivery", "dispatch", "job", "outbox", "hud_row", "shard", "test_name", "audit", "plan",
       "pull_request", "log_piece", "log_tail",
       "upgrade_change")  # fmt: skip
"""Tables that grow with what happens; the others have a row for each worker, backend, entry of quarantine."""
HUGE = ("result", "decision")
"""Of these not even an index may be read as a whole. (Of a few hundred runs PostgreSQL rightly reads all of an index
for a join with the newest 2,000, so this cannot be asked of all.)"""

SIZE = replace(page_seed.SMALL, results=12_000, runs=600, worker_runs=40)


@dataclass
class Asked:
    path: str
    statement: str
    parameters: Any


@pytest.fixture(scope="module")
def seeded_sqlite(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, page_seed.Seeded, str]:
    """The database, what is in it, and where its artifacts are."""
    url = f"sqlite:///{tmp_path_factory.mktemp('plans') / 'relay.sqlite3'}"
    engine = open_engine(url)
    migrate(engine)
    objects = str(tmp_path_factory.mktemp("plans-artifacts"))
    seeded = page_seed.seed(engine, SIZE, time.time(), Artifacts(objects))
    engine.dispose()
    return url, seeded, objects


@pytest.fixture(scope="module")
def seeded_postgres(
    postgres: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, page_seed.Seeded, str]]:
    url = postgres.new_database()
    engine = open_engine(url)
    objects = str(tmp_path_factory.mktemp("plans-artifacts"))
    seeded = page_seed.seed(engine, SIZE, time.time(), Artifacts(objects))
    engine.dispose()
    yield url, seeded, objects
    postgres.drop_database(url)


def pages(seeded: page_seed.Seeded) -> list[str]:
    """Every page, with each of its filters."""
    return [
        "/", "/crcr", "/crcr?days=30&event=push", f"/crcr/{seeded.backend}", "/crcr/torch-spyre/torch-spyre",
        f"/pr/{seeded.pr}", f"/pr/{seeded.pr}?upstream=pytorch/pytorch", f"/run/{seeded.run}",
        f"/run/{seeded.run}?outcome=failed&page=1", f"/run/{seeded.run}?side=base", f"/run/{seeded.run}?stage=triage",
        f"/run/{seeded.open_run}", f"/run/{seeded.run}/agents", seeded.log,
        f"{seeded.log}?find=AssertionError", f"/test/{seeded.test}", "/quality", "/upgrade",
        seeded.upgrade, f"{seeded.upgrade}?kind=body&find=add&only=left&page=2", f"{seeded.upgrade}?only=regression",
        "/queues", "/config", "/outbox", "/outbox?state=sent", "/outbox?state=sent&kind=hud&page=3",
        "/outbox?state=due&target=pytorch/pytorch", "/audit", "/audit?action=dispatch&before=400", "/audit?actor=oscar",
        f"/search?q={seeded.pr}", f"/search?q={seeded.sha}", f"/search?q={seeded.sha[:10]}", f"/search?q={seeded.run}",
        "/search?q=test_add", "/search?q=TestPart01.test_m", f"/search?q={seeded.test}x", "/search?q=lab",
        "/about", "/readyz", f"/badge/{seeded.backend}.svg", f"/badge/{seeded.backend}.svg?event=push",
        f"/crcr/{seeded.backend}.atom", f"/pr/{seeded.pr}.atom", "/api/crcr/results?days=7",
        "/api/crcr/results?repo=elsewhere-01/backend", f"/api/crcr/results?upstream=pytorch/pytorch&pr={seeded.pr}",
        "/api/crcr/levels",
    ]  # fmt: skip


def asked_by(client: TestClient, engine: Engine, paths: list[str]) -> list[Asked]:
    """What reading the pages asks of the database; each different statement once."""
    found: dict[tuple[str, str], Asked] = {}
    now = {"path": ""}

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            found.setdefault((now["path"], statement), Asked(now["path"], statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    for path in paths:
        now["path"] = path
        answer = client.get(path, follow_redirects=False)
        assert answer.status_code in (200, 303), f"{path}: {answer.status_code} {answer.text[:300]}"
    event.remove(engine, "before_cursor_execute", note)
    return list(found.values())


def walked_sqlite(conn: Connection, asked: Asked) -> list[str]:
    """Big tables that SQLite would read from end to end, huge ones of which it would so read an index."""
    rows = [row[-1] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked.statement}", asked.parameters)]
    # in the order of a key until a limit is reached is fine
    stops = " LIMIT " in asked.statement and not any("TEMP B-TREE FOR ORDER BY" in row for row in rows)
    found = [
        (_table(asked.statement, m[1]), bool(m[2])) for row in rows if (m := re.match(r"SCAN (\w+)( USING)?", row))
    ]
    return [name for name, by_index in found if name in (HUGE if by_index else BIG) and not stops]


def walked_postgres(conn: Connection, asked: Asked) -> list[str]:
    """Big tables that PostgreSQL has no way to read but from end to end, huge ones of which it would so read an
    index."""
    raw = conn.connection.cursor()
    raw.execute(f"EXPLAIN (FORMAT JSON) {asked.statement}", asked.parameters)
    (found,) = raw.fetchone()
    walked = []
    todo = [(found[0]["Plan"], False)]
    while todo:
        node, stops = todo.pop()
        kind, name = node["Node Type"], node.get("Relation Name")
        # what a limit stops early is fine, but a sort below it reads everything first
        below = kind == "Limit" or (stops and kind not in ("Sort", "Aggregate", "Hash", "WindowAgg", "Materialize"))
        todo += [(child, below) for child in node.get("Plans", [])]
        by_index = kind.startswith("Index") and "Index Cond" not in node
        if (kind == "Seq Scan" and name in BIG) or (by_index and name in HUGE and not stops):
            walked.append(f"{name} ({kind})")
    return walked


def _table(statement: str, name: str) -> str:
    """The table that an alias stands for."""
    found = re.search(rf"\b(\w+) AS {re.escape(name)}\b", statement)
    return found[1] if found else name


def check(url: str, seeded: page_seed.Seeded, objects: str, tmp_path: Any, walked: Any, setting: str) -> None:
    with page_sign_in.signing_in_at(tmp_path, "oscar") as known:
        here = "https://relay.example"
        kept = {"database_url": url, "artifacts_url": objects}
        app = create_app(Settings(data_dir=tmp_path, public_url=here, **kept, **known))
        look(TestClient(app, base_url=here), app, seeded, walked, setting)


def look(client: TestClient, app: Any, seeded: page_seed.Seeded, walked: Any, setting: str) -> None:
    with client:
        page_sign_in.sign_in(client, "oscar")
        asked = asked_by(client, app.state.engine, pages(seeded))
        assert len(asked) > 150, "the pages asked for less than they show"
        bad = []
        with app.state.engine.connect() as conn:
            if setting:
                conn.execute(text(setting))
            for one in asked:
                if tables := walked(conn, one):
                    bad.append(f"{one.path}: {', '.join(tables)}: {' '.join(one.statement.split())}")
    assert not bad, "\n".join(bad)


def test_no_page_walks_a_big_table_on_sqlite(seeded_sqlite: Any, tmp_path: Any) -> None:
    check(*seeded_sqlite, tmp_path, walked_sqlite, "")


def test_no_page_walks_a_big_table_on_postgresql(seeded_postgres: Any, tmp_path: Any) -> None:
    # on a small table a walk is cheapest; with walks made dear, one that is left has no index that would do
    check(*seeded_postgres, tmp_path, walked_postgres, "SET enable_seqscan = off")
