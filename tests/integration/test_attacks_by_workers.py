"""Attacks by who holds a lease or an address, over HTTP against a web process: docs/attacks.md."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from factories import make_run, result_line, shard_spec
from sqlalchemy import select
from worker_web import free_port, worker_api

from relay.settings import Settings
from relay.store import shards
from relay.store.schema import result, shard

TEST = "test/test_x.py::TestA::test_b"
KEY = {"Authorization": "Bearer the key"}


@pytest.fixture
def api(engine, tmp_path) -> Iterator[httpx2.Client]:
    with worker_api(Settings(data_dir=tmp_path, worker_key="the key")) as client:
        yield client


@pytest.fixture
def two(api, engine) -> list[tuple[str, dict[str, str]]]:
    """Two shards of two runs, each with its lease's header."""
    found = []
    for name in ("one", "two"):
        run_id = make_run(engine, downstream=f"spyre/{name}")
        with engine.begin() as conn:
            (id,) = shards.add(conn, dispatch_id=run_id, side="head", queue="q", specs=[shard_spec(TEST)], now=1.0)
        taken = api.post(f"/shards/{id}/lease", json={"worker": name}, headers=KEY)
        found.append((id, {"Authorization": f"Bearer {taken.json()['token']}"}))
    return found


def rows(engine, table):
    with engine.connect() as conn:
        return conn.execute(select(table)).all()


CALLS = [
    ("POST", "heartbeat", {}),
    ("GET", "tree", {}),
    ("POST", "results", {"json": result_line()}),
    ("POST", "complete", {"json": {"status": "done"}}),
    ("POST", "release", {}),
    ("PUT", "log?begin=0", {"content": b"x"}),
    ("PUT", "trace", {"content": b"x"}),
]


@pytest.mark.parametrize(("method", "call", "body"), CALLS, ids=[call for _, call, _ in CALLS])
def test_a_lease_is_good_for_its_own_shard_alone(api, engine, two, method, call, body):
    (mine, lease), (other, _) = two
    given = {"another shard's lease": lease, "the worker key": KEY, "nothing": {}, "half of it": {
        "Authorization": lease["Authorization"][:-4]}}  # fmt: skip
    for what, headers in given.items():
        answer = api.request(method, f"/leases/{other}/{call}", headers=headers, **body)
        assert answer.status_code in (401, 403, 405, 409, 410), (what, answer.status_code, answer.text)
        assert answer.status_code != 405, "the call is not tried at all"
    assert rows(engine, result) == []
    assert {row.state for row in rows(engine, shard)} == {"leased"}
    assert api.post("/shards/x/lease", json={"worker": "w"}, headers=lease).status_code == 401
    assert mine != other


def test_a_lease_that_is_over_changes_nothing(api, engine, two):
    id, lease = two[0]
    assert api.post(f"/leases/{id}/release", headers=lease).status_code == 200
    for method, call, body in CALLS:
        answer = api.request(method, f"/leases/{id}/{call}", headers=lease, **body)
        assert answer.status_code in (401, 403, 409, 410), (call, answer.status_code)
    assert rows(engine, result) == []


@pytest.mark.parametrize(
    "test",
    [
        "../../../etc/passwd::TestA::test_b",
        "/etc/passwd::TestA::test_b",
        "test/../../x.py::TestA::test_b",
        "test/test_x.py::TestA::../test_b",
        "test\\..\\x.py::TestA::test_b",
        "test/test_x.py\0::TestA::test_b",
    ],
)
def test_a_test_that_the_shard_does_not_have_is_not_stored_whatever_its_path(api, engine, two, test):
    id, lease = two[0]
    answer = api.post(f"/leases/{id}/results", json=result_line(test=test), headers=lease)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request"), answer.text
    assert rows(engine, result) == []


@pytest.mark.parametrize("id", ["..%2f..%2fx", "..", "%2e%2e%2f%2e%2e", "a%00b", "logs%2f..%2f..%2frelay.sqlite3"])
def test_a_log_goes_nowhere_but_below_its_lease(api, engine, two, tmp_path, id):
    """The name in the store is made of the shard's id as the database has it, the fence and a number."""
    own, lease = two[0]
    assert api.put(f"/leases/{id}/log?begin=0", content=b"x", headers=lease).status_code in (401, 404, 409, 410)
    for begin in ("-1", "../../x", "1e3", "99999999999999999999"):
        answer = api.put(f"/leases/{own}/log?begin={begin}", content=b"x", headers=lease)
        assert 400 <= answer.status_code < 500, (begin, answer.text)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert api.put(f"/leases/{own}/log?begin=0", content=b"x", headers=lease).status_code == 200
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path.relative_to(tmp_path).parts[:2] for path in new} == {("artifacts", "logs")}


def test_a_workers_report_fills_neither_memory_nor_the_database(api, engine, two):
    id, lease = two[0]
    deep = b'{"status": "done", "report": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001
    assert api.post(f"/leases/{id}/complete", content=deep, headers=lease).status_code == 400
    big = result_line(message="x" * 9_000)
    assert api.post(f"/leases/{id}/results", json=big, headers=lease).status_code == 400
    forged = [
        result_line(kernels=-1),
        result_line(kernels=2**60),
        result_line(seconds=-5),
        result_line(outcome="green"),
    ]
    for line in forged:
        assert api.post(f"/leases/{id}/results", json=line, headers=lease).status_code == 400
    assert rows(engine, result) == []


def test_another_address_in_a_header_is_not_another_reader(tmp_path: Path):
    """Rate limits go by who connects; only where FORWARDED_ALLOW_IPS names a proxy is its word taken."""
    headers = [{"X-Forwarded-For": f"10.0.0.{n}", "Forwarded": f"for=10.0.0.{n}", "X-Real-IP": f"10.0.0.{n}"}
               for n in range(8)]  # fmt: skip
    for trusted, wanted in (({}, 429), ({"FORWARDED_ALLOW_IPS": "127.0.0.1"}, 200)):
        port = free_port()
        folder = tmp_path / ((trusted and "proxied") or "direct")
        folder.mkdir()
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("RELAY_", "FORWARDED_"))},
            **trusted,
            "RELAY_DATA_DIR": str(folder),
            "RELAY_PORT": str(port),
            "RELAY_READS_BURST": "3",
            "RELAY_READS_PER_MINUTE": "0.1",
        }
        process = subprocess.Popen([sys.executable, "-m", "relay.web"], env=env, stderr=subprocess.DEVNULL)
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
                deadline = time.monotonic() + 120
                while True:
                    try:
                        assert client.get("/healthz").status_code == 200
                        break
                    except httpx2.TransportError:
                        assert time.monotonic() < deadline, "it does not come"
                        time.sleep(0.05)
                answers = [client.get("/quality.json", headers=one).status_code for one in headers]
            assert answers[:3] == [200] * 3
            assert set(answers[3:]) == {wanted}, (trusted, answers)
        finally:
            process.terminate()
            process.wait(20)
