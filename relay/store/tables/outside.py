"""What leaves the relay, and the chores that look after it."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from relay.store.tables.base import metadata

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(255), nullable=False, unique=True),  # one effect, whatever happens
    Column("kind", String(24), nullable=False),  # dispatch, check_run, hud
    Column("stream", String(255), nullable=False),  # effects of one stream leave in order of id
    Column("dispatch_id", String(32), ForeignKey("dispatch.id")),
    Column("job_id", String(32), ForeignKey("job.id")),
    Column("target", String(255), nullable=False),  # owner/repo, or a host
    Column("payload", JSON, nullable=False),
    Column("state", String(16), nullable=False),  # due, sent, parked, dropped
    Column("due_at", Float),  # when the pump hands it to the broker (again)
    Column("not_before", Float, nullable=False, default=0.0),  # nobody sends before: backoff, or another one's claim
    Column("attempts", Integer, nullable=False, default=0),
    Column("ambiguous", Boolean, nullable=False, default=False),  # a send whose answer we never saw
    Column("last_status", Integer),
    Column("last_error", Text),
    Column("response", JSON),
    Column("created_at", Float, nullable=False),
    Column("asked_at", Float),  # when a person asked for it again; None: created_at
    Column("sent_at", Float),
    Index("ix_outbox_due", "due_at"),
    Index("ix_outbox_stream", "stream", "id"),
    Index("ix_outbox_state", "state", "kind"),
    Index("ix_outbox_dispatch", "dispatch_id"),
)

circuit = Table(
    "circuit",
    metadata,
    Column("key", String(255), primary_key=True),  # an owner or owner/repo, case folded
    Column("code", String(64)),  # why nothing is sent there (relay.domain.circuit); None: it is open for traffic
    Column("reason", Text),
    Column("until", Float, nullable=False, default=0.0),  # then one effect may try
    Column("failures", Integer, nullable=False, default=0),  # tries in a row that ended so
    Column("changed_at", Float, nullable=False),
    Column("window_at", Float, nullable=False, default=0.0),  # the minute that `used` counts
    Column("used", Integer, nullable=False, default=0),
)

streak = Table(
    "streak",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("upstream", String(255), nullable=False),
    Column("pr_number", Integer, nullable=False),
    Column("downstream_key", String(255), nullable=False),
    Column("failures", Integer, nullable=False),  # commits in a row
    Column("version", Integer, nullable=False),  # grows with every change of the comment
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), nullable=False),  # the newest that counts
    Column("comment_id", String(64)),
    Column("began_at", Float, nullable=False),
    Column("ended_at", Float),
    Index("ix_streak_pr", "upstream", "pr_number", "downstream_key"),
)

hud_row = Table(
    "hud_row",
    metadata,
    Column("key", String(1024), primary_key=True),  # repo/delivery/workflow/job/check run: the dashboard's own
    Column("repo", String(255), nullable=False),
    Column("repo_key", String(255), nullable=False),  # case folded
    Column("level", String(2)),
    Column("event", String(64)),
    Column("delivery_id", String(64), nullable=False),
    Column("upstream", String(255)),
    Column("pr_number", Integer),
    Column("head_sha", String(40)),
    Column("workflow", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("run_id", String(64)),
    Column("attempt", Integer, nullable=False, default=1),
    Column("check_run_id", String(64), nullable=False),
    Column("status", String(16), nullable=False),  # never goes back
    Column("conclusion", String(32)),
    Column("queue_s", Float),
    Column("execution_s", Float),
    Column("url", Text),
    Column("artifact_url", Text),
    Column("results", JSON),
    Column("body", JSON, nullable=False),  # the reported workflow, fields of every report together
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("ix_hud_row_repo", "repo_key", "created_at"),
    Index("ix_hud_row_created", "created_at"),
    Index("ix_hud_row_pr", "upstream", "pr_number"),
    Index("ix_hud_row_sha", "head_sha"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("actor", String(255), nullable=False),  # relay, a login, or cli: and a user of the machine
    Column("action", String(64), nullable=False),  # noun.verb: dispatch.sent, outbox.retry
    Column("target", String(255), nullable=False),
    Column("detail", JSON, nullable=False),
    Column("dispatch_id", String(32)),  # no reference: it outlives the run
    Index("ix_audit_at", "at"),
    Index("ix_audit_dispatch", "dispatch_id"),
)

chore = Table(
    "chore",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("due_at", Float, nullable=False),
    Column("ran_at", Float),
    Column("error", Text),  # of the last time, None: it went well
    Column("memory", JSON, nullable=False),  # what the next time starts from: a watermark, an ETag
)
