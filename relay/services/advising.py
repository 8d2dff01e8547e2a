"""Agents as the live relay uses them: built from the settings for one run, and their records stored beside its plan."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import structlog
from sqlalchemy import Connection

from relay.agents.endpoint import connector, name_of, need_library
from relay.agents.secrets import known_secrets
from relay.errors import RelayError, SettingsError
from relay.services import caches
from relay.services.exploring import Learned
from relay.settings import Settings
from relay.store import agents
from selector.agents import Agent, RulesAgent
from selector.agents.advisor import ModelAgent
from selector.agents.budget import Meter
from selector.agents.desk import Desk, Past
from selector.agents.mind import Mind
from selector.agents.records import Journal
from selector.agents.scrub import Scrubber
from selector.configs import Capability
from selector.discover import InventoryCache
from selector.model import Change, Stage, TestId, Tree

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Advice:
    """Who is asked in one run. ``model`` None: nobody but the rules."""

    settings: Settings
    model: ModelAgent | None

    @property
    def in_force(self) -> bool:
        return self.settings.agents.mode == "on"

    @property
    def agent(self) -> Agent:
        """Whose answers count."""
        return self.model if self.model is not None and self.in_force else RulesAgent()

    @property
    def on_trial(self) -> tuple[Agent, ...]:
        """Who is asked the same without effect."""
        return (self.model,) if self.model is not None and not self.in_force else ()

    @property
    def room_s(self) -> float:
        return self.settings.agents.room_seconds if self.model is not None else 0.0

    def store(self, conn: Connection, dispatch_id: str, device: str, now: float) -> None:
        """Keeps what was asked and said; replaces what an earlier, interrupted selection left."""
        agents.drop(conn, dispatch_id, (Stage.DISCOVER, Stage.TRIAGE))
        if self.model is not None:
            records = self.model.journal.records
            agents.add(conn, records, dispatch_id=dispatch_id, device=device, in_force=self.in_force, now=now)


def in_force(settings: Settings, who: str) -> Settings:
    """The settings for somebody (``who``, for the message) who asks for a model on a terminal and looks at what comes
    of it, whatever a relay may do by itself. SettingsError where they name none."""
    told = settings.agents
    if not told.url or not told.model:
        hint = "give a relay.toml with --config, or RELAY_AGENTS__URL and RELAY_AGENTS__MODEL (docs/agents.md)"
        raise SettingsError(f"{who}: the settings name no model", hint)
    return settings.model_copy(update={"agents": told.model_validate({**told.model_dump(), "mode": "on"})})


class Desks:
    """What every question of this process needs: the scrubber and the models. ``cache``: where answers are kept; None:
    in the relay's folder."""

    def __init__(self, settings: Settings, cache: InventoryCache | None = None) -> None:
        self.settings = settings
        self.scrub = Scrubber(known_secrets(settings))
        self.cache = cache if cache is not None else caches.cache(settings, "agents")

    @cached_property
    def mind(self) -> Mind:
        """SettingsError where the extra is not installed or the key cannot be read."""
        return self._mind(self.settings.agents.model)

    @cached_property
    def critic(self) -> Mind:
        return self._mind(self.settings.agents.critic_model) if self.settings.agents.critic_model else self.mind

    def meter(self) -> Meter:
        return Meter(self.settings.agents.limits, self.settings.agents.prices, time.monotonic)

    def journal(self) -> Journal:
        return Journal(self.scrub)

    def _mind(self, model: str) -> Mind:
        need_library()
        from selector.agents.model import ModelMind

        told = self.settings.agents
        connect = connector(told, model, told.read_key())
        return ModelMind(name_of(told, model), connect, self.scrub, time.time, self.cache)


def advice(
    settings: Settings,
    change: Change,
    head: Tree,
    sheet: Capability,
    learned: Learned | None = None,
    cache: InventoryCache | None = None,
) -> Advice:
    """Who is asked about ``change``. SettingsError where a model is wanted that cannot be asked at all."""
    if settings.agents.mode == "off":
        return Advice(settings, None)
    desks = Desks(settings, cache)
    desk = Desk(desks.scrub, head, sheet=sheet, change=change, past=past_of(learned))
    return Advice(
        settings, ModelAgent(desks.mind, desks.critic, desk, desks.meter(), desks.journal(), change, desks.cache)
    )


def advice_or_rules(
    settings: Settings, change: Change, head: Tree, sheet: Capability, learned: Learned | None = None
) -> Advice:
    """The same for a run that must go on: a model that cannot be asked is said in the log, and the rules decide."""
    try:
        return advice(settings, change, head, sheet, learned)
    except RelayError as exc:
        log.warning("no model is asked: the rules decide alone", error=str(exc))
        return Advice(settings, None)


def usable(settings: Settings) -> bool:
    """Whether a model is wanted and can be asked at all; where only the first, the log says why, once a start."""
    if settings.agents.mode == "off":
        return False
    try:
        need_library()
        settings.agents.read_key()
    except RelayError as exc:
        log.warning("no model is asked: the rules decide alone", error=str(exc))
        return False
    return True


def past_of(learned: Learned | None) -> dict[TestId, Past]:
    """What trunk's own runs showed, as an agent may read it."""
    if learned is None:
        return {}
    history = learned.history
    tests = {*history.variant_seconds, *learned.kernels, *history.broke}
    return {
        test: Past(
            learned.kernels.get(test, 0 if test in history.touched else None),
            history.variant_seconds.get(test),
            *history.broke.get(test, (0, 0)),
            test in learned.idle,
        )
        for test in tests
    }
