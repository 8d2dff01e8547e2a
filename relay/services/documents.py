"""Documents that steer the relay (allowlist, table of CI providers), from a file here or on GitHub: parsed before they
are swapped in, the last good one kept, in the database too, so that a restart beside a broken one changes nothing.

A local file is looked at whenever it is asked for. One on GitHub is fetched by a chore (relay.chores) alone, which
leaves each version in the database: whatever happens on the relay's routes, GitHub hears nothing of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy import Engine

from relay.errors import DocumentError, SettingsError, Unavailable
from relay.github.reads import Place, Reader, place_of
from relay.settings import Settings
from relay.store import allowlists as versions
from relay.store import chores
from relay.store.db import reading

log = structlog.get_logger(__name__)
T = TypeVar("T")
LOOK_S = 1.0
"""A process asks the database at most so often whether another version came."""


@dataclass
class _Loaded(Generic[T]):
    signature: object
    value: T | None
    error: DocumentError | None
    looked_at: float


class Document(Generic[T]):
    """A document of ``kind`` (also the name of its setting and of its chore). ``parse(text, source)`` reads it and
    raises ``error``."""

    def __init__(self, kind: str, parse: Callable[[str, str], T], error: type[DocumentError]) -> None:
        self.kind = kind
        self._parse = parse
        self._error = error
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, str], _Loaded[T]] = {}

    def source(self, settings: Settings) -> str:
        return str(getattr(settings, self.kind))

    def place(self, settings: Settings) -> Place | None:
        """Where it is on GitHub; None: it is a local file. SettingsError for a URL that is no file on GitHub."""
        source = self.source(settings)
        place = place_of(source, settings.github_url)
        if place is None and source.startswith(("https:", "http:")):
            hint = f"write {settings.github_url}/<owner>/<repo>/blob/<branch>/<path>"
            raise SettingsError(f"{self.kind}: {source} is not the page of a file on GitHub", hint)
        return place

    def read(self, settings: Settings) -> tuple[T, str]:
        """The local file as it is now, parsed, and its text. SettingsError when none is set, DocumentError when it
        cannot be used."""
        source = self.source(settings)
        if not source:
            raise SettingsError(f"{self.kind}: no file is set", f"set `{self.kind}` to the path of the YAML")
        path = Path(source)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as exc:
            line = path.read_bytes()[: exc.start].count(b"\n") + 1
            raise self._error(source, line, 1, "not UTF-8 text", "save the file as UTF-8") from exc
        except OSError as exc:
            raise self._error(source, 1, 1, f"cannot be read: {exc.strerror or exc}", "check the path") from exc
        return self._parse(text, source), text

    def current(self, engine: Engine, settings: Settings, now: float) -> T:
        """The document in force. A broken one is logged once and the last good version stays in force; DocumentError
        when there never was one, SettingsError when none is set."""
        key = (str(engine.url), self.source(settings))
        with self._lock:
            known = self._loaded.get(key)
            if self.place(settings) is None:
                known = self._of_file(engine, settings, known, now)
            elif known is None or time.monotonic() - known.looked_at >= LOOK_S:
                known = self._of_database(engine, settings, known)
            self._loaded[key] = known
        if known.value is None:
            assert known.error is not None
            raise known.error
        return known.value

    def problem(self, engine: Engine, settings: Settings) -> DocumentError | None:
        """What is wrong with what ``current`` last looked at; None: nothing."""
        known = self._loaded.get((str(engine.url), self.source(settings)))
        return known.error if known else None

    def forget(self) -> None:
        """Knows as much as a new process."""
        self._loaded.clear()

    def fetch(self, engine: Engine, settings: Settings, reader: Reader, memory: dict[str, Any], now: float) -> Any:
        """Looks at the file on GitHub, by a conditional request; -> what the next look should know. A version that can
        be used becomes the one in force. DocumentError, Unavailable."""
        place = self.place(settings)
        assert place is not None
        source = self.source(settings)
        etag = memory.get("etag") if memory.get("source") == source else None
        try:
            found = reader.file(place, etag)
        except FileNotFoundError as exc:
            raise self._error(source, 1, 1, "is not there", "check the address, and that the App may read it") from exc
        except ValueError as exc:
            raise self._error(source, 1, 1, f"cannot be read: {exc}", "it must be UTF-8 text") from exc
        if found.text is None:
            return memory
        self._parse(found.text, source)
        with engine.begin() as conn:
            if versions.remember(conn, source=source, text=found.text, now=now, kind=self.kind):
                log.info("document in force", kind=self.kind, source=source)
        return {"source": source, "etag": found.etag}

    def touched_by(self, settings: Settings, push: Any) -> bool:
        """Whether a push (a webhook's body) may have changed the file on GitHub: then it is worth a look at once."""
        place = place_of(self.source(settings), settings.github_url)
        repo = push.get("repository") if isinstance(push, dict) else None
        if place is None or not isinstance(repo, dict):
            return False
        if str(repo.get("full_name")).casefold() != place.repo.casefold():
            return False
        return push.get("ref") in (f"refs/heads/{place.ref}", place.ref)

    def _of_file(self, engine: Engine, settings: Settings, known: _Loaded[T] | None, now: float) -> _Loaded[T]:
        signature = _signature(self.source(settings))
        if known is not None and known.signature == signature is not None:
            return known
        try:
            value, text = self.read(settings)
        except DocumentError as exc:
            self._complain(known, exc)
            return _Loaded(signature, (known.value if known else None) or self._last_good(engine), exc, 0.0)
        with engine.begin() as conn:
            if versions.remember(conn, source=self.source(settings), text=text, now=now, kind=self.kind):
                log.info("document in force", kind=self.kind, source=self.source(settings))
        for warning in getattr(value, "warnings", ()):
            log.warning(self.kind, problem=warning)
        return _Loaded(signature, value, None, 0.0)

    def _of_database(self, engine: Engine, settings: Settings, known: _Loaded[T] | None) -> _Loaded[T]:
        with reading(engine) as conn:
            signature = versions.stamp(conn, self.kind)
            chore = chores.get(conn, self.kind)
        error = None
        if signature is None:
            said = chore.error if chore is not None and chore.error else "it was not fetched yet"
            error = self._error(self.source(settings), 1, 1, said, "the pump fetches it; see its log")
        value = known.value if known and known.signature == signature else self._last_good(engine)
        if value is None and error is None:
            error = self._error(self.source(settings), 1, 1, "the stored version cannot be used", "see the log")
        return _Loaded(signature, value, error, time.monotonic())

    def _complain(self, known: _Loaded[T] | None, exc: DocumentError) -> None:
        if known is None or known.error is None or str(known.error) != str(exc):
            log.error(f"{self.kind} not usable, the last good one stays", error=str(exc))

    def _last_good(self, engine: Engine) -> T | None:
        with reading(engine) as conn:
            row = versions.newest(conn, self.kind)
        if row is None:
            return None
        try:
            return self._parse(row.text, row.source)
        except DocumentError as exc:  # stored by an older release with a wider grammar
            log.error("stored document not usable", kind=self.kind, error=str(exc))
            return None


def fetch_now(document: Document[Any], engine: Engine, settings: Settings, reader: Reader, now: float) -> None:
    """For a process that cannot begin without the document: fetches it unless a version is at hand. DocumentError,
    SettingsError."""
    if document.place(settings) is None:
        return
    with reading(engine) as conn:
        if versions.stamp(conn, document.kind) is not None:
            return
    try:
        memory = document.fetch(engine, settings, reader, {}, now)
    except Unavailable as exc:
        raise SettingsError(
            f"{document.kind}: {exc.message}", "the first start needs it; later an outage is fine"
        ) from exc
    with engine.begin() as conn:
        chores.claim(conn, document.kind, now, 0.0)
        chores.finish(conn, document.kind, now, memory=memory, error=None)


def _signature(source: str) -> tuple[int, ...] | None:
    """Changes when the file does; None when there is no file to look at."""
    try:
        stat = Path(source).stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
