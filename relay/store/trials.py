"""Trials by run: written with the verdict, added up for the page that shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from relay.store.schema import trial
from relay.store.upsert import insert_once
from selector.plan.observed import Observed
from selector.plan.shadow import Score, Trial, score

ROWS = 20_000
"""Newest trials that are looked at."""


def add(conn: Connection, dispatch_id: str, told: Mapping[str, Mapping[str, Any]], now: float) -> None:
    """What each subject said in a run, by subject. Twice is once."""
    for subject, one in sorted(told.items()):
        values = {"dispatch_id": dispatch_id, "subject": subject, "told": dict(one), "created_at": now}
        insert_once(conn, trial, values)


def live(conn: Connection) -> dict[str, Score | Observed]:
    """What the newest trials come to, by subject."""
    rankers: dict[str, list[Trial]] = defaultdict(list)
    others: dict[str, Observed] = {}
    query = select(trial.c.subject, trial.c.told).order_by(trial.c.created_at.desc()).limit(ROWS)
    for row in conn.execute(query):
        if row.subject.startswith("ranker:"):
            rankers[row.subject].append(Trial(**row.told))
        else:
            others[row.subject] = others.get(row.subject, Observed()) + Observed(**row.told)
    return {**{subject: score(held) for subject, held in rankers.items()}, **others}
