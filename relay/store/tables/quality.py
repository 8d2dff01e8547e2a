"""What is learned from results over time."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, String, Table, Text

from relay.store.tables.base import metadata

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("device", String(64), nullable=False),
    Column("test", Text, nullable=False),  # file::Class::method
    Column("variant", String(512), nullable=False),  # "": every variant of the test
    Column("reason", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("issue", Text, nullable=False),
    Column("until", Float, nullable=False),  # from then on its failures count again
    Column("created_at", Float, nullable=False),
    Column("ended_at", Float),  # taken out by a person before its time
    Index("ix_quarantine_device", "device", "until"),
)

proposal = Table(
    "proposal",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),  # digest of device, kind and subject: one at a time
    Column("device", String(64), nullable=False),
    Column("kind", String(24), nullable=False),  # promote, demote, quarantine, remove, limit, tolerance
    Column("subject", Text, nullable=False),  # a test's id, or file.yaml:line
    Column("reason", Text, nullable=False),
    Column("evidence", JSON, nullable=False),
    Column("issue", Text, nullable=False),
    Column("until", Text, nullable=False),
    Column("state", String(16), nullable=False),  # open, taken, dismissed, gone
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("ix_proposal_state", "device", "state"),
)

bisection = Table(
    "bisection",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("key", String(64), nullable=False, unique=True),  # digest of device, variant and bad_sha
    Column("device", String(64), nullable=False),
    Column("test", Text, nullable=False),
    Column("variant", String(512), nullable=False),
    Column("bad_sha", String(40), nullable=False),  # where it was seen to fail
    Column("spec", JSON, nullable=False),  # the shard that showed it, for the runs that are still needed
    Column("state", String(16), nullable=False),  # open, found, given-up
    Column("first_bad", String(40)),
    Column("last_good", String(40)),
    Column("paths", JSON(none_as_null=True)),  # what that commit changed; None: not looked at, or more than a few
    Column("runs", Integer, nullable=False, default=0),  # runs asked for, beside what was stored
    Column("reason", Text),
    Column("created_at", Float, nullable=False),
    Column("closed_at", Float),
    Index("ix_bisection_state", "state"),
    Index("ix_bisection_found", "device", "state", "closed_at"),
)

upgrade = Table(
    "upgrade",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("key", String(64), nullable=False, unique=True),  # a night of a ref, or a pair of releases: one at a time
    Column("kind", String(16), nullable=False),  # nightly, release
    Column("device", String(64), nullable=False),
    Column("ref", String(255), nullable=False),  # of a nightly; "" for a pair
    Column("night", String(10), nullable=False),  # 2026-11-29 (UTC); "" for a pair
    Column("old", String(255)),  # as it was asked for; None: the last good night, once that is known
    Column("new", String(255), nullable=False),
    Column("old_sha", String(40)),
    Column("new_sha", String(40)),
    Column("state", String(16), nullable=False),  # due, running, completed, failed
    Column("due_at", Float),
    Column("claim", String(32)),  # token of the process that compares now, until claim_until
    Column("claim_until", Float, nullable=False, default=0.0),
    Column("attempts", Integer, nullable=False, default=0),
    Column("tries", Integer, nullable=False, default=0),
    Column("counts", JSON),  # of the report, for lists
    Column("report", LargeBinary),  # zlib JSON (relay.upgrade_report.to_value)
    Column("head", JSON),  # the report without its changes, plan and entries: what its page says above the table
    Column("progress", JSON),  # {"evaluated": relevant tests that have a result, "burn_down": [{"at", "left"}]}
    Column("runs", JSON),  # {"old", "new": {run, torch, tests} or None, "notes": [...]}
    Column("outcome", JSON),  # {"counts": {standing: tests}, "tests": [...]}
    Column("good", Boolean),  # no test that passed on the old side fails on the new one; None: not known
    Column("code", String(64)),
    Column("summary", Text),
    Column("error", Text),
    Column("created_at", Float, nullable=False),
    Column("compared_at", Float),
    Column("closed_at", Float),
    Index("ix_upgrade_due", "due_at"),
    Index("ix_upgrade_night", "device", "ref", "night"),
)

upgrade_change = Table(  # the report's changes, a row each, so that a page asks for one screen of them
    "upgrade_change",
    metadata,
    Column("upgrade_id", String(32), ForeignKey("upgrade.id"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),  # in the report
    Column("test", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("content", String(16), nullable=False),
    Column("evaluate", Boolean, nullable=False),
    Column("relevant", Boolean, nullable=False),
    Column("more", JSON, nullable=False),  # what else the report says of it
    Column("done_at", Float),  # first result on the new side
    Column("standing", String(16)),  # once both sides have run
    Column("message", Text),
    Index("ix_upgrade_change_test", "upgrade_id", "test"),
)

level_proposal = Table(
    "level_proposal",
    metadata,
    Column("downstream_key", String(255), primary_key=True),
    Column("downstream", String(255), nullable=False),
    Column("level", String(2), nullable=False),  # that it has
    Column("proposed", String(2)),  # None: no proposal stands
    Column("reason", Text),
    Column("below_since", Float),  # below what its level asks for, without a break
    Column("above_since", Float),
    Column("measured", JSON, nullable=False),  # relay.domain.readiness.Readiness as a map
    Column("updated_at", Float, nullable=False),
)
