"""What came from upstream and is known of it."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from relay.store.tables.base import metadata

delivery = Table(
    "delivery",
    metadata,
    Column("id", String(64), primary_key=True),  # X-GitHub-Delivery
    Column("event", String(64), nullable=False),
    Column("action", String(64)),
    Column("repo", String(255)),
    Column("received_at", Float, nullable=False),
    Column("told_at", String(32)),  # GitHub's updated_at of the pull request: deliveries come in any order
    Column("state", String(16), nullable=False),  # received, routed, noted (facts kept, nothing to route), ignored
    Column("code", String(64)),  # reason code of the routing or of ignoring
    Column("reason", Text),
    Column("body", LargeBinary),  # zlib; None once pruned, and for ignored events
    Column("due_at", Float),  # when the pump hands it to the broker (again); None: nothing to do
    Column("attempts", Integer, nullable=False, default=0),
    Index("ix_delivery_due", "due_at"),
    Index("ix_delivery_received", "received_at"),
    Index("ix_delivery_state", "state"),
)

redelivery = Table(
    "redelivery",
    metadata,
    Column("delivery_id", String(64), primary_key=True),  # of a delivery that never arrived
    Column("hook_delivery_id", BigInteger, nullable=False),  # GitHub's number of its newest attempt
    Column("event", String(64), nullable=False),
    Column("attempts", Integer, nullable=False),  # how often we asked for it
    Column("asked_at", Float, nullable=False),
    Column("state", String(16), nullable=False),  # missing, arrived, gave-up
    Column("reason", Text),
)

pull_request = Table(
    "pull_request",
    metadata,
    Column("upstream_key", String(255), primary_key=True),  # case folded
    Column("number", Integer, primary_key=True),
    Column("title", Text, nullable=False),
    Column("author", String(255)),
    Column("head_sha", String(40), nullable=False),
    Column("base_ref", String(255), nullable=False),
    Column("labels", JSON, nullable=False),
    Column("draft", Boolean, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("told_at", String(32), nullable=False),  # GitHub's updated_at: an older delivery changes nothing
    Column("heard_at", Float, nullable=False),
)

installation = Table(
    "installation",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("account", String(255), nullable=False),
    Column("state", String(16), nullable=False),  # active, suspended, deleted
    Column("permissions", JSON, nullable=False),
    Column("heard_at", Float, nullable=False),
)

repository = Table(
    "repository",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # GitHub's, kept through renames and transfers
    Column("name", String(255), nullable=False),  # owner/repo as it is called now
    Column("installation_id", BigInteger),  # None: the App is not there, or we were not told
    Column("heard_at", Float, nullable=False),
)

repository_name = Table(
    "repository_name",
    metadata,
    Column("key", String(255), primary_key=True),  # case folded; every name it ever had
    Column("repository_id", BigInteger, ForeignKey("repository.id"), nullable=False),
    Column("since", Float, nullable=False),
    Index("ix_repository_name_repository", "repository_id"),
)

upstream_commit = Table(
    "upstream_commit",
    metadata,
    Column("sha", String(40), primary_key=True),
    Column("known", Boolean, nullable=False),  # upstream has it on one of the refs that count
    Column("checked_at", Float, nullable=False),
)

allowlist_version = Table(
    "allowlist_version",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", String(16), nullable=False),  # allowlist, providers
    Column("digest", String(64), nullable=False),
    Column("source", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("loaded_at", Float, nullable=False),
    UniqueConstraint("kind", "digest"),
)

seen_token = Table(
    "seen_token",
    metadata,
    Column("jti", String(255), primary_key=True),  # issuer + "#" + jti
    Column("body_digest", String(64), nullable=False),
    Column("answer", JSON),
    Column("expires_at", Float, nullable=False),
)
