"""What agents were asked, what they said, and what became of it."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, Text

from relay.store.tables.base import metadata

agent_run = Table(
    "agent_run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("dispatch_id", String(32)),  # None: no run's, as a look at trunk's failures
    Column("device", String(64), nullable=False),
    Column("stage", String(16), nullable=False),  # discover, triage, plan, verify
    Column("agent", String(16), nullable=False),  # model, critic
    Column("model", String(255), nullable=False),  # endpoint's host/model's name
    Column("prompt_version", String(16), nullable=False),
    Column("abilities", String(16), nullable=False),  # tools, json-schema, json-mode, text; "": not known
    Column("in_force", Boolean, nullable=False),  # False: on trial, nobody acted on it
    Column("code", String(32), nullable=False),  # how it ended (selector.agents.records.CODES)
    Column("reason", Text, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("tokens_read", Integer, nullable=False),
    Column("tokens_written", Integer, nullable=False),
    Column("usd", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("taken", JSON, nullable=False),  # [{"subject", "said", "reason", "code"}]
    Column("refused", JSON, nullable=False),  # the same, with the code that says why
    Column("transcript", LargeBinary, nullable=False),  # zlib JSON: [{"role", "text", "tool"}]
    Column("created_at", Float, nullable=False),
    Index("ix_agent_run_dispatch", "dispatch_id"),
    Index("ix_agent_run_created", "created_at"),
)
