"""A device's sheet and configs as shards were given them, each once: some 50 KB, and a run has dozens of shards.

A stored shard's spec names them by digest under ``setup``; a lease hands them out whole (`whole`). Content never
changes under a digest, so that equal digests mean equal sheets and configs.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, select, update

from relay.errors import NotFound
from relay.store.schema import setup
from relay.store.upsert import insert_once

PARTS = ("capability", "configs")
USED_S = 3600.0
"""A digest in use is noted again after so many seconds; retention goes by it."""


def fold(conn: Connection, specs: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
    """The specs as they are stored: sheet and configs by digest. Those that have one already keep it."""
    folded, bodies = [], {}
    for spec in specs:
        slim = {name: value for name, value in spec.items() if name not in PARTS}
        text = _text(spec)
        if text is not None:
            slim["setup"] = _digest(text)
            bodies[slim["setup"]] = text
        folded.append(slim)
    for digest in sorted({str(one["setup"]) for one in folded if "setup" in one}):
        _keep(conn, digest, bodies.get(digest), now)
    return folded


def whole(conn: Connection, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec as a worker gets it. NotFound when its sheet and configs are gone."""
    if "setup" not in spec:
        return dict(spec)
    digest = str(spec["setup"])
    body = conn.execute(select(setup.c.body).where(setup.c.digest == digest)).scalar_one_or_none()
    if body is None:
        raise NotFound(
            f"the sheet and configs {digest[:12]} of this shard are no longer stored",
            "rerun the check: a new run is given the device's present ones",
        )
    parts = _opened(bytes(body))
    return {**{name: value for name, value in spec.items() if name != "setup"}, **parts}


def _keep(conn: Connection, digest: str, text: str | None, now: float) -> None:
    used = update(setup).where(setup.c.digest == digest, setup.c.used_at < now - USED_S).values(used_at=now)
    there = conn.execute(select(setup.c.digest).where(setup.c.digest == digest)).first() is not None
    if not there and text is not None:
        body = zlib.compress(text.encode("utf-8", "surrogateescape"), 6)
        insert_once(conn, setup, {"digest": digest, "body": body, "used_at": now})
    else:
        conn.execute(used)


def digest_of(spec: Mapping[str, Any]) -> str | None:
    """The digest of a spec's sheet and configs, stored or whole; None where it has none."""
    text = _text(spec)
    return _digest(text) if text is not None else spec.get("setup")


def _text(spec: Mapping[str, Any]) -> str | None:
    parts = {name: spec[name] for name in PARTS if name in spec}
    return json.dumps(parts, sort_keys=True, ensure_ascii=False) if parts else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


@lru_cache(maxsize=8)
def _opened(body: bytes) -> dict[str, Any]:
    parts: dict[str, Any] = json.loads(zlib.decompress(body).decode("utf-8", "surrogateescape"))
    return parts
