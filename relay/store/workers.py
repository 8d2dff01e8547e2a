"""Workers that said hello, and the op databases they brought."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.store.schema import opdb, worker
from relay.store.upsert import insert_once

ALIVE_S = 90.0
"""A worker says hello every 30 s; three missed and it counts as gone."""


HELD_CHARS = 200


def held(info: Mapping[str, Any]) -> str:
    """Why a worker that is there takes no shards, in its own words, from its ``info``; "" when it takes them."""
    told = info.get("held")
    return str(told.get("why") or "it does not say why")[:HELD_CHARS] if isinstance(told, dict) else ""


def held_s(info: Mapping[str, Any], seen_at: float, now: float) -> float:
    """For how many seconds it has been so; 0: it takes shards."""
    told = info.get("held")
    if not isinstance(told, dict):
        return 0.0
    seconds = told.get("seconds")
    return (float(seconds) if isinstance(seconds, int | float) else 0.0) + max(0.0, now - seen_at)


def hello(conn: Connection, values: dict[str, Any], now: float) -> None:
    """Enrols a worker, or renews what is known of it."""
    row = {**values, "seen_at": now}
    name = row.pop("name")
    if not insert_once(conn, worker, {"name": name, **row}):
        conn.execute(update(worker).where(worker.c.name == name).values(**row))


def alive(conn: Connection, device: str, now: float) -> Sequence[Row[Any]]:
    """Workers of a device that were seen lately."""
    return conn.execute(
        select(worker).where(worker.c.device == device, worker.c.seen_at > now - ALIVE_S).order_by(worker.c.name)
    ).all()


def named(conn: Connection, names: set[str]) -> Sequence[Row[Any]]:
    """The workers of these names that said hello at any time."""
    return conn.execute(select(worker).where(worker.c.name.in_(names))).all()


def of_device(conn: Connection, device: str) -> Sequence[Row[Any]]:
    """Every worker of a device that ever said hello, the one that was heard of last first."""
    return conn.execute(select(worker).where(worker.c.device == device).order_by(worker.c.seen_at.desc())).all()


def all_alive(conn: Connection, now: float) -> Sequence[Row[Any]]:
    """Workers of any device that were seen lately."""
    return conn.execute(select(worker).where(worker.c.seen_at > now - ALIVE_S).order_by(worker.c.name)).all()


def opdb_digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def has_opdb(conn: Connection, torch: str, digest: str | None) -> bool:
    stored = conn.execute(select(opdb.c.digest).where(opdb.c.torch == torch)).scalar_one_or_none()
    return stored is not None and (digest is None or stored == digest)


def store_opdb(conn: Connection, torch: str, body: bytes, now: float) -> None:
    """Keeps the op database (JSON) of a torch version; a newer export replaces the older one."""
    row = {"digest": opdb_digest(body), "body": zlib.compress(body), "stored_at": now}
    if not insert_once(conn, opdb, {"torch": torch, **row}):
        conn.execute(update(opdb).where(opdb.c.torch == torch).values(**row))


def load_opdb(conn: Connection, torch: str) -> dict[str, Any] | None:
    body = conn.execute(select(opdb.c.body).where(opdb.c.torch == torch)).scalar_one_or_none()
    return None if body is None else json.loads(zlib.decompress(body))
