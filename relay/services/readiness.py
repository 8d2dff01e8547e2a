"""Whether a relay can do its work, part by part: for /readyz and ``relay doctor``."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from relay.services.secret_files import webhook_secrets
from relay.settings import Settings
from relay.store import chores
from relay.store.db import reading
from relay.store.migrating import look

BROKER = "broker"
"""The chore by which a pump tells that it is there, and what it sees of the broker (relay.pump)."""
QUIET_S = 90.0
"""A pump writes twice a minute."""
NO_PUMP = "no pump is heard of"


@dataclass(frozen=True, slots=True)
class Part:
    """``problem`` None: it is well. ``needed``: without it nothing can be taken in, so nobody is to be sent here."""

    name: str
    problem: str | None = None
    needed: bool = True
    hint: str = ""
    value: str = "ok"


def parts(engine: Engine, settings: Settings, now: float) -> list[Part]:
    """Every part of the relay, from the database to the broker. Raises nothing that a part can tell."""
    found = [_secrets(settings)]
    try:
        with reading(engine) as conn:
            schema = look(conn)
            pump = chores.get(conn, BROKER) if schema.fits else None
    except SQLAlchemyError as exc:
        problem = f"the database does not answer: {type(exc).__name__}"
        return [Part("database", problem, hint="see the log of this process"), *found]
    found.insert(0, Part("database"))
    if not schema.fits:
        problem = f"the database has schema {schema.found or 'none'}, this release needs {schema.wanted}"
        return [*found, Part("schema", problem, hint="start the relay: it migrates")]
    found.insert(1, Part("schema", value=str(schema.found)))
    heard = pump is not None and pump.ran_at is not None and now - pump.ran_at < QUIET_S
    # what comes in is kept meanwhile: these keep nobody from sending it
    found.append(Part("pump", None if heard else NO_PUMP, needed=False, hint="start `python -m relay.pump`"))
    if heard and pump is not None:
        broken = f"it does not answer the pump: {pump.error}" if pump.error else None
        found.append(Part("broker", broken, needed=False, hint="docs/runbooks.md#the-broker-is-lost"))
    return found


def _secrets(settings: Settings) -> Part:
    if webhook_secrets(settings):
        return Part("webhook")
    return Part("webhook", "no webhook secret is configured", False, "set webhook_secrets or webhook_secrets_file")
