from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from relay.worker import protocol


@pytest.fixture
def pipe() -> Iterator[tuple[protocol.Lines, int]]:
    read, write = os.pipe()
    yield protocol.Lines(read), write
    os.close(read)
    os.close(write)


def test_lines_come_out_whole_however_they_were_cut(pipe: tuple[protocol.Lines, int]) -> None:
    lines, write = pipe
    os.write(write, b'{"start": 0}\n{"en')
    assert list(lines.read()) == [{"start": 0}]
    os.write(write, b'd": 0}\n')
    assert list(lines.read()) == [{"end": 0}]
    assert list(lines.read()) == []
    assert not lines.closed


def read_all(lines: protocol.Lines, write: int, sent: bytes) -> None:
    for start in range(0, len(sent), 30_000):
        os.write(write, sent[start : start + 30_000])
        list(lines.read())


@pytest.mark.parametrize("bad", [b"no json\n", b"[1]\n", b"[" * 5000 + b"\n", b"\xff\n", b"x" * 150_000])
def test_what_is_not_an_object_is_refused(pipe: tuple[protocol.Lines, int], bad: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        read_all(*pipe, bad)


def test_dropping_forgets_half_a_line(pipe: tuple[protocol.Lines, int]) -> None:
    lines, write = pipe
    os.write(write, b'{"end": 0}\n{"st')
    lines.drop()
    os.write(write, b'{"start": 1}\n')
    assert list(lines.read()) == [{"start": 1}]


def test_texts_are_cut_and_nothing_else_is_a_text() -> None:
    assert protocol.text(None) is None
    assert protocol.text("a" * 10, 4) == "aaa…"
    assert protocol.text("a\x00b") == "ab"
    with pytest.raises(protocol.ProtocolError):
        protocol.text(3)
    with pytest.raises(protocol.ProtocolError):
        protocol.send(1, {"x": "y" * protocol.MAX_LINE})
