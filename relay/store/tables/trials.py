"""What rankers, rules and models on trial said against what a run showed."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, ForeignKey, Index, String, Table

from relay.store.tables.base import metadata

trial = Table(
    "trial",
    metadata,
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), primary_key=True),
    Column("subject", String(255), primary_key=True),  # ranker:, rule: or model: and its name
    Column("told", JSON, nullable=False),  # selector.plan.shadow.Trial or selector.plan.observed.Observed as a map
    Column("created_at", Float, nullable=False),
    Index("ix_trial_created", "created_at"),
)
