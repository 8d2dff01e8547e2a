"""``Depends-On`` for runs on our own workers: the sheet and configs of the downstream's pull request that the change's
text names, in place of ours. The workers emulate the device, so these are all of the downstream that they use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import Connection, Engine, Row, update

from relay.domain import depends
from relay.errors import RelayError
from relay.github.reads import Place, Reader
from relay.services import allowlists
from relay.services.device_configs import CAPABILITY, DeviceConfigs, device_of, load_device
from relay.services.readers import make_reader
from relay.settings import Settings
from relay.store import deliveries, dispatches, repositories
from relay.store.db import reading
from relay.store.schema import dispatch
from selector.configs import ConfigSource
from selector.errors import ConfigError

MAX_FILES = 200
AT_ONCE = 8
NO_FOLDER = "the allowlist does not say where its configs are (`configs`)"


class Unusable(RelayError):
    """What the named pull request holds cannot be used; with anything else the run would answer another question."""


def device_for(engine: Engine, settings: Settings, run: Row[Any], claim: str, now: float) -> DeviceConfigs:
    """The sheet and configs that ``run`` is to be selected and run with. What the change's text names is looked up once
    and kept in the run's ``pin`` at once ({repo, number, sha, state}, or {repo, number, problem} where it is not
    followed), so that another try, and a rerun, take the same commit. Raises Unusable, Unavailable (GitHub cannot be
    asked now), AllowlistError, SettingsError, ConfigError (ours)."""
    with reading(engine) as conn:
        named = _named(conn, settings, run)
    pinned = run.pin or {}
    if not pinned.get("sha") and named is None:
        return load_device(settings.configs_dir)
    entry = allowlists.current(engine, settings, now).find(run.downstream)
    folder = entry.configs if entry is not None else None
    reader = make_reader(settings)
    try:
        pin = pinned if pinned.get("sha") or named is None else _pin(reader, run, named, folder)
        if pin is not run.pin:
            with engine.begin() as conn:
                mine = update(dispatch).where(dispatch.c.id == run.id, dispatch.c.claim == claim)
                conn.execute(mine.values(pin=pin))
        if not pin.get("sha"):
            return load_device(settings.configs_dir)
        if folder is None:
            raise _unusable(pin, NO_FOLDER)
        return _read(reader, run.device or settings.device, pin, folder)
    finally:
        reader.close()


def _named(conn: Connection, settings: Settings, run: Row[Any]) -> depends.Dependency | None:
    first = dispatches.first_of(conn, run)
    told = deliveries.get(conn, first.delivery_id) if first is not None else None
    text = depends.text_of(deliveries.unpack(told.body)) if told is not None and told.body is not None else ""
    if not text:
        return None
    key = run.downstream.casefold()
    known = repositories.of_names(conn, [key]).get(key)
    names = {key} | (repositories.keys_of(conn, known.id) if known is not None else set())
    return depends.of_repository(text, names, settings.github_url)


def _pin(reader: Reader, run: Row[Any], named: depends.Dependency, folder: str | None) -> dict[str, Any]:
    pin: dict[str, Any] = {"repo": run.downstream, "number": named.number}
    if not run.author_trusted:
        return {**pin, "problem": depends.not_trusted(run.author, run.downstream)}
    if folder is None:
        return {**pin, "problem": NO_FOLDER}
    head = depends.head_of(reader.pull(run.downstream, named.number))
    return {**pin, "problem": depends.NOT_THERE} if head is None else {**pin, **head}


def _read(reader: Reader, device_name: str, pin: dict[str, Any], folder: str) -> DeviceConfigs:
    def text(name: str) -> ConfigSource:
        found = reader.file(Place(pin["repo"], pin["sha"], f"{folder}/{name}"), None)
        return ConfigSource(name, found.text or "")

    try:
        names = reader.folder(Place(pin["repo"], pin["sha"], folder))
        wanted = [name for name in names if name.endswith(".yaml")]
        if CAPABILITY not in wanted or not 2 <= len(wanted) <= MAX_FILES:
            raise _unusable(pin, f"{folder} has to hold {CAPABILITY} and 1 to {MAX_FILES - 1} reuse configs")
        with ThreadPoolExecutor(AT_ONCE, "configs") as threads:
            texts = list(threads.map(text, wanted))
        device = device_of(next(one.text for one in texts if one.name == CAPABILITY), texts)
    except (FileNotFoundError, ValueError, ConfigError) as exc:
        raise _unusable(pin, str(exc)) from exc
    if device.capability.device != device_name:
        raise _unusable(pin, f"{CAPABILITY} is of the device {device.capability.device}, and not of {device_name}")
    return device


def _unusable(pin: dict[str, Any], why: str) -> Unusable:
    place = f"{pin['repo']}#{pin['number']} at {str(pin['sha'])[:10]}"
    return Unusable(f"Depends-On: {place} cannot be used: {why}", "mend it there, or take the line out of the text")
