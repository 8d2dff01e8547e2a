"""Two releases at once, as in every rolling upgrade: whichever side is replaced first, events and shards go on."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import next_release
import pytest
from fleet import DOWNSTREAM, ROOT, fleet
from older_release import older_commit, unpack
from outbound_servers import serving
from sqlalchemy import text
from worker_process import workers
from worker_web import ADDS, SLOW, Relay, wait_for

from relay import broker
from relay.protocol import WORKER_API
from relay.store.db import reading
from relay.web.app import create_app
from relay.worker import agent

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(older_commit(), tmp_path_factory.mktemp("older") / "sources")


@pytest.fixture
def broker_url(tmp_path: Path) -> Iterator[str]:
    server = broker.prepare(tmp_path)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL)
    yield server.url
    process.kill()
    process.wait()
    server.remove()


def test_an_event_is_concluded_by_two_releases_either_way_round(older: Path, broker_url: str, tmp_path: Path) -> None:
    with fleet(tmp_path / "fleet", f"sqlite:///{tmp_path / 'relay.sqlite3'}", broker_url) as relay:
        relay.start("web", code=ROOT)
        relay.start("pump", "relay", code=older)
        assert relay.concluded(relay.open(7)).conclusion == "success"
        for name in ("relay", "pump", "web"):
            relay.stop(name)
        relay.start("web", code=older)
        relay.start("pump", "relay", code=ROOT)
        assert relay.concluded(relay.open(8)).conclusion == "success"
        assert list(relay.world.hub.ci[DOWNSTREAM].seen.values()) == [1, 1]


def test_this_release_goes_on_beside_the_next_one_on_its_database(
    broker_url: str, tmp_path: Path, postgres: Any
) -> None:
    """The first process of the next release migrates; this one's others, which were there before, must not notice. Who
    goes back to this release finds the next one's database."""
    after = next_release.make(tmp_path / "next")
    url = postgres.new_database()
    with fleet(tmp_path / "fleet", url, broker_url) as relay:
        relay.start("web", "pump", "relay")
        relay.stop("web")
        relay.start("web", code=after)
        assert relay.concluded(relay.open(7)).conclusion == "success"
        for name in ("relay", "pump", "web"):
            relay.stop(name)
        relay.start("pump", "relay", code=after)
        relay.start("web")
        assert relay.concluded(relay.open(8)).conclusion == "success"
        assert list(relay.world.hub.ci[DOWNSTREAM].seen.values()) == [1, 1]
        with reading(relay.engine) as conn:
            told = conn.execute(text("SELECT pr_number, made_by FROM dispatch ORDER BY pr_number")).all()
            assert conn.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "0002"
    assert [tuple(row) for row in told] == [(7, None), (8, next_release.WROTE)]
    postgres.drop_database(url)


@pytest.mark.torch
def test_a_worker_and_a_web_process_of_two_releases(older: Path, tmp_path: Path) -> None:
    with workers(tmp_path) as them:
        web = them.web
        them.start("old", code=older)
        first = web.shard(ADDS)
        them.send(first)
        wait_for(lambda: web.row(first).state == "done")
        assert set(web.outcomes(first).values()) == {"passed"}, them.said("old")
        them.terminate("old")

        web.kill()
        web.env["PYTHONPATH"], web.env["PYTHONSAFEPATH"] = str(older), "1"
        web.start()
        them.start("new")
        second = web.shard(ADDS)
        them.send(second)
        wait_for(lambda: web.row(second).state == "done")
        assert set(web.outcomes(second).values()) == {"passed"}, them.said("new")
        assert them.terminate("new") == 0


class FirstVersion:
    """A relay that speaks version 1 of the worker API, made of this one: it names no version, knows no ``release``."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope.get("path", ""))
        if scope.get("path", "").endswith("/release"):
            scope = {**scope, "path": "/worker/nothing-here"}

        async def older(message: Any) -> None:
            if message["type"] == "http.response.body":
                named = f'"protocol":{WORKER_API},'.encode()
                body = message["body"].replace(named, named.replace(b"protocol", b"xprotoco"))  # of the same length
                message = {**message, "body": body}
            await send(message)

        await self.app(scope, receive, older)


@pytest.mark.torch
def test_a_worker_asks_nothing_of_a_relay_that_does_not_know_it(tmp_path: Path) -> None:
    web = Relay(tmp_path)
    shim, listener = FirstVersion(create_app(web.settings)), socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()
    try:
        with serving(shim, listener):
            config = replace(web.config, url=f"http://127.0.0.1:{listener.getsockname()[1]}")
            key = web.shard(SLOW)
            threading.Thread(target=lambda: (wait_for(lambda: web.outcomes(key)), stop.set()), daemon=True).start()
            agent.run_shard(key, config, stop)
        row = web.row(key)
        assert (row.state, row.handed_back) == ("leased", 0), "its lease runs out, as ever"
        assert [path for path in shim.asked if path.endswith("/results")]
        assert not [path for path in shim.asked if path.endswith("/release")]
    finally:
        stop.set()
        shim.app.state.engine.dispose()
        web.kill()
        web.engine.dispose()
