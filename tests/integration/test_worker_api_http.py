"""The worker API over HTTP: whatever a worker sends is stored whole or answered with the place that is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import pytest
from factories import make_run, result_line, shard_spec
from sqlalchemy import select
from worker_web import worker_api

from relay.settings import Settings
from relay.store import shards
from relay.store.schema import result, shard, worker
from relay.web.workers import MAX_HELLO_BYTES, MAX_REPORT_BYTES, MAX_RESULTS_BYTES

TEST = "test/test_x.py::TestA::test_b"
HELLO = {"name": "w", "device": "spyre", "queue": "shards.spyre", "torch": "2.13.0", "runtimes": []}
KEY = {"Authorization": "Bearer the key"}


@pytest.fixture
def api(engine, tmp_path) -> Iterator[httpx2.Client]:
    with worker_api(Settings(data_dir=tmp_path, worker_key="the key")) as client:
        yield client


@pytest.fixture
def leased(api, engine) -> tuple[str, dict[str, str]]:
    """A shard's id and the header of its lease."""
    run_id = make_run(engine)
    with engine.begin() as conn:
        (shard_id,) = shards.add(conn, dispatch_id=run_id, side="head", queue="q", specs=[shard_spec(TEST)], now=1.0)
    taken = api.post(f"/shards/{shard_id}/lease", json={"worker": "w"}, headers=KEY)
    assert taken.status_code == 200, taken.text
    return shard_id, {"Authorization": f"Bearer {taken.json()['token']}"}


def stored(engine, table):
    with engine.connect() as conn:
        return conn.execute(select(table)).all()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"seconds": -1}, "line 2: seconds: "),
        ({"seconds": float("nan")}, "line 2: not JSON that can be read: seconds is not a finite number"),
        ({"modelled_us": float("inf")}, "line 2: not JSON that can be read: modelled_us is not a finite number"),
        ({"kernels": 10**30}, "line 2: kernels: "),
        ({"kernels": 2**63}, "line 2: kernels: "),
        ({"meter": {"sticks": -1}}, "line 2: meter.sticks: "),
        ({"meter": {"sticks": 2**60}}, "line 2: meter.sticks: "),
        ({"meter": {"anything": 1}}, "line 2: meter.anything"),
        ({"variant": ""}, "line 2: variant: "),
        ({"test": "nope"}, "line 2: test: "),
        ({"test": "test/test_other.py::TestA::test_b"}, "result 2: test: test/test_other.py::TestA::test_b is not one"),
        ({"shard": "another"}, "line 2: shard: "),
    ],
)
def test_a_result_that_is_wrong_names_its_line_and_stores_nothing(api, engine, leased, wrong, told):
    shard_id, lease = leased
    lines = [json.dumps(result_line()), json.dumps(result_line(**{"variant": "second", **wrong}))]
    answer = api.post(f"/leases/{shard_id}/results", content="\n".join(lines), headers=lease)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request"), answer.text
    assert answer.json()["detail"].startswith(told)
    assert stored(engine, result) == []


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"[]", b"{", b'{"a":' * 5000, b'{"seconds": ' + b"9" * 5000 + b"}"])
def test_lines_that_are_no_json_objects_are_refused(api, leased, raw):
    shard_id, lease = leased
    answer = api.post(f"/leases/{shard_id}/results", content=raw, headers=lease)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request"), answer.text
    assert answer.json()["detail"].startswith("line 1: ")


def test_text_that_no_database_stores_is_kept_without_what_is_in_its_way(api, engine, leased):
    shard_id, lease = leased
    line = json.dumps(result_line("a\0b\ud800", message="x\0y"))
    assert api.post(f"/leases/{shard_id}/results", content=line, headers=lease).json() == {"accepted": 1, "known": 0}
    (row,) = stored(engine, result)
    assert (row.variant, row.message) == ("a\ufffdb?", "x\ufffdy")


@pytest.mark.parametrize(
    ("call", "limit"), [("results", MAX_RESULTS_BYTES), ("complete", MAX_REPORT_BYTES), ("hello", MAX_HELLO_BYTES)]
)
def test_a_body_over_its_limit_is_not_read(api, leased, call, limit):
    shard_id, lease = leased
    path, header = ("/hello", KEY) if call == "hello" else (f"/leases/{shard_id}/{call}", lease)
    parts = (b" " * 65536 for _ in range(limit // 65536 + 1))  # chunked: no Content-Length to go by
    for body in (b" " * (limit + 1), parts):
        answer = api.post(path, content=body, headers=header)
        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"status": "great"}', "status: "),
        (
            '{"status": "done", "report": {"meter": {"kernels": NaN}}}',
            "not JSON that can be read: report.meter",
        ),
        (
            '{"status": "done", "report": {"timings": {"run_s": 1e400}}}',
            "not JSON that can be read: report.timings",
        ),
        ('{"status": "done", "report": []}', "report: "),
        ("null", "body: "),
        ("", "not JSON that can be read: "),
    ],
)
def test_a_report_that_no_database_takes_is_refused_and_the_shard_goes_on(api, engine, leased, body, told):
    shard_id, lease = leased
    answer = api.post(f"/leases/{shard_id}/complete", content=body, headers=lease)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request"), answer.text
    assert answer.json()["detail"].startswith(told)
    assert stored(engine, shard)[0].state == "leased"
    assert api.post(f"/leases/{shard_id}/complete", json={"status": "done"}, headers=lease).status_code == 200


def test_a_worker_says_hello_again_and_is_one(api, engine):
    for torch in ("2.13.0", "2.13.1"):
        assert api.post("/hello", json={**HELLO, "torch": torch}, headers=KEY).status_code == 200
    assert [row.torch for row in stored(engine, worker)] == ["2.13.1"]
    answer = api.post("/hello", json={**HELLO, "runtimes": ["none"], "more": 1}, headers=KEY).json()
    assert {e["path"] for e in answer["errors"]} == {"runtimes.0", "more"}


@pytest.mark.parametrize(
    ("header", "status"),
    [({}, 401), ({"Authorization": "Basic dGhl"}, 401), ({"Authorization": "Bearer nope"}, 401)],
)
def test_who_has_no_key_is_told_so_before_the_body_is_looked_at(api, header, status):
    assert api.post("/hello", content=b"{", headers=header).status_code == status


def test_a_database_that_cannot_be_written_is_a_reason_to_come_again(api, engine, leased):
    shard_id, lease = leased
    with engine.begin() as conn:
        conn.exec_driver_sql("ALTER TABLE result RENAME TO result_away")
    answer = api.post(f"/leases/{shard_id}/results", content=json.dumps(result_line()), headers=lease)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"]
    assert "result_away" not in answer.text
