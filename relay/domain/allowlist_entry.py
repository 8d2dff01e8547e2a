"""One downstream repository of the allowlist, and all of them together. Values only; relay.domain.allowlist reads the
file."""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = ("L1", "L2", "L3", "L4")
EVENTS = ("pull_request", "nightly", "merge_group")
EVENTS_BY_DEFAULT = ("pull_request", "nightly")
EXECUTORS = ("github", "workers")
ASSOCIATIONS = ("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER", "NONE")
TRUSTED_BY_DEFAULT = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that a downstream may take: from the dispatch to the first report, from a job's start to its end. None:
    the relay's own."""

    start_s: float | None = None
    run_s: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One downstream. ``repo`` is its name as it is called now, in the canonical spelling, ``key`` the same case
    folded; ``listed`` is what the file calls it, where it was renamed since.

    ``events``: pull_request (which covers push), nightly, merge_group. ``executor``: github (its own CI is told) or
    workers (the relay runs the tests on ``device``). ``trust``: author associations, and logins as ``@login``, whose
    changes run on our workers without a label; None when the entry does not say (then everybody's run). ``pushes``:
    globs of the pushes it hears of, None: all that are told. ``refs``, ``workflows``: globs of its own refs and
    workflow files whose runs may report, None: any. ``id``: GitHub's number of it, where the file pins one.
    ``drafts``: whether it hears of pull requests that are drafts. ``configs``: folder of its own repository with
    the sheet and configs of its device, for runs that a pull request of it is named for. ``line`` is 1-based.
    """

    repo: str
    key: str
    level: str
    device: str | None = None
    oncalls: tuple[str, ...] = ()
    events: tuple[str, ...] = EVENTS_BY_DEFAULT
    executor: str = "github"
    trust: tuple[str, ...] | None = None
    deadlines: Deadlines = Deadlines()
    pushes: tuple[str, ...] | None = None
    refs: tuple[str, ...] | None = None
    workflows: tuple[str, ...] | None = None
    id: int | None = None
    drafts: bool = True
    configs: str | None = None
    listed: str | None = None
    line: int = 0

    def trusts(self, author: str | None, association: str) -> bool:
        """Whether the author counts as trusted here."""
        if self.trust is None:
            return association.upper() in TRUSTED_BY_DEFAULT
        return association.upper() in self.trust or (author is not None and f"@{author.casefold()}" in self.trust)


@dataclass(frozen=True, slots=True)
class Allowlist:
    """All entries in the file's order. ``warnings`` name places that other readers of the file may not understand."""

    entries: tuple[Entry, ...]
    source: str = "allowlist"
    warnings: tuple[str, ...] = ()

    def of(self, repo: str, number: int | None) -> Entry | None:
        """The entry of the repository with GitHub's ``number``, under whatever name; without a number, or where none is
        known here, the one of that name."""
        if number is not None:
            for entry in self.entries:
                if entry.id == number:
                    return entry
        named = self.find(repo)
        if named is None or (number is not None and named.id not in (None, number)):
            return None
        return named

    def find(self, repo: str) -> Entry | None:
        """The entry of a repository, in any spelling of upper and lower case."""
        key = repo.casefold()
        return next((entry for entry in self.entries if entry.key == key), None)
