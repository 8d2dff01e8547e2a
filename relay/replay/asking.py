"""Asks a model about the faults of a replay, as a run would ask it about their diffs, and records what it said."""

from __future__ import annotations

import time
from pathlib import Path

from relay.errors import SettingsError
from relay.replay.recorded import Noting, read_recorded, write_recorded
from relay.replay.selecting import case_of, change_of
from relay.replay.session import Session
from relay.services import advising
from relay.settings import Settings
from selector.replay.model import Fault
from selector.replay.strategies import Recorded


def asked(replay: Session, settings: Settings, out: Path, limit: int | None = None) -> dict[str, Recorded]:
    """What the model says of every fault that the pool reaches, ``limit`` of them at most; kept in ``out`` after each,
    so that a run that was cut off goes on. SettingsError where the settings name no model, or ``out`` is of another.

    A fault that the model did not answer for (no time, no room, an endpoint that is away) is not in the file, so that
    the next run asks it again.
    """
    by = settings.agents.model
    answers = read_recorded(out) if out.exists() else {}
    other = {one.by for one in answers.values()} - {by}
    if other:
        raise SettingsError(f"{out} holds the answers of {', '.join(sorted(other))}", "give another --out")
    pool = replay.pool()
    faults = [fault for fault in replay.first(limit, pool) if pool.reached(fault.id)]
    for fault in faults:
        if fault.id in answers:
            continue
        said, ended = _ask(replay, settings, fault)
        if said is None:
            replay.say(f"{fault.id}: {ended}")
            continue
        answers[fault.id] = said
        write_recorded(out, by, answers)
        replay.say(f"{fault.id}: {len(said.suspects)} tests suspected, {len(said.drop)} dropped; {ended}")
    return answers


def _ask(replay: Session, settings: Settings, fault: Fault) -> tuple[Recorded | None, str]:
    """(what was said, how the questions ended); None for what was said where a question had no answer."""
    ground = replay.ground
    head, change = change_of(fault, ground)
    advice = advising.advice(settings, change, head, ground.device.capability, cache=ground.cache)
    assert advice.model is not None
    noting = Noting(advice.agent)
    began = time.monotonic()
    case_of(fault, ground, agent=noting, room_s=advice.room_s)
    records = advice.model.journal.records
    codes = sorted({record.code for record in records})
    if not set(codes) <= {"agent-answered", "agent-cached"}:
        return None, ", ".join(codes)
    usd = sum((record.used.usd for record in records), 0.0)
    waited = sum((record.used.seconds for record in records), 0.0)
    said = Recorded(noting.suspected, noting.dropped, usd, waited, settings.agents.model)
    return said, f"{len(records)} questions, {time.monotonic() - began:.1f} s"
