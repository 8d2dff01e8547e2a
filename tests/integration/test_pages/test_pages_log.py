"""A shard's log: taken piece by piece, shown a window at a time, open at the failure, whatever it holds and however
long it is."""

from __future__ import annotations

import html
import re
import time
from typing import Any

import pytest

from relay.artifacts import artifacts
from relay.errors import BadRequest, Conflict, LeaseLost, NotFound
from relay.services import printing
from relay.store import shard_logs, shards
from relay.store.db import reading
from relay.web.twins.log import LogWindow

LOGIT = "test/test_ops.py::TestCommon::test_out"


@pytest.fixture
def leased(world: Any, settings: Any) -> tuple[str, str, str]:
    """(run, shard, token) of a shard under a lease."""
    run = world.dispatch("running", started_at=world.now)
    world.plan(run)
    shard = world.shard(run, 0, "queued", fence=0, attempts=0, due_at=world.now)
    with world.engine.begin() as conn:
        _, token = shards.lease(conn, shard, worker="emulator-1", now=time.time(), lease_s=60)
    return run, shard, token


def put(client: Any, shard: str, token: str, begin: int, data: bytes) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return client.put(f"/worker/leases/{shard}/log?begin={begin}", content=data, headers=headers)


def test_pieces_come_in_order_once_and_under_the_lease_alone(client: Any, settings: Any, leased: Any) -> None:
    _, shard, token = leased
    assert put(client, shard, token, 0, b"one\n").json() == {"end": 4}
    assert put(client, shard, token, 0, b"one\n").json() == {"end": 4}, "sent again: nothing changes"
    gap = put(client, shard, token, 9, b"late")
    assert (gap.status_code, gap.json()["detail"]) == (409, "the log is known up to byte 4, not 9")
    assert put(client, shard, token, 4, b"two\n").json() == {"end": 8}
    assert put(client, shard, "wrong", 8, b"x").status_code == 410
    assert put(client, shard, token, 8, b"x" * (printing.MAX_PIECE + 1)).status_code == 413
    assert put(client, shard, token, 8, b"").status_code == 400
    store, engine = artifacts(settings), client.app.state.engine
    assert printing.window(engine, store, shard, 1, 2, 6) == b"e\ntw"
    with pytest.raises(LeaseLost):
        printing.take(engine, store, shard, "gone", 8, b"x", 0.0)
    with pytest.raises(Conflict):
        printing.take(engine, store, shard, token, 99, b"x", 0.0)
    with pytest.raises(BadRequest):
        printing.take(engine, store, shard, token, printing.MAX_LOG, b"x", 0.0)


def test_a_full_store_is_said_and_stores_nothing(client: Any, settings: Any, leased: Any) -> None:
    _, shard, token = leased
    (settings.data_dir / "artifacts").write_text("a file where a folder is needed")
    answer = put(client, shard, token, 0, b"one\n")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "the artifact store does not take" in answer.json()["detail"]
    with reading(client.app.state.engine) as conn:
        assert shard_logs.end(conn, shard, 1) == 0


def fill(client: Any, world: Any, leased: Any, *parts: tuple[str, str], message: str = "boom") -> list[int]:
    """A log of ``(variant, text)`` with a failing result each; -> where they begin."""
    run, shard, token = leased
    log, begins = b"", []
    for variant, text in parts:
        begins.append(len(log))
        log += f"=== {variant}: failed\n{text}\n".encode()
        place = {"log_begin": begins[-1], "log_end": len(log), "message": message, "variant": variant}
        world.results(run, shard, LOGIT, "failed", 1, **place)
    for begin in range(0, len(log), printing.MAX_PIECE):
        answer = put(client, shard, token, begin, log[begin : begin + printing.MAX_PIECE])
        assert answer.status_code == 200, answer.text
    return begins


def test_the_viewer_opens_at_the_first_failure_and_leads_to_the_others(client: Any, world: Any, leased: Any) -> None:
    run, shard, _ = leased
    noise = "\n".join(f"line {n} of some noise" for n in range(20_000))
    first, second = fill(client, world, leased, ("test_a_spyre", noise), ("test_b_spyre", "the cause"))
    page = client.get(f"/run/{run}/log/{shard}").text
    assert re.search(r'<li class="hit" id="at">[^\n]*line 19999 of some noise', page)
    assert len(page) < 900_000
    assert f"failure={second}" in page
    page = client.get(f"/run/{run}/log/{shard}?lease=1&at={second}").text
    assert re.search(r'<li class="hit" id="at">[^\n]*=== test_b_spyre: failed', page)
    assert "the cause" in page
    assert "line 19999 of some noise" in page, "what was printed before is there too"
    assert "line 5 of some noise" not in page
    twin = client.get(f"/run/{run}/log/{shard}.json?at={second}").json()
    LogWindow.model_validate(twin)
    assert [f["begin"] for f in twin["failures"]] == [first, second]
    assert twin["lines"][-1]["text"] == "the cause"
    whole = client.get(f"/run/{run}/log/{shard}.txt")
    assert len(whole.content) == twin["size"] == int(whole.headers["content-length"])
    links = client.get(f"/run/{run}?outcome=failed").text
    assert f"/run/{run}/log/{shard}?lease=1&amp;failure={second}#at" in links


def test_what_a_failing_variant_printed_before_its_error_is_not_in_the_way(
    client: Any, world: Any, leased: Any
) -> None:
    """The error stands last; the page opens there, says which failure it is, and leads to the next and to its begin."""
    run, shard, _ = leased
    noise = "\n".join(f"line {n} of some noise" for n in range(20_000))
    message = "AssertionError: Größe\nand its second line"
    first, second = fill(
        client, world, leased, ("test_a_spyre", f"{noise}\n{message}"), ("test_b_spyre", "short"), message=message
    )
    path = f"/run/{run}/log/{shard}"
    page = client.get(path).text
    assert re.search(r'<li class="hit" id="at">[^\n]*AssertionError: Größe', page)
    assert "Failure 1 of 2" in page
    assert "line 19999 of some noise" in page
    assert f"failure={second}#at" in page
    assert f"at={first}#at" in page
    assert re.search(r'id="at">[^\n]*=== test_a_spyre: failed', client.get(f"{path}?at={first}").text)
    other = client.get(f"{path}?failure={second}").text
    assert re.search(r'id="at">[^\n]*=== test_b_spyre: failed', other)
    assert "Failure 2 of 2" in other
    assert client.get(f"{path}.json?at=0&find=19999").json()["failure"] == 0
    wrong = client.get(f"{path}.json?failure=7")
    assert (wrong.status_code, "stands at byte 7" in wrong.text) == (400, True)


def test_text_is_found_from_a_place_on(client: Any, world: Any, leased: Any) -> None:
    run, shard, _ = leased
    text = "\n".join(f"needle {n}" if n in (3, 15_000) else f"straw {n}" for n in range(20_000))
    fill(client, world, leased, ("test_a_spyre", text))
    path = f"/run/{run}/log/{shard}.json"
    one = client.get(path, params={"at": 0, "find": "needle"}).json()
    assert [line["text"] for line in one["lines"] if line["at"] == one["at"]] == ["needle 3"]
    two = client.get(path, params={"at": one["at"], "find": "needle"}).json()
    assert [line["text"] for line in two["lines"] if line["at"] == two["at"]] == ["needle 15000"]
    none = client.get(path, params={"at": two["at"], "find": "needle"}).json()
    assert (none["searched"]["hit"], none["searched"]["more"]) == (False, False)
    page = client.get(f"/run/{run}/log/{shard}", params={"find": "<b>"}).text
    assert "“&lt;b&gt;” is not there" in page


def test_a_log_of_100_mb_costs_two_or_three_pieces(client: Any, world: Any, leased: Any, monkeypatch: Any) -> None:
    run, shard, token = leased
    piece = (b"x" * 99 + b"\n") * 10_000
    engine, store = client.app.state.engine, artifacts(client.app.state.settings)
    for n in range(100):
        printing.take(engine, store, shard, token, n * len(piece), piece, world.now)
    read: list[str] = []
    real = type(store).get
    monkeypatch.setattr(type(store), "get", lambda self, name: read.append(name) or real(self, name))
    for at in (0, 50_000_000, 100_000_000):
        read.clear()
        twin = client.get(f"/run/{run}/log/{shard}.json?at={at}").json()
        LogWindow.model_validate(twin)
        assert twin["size"] == 100_000_000
        assert len(read) <= 2
        assert len(twin["lines"]) > 80
        assert twin["begin"] <= at <= twin["end"]


def test_what_a_log_holds_stays_text_and_colours_are_classes(client: Any, world: Any, leased: Any) -> None:
    run, shard, _ = leased
    evil = "</pre></script><script>alert(1)</script>\x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x1b[2J\u202egnp"
    fill(client, world, leased, ("test_a_spyre", f"\x1b[1;31mred {evil}\x1b[0m plain\n{'y' * 50_000}\nold\rnew"))
    page = client.get(f"/run/{run}/log/{shard}?at=0").text
    assert "<script>alert" not in page
    assert html.escape("</script><script>alert(1)</script>", quote=False) in page
    assert '<span class="a1 f31">red ' in page
    assert "evil.example" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "46,000 more characters" in page
    assert "old" not in re.findall(r'<span class="ln">(old|new)', page)


def test_no_log_says_where_else_to_look(client: Any, world: Any, leased: Any) -> None:
    run, shard, _ = leased
    answer = client.get(f"/run/{run}/log/{shard}")
    assert answer.status_code == 404
    assert "left no log" in answer.text
    assert client.get(f"/run/{run}/log/nothing").status_code == 404
    assert client.get(f"/run/other/log/{shard}").status_code == 404
    fill(client, world, leased, ("test_a_spyre", "text"))
    assert client.get(f"/run/{run}/log/{shard}?at=999999").status_code == 400


def test_old_logs_are_forgotten_in_the_store_too(client: Any, world: Any, settings: Any, leased: Any) -> None:
    run, shard, token = leased
    engine, store = client.app.state.engine, artifacts(settings)
    printing.take(engine, store, shard, token, 0, b"old\n", 1000.0)
    printing.take(engine, store, shard, token, 4, b"new\n", 9000.0)
    assert printing.forget(engine, store, 5000.0, 10) == 1
    with pytest.raises(NotFound):
        store.get(printing.name(shard, 1, 0))
    assert printing.window(engine, store, shard, 1, 0, 8) == b"new\n"
    assert client.get(f"/run/{run}/log/{shard}").status_code == 200
