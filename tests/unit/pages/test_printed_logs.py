"""What tests printed, on the worker: kept in one file with its places, and sent on piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay.errors import LeaseLost, Unavailable
from relay.worker import printed, shipping
from relay.worker.client import Refused
from relay.worker.logs import Log
from relay.worker.printed import Printed
from relay.worker.shipping import Shipping


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path, "tests.log")


def say(log: Log, text: bytes) -> tuple[int, int]:
    import os

    begin = log.size()
    os.write(log.fd, text)
    return begin, log.size()


def test_each_variants_output_stands_below_its_name(tmp_path: Path, log: Log) -> None:
    path = tmp_path / "printed.log"
    kept = Printed(path)
    assert kept.keep("a: passed", log, *say(log, b""), None) == {}, "nothing was printed"
    one = kept.keep("a: passed", log, *say(log, b"hello"), None)
    two = kept.keep("b: failed", log, *say(log, b"more\n"), "AssertionError: no\n")
    kept.close()
    data = path.read_bytes()
    assert data == b"=== a: passed\nhello\n=== b: failed\nmore\nAssertionError: no\n"
    assert data[one["log_begin"] : one["log_end"]] == b"=== a: passed\nhello\n"
    assert data[two["log_begin"] : two["log_end"]].startswith(b"=== b: failed\nmore\n")


def test_a_full_log_says_so_and_takes_no_more(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "MOST", 100)
    kept = Printed(tmp_path / "printed.log")
    assert kept.keep("a", log, *say(log, b"x" * 500), None)["log_end"] <= 110
    assert kept.keep("b", log, *say(log, b"y" * 500), None) == {}
    data = (tmp_path / "printed.log").read_bytes()
    assert data.endswith(printed.FULL)
    assert b"y" not in data.replace(printed.FULL, b"")


def test_without_a_path_nothing_is_kept(log: Log) -> None:
    assert Printed(None).keep("a", log, *say(log, b"x"), "boom") == {}


class Relay:
    """A client whose answers are set before."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.data, self.calls = list(errors), b"", 0

    def log(self, shard_id: str, begin: int, data: bytes) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        assert begin == len(self.data)
        self.data += data


def ship(relay: Any, path: Path) -> Shipping:
    return Shipping(relay, "shard", path)


def test_whole_pieces_go_at_once_and_the_rest_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "PIECE", 10)
    relay, path = Relay(), tmp_path / "printed.log"
    sending = ship(relay, path)
    sending.go_on()  # there is no log yet
    path.write_bytes(b"x" * 25)
    sending.go_on()
    assert relay.data == b"x" * 20
    sending.finish(lambda: False)
    assert relay.data == b"x" * 25


def test_a_relay_that_is_away_gets_it_later_and_one_that_refuses_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "printed.log"
    path.write_bytes(b"text")
    away = Relay(Unavailable("away"), Unavailable("away"))
    ship(away, path).finish(lambda: False)
    assert away.data == b"text"
    refusing = Relay(Refused("no"))
    sending = ship(refusing, path)
    sending.finish(lambda: False)
    sending.finish(lambda: False)
    assert refusing.calls == 1
    with pytest.raises(LeaseLost):
        ship(Relay(LeaseLost("lost")), path).finish(lambda: False)


def test_a_relay_that_never_comes_back_costs_only_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "PATIENCE_S", 0.05)
    path = tmp_path / "printed.log"
    path.write_bytes(b"text")
    ship(Relay(*[Unavailable("away")] * 50), path).finish(lambda: False)
