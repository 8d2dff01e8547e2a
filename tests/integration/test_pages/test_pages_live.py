"""The stream behind a run's page: what is sent, when, and when it ends."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from relay.store.schema import dispatch, shard
from relay.web.live import POLL_S

LOGIT = "test/test_ops.py::TestCommon::test_out"


@contextlib.contextmanager
def listen(server: str, id: str, path: str = "") -> Iterator[Iterator[tuple[str, str]]]:
    """(event, data) of the stream of a run, or of ``path``; ``beat`` for a comment."""
    with httpx2.stream("GET", f"{server}{path or f'/run/{id}/events'}", timeout=30) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield messages(answer.iter_lines())


def messages(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    event, data = "", []
    for line in lines:
        if line.startswith(":"):
            yield "beat", line
        elif line.startswith("event: "):
            event = line[7:]
        elif line.startswith("data: "):
            data.append(line[6:])
        elif not line:
            if data:
                yield event, "\n".join(data)
            event, data = "", []
        else:
            pytest.fail(f"not a line of a stream: {line!r}")


def estimate(fragment: str) -> int:
    """Percent of the work that a run's page says is done."""
    found = re.search(r"(\d+) % of the estimated work done", fragment)
    assert found is not None
    return int(found[1])


def test_viewer_gets_the_present_state_then_each_change_then_the_end(server: str, world: Any) -> None:
    id, shards = world.running()
    with listen(server, id) as stream:
        event, first = next(stream)
        assert event == ""
        assert "161 variants done" in first
        before = estimate(first)

        world.results(id, shards[1], LOGIT, "failed", 3, message="bad\rdata: forged\r\n\r\nevent: closed")
        _, second = next(stream)
        assert "164 variants done" in second
        assert "3 failures so far" in second

        world.set(shard, shards[1], state="done", finished_at=world.now)
        _, third = next(stream)
        assert "2 of 3 shards" in third
        assert estimate(third) > before
        assert re.search(r"about <strong>[^<]+</strong> left", third)

        world.set(
            dispatch, id, state="completed", conclusion="failure", summary="3 variants fail.", closed_at=world.now
        )
        assert "3 variants fail." in next(stream)[1]
        assert next(stream)[0] == "closed"
        assert next(stream, None) is None


def test_nothing_is_sent_while_nothing_changes_but_a_heartbeat(
    server: str, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.web.live.BEAT_S", 1.2)  # longer than two looks at the database
    id, _ = world.running()
    with listen(server, id) as stream:
        kinds = [next(stream)[0] for _ in range(3)]
    assert kinds == ["", "beat", "beat"]


def test_a_run_that_is_over_ends_its_stream_at_once(server: str, world: Any) -> None:
    id = world.failed_run()
    with listen(server, id) as stream:
        [(_, fragment), (end, _)] = list(stream)
    assert "2 variants of 1 test fail with this change" in fragment
    assert end == "closed"


def test_no_stream_of_a_run_that_is_not_there(server: str) -> None:
    answer = httpx2.get(f"{server}/run/none/events")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "no run none"


def test_many_viewers_share_one_look_and_the_server_answers_meanwhile(
    server: str, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    from relay.store import views_run

    real = views_run.live
    answers = threading.Event()
    answers.set()

    def slow(*args: Any, **kwargs: Any) -> Any:
        looks.append(time.monotonic())
        assert answers.wait(60)  # a database that takes its time
        return real(*args, **kwargs)

    monkeypatch.setattr(views_run, "live", slow)
    id, shards = world.running()
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(listen(server, id)) for _ in range(6)]
        for stream in streams:
            assert "161 variants done" in next(stream)[1]
        before = len(looks)
        begun = time.monotonic()
        answers.clear()
        while len(looks) == before:
            time.sleep(0.02)
            assert time.monotonic() - begun < 30, "nobody looked any more"
        assert httpx2.get(f"{server}/healthz", timeout=30).status_code == 200, "the database held the event loop"
        answers.set()
        world.results(id, shards[1], LOGIT, "passed", 1)
        for stream in streams:
            assert "162 variants done" in next(stream)[1]
        took = time.monotonic() - begun
        assert len(looks) - before <= 2 + took / POLL_S, "every viewer looked for itself"


def test_too_many_viewers_are_told_to_reload(server: str, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.web.live.MAX_VIEWERS", 1)
    id, _ = world.running()
    with listen(server, id) as stream:
        next(stream)
        answer = httpx2.get(f"{server}/run/{id}/events")
        assert answer.status_code == 503
        assert answer.json()["code"] == "unavailable"
        assert re.search("reload the page", answer.json()["hint"])


def test_the_status_page_hears_of_a_run_and_of_its_end(server: str, world: Any) -> None:
    with listen(server, "", "/events") as stream:
        assert "Nothing is running" in next(stream)[1]
        id, _ = world.running(pr_number=171999)
        assert "#171999" in next(piece for event, piece in stream if event == "" and "Nothing is running" not in piece)
        world.set(dispatch, id, state="completed", conclusion="success", summary="Fine.", closed_at=world.now)
        told = next(piece for event, piece in stream if event == "" and "Nothing is running" in piece)
        assert "hx-" not in told, "a piece for many readers may make htmx do nothing"


def test_a_pull_requests_stream_ends_with_its_last_run(server: str, world: Any) -> None:
    id, _ = world.running()
    with listen(server, "", "/pr/171234/events?upstream=pytorch/pytorch") as stream:
        assert "is still running on torch-spyre/torch-spyre" in next(stream)[1]
        world.set(dispatch, id, state="completed", conclusion="success", summary="Fine.", closed_at=world.now)
        assert "This commit is fine" in next(piece for event, piece in stream if event == "" and "fine" in piece)
        assert next(event for event, _ in stream if event != "beat") == "closed"
    assert httpx2.get(f"{server}/pr/5/events").status_code == 404
