"""The faults: each a block in which something is wrong. Entering it breaks something, leaving it mends what does not
mend itself; in the middle, pull requests go on arriving."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import psutil
from redis import Redis
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from under_chaos import clocks, spaces
from under_chaos.relay import RelayUnderChaos

SELECTING = "select 1 from dispatch where executor = 'workers' and claim is not null and delivery_id = :guid"
LEASED = (
    "select 1 from shard s join dispatch d on d.id = s.dispatch_id where s.state = 'leased' and d.delivery_id = :guid"
)
RESULTS = "select 1 from result r join dispatch d on d.id = r.dispatch_id where d.delivery_id = :guid"
CONFIRMING = LEASED.replace("s.state = 'leased'", "s.side <> 'head'")
ROUTED = "select 1 from dispatch where delivery_id = :guid"
NO_NAMESPACES = "namespaces"
NO_CLOCK = "clock"
GITHUB, HUD = r"/(repos|app|installation|repositories)/.*|/app", r"/api/crcr/results"
HOUR = 3600
Begin = Callable[[RelayUnderChaos, random.Random], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """``when``: the query that tells that the pull request has come far enough. ``lasts``: seconds, ``long``: in the
    long run. ``needs``: what the machine must have. ``both``: on either database, else with PostgreSQL and Redis
    alone. ``after``: seconds after which what came late is in order again, at the latest."""

    name: str
    begin: Begin
    when: str = LEASED
    lasts: float = 0.0
    long: float = 0.0
    needs: str = ""
    both: bool = False
    family: str = ""
    after: float = 0.0


def _kill(*names: str) -> Begin:
    @contextlib.contextmanager
    def begin(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
        for name in names:
            relay.kill(name)
        yield

    return begin


@contextlib.contextmanager
def _kill_runner(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    """Whatever runs tests below the worker, at a blow."""
    worker = "near" if relay.redis is not None else "emulator"
    for one in psutil.Process(relay.pid(worker)).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    yield


@contextlib.contextmanager
def _kill_backend(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    """One of PostgreSQL's own processes: the server then ends all connections and recovers."""
    assert relay.postgres is not None
    assert relay.postgres.process is not None
    writer = next(
        one for one in psutil.Process(relay.postgres.process.pid).children() if "walwriter" in "".join(one.cmdline())
    )
    writer.kill()
    yield


@contextlib.contextmanager
def _broker_flushed(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    client = redis_of(relay)
    for _again in range(5):
        client.flushall()
        relay.pause(0.2)
    client.close()
    yield


@contextlib.contextmanager
def _broker_gone(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    if relay.redis is not None:
        relay.redis.kill()
        yield
        relay.redis.start()
        return
    # the supervisor would start it again: it is stopped in its tracks instead, which is as good as gone
    pid = relay.pid("broker")
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def _database_gone(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    assert relay.postgres is not None
    relay.postgres.pause()
    yield
    relay.postgres.resume()


@contextlib.contextmanager
def _store_full(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    ballast = spaces.fill(relay.artifacts)
    yield
    ballast.unlink()


@contextlib.contextmanager
def _database_full(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    """The disk of the database's tables, and on SQLite of everything that the relay keeps, its logs too."""
    ballast = spaces.fill(relay.disk)
    try:
        with relay.engine.begin() as conn:
            much = "zeroblob(16777216)" if relay.database == "sqlite" else "g from generate_series(1, 500000) g"
            conn.execute(text(f"create table chaos_probe as select {much}"))
        raise AssertionError("the disk is not full: the fault shows nothing")
    except DBAPIError:
        yield
    finally:
        ballast.unlink()


def _clock(seconds: int) -> Begin:
    @contextlib.contextmanager
    def begin(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
        relay.clock.step(seconds)
        yield
        relay.clock.step(0)

    return begin


def _answers(path: str, **rule: object) -> Begin:
    """GitHub or HUD answers otherwise than it should, as long as the fault lasts."""

    @contextlib.contextmanager
    def begin(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
        relay.faults({"path": path, "count": None, **rule})
        yield
        relay.faults()

    return begin


@contextlib.contextmanager
def _cable_cut(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    assert relay.lab is not None
    relay.lab.cut()
    yield
    relay.lab.mend()


@contextlib.contextmanager
def _messages_shuffled(relay: RelayUnderChaos, rng: random.Random) -> Iterator[None]:
    """Consumers stand still until messages have piled up; then each is there up to four times, in any order. What has
    been consumed comes again as well."""
    names = ("relay", "select", "near", "lab") if relay.lab else ("relay", "select", "near")
    pids = [relay.pid(name) for name in names]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    client = redis_of(relay)
    seen = 0
    for key in client.scan_iter(_type="list"):
        waiting = client.lrange(key, 0, -1)
        copies = [message for message in waiting for _ in range(rng.randint(1, 4))]
        rng.shuffle(copies)
        client.delete(key)
        client.rpush(key, *copies)
        seen += len(copies)
    client.close()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert seen, "no message waited: the fault shows nothing"


@contextlib.contextmanager
def _worker_returns(relay: RelayUnderChaos, _: random.Random) -> Iterator[None]:
    """The worker that holds a lease stands still until somebody else has the shard, and goes on then."""
    rows = relay.wait(lambda: relay.rows("select id, worker, fence from shard where state = 'leased'"), "no lease")
    shard, worker, fence = rows[0]
    group = [relay.pid(worker)] if relay.redis is not None else [relay.pid("emulator")]
    group += [one.pid for one in psutil.Process(group[0]).children(recursive=True)]
    for pid in group:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    again = "select 1 from shard where id = :id and (fence > :fence or state <> 'leased')"
    relay.wait(lambda: relay.rows(again, id=shard, fence=fence), "the lease was not taken back", 60)
    yield
    for pid in group:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def redis_of(relay: RelayUnderChaos) -> Redis:
    if relay.redis is not None:
        return Redis(port=relay.port_of_redis, socket_timeout=5)
    return Redis(unix_socket_path=str(relay.data / "broker" / "s.sock"), socket_timeout=5)


# what the relay asks of GitHub while it works; its own look-ups for tokens stay true where only effects are to be hurt
EFFECTS = r"/repos/.*/(dispatches|check-runs(/\d+)?)"
PAGE = {"status": 200, "body": "<html>Sign in to this network</html>"}


def _family(name: str, *faults: Fault) -> tuple[Fault, ...]:
    return tuple(replace(fault, family=name) for fault in faults)


FAULTS = (
    *_family(
        "kill",
        Fault("web killed", _kill("web"), RESULTS, both=True),
        Fault("pump and sweeper killed", _kill("pump"), LEASED, both=True),
        Fault("router and sender killed", _kill("relay"), ROUTED, both=True),
        Fault("selector killed", _kill("select"), SELECTING, both=True),
        Fault("worker killed", _kill("near"), RESULTS),
        Fault("both workers killed while failures are confirmed", _kill("near", "lab"), CONFIRMING),
        Fault("test runner killed", _kill_runner, RESULTS, both=True),
        Fault("supervisor and all its processes killed", _kill("up"), RESULTS, both=True),
    ),
    *_family(
        "database",
        Fault("one of the database's processes killed", _kill_backend, RESULTS),
        Fault("database restarted", _database_gone, RESULTS, 0.1, 0.1),
        Fault("database gone", _database_gone, RESULTS, 8, 60),
    ),
    *_family(
        "broker",
        Fault("broker flushed", _broker_flushed, SELECTING, both=True),
        Fault("broker killed", _broker_gone, LEASED, 0.1, 0.1),
        Fault("broker gone", _broker_gone, ROUTED, 8, 60, both=True),
    ),
    *_family(
        "disk",
        Fault("artifact store full", _store_full, LEASED, 8, 15, NO_NAMESPACES, both=True),
        Fault("database's disk full", _database_full, LEASED, 8, 15, NO_NAMESPACES, both=True),
    ),
    *_family(
        "clock",
        Fault("clock an hour ahead, then right again", _clock(HOUR), LEASED, 8, 15, NO_CLOCK, both=True),
        Fault("clock an hour behind, then right again", _clock(-HOUR), LEASED, 8, 15, NO_CLOCK, both=True),
    ),
    *_family(
        "github",
        Fault("GitHub slow (3 s a call)", _answers(GITHUB, delay_s=3), ROUTED, 8, 20),
        # GitHub ends what it has not done in 10 s
        Fault("GitHub slower than we wait (9.5 s a call)", _answers(GITHUB, delay_s=9.5), ROUTED, 10, 20),
        Fault("GitHub failing (502)", _answers(GITHUB, status=502), ROUTED, 8, 60, both=True),
        # and yet: what it does when nobody waits any more is there twice, and must say one thing in the end
        Fault("GitHub does what it is asked 25 s later", _answers(EFFECTS, delay_s=25), ROUTED, 12, 20, after=60),
        Fault("GitHub asks for time", _answers(GITHUB, retry_after=2), ROUTED, 6, 15),
        Fault("GitHub's answers lost", _answers(EFFECTS, drop=True), ROUTED, 8, 20),
    ),
    *_family(
        "lies",
        Fault("GitHub lies: a page for an answer", _answers(GITHUB, **PAGE), ROUTED, 8, 20, both=True),
        Fault("GitHub lies: done, and says 500", _answers(EFFECTS, status=500, lie=True), ROUTED, 8, 20),
        Fault(
            "GitHub lies: an error that is not its own",
            _answers(GITHUB, status=404, body="<html>no</html>"),
            ROUTED,
            8,
            60,
        ),
        Fault("HUD lies: a page for an answer", _answers(HUD, **PAGE), ROUTED, 8, 20),
        Fault("HUD lies: taken, it says, and is not", _answers(HUD, status=200, body={"ok": False}), ROUTED, 8, 20),
    ),
    *_family(
        "hud",
        Fault("HUD slow (3 s a call)", _answers(HUD, delay_s=3), ROUTED, 8, 20),
        Fault("HUD does what it is asked 25 s later", _answers(HUD, delay_s=25), ROUTED, 12, 20, after=60),
        Fault("HUD failing (503)", _answers(HUD, status=503), ROUTED, 8, 60, both=True),
        Fault("HUD's answers lost", _answers(HUD, drop=True), ROUTED, 8, 20),
    ),
    *_family(
        "network",
        Fault("network cut between worker and relay", _cable_cut, RESULTS, 3, 10, NO_NAMESPACES),
        Fault("network cut for longer than a lease", _cable_cut, RESULTS, 12, 20, NO_NAMESPACES),
    ),
    *_family(
        "messages",
        Fault("messages doubled and in any order", _messages_shuffled, ROUTED, 4, 20),
    ),
    *_family(
        "lease",
        Fault("worker returns after its lease is gone", _worker_returns, RESULTS, 1, 10),
    ),
)


def missing(fault: Fault) -> str:
    """Why this machine cannot have the fault; "" when it can."""
    if fault.needs == NO_NAMESPACES and not spaces.inside():
        return "no namespaces here"
    return clocks.problem() if fault.needs == NO_CLOCK else ""


def hold(relay: RelayUnderChaos, seconds: float) -> float:
    """Lets the fault last; -> when it was over."""
    relay.pause(seconds)
    return time.monotonic()
