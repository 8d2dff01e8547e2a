"""The ends of failing variants' logs: in the artifact store, never in the database, and wherever they are read."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from factories import make_run, result_line, shard_spec
from fastapi.testclient import TestClient
from sqlalchemy import insert, select

from relay.artifacts import Artifacts, artifacts
from relay.errors import LeaseLost, NotFound, Unavailable
from relay.services import gathering, leasing, log_tails, tidying
from relay.settings import Settings
from relay.store import backup, shards
from relay.store.db import migrate, open_engine, reading
from relay.store.schema import dispatch, log_tail, metadata, plan, result
from relay.web.app import create_app
from selector.verify.faults import fault_of

TEST = "test/test_x.py::TestA::test_b"
SAID = "zebra: the words of the log"
NOW = 1_000_000.0
DAY = 86400.0


@pytest.fixture
def settings(engine, tmp_path):
    url = engine.url.render_as_string(hide_password=False)
    return Settings(data_dir=tmp_path, database_url=url, artifacts_url=str(tmp_path / "artifacts"))


def leased(engine, settings, run_id, *, now=NOW, side="head"):
    """-> (shard's id, token) of a shard that a worker has."""
    with engine.begin() as conn:
        (shard_id,) = shards.add(
            conn, dispatch_id=run_id, side=side, queue="shards.spyre", specs=[shard_spec(TEST)], now=now
        )
    return shard_id, leasing.take(engine, settings, shard_id, "w1", now)["token"]


def planned(engine, run_id):
    """The run's page shows results of a plan."""
    with engine.begin() as conn:
        lists = {name: [] for name in ("tests", "left_out", "not_exercised", "warnings")}
        runtime = {"kind": "tests-only", "torch": "2.13.0", "files": []}
        told = {"dispatch_id": run_id, "runtime": runtime, "partial": False, "counts": {}, "timings": {}, **lists}
        conn.execute(insert(plan).values(**told, created_at=NOW))


def failed(variant="test_b_spyre_float32", **values):
    return result_line(variant, test=TEST, outcome="failed", message="odd", **{"log_tail": SAID, **values})


def files(settings):
    return sorted(path for path in Path(settings.artifacts_url).rglob("*") if path.is_file())


def everything(engine):
    """All that is in the database, as text."""
    with reading(engine) as conn:
        return "\n".join(str(row) for table in metadata.sorted_tables for row in conn.execute(select(table)))


def end_of(engine, settings, variant):
    with reading(engine) as conn:
        row = conn.execute(select(result.c.shard_id, result.c.tails).where(result.c.variant == variant)).one()
    asked = {"shard_id": row.shard_id, "tails": row.tails, "test": TEST, "variant": variant, "attempt": 0}
    return log_tails.Ends(artifacts(settings)).of(asked)


@pytest.mark.both_databases
def test_a_report_is_one_object_and_no_word_of_it_is_in_the_database(engine, settings):
    shard_id, token = leased(engine, settings, make_run(engine))
    lines = [failed(), failed("v2", log_tail=f"{SAID} é\ud800".encode("utf-8", "replace").decode()), result_line("v3")]
    assert leasing.record(engine, settings, shard_id, token, lines, NOW) == {"accepted": 3, "known": 0}
    assert leasing.record(engine, settings, shard_id, token, lines, NOW) == {"accepted": 0, "known": 3}
    assert len(files(settings)) == 1, "sent again, it is the same"
    assert "zebra" not in everything(engine)
    assert end_of(engine, settings, "test_b_spyre_float32") == SAID
    assert end_of(engine, settings, "v2") == f"{SAID} é?"
    assert end_of(engine, settings, "v3") is None


def test_a_report_of_passes_asks_nothing_of_the_store(engine, settings):
    shard_id, token = leased(engine, settings, make_run(engine))
    leasing.record(engine, settings, shard_id, token, [result_line(test=TEST)], NOW)
    assert files(settings) == []


def test_who_lost_the_lease_leaves_nothing_in_the_store(engine, settings):
    shard_id, _ = leased(engine, settings, make_run(engine))
    with pytest.raises(LeaseLost):
        leasing.record(engine, settings, shard_id, "another", [failed()], NOW)
    assert files(settings) == []


def test_a_verdict_knows_the_fault_without_the_text(engine, settings):
    """A compiler that is missing is told in the log alone: it stays the machine's fault when the text is gone."""
    run_id = make_run(engine)
    shard_id, token = leased(engine, settings, run_id)
    leasing.record(engine, settings, shard_id, token, [failed(log_tail="sh: 1: g++: not found"), failed("v2")], NOW)
    for path in files(settings):
        path.unlink()
    with reading(engine) as conn:
        run = conn.execute(select(dispatch).where(dispatch.c.id == run_id)).one()
        seen = gathering.gather(conn, settings, run, NOW)
    assert {one.variant: fault_of(one) for one in seen.head} == {"test_b_spyre_float32": "compiler", "v2": None}


def test_a_store_that_is_full_costs_the_text_and_no_result(engine, settings, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    shard_id, token = leased(engine, settings, make_run(engine))
    before = log_tails.LOST._value.get()
    with monkeypatch.context() as broken:
        broken.setattr(artifacts(settings)._fs, "pipe_file", full)
        given = leasing.record(engine, settings, shard_id, token, [failed(log_tail="g++: not found")], NOW)
    assert given == {"accepted": 1, "known": 0}
    with reading(engine) as conn:
        row = conn.execute(select(result)).one()
        assert (row.tails, row.log_fault, conn.execute(select(log_tail)).all()) == (None, "compiler", [])
    assert log_tails.LOST._value.get() == before + 1, "counted for /metrics"


class Away:
    """A store that is reached after a while, if at all."""

    def __init__(self, problem):
        self.problem, self.asked = problem, 0

    def get(self, name):
        self.asked += 1
        raise self.problem


@pytest.mark.parametrize(("problem", "away", "asked"), [(Unavailable("away"), True, 1), (NotFound("gone"), False, 2)])
def test_a_store_that_does_not_answer_is_asked_once(problem, away, asked):
    store = Away(problem)
    ends = log_tails.Ends(store)
    rows = [{"shard_id": "s", "tails": made, "test": TEST, "variant": "v", "attempt": 0} for made in "abab"]
    ends.fill(rows)
    assert [row["log_tail"] for row in rows] == [None] * 4
    assert (ends.away, store.asked) == (away, asked)


def test_what_is_damaged_is_no_fault_of_the_page(tmp_path):
    store = Artifacts(str(tmp_path))
    store.put(log_tails.name("s", "made"), b"not packed")
    asked = {"shard_id": "s", "tails": "made", "test": TEST, "variant": "v", "attempt": 0}
    assert log_tails.Ends(store).of(asked) is None


def test_a_page_of_failures_opens_each_object_once(engine, settings, monkeypatch):
    """However many variants it shows; the page's own figure is in tests/bench/pages.py."""
    run_id = make_run(engine)
    planned(engine, run_id)
    shard_id, token = leased(engine, settings, run_id)
    for report in range(3):
        lines = [failed(f"v{report}_{n}", log_tail=f"{SAID} {report} {n}") for n in range(8)]
        leasing.record(engine, settings, shard_id, token, lines, NOW)
    opened = []
    get = Artifacts.get
    monkeypatch.setattr(Artifacts, "get", lambda self, name: opened.append(name) or get(self, name))
    with TestClient(create_app(settings)) as client:
        page = client.get(f"/run/{run_id}?per=100").text
        assert all(f"{SAID} {report} {n}" in page for report in range(3) for n in range(8))
        assert len(opened) == 3
        rows = client.get(f"/run/{run_id}.json?per=100").json()["results"]["rows"]
        assert {row["log_tail"] for row in rows} == {f"{SAID} {r} {n}" for r in range(3) for n in range(8)}
        lines = [json.loads(line) for line in client.get(f"/run/{run_id}/results.jsonl").text.splitlines()]
        assert sorted(line["log_tail"] for line in lines) == sorted(row["log_tail"] for row in rows)
        suites = ET.fromstring(client.get(f"/run/{run_id}/junit.xml").content)
        assert sorted(e.text or "" for e in suites.iter("system-err")) == sorted(row["log_tail"] for row in rows)


def test_retention_takes_them_with_the_details_and_the_page_does_not_ask_for_them(engine, settings, monkeypatch):
    now = time.time()
    run_id = make_run(engine, created_at=now - 50 * DAY)
    shard_id, token = leased(engine, settings, run_id, now=now - 50 * DAY)
    leasing.record(engine, settings, shard_id, token, [failed()], now - 46 * DAY)
    leasing.record(engine, settings, shard_id, token, [failed("v2", log_tail="later")], now - 44 * DAY)
    assert tidying.tidy(engine, settings, now)["log_tails"] == 1
    assert len(files(settings)) == 1
    opened = []
    get = Artifacts.get
    monkeypatch.setattr(Artifacts, "get", lambda self, name: opened.append(name) or get(self, name))
    with TestClient(create_app(settings)) as client:
        rows = client.get(f"/run/{run_id}.json").json()["results"]["rows"]
    assert {row["variant"]: row["log_tail"] for row in rows} == {"test_b_spyre_float32": None, "v2": "later"}
    assert len(opened) == 1


def test_a_store_that_gives_out_keeps_its_rows_for_the_next_look(engine, settings, monkeypatch):
    shard_id, token = leased(engine, settings, make_run(engine))
    for n in range(3):
        leasing.record(engine, settings, shard_id, token, [failed(f"v{n}", log_tail=f"log {n}")], NOW + n)
    store = artifacts(settings)
    took = store._fs.rm_file

    def gives_out(path):
        if len(files(settings)) == 2:
            raise OSError(5, "Input/output error")
        took(path)

    with monkeypatch.context() as broken:
        broken.setattr(store._fs, "rm_file", gives_out)
        assert log_tails.forget(engine, store, NOW + 10, 10) == 1
        with pytest.raises(Unavailable):
            log_tails.forget(engine, store, NOW + 10, 10)
    assert log_tails.forget(engine, store, NOW + 10, 10) == 2
    assert files(settings) == []


def test_a_restored_database_shows_them_with_the_store_and_does_without(engine, settings, tmp_path):
    run_id = make_run(engine)
    shard_id, token = leased(engine, settings, run_id)
    leasing.record(engine, settings, shard_id, token, [failed()], NOW)
    backup.save(engine, tmp_path / "b.zip", NOW)
    for store, shown in ((settings.artifacts_url, SAID), (str(tmp_path / "empty"), None)):
        url = f"sqlite:///{tmp_path / ('with' if shown else 'without')}.sqlite3"
        other = open_engine(url)
        migrate(other)
        backup.restore(other, tmp_path / "b.zip", NOW)
        other.dispose()
        with TestClient(create_app(Settings(data_dir=tmp_path, database_url=url, artifacts_url=store))) as client:
            (row,) = client.get(f"/run/{run_id}.json").json()["results"]["rows"]
        assert row["log_tail"] == shown
