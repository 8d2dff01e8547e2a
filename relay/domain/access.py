"""Who may do what. Reading is for everybody, or for those who are named; acting is for those who are named.

A *principal* of a setting is a login (``octocat``), a team (``org/team``), ``oncalls`` (whom the allowlist names, each
for their own downstream), or ``*`` (whoever has signed in). GitHub's logins and team names know no case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ONCALLS = "oncalls"
ANYBODY = "*"

ACTIONS: Mapping[str, str] = {
    "read": "see the pages where they are private",
    "rerun": "run a backend's run again",
    "quarantine": "put a flaky test into quarantine, and take it out",
    "replay": "send a parked effect again, or drop it",
    "audit": "see who did what",
}
"""Everything that a person may be allowed to do, in words."""

ACTORS = frozenset({"rerun", "quarantine"})
"""What an actor may do; an operator may do everything, a reader read."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The principals of each role."""

    readers: tuple[str, ...] = ()
    actors: tuple[str, ...] = (ONCALLS,)
    operators: tuple[str, ...] = ()

    def teams(self) -> frozenset[str]:
        """Teams that are named anywhere: whether they must be asked for at sign-in."""
        named = (*self.readers, *self.actors, *self.operators)
        return frozenset(principal.casefold() for principal in named if "/" in principal)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page. ``downstreams``: those whose oncall this is, case folded; ``home``: the downstream of this
    relay's own device, which a quarantine is about; ``csrf``: what their forms must bring back."""

    login: str
    teams: frozenset[str] = frozenset()
    downstreams: frozenset[str] = frozenset()
    home: str | None = None
    csrf: str = ""
    policy: Policy = field(default_factory=Policy)

    def may(self, action: str, downstream: str | None = None) -> bool:
        """Whether this person may do ``action`` (of ACTIONS), on ``downstream`` where it is about one. An oncall may
        act on their own downstream alone. ValueError for an action that there is not."""
        if action not in ACTIONS:
            raise ValueError(f"no action {action!r}, there are {', '.join(ACTIONS)}")
        if action == "quarantine" and downstream is None:
            downstream = self.home
        if self._is(self.policy.operators, downstream):
            return True
        if action in ACTORS:
            return self._is(self.policy.actors, downstream)
        return action == "read" and self._reads()

    def _reads(self) -> bool:
        named = (*self.policy.readers, *self.policy.actors)
        return self._is(named, None) or (ONCALLS in named and bool(self.downstreams))

    def _is(self, principals: Iterable[str], downstream: str | None) -> bool:
        for principal in principals:
            if principal == ANYBODY:
                return True
            if principal == ONCALLS:
                if downstream is not None and downstream.casefold() in self.downstreams:
                    return True
            elif "/" in principal:
                if principal.casefold() in self.teams:
                    return True
            elif principal.casefold() == self.login.casefold():
                return True
        return False


def problem_of(principal: str) -> str | None:
    """What is wrong with a principal of a setting; None: nothing."""
    if principal in (ONCALLS, ANYBODY):
        return None
    if re.fullmatch(r"[A-Za-z0-9-]+(\[bot\]|/[A-Za-z0-9._-]+)?", principal) is None:
        return f"{principal!r} is neither a login, nor org/team, nor {ONCALLS}, nor {ANYBODY}"
    return None
