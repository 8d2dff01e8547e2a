"""Repositories by GitHub's own number, which stays when they are renamed or transferred, and where the App is.

A name keeps belonging to the repository that had it first: one that is given up can be taken by anybody, and would
bring the allowlist's trust with it. Who means the new owner says so with ``id`` in the allowlist.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, update

from relay.domain.facts import InstallationFact, RepositoryFact
from relay.store.schema import installation, repository, repository_name
from relay.store.upsert import insert_once, upsert


@dataclass(frozen=True, slots=True)
class Known:
    """A repository: its number, and what it is called now."""

    id: int
    name: str


def hear(conn: Connection, fact: RepositoryFact, now: float) -> None:
    """Remembers what a repository is called, and was called."""
    told = {"name": fact.name, "heard_at": now}
    if fact.installation is not None:
        told["installation_id"] = fact.installation
    upsert(conn, repository, {"id": fact.id}, told, newer="heard_at")
    for name in (fact.old_name, fact.name):
        if name is not None:
            row = {"key": name.casefold(), "repository_id": fact.id, "since": now}
            insert_once(conn, repository_name, row)


def hear_installation(conn: Connection, fact: InstallationFact, now: float) -> None:
    """Remembers where the App is; a repository that left an installation has none."""
    told = {
        "account": fact.account,
        "state": fact.state,
        "permissions": dict(fact.permissions),
        "heard_at": now,
    }
    upsert(conn, installation, {"id": fact.id}, told, newer="heard_at")
    for one in fact.added:
        hear(conn, one, now)
    gone = update(repository).values(installation_id=None)
    if fact.state == "deleted":
        conn.execute(gone.where(repository.c.installation_id == fact.id))
    elif fact.removed:
        conn.execute(gone.where(repository.c.installation_id == fact.id, repository.c.id.in_(fact.removed)))


def of_names(conn: Connection, keys: Iterable[str]) -> dict[str, Known]:
    """The repositories that these names (case folded) belong to, by name."""
    query = (
        select(repository_name.c.key, repository.c.id, repository.c.name)
        .join(repository, repository.c.id == repository_name.c.repository_id)
        .where(repository_name.c.key.in_(list(keys)))
    )
    return {row.key: Known(row.id, row.name) for row in conn.execute(query)}


def of_ids(conn: Connection, ids: Iterable[int]) -> dict[int, str]:
    """What these repositories are called now."""
    query = select(repository.c.id, repository.c.name).where(repository.c.id.in_(list(ids)))
    return {row.id: row.name for row in conn.execute(query)}


def keys_of(conn: Connection, number: int) -> set[str]:
    """Every name a repository had, case folded, of those that are its own."""
    query = select(repository_name.c.key).where(repository_name.c.repository_id == number)
    return set(conn.execute(query).scalars())


def stamp(conn: Connection) -> tuple[int, float]:
    """Changes when a repository is heard of or gets another name; cheap enough to ask every second."""
    row = conn.execute(select(func.count(), func.sum(repository.c.heard_at)).select_from(repository)).one()
    return int(row[0]), float(row[1] or 0.0)
