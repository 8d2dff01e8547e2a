"""A model as an agent of the first two stages, on the rules' floor. See docs/agents.md."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from selector.agents.budget import Meter
from selector.agents.critic import Critic
from selector.agents.desk import Desk
from selector.agents.mind import Mind
from selector.agents.port import Asked, Suspect
from selector.agents.records import Journal
from selector.agents.rules import RulesAgent
from selector.agents.suspecting import Suspecting
from selector.agents.triager import Triager
from selector.discover import Discovery, InventoryCache
from selector.model import Change, Stage, Tree
from selector.triage.subject import Opinion, Subject


@dataclass
class ModelAgent:
    """Asks ``mind``, and ``critic`` before a drop; one run of one change. Whatever goes wrong, the rules' answers stand
    and the journal says what it was: a model must not end a selection."""

    mind: Mind
    critic: Mind
    desk: Desk
    meter: Meter
    journal: Journal
    change: Change
    cache: InventoryCache | None = None
    name: str = "model"

    def suspects(self, found: Discovery, change: Change, head: Tree) -> Sequence[Suspect]:
        """What the model suspects."""
        self.desk.inventory, self.desk.tree, self.desk.change = found.inventory, head, change
        try:
            return Suspecting(self.mind, self.desk, self.meter, self.journal).suspects(found, change)
        except Exception as exc:  # noqa: BLE001 - told in the journal, with its place
            self._broke(Stage.DISCOVER, exc)
            return ()

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        """The model's opinions where a line of it was taken, the rules' elsewhere."""
        if not asked:
            return []
        self.desk.inventory, self.desk.sheet = asked[0].subject.inventory, asked[0].subject.capability
        files = self.change.files
        touched = frozenset(path for file in files for path in (file.path, file.old_path) if path)
        critic = Critic(self.critic)
        triager = Triager(
            self.mind, critic, self.desk, self.meter, self.journal, touched, self.cache
        )  # fmt: skip
        try:
            return triager.answers(asked, controls)
        except Exception as exc:  # noqa: BLE001 - told in the journal, with its place
            self._broke(Stage.TRIAGE, exc)
            return RulesAgent().answers(asked, controls)

    def _broke(self, stage: Stage, exc: Exception) -> None:
        place = traceback.extract_tb(exc.__traceback__)[-1]
        reason = f"a fault of the relay's own: {type(exc).__name__} in {place.name}, line {place.lineno}"
        self.journal.add(stage, "model", self.mind.name, "agent-broke", reason, self.meter.used())
