"""The allowlist in force, with every repository under the name it has now (relay.services.documents)."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine

from relay.domain.allowlist import Allowlist, Entry, parse
from relay.errors import AllowlistError, DocumentError
from relay.services.documents import LOOK_S, Document
from relay.settings import Settings
from relay.store import repositories
from relay.store.db import reading

DOCUMENT: Document[Allowlist] = Document("allowlist", parse, AllowlistError)
CHORE = DOCUMENT.kind
read = DOCUMENT.read
touched_by = DOCUMENT.touched_by


@dataclass(frozen=True)
class _Named:
    listed: Allowlist
    stamp: tuple[int, float]
    named: Allowlist
    looked_at: float


_lock = threading.Lock()
_named: dict[str, _Named] = {}


def current(engine: Engine, settings: Settings, now: float, *, names_of_now: bool = False) -> Allowlist:
    """The allowlist in force. A broken file is logged once and the last good version stays in force; AllowlistError
    when there never was one, SettingsError when none is set. ``names_of_now``: a rename of this very second counts."""
    listed = DOCUMENT.current(engine, settings, now)
    key = str(engine.url)
    with _lock:
        known = _named.get(key)
        fresh = known is not None and known.listed is listed
        if known is not None and fresh and not names_of_now and time.monotonic() - known.looked_at < LOOK_S:
            return known.named
        with reading(engine) as conn:
            stamp = repositories.stamp(conn)
            if known is None or not fresh or known.stamp != stamp:
                named = under_present_names(conn, listed)
            else:
                named = known.named
        _named[key] = _Named(listed, stamp, named, time.monotonic())
        return named


def problem(engine: Engine, settings: Settings) -> DocumentError | None:
    """What is wrong with the file that ``current`` last looked at; None: nothing."""
    return DOCUMENT.problem(engine, settings)


def forget() -> None:
    """Knows as much as a new process."""
    DOCUMENT.forget()
    _named.clear()


def under_present_names(conn: Connection, listed: Allowlist) -> Allowlist:
    """``listed`` with the repositories' numbers where they are known, and the names that they have now. Of two entries
    that turn out to be one repository, the one that has its present name stays."""
    by_name = repositories.of_names(conn, [entry.key for entry in listed.entries])
    pinned = repositories.of_ids(conn, [entry.id for entry in listed.entries if entry.id is not None])
    entries: dict[object, Entry] = {}
    for entry in listed.entries:
        known = by_name.get(entry.key)
        number = entry.id if entry.id is not None else known.id if known else None
        name = pinned.get(entry.id) if entry.id is not None else known.name if known else None
        now = replace(entry, id=number)
        if name is not None and number is not None and name.casefold() != entry.key:
            now = replace(now, repo=name, key=name.casefold(), listed=entry.repo)
        # an entry without a number is itself alone
        twin = entries.get(number) if number is not None else None
        if twin is None or twin.listed is not None:
            entries[number if number is not None else entry.key] = now
    return replace(listed, entries=tuple(entries.values()))
