"""What is done every so often, whoever asks: documents on GitHub, deliveries that never arrived, old rows.

Runs as a thread of the pump. The database says what is due and who does it, so any number of pumps share the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from relay.errors import RelayError
from relay.github.reads import Reader
from relay.services import (
    advising,
    allowlists,
    bisecting,
    explaining,
    following,
    gates,
    levelling,
    nights,
    proposing,
    providers,
    reconciling,
    rerunning,
    retaining,
    sweeping,
    tidying,
    traces,
)
from relay.services.readers import make_reader
from relay.settings import Settings
from relay.store import chores
from relay.store.db import open_engine, reading

log = structlog.get_logger(__name__)
TICK_S = 1.0
TIDY_S = 900.0
FORGET_S = 900.0
SWEEP_S = 10.0
LEVELS_S = 3600.0
SEARCH_S = 4.0
OUTAGES_S = 4.0
PROPOSE_S = 3600.0
CAUSES_S = 5.0


@dataclass(frozen=True)
class Chore:
    """``run(memory, now)`` gets what the last time left and returns what the next one gets."""

    name: str
    every_s: float
    run: Callable[[dict[str, Any], float], dict[str, Any]]


def chores_of(engine: Engine, settings: Settings, reader: Reader) -> list[Chore]:
    """The chores that these settings ask for."""

    def fetching(document: Any) -> Chore:
        return Chore(document.kind, settings.document_s, lambda m, n: document.fetch(engine, settings, reader, m, n))

    found = [
        Chore("tidy", TIDY_S, lambda m, n: tidying.tidy(engine, settings, n)),
        Chore("deadlines", SWEEP_S, lambda m, n: sweeping.sweep(engine, settings, m, n)),
        Chore("reruns", TICK_S, lambda m, n: rerunning.step(engine, settings, n)),
        Chore("places", SWEEP_S / 2, lambda m, n: {"sent again": gates.revive_if_any(engine, n)}),
        Chore("outages", OUTAGES_S, lambda m, n: gates.look_for_an_end(engine, m, n)),
        Chore("searches", SEARCH_S, lambda m, n: {"answered": bisecting.go_on(engine, settings, n)}),
        Chore("proposals", PROPOSE_S, lambda m, n: dict(proposing.refresh(engine, settings, n))),
        Chore("levels", LEVELS_S, lambda m, n: levelling.step(engine, settings, n)),
    ]
    found += [fetching(d) for d in (allowlists.DOCUMENT, providers.DOCUMENT) if d.place(settings) is not None]
    if reconciling.possible(settings):
        grace = min(reconciling.GRACE_S, settings.reconcile_s)
        found.append(
            Chore(
                reconciling.CHORE,
                settings.reconcile_s,
                lambda m, n: reconciling.reconcile(engine, reader, m, n, grace),
            )
        )
    return found


def slow_chores_of(engine: Engine, settings: Settings) -> list[Chore]:
    """Those that may take minutes (a first fetch of upstream): they run beside the others."""
    found = []
    if settings.nightly_ref:
        found.append(Chore("nights", settings.nightly_look_s, lambda m, n: nights.look(engine, settings, m, n)))
    if settings.trace_seconds:
        found.append(Chore(traces.CHORE, following.LOOK_S, lambda m, n: following.step(engine, settings, m, n)))
    if advising.usable(settings):
        found.append(Chore("agents: causes", CAUSES_S, lambda m, n: explaining.causes(engine, settings, m, n)))
        found.append(Chore("agents: configs", PROPOSE_S, lambda m, n: explaining.configs(engine, settings, n)))
    return found


def long_chores_of(engine: Engine, settings: Settings) -> list[Chore]:
    """What may have much to do, and can wait: nothing else waits behind it."""
    return [Chore("retention", FORGET_S, lambda m, n: retaining.forget(engine, settings, n))]


def step(engine: Engine, found: list[Chore], now: float) -> list[str]:
    """Does what is due; -> the names of it. What goes wrong is logged, kept in the chore's row, and tried next time."""
    with reading(engine) as conn:
        rows = {chore.name: chores.get(conn, chore.name) for chore in found}
    done = []
    for chore in found:
        row = rows[chore.name]
        if row is not None and row.due_at > now:
            continue
        with engine.begin() as conn:
            memory = chores.claim(conn, chore.name, now, chore.every_s)
        if memory is None:
            continue
        error, after = None, None
        try:
            after = chore.run(memory, now)
        except (OperationalError, InterfaceError):
            raise  # the database, not the chore: of a connection that is gone drivers say the one or the other
        except RelayError as exc:
            error = str(exc)
            log.warning("chore failed", chore=chore.name, error=error)
        except Exception as exc:
            # a fault of one must not end the others
            error = f"{type(exc).__name__}: {exc}"
            log.exception("chore failed", chore=chore.name)
        with engine.begin() as conn:
            chores.finish(conn, chore.name, now, memory=after, error=error)
        done.append(chore.name)
    return done


def run(settings: Settings, stop: threading.Event) -> None:
    """Looks every second until ``stop``. A database that is away for a while is waited for."""
    engine = open_engine(settings.database)
    reader = make_reader(settings)
    found = chores_of(engine, settings, reader)
    for beside in (slow_chores_of(engine, settings), long_chores_of(engine, settings)):
        if beside:
            threading.Thread(target=_repeat, args=(engine, beside, stop), name=beside[0].name, daemon=True).start()
    _repeat(engine, found, stop)
    reader.close()
    engine.dispose()


def _repeat(engine: Engine, found: list[Chore], stop: threading.Event) -> None:
    asks = any(chore.name == reconciling.CHORE for chore in found)
    away = False
    while not stop.wait(TICK_S):
        try:
            if away and asks:
                # a look that was claimed when the database went is not due again for minutes
                reconciling.ask_soon(engine, time.time())
            away = False
            step(engine, found, time.time())
        except DBAPIError as exc:
            away = True
            log.warning("database does not answer", error=str(exc.orig))
            stop.wait(5.0)
