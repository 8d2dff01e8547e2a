"""The brokers that the relay runs on: Valkey or Redis (alone or behind Sentinel), and RabbitMQ with quorum queues.

Everything that differs between them is here: addresses, transport options, how a queue is made, whether the broker
still remembers us. A broker holds ids of due work and nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from amqp.exceptions import AMQPError
from celery import Celery
from kombu import Connection, Queue
from kombu.exceptions import ChannelError, KombuError
from kombu.exceptions import OperationalError as BrokerError
from redis import Redis
from redis.exceptions import RedisError
from redis.sentinel import Sentinel

MARK = "relay:pump-mark"
MARK_QUEUE = "relay.pump-mark"
ERRORS = (BrokerError, KombuError, RedisError, AMQPError, OSError)
"""What a broker that is away, or on its way back, makes its clients raise."""

VISIBILITY_S = 24 * 3600
"""Above any time limit. The database, not the broker's redelivery, brings back what a dead worker held."""
TIMEOUT_S = 5
ANSWER_S = 2
"""The longest that the pump waits for an answer, in seconds."""
DEFAULT_MASTER = "mymaster"

_REDIS = ("redis", "rediss", "redis+socket", "unix")
_AMQP = ("amqp", "amqps", "pyamqp")


def kind_of(url: str) -> str:
    """``redis``, ``sentinel`` or ``amqp``. ValueError for an address of anything else."""
    scheme = urlsplit(url).scheme
    if scheme in _REDIS:
        return "redis"
    if scheme == "sentinel":
        return "sentinel"
    if scheme in _AMQP:
        return "amqp"
    raise ValueError(f"{scheme or 'an address without a scheme'}: not redis://, sentinel:// or amqp://")


def split(url: str) -> tuple[str, str]:
    """The address for Celery, and for ``sentinel://a:26379/0;sentinel://b:26379/0?master=relay`` the master's name."""
    if urlsplit(url).scheme != "sentinel":
        return url, ""
    address, _, query = url.partition("?")
    return address, parse_qs(query).get("master", [DEFAULT_MASTER])[0]


def transport_options(url: str) -> dict[str, Any]:
    """Kombu's options for the broker at ``url``. ValueError as in ``kind_of``."""
    if kind_of(url) == "amqp":
        # without it a message that RabbitMQ never took counts as sent; it would come back, seconds later
        return {"confirm_publish": True}
    options: dict[str, Any] = {
        "visibility_timeout": VISIBILITY_S,
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "socket_keepalive": True,
        "retry_on_timeout": True,
    }
    _, master = split(url)
    return {**options, "master_name": master} if master else options


def make_queue(url: str, name: str) -> Queue:
    """A queue of the broker. RabbitMQ's are quorum queues: replicated, on disk, with no leader to lose. Every process
    must declare a queue alike, or RabbitMQ refuses the second."""
    if kind_of(url) == "amqp":
        return Queue(name, durable=True, queue_arguments={"x-queue-type": "quorum"})
    return Queue(name)


@dataclass(frozen=True, slots=True)
class Mark:
    """Called, tells whether our mark was still in the broker, and sets it; raises ERRORS. It keeps a connection until
    ``close``."""

    look: Callable[[], bool]
    close: Callable[[], None]

    def __call__(self) -> bool:
        return self.look()


def make_mark(url: str) -> Mark:
    """The mark by which a broker remembers us. ValueError as in ``kind_of``."""
    if kind_of(url) == "amqp":
        return _amqp_mark(url)
    client = redis_client(url)
    return Mark(lambda: bool(client.set(MARK, uuid.uuid4().hex, get=True)), client.close)


def ping(url: str) -> None:
    """Returns when the broker answers within ANSWER_S. ERRORS, or ValueError for an address it does not know."""
    if kind_of(url) == "amqp":
        with Connection(url, connect_timeout=ANSWER_S) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        return
    client = redis_client(url)
    try:
        client.ping()
    finally:
        client.close()


def redis_client(url: str) -> Redis:
    """A client of Redis or Valkey that never waits longer than ANSWER_S. ValueError for a URL it does not know."""
    if kind_of(url) == "sentinel":
        address, master = split(url)
        parts = [urlsplit(one) for one in address.split(";")]
        hosts = [(part.hostname or "localhost", part.port or 26379) for part in parts]
        times = {"socket_timeout": ANSWER_S, "socket_connect_timeout": ANSWER_S}
        found = Sentinel(hosts, sentinel_kwargs=times, **times)  # type: ignore[no-untyped-call]
        first = parts[0]
        database = first.path.strip("/") or "0"
        who = {"password": first.password, "username": first.username or None}
        client: Redis = found.master_for(master, db=int(database), **who)  # type: ignore[no-untyped-call]
        return client
    return Redis.from_url(_redis_url(url), socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S)


def make_depth(app: Celery, url: str) -> Callable[[str], int]:
    """A function that tells how many messages wait in a queue. It raises ERRORS."""

    def of_redis(queue: str) -> int:
        with app.connection_or_acquire() as connection:
            try:
                return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
            except ChannelError:
                return 0  # an empty queue of Redis does not exist

    def of_amqp(queue: str) -> int:
        with app.connection_or_acquire() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
            channel = connection.channel()  # of its own: asking for a queue that nobody has made closes it
            try:
                return int(channel.queue_declare(queue, passive=True).message_count)
            except ChannelError:
                return 0
            finally:
                with suppress(*ERRORS):
                    channel.close()

    return of_amqp if kind_of(url) == "amqp" else of_redis


def _amqp_mark(url: str) -> Mark:
    """RabbitMQ's mark is a durable queue: it is gone when the broker's disk is, or its virtual host."""
    connection = Connection(url, connect_timeout=ANSWER_S, transport_options=transport_options(url))

    def mark() -> bool:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
            channel = connection.channel()
            try:
                channel.queue_declare(MARK_QUEUE, passive=True)
                return True
            except ChannelError:
                channel = connection.channel()
                channel.queue_declare(MARK_QUEUE, durable=True, auto_delete=False)
                return False
            finally:
                with suppress(*ERRORS):
                    channel.close()
        except ERRORS:
            connection.collect()
            raise

    return Mark(mark, connection.collect)


def _redis_url(url: str) -> str:
    # Celery and redis-py spell the address of a unix socket differently
    if url.startswith("redis+socket://"):
        path, _, query = url.removeprefix("redis+socket://").partition("?")
        db = query.removeprefix("virtual_host=") if query.startswith("virtual_host=") else "0"
        return f"unix://{path}?db={db}"
    return url
