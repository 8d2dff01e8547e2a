"""Where a rule puts what it finds: among the findings, or, on trial, where nobody acts upon it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from selector.discover.findings import Findings, Impact
from selector.model import Stage
from selector.trials import Differences, name_of, on_trial


class Watch:
    """The findings in force, and those of each rule on trial, of which a fault ends its own trial alone."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.differences = Differences(Stage.DISCOVER)
        self._trials: dict[str, Findings] = {}

    @contextmanager
    def ask(self, rule: ModuleType) -> Iterator[Findings]:
        """The findings that this rule adds to."""
        if not on_trial(rule):
            yield self.findings
            return
        name = name_of(rule)
        with self.differences.watched(name):
            yield self._trials.setdefault(name, Findings(self.findings.inventory))

    def impacts(self) -> dict[str, tuple[Impact, ...]]:
        """rule -> tests of the tree that it reaches and that are not among the findings."""
        known = {impact.test for impact in self.findings.impacts()}
        inventory = self.findings.inventory
        return {
            name: tuple(one for one in held.impacts() if one.test not in known and inventory.find(one.test) is not None)
            for name, held in self._trials.items()
        }
