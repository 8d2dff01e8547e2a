"""The tables: the only truth. Times are seconds since the epoch (UTC, float); JSON columns hold plain values.

The invariants live in the constraints: a delivery id is claimed once, a downstream gets one dispatch a delivery, a job
is one row per (dispatch, workflow, job, run id, attempt), an effect on the outside is one outbox row per key, a
variant has one result per shard.
"""

from __future__ import annotations

from relay.store.tables.agents import agent_run
from relay.store.tables.base import metadata
from relay.store.tables.outside import audit, chore, circuit, hud_row, outbox, streak
from relay.store.tables.pages import test_name, web_session
from relay.store.tables.quality import bisection, level_proposal, proposal, quarantine, upgrade, upgrade_change
from relay.store.tables.trials import trial
from relay.store.tables.upstream import (
    allowlist_version,
    delivery,
    installation,
    pull_request,
    redelivery,
    repository,
    repository_name,
    seen_token,
    upstream_commit,
)
from relay.store.tables.work import (
    decision,
    dispatch,
    job,
    log_piece,
    log_tail,
    opdb,
    plan,
    rerun,
    result,
    setup,
    shard,
    worker,
)

__all__ = [
    "agent_run",
    "allowlist_version",
    "audit",
    "bisection",
    "chore",
    "circuit",
    "decision",
    "delivery",
    "dispatch",
    "hud_row",
    "installation",
    "job",
    "level_proposal",
    "log_piece",
    "log_tail",
    "metadata",
    "opdb",
    "outbox",
    "plan",
    "proposal",
    "pull_request",
    "quarantine",
    "redelivery",
    "repository",
    "repository_name",
    "rerun",
    "result",
    "seen_token",
    "setup",
    "shard",
    "streak",
    "test_name",
    "trial",
    "upgrade",
    "upgrade_change",
    "upstream_commit",
    "web_session",
    "worker",
]
