"""Every broker with every database: an event from its webhook to its conclusion, and brokers that die on the way."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import private_brokers
import pytest
from fleet import DOWNSTREAM, fleet
from private_brokers import Server
from worker_web import wait_for

from relay.pump import make_sender
from relay.queue import engines
from relay.queue.app import make_app

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    if private_brokers.found("redis-server") is None:
        pytest.skip(private_brokers.NO_REDIS)
    with private_brokers.redis() as server:
        yield server


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[Server]:
    if not private_brokers.RABBIT.exists():
        pytest.skip(private_brokers.NO_RABBIT)
    with private_brokers.rabbitmq() as server:
        yield server


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'relay.sqlite3'}"
        return
    cluster = request.getfixturevalue("postgres")
    url = cluster.new_database()
    yield url
    cluster.drop_database(url)


MATRIX = list(itertools.product(["redis", "rabbitmq"], ["sqlite", "postgresql"]))


@pytest.mark.parametrize(("broker", "database"), MATRIX, indirect=True)
def test_an_event_comes_to_its_conclusion_on_every_engine(broker: Server, database: str, tmp_path: Path) -> None:
    with fleet(tmp_path / "fleet", database, broker.url) as relay:
        relay.start("web", "pump", "relay")
        run = relay.concluded(relay.open(7))
        assert (run.conclusion, run.level) == ("success", "L4")
        ci = relay.world.hub.ci[DOWNSTREAM]
        assert list(ci.seen.values()) == [1], "the downstream was told once"
        for name in ("pump", "relay"):  # the health check of processes that answer no HTTP: their loops go on turning
            first = relay.alive(name).stat().st_mtime_ns
            wait_for(lambda name=name, first=first: relay.alive(name).stat().st_mtime_ns > first)
        codes = {name: relay.stop(name) for name in ("relay", "pump", "web")}
        assert codes == {"relay": 0, "pump": 0, "web": 0}, "SIGTERM ends them in order"


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)
def test_a_broker_tells_how_much_waits_and_whether_it_remembers_us(broker: Server) -> None:
    app = make_app(broker.url)
    mark, depth, send = engines.make_mark(broker.url), engines.make_depth(app, broker.url), make_sender(app, broker.url)
    queue = f"spyre.x.torch-2.{time.monotonic_ns()}"
    engines.ping(broker.url)
    mark()
    assert mark() is True
    assert depth(queue) == 0, "nobody has made it"
    send("relay.run_shard", ["s1"], queue)
    send("relay.run_shard", ["s2"], queue)
    assert depth(queue) == 2
    mark.close()
    app.close()


def test_redis_keeps_what_it_was_given_through_kill_9() -> None:
    """Not that we need it: it is what an append-only file is for, and the deployment has one."""
    if private_brokers.found("redis-server") is None:
        pytest.skip(private_brokers.NO_REDIS)
    with private_brokers.redis("--appendfsync", "always") as server:
        app = make_app(server.url)
        mark = engines.make_mark(server.url)
        make_sender(app, server.url)("relay.route", ["d1"], "route")
        assert mark() is False
        server.kill()
        with pytest.raises(engines.ERRORS):
            mark()
        server.start()
        assert mark() is True
        assert engines.make_depth(app, server.url)("route") == 1
        mark.close()
        app.close()


# a Sentinel client closes its connections when it is forgotten, and Python complains before it does
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_sentinel_moves_us_to_the_replica() -> None:
    if private_brokers.found("redis-sentinel") is None:
        pytest.skip(private_brokers.NO_SENTINEL)
    with private_brokers.sentinel() as (url, master, _replica):
        app = make_app(url)
        mark, send = engines.make_mark(url), make_sender(app, url)
        mark()
        send("relay.route", ["d1"], "route")
        master.kill()
        deadline = time.monotonic() + 60
        while True:
            try:
                mark()
                send("relay.route", ["d2"], "route")
                break
            except engines.ERRORS:
                assert time.monotonic() < deadline, "Sentinel made no new master"
                time.sleep(0.2)
        assert engines.make_depth(app, url)("route") >= 1
        mark.close()
        app.close()
