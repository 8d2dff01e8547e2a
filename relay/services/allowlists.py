"""The allowlist in force: read from its file when that changes, parsed before it is swapped in, the last good one kept
(in the database too, so that a restart beside a broken file changes nothing)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy import Engine

from relay.domain.allowlist import Allowlist, parse
from relay.errors import AllowlistError, SettingsError
from relay.settings import Settings
from relay.store import allowlists as versions
from relay.store.db import reading

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Loaded:
    signature: tuple[int, ...] | None
    allowlist: Allowlist | None
    error: AllowlistError | None


_lock = threading.Lock()
_loaded: dict[tuple[str, str], _Loaded] = {}


def read(settings: Settings) -> tuple[Allowlist, str]:
    """The file as it is now, parsed, and its text. Raises SettingsError when no file is set, AllowlistError when it
    cannot be used."""
    if not settings.allowlist:
        raise SettingsError("allowlist: no file is set", "set `allowlist` to the path of the allowlist YAML")
    path = Path(settings.allowlist)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        line = path.read_bytes()[: exc.start].count(b"\n") + 1
        raise AllowlistError(str(path), line, 1, "not UTF-8 text", "save the file as UTF-8") from exc
    except OSError as exc:
        raise AllowlistError(str(path), 1, 1, f"cannot be read: {exc.strerror or exc}", "check the path") from exc
    return parse(text, str(path)), text


def current(engine: Engine, settings: Settings, now: float) -> Allowlist:
    """The allowlist in force. A broken file is logged once and the last good version stays in force; AllowlistError
    when there never was one, SettingsError when no file is set."""
    key = (str(engine.url), settings.allowlist)
    with _lock:
        known = _loaded.get(key)
        signature = _signature(settings)
        if known is None or known.signature != signature or signature is None:
            known = _load(engine, settings, known, signature, now)
            _loaded[key] = known
    if known.allowlist is None:
        assert known.error is not None
        raise known.error
    return known.allowlist


def problem(engine: Engine, settings: Settings) -> AllowlistError | None:
    """What is wrong with the file that ``current`` last looked at; None: nothing."""
    known = _loaded.get((str(engine.url), settings.allowlist))
    return known.error if known else None


def _load(
    engine: Engine, settings: Settings, known: _Loaded | None, signature: tuple[int, ...] | None, now: float
) -> _Loaded:
    try:
        allowlist, text = read(settings)
    except AllowlistError as exc:
        if known is None or known.error is None or str(known.error) != str(exc):
            log.error("allowlist not usable, the last good one stays", error=str(exc))
        good = known.allowlist if known else None
        return _Loaded(signature, good or _last_good(engine), exc)
    with engine.begin() as conn:
        if versions.remember(conn, source=settings.allowlist, text=text, now=now):
            log.info("allowlist in force", source=settings.allowlist, entries=len(allowlist.entries))
    for warning in allowlist.warnings:
        log.warning("allowlist", problem=warning)
    return _Loaded(signature, allowlist, None)


def _last_good(engine: Engine) -> Allowlist | None:
    with reading(engine) as conn:
        row = versions.newest(conn)
    if row is None:
        return None
    try:
        return parse(row.text, row.source)
    except AllowlistError as exc:  # stored by an older release with a wider grammar
        log.error("stored allowlist not usable", error=str(exc))
        return None


def _signature(settings: Settings) -> tuple[int, ...] | None:
    """Changes when the file does; None when there is no file to look at."""
    try:
        stat = Path(settings.allowlist).stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
