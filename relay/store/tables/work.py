"""A dispatch, its jobs, its plan, and what workers run of it."""

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
    text,
)

from relay.store.tables.base import metadata

dispatch = Table(
    "dispatch",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("delivery_id", String(64), ForeignKey("delivery.id"), nullable=False),
    Column("downstream", String(255), nullable=False),  # owner/repo as the allowlist spells it
    Column("downstream_key", String(255), nullable=False),  # case folded
    Column("level", String(2), nullable=False),  # pinned when routed
    Column("device", String(64)),
    Column("oncalls", JSON, nullable=False),
    Column("executor", String(16), nullable=False),  # github, workers
    Column("event", String(64), nullable=False),
    Column("action", String(64)),
    Column("upstream", String(255), nullable=False),
    Column("pr_number", Integer),
    Column("pr_title", Text),
    Column("author", String(255)),
    Column("author_trusted", Boolean, nullable=False, default=False),
    Column("base_sha", String(40)),
    Column("head_sha", String(40), nullable=False),
    Column("base_ref", String(255)),
    Column("head_repo", String(255)),
    Column("labels", JSON, nullable=False, default=list),  # the PR's labels as last heard; L3 checks ask for one
    # github: sending, sent, running, completed; workers: selecting, running, confirming, verifying, completed;
    # both: superseded, failed
    Column("state", String(16), nullable=False),
    Column("due_at", Float),
    Column("claim", String(32)),  # token of the process that selects now; due_at is when its claim ends
    Column("attempts", Integer, nullable=False, default=0),  # hand-overs to the broker since it became due
    Column("tries", Integer, nullable=False, default=0),  # selections begun, or verdicts that broke, in this state
    Column("created_at", Float, nullable=False),
    Column("compare_sha", String(40)),  # merge base of base_sha and head_sha: what the change is compared with
    Column("selected_at", Float),
    Column("started_at", Float),  # first lease or first callback
    Column("first_failed_at", Float),  # the first result of the head side that failed came in
    Column("ran_at", Float),  # last shard of the head side done
    Column("closed_at", Float),
    Column("conclusion", String(32)),
    Column("code", String(64)),  # verdict's reason code
    Column("summary", Text),  # verdict's one sentence
    Column("verdict", JSON),  # selector.model.Verdict as a map, for workers
    Column("error", Text),
    Column("check_run_id", String(64)),  # of the check that waits for the first report (level 4), once created
    Column("shows", Integer, nullable=False, default=0),  # how often the label turned its check runs on or off
    Column("provenance", JSON),  # what the verdict was made of (relay.domain.provenance)
    Column("pin", JSON),  # Depends-On: {repo, number, sha} or {repo, number, problem}
    Column("rerun_of", String(32)),  # the run whose plan this one runs again
    UniqueConstraint("delivery_id", "downstream_key"),
    Index("ix_dispatch_due", "due_at"),
    Index("ix_dispatch_pr", "upstream", "pr_number"),
    Index("ix_dispatch_number", "pr_number", "created_at"),
    Index("ix_dispatch_downstream", "downstream_key", "created_at"),
    # few are runs of a commit again
    Index(
        "ix_dispatch_rerun",
        "downstream_key",
        "head_sha",
        sqlite_where=text("rerun_of IS NOT NULL"),
        postgresql_where=text("rerun_of IS NOT NULL"),
    ),
    Index("ix_dispatch_created", "created_at"),
    Index("ix_dispatch_state", "state"),
    Index("ix_dispatch_head", "head_sha"),
)

job = Table(
    "job",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), nullable=False),
    Column("workflow", String(300), nullable=False),
    Column("name", String(300), nullable=False),
    Column("run_id", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("status", String(16), nullable=False),  # queued, in_progress, completed
    Column("conclusion", String(32)),
    Column("url", Text),
    Column("reported_check_run_id", String(64)),  # the downstream's own, from the callback
    Column("check_run_id", String(64)),  # ours on upstream, once created
    Column("queued_at", Float),
    Column("started_at", Float),
    Column("completed_at", Float),
    Column("start_known", Boolean, nullable=False, default=True),
    Column("results", JSON),  # {passed, failed, skipped, total}
    Column("artifact_url", Text),
    Column("presumed", Boolean, nullable=False, default=False),  # the end is ours, for want of a report
    Column("triage", JSON),  # the downstream's own triage_verdict, validated
    Column("source", JSON),  # from its token: sha, ref, workflow of the downstream's run
    Column("version", Integer, nullable=False, default=0),
    UniqueConstraint("dispatch_id", "workflow", "name", "run_id", "attempt"),
    Index("ix_job_status", "status"),  # the few that are open
)

plan = Table(
    "plan",
    metadata,
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), primary_key=True),
    Column("runtime", JSON, nullable=False),  # {kind, torch, files}
    Column("partial", Boolean, nullable=False),
    Column("tests", JSON, nullable=False),  # PlannedTest as maps
    Column("left_out", JSON, nullable=False),
    Column("not_exercised", JSON, nullable=False),
    Column("counts", JSON, nullable=False),
    Column("timings", JSON, nullable=False),
    Column("warnings", JSON, nullable=False),
    Column("exploration", JSON),  # selector.plan.explore.Exploration as a map; None: this run does not explore
    Column("shadow", JSON),  # ranker -> what its order would have run; never acted upon
    Column("created_at", Float, nullable=False),
    Index("ix_plan_created", "created_at"),
)

decision = Table(
    "decision",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), nullable=False),
    Column("stage", String(16), nullable=False),
    Column("subject", Text, nullable=False),
    Column("verdict", String(32), nullable=False),
    Column("code", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("evidence", JSON, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("by", String(16), nullable=False),
    Index("ix_decision_dispatch", "dispatch_id", "stage"),
    # hash: a path of a hostile change may be longer than a b-tree entry can be
    Index("ix_decision_subject", "subject", postgresql_using="hash"),
)

# sheet and configs of a device as shards were given them (relay.store.setups)
setup = Table(
    "setup",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),  # zlib of JSON: capability, configs
    Column("used_at", Float, nullable=False),  # a shard was last made with it, to the hour
    Index("ix_setup_used", "used_at"),
)

shard = Table(
    "shard",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), nullable=False),
    Column("side", String(16), nullable=False),  # head, base, again, base-again
    Column("index", Integer, nullable=False),
    Column("queue", String(64), nullable=False),  # relay.queue.names.shard_queue
    Column("spec", JSON, nullable=False),  # what a lease hands out, see docs/worker-api.md
    Column("est_seconds", Float, nullable=False),
    Column("state", String(16), nullable=False),  # queued, leased, done, failed
    Column("fence", Integer, nullable=False, default=0),  # grows with every lease; an older one may not write
    Column("lease_token", String(64)),  # sha256 of the token
    Column("worker", String(128)),
    Column("lease_until", Float),
    Column("due_at", Float),
    Column("attempts", Integer, nullable=False, default=0),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("finished_at", Float),
    Column("handed_back", Integer, nullable=False, default=0, server_default="0"),  # by workers that stopped
    Column("report", JSON),  # what the worker said at the end: collected, errors, meter, timings
    Column("error", Text),
    UniqueConstraint("dispatch_id", "side", "index"),
    Index("ix_shard_due", "due_at"),
    Index("ix_shard_state", "state"),
)

result = Table(
    "result",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), nullable=False),
    Column("shard_id", String(32), ForeignKey("shard.id"), nullable=False),
    Column("side", String(16), nullable=False),
    Column("test", Text, nullable=False),  # file::Class::method
    Column("variant", String(512), nullable=False),
    Column("attempt", Integer, nullable=False, default=0),  # which repeat of a re-run, from 0
    Column("op", String(128)),
    Column("dtype", String(32)),
    Column("mode", String(24), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("reason", Text),
    Column("seconds", Float, nullable=False),
    Column("kernels", Integer),
    Column("modelled_us", Float),
    Column("meter", JSON(none_as_null=True)),  # bytes, sticks, transfers and refusals of the device, as counted
    Column("message", Text),
    Column("tails", String(32)),  # the object of log_tail that has the end of what it printed
    Column("log_fault", String(16)),  # the fault of the environment that this end told of, as it came in
    Column("log_begin", BigInteger),  # bytes of the shard's log, of the lease `fence`, that the variant printed
    Column("log_end", BigInteger),
    Column("fence", Integer, nullable=False),
    Column("recorded_at", Float, nullable=False),
    UniqueConstraint("shard_id", "test", "variant", "attempt"),
    Index("ix_result_dispatch", "dispatch_id", "side", "outcome"),
    Index("ix_result_test", "test", "recorded_at"),
)

log_piece = Table(
    "log_piece",
    metadata,
    Column("shard_id", String(32), ForeignKey("shard.id"), primary_key=True),
    Column("fence", Integer, primary_key=True, autoincrement=False),
    Column("begin", BigInteger, primary_key=True, autoincrement=False),  # byte of the log at which it starts
    Column("size", Integer, nullable=False),  # bytes of the log; the artifact itself is packed
    Column("stored_at", Float, nullable=False),
    Index("ix_log_piece_stored", "stored_at"),
)

# objects of the artifact store with the ends of failing variants' logs: one for each report that had some
log_tail = Table(
    "log_tail",
    metadata,
    Column("shard_id", String(32), ForeignKey("shard.id"), primary_key=True),
    Column("name", String(32), primary_key=True),  # of its content (relay.services.log_tails)
    Column("stored_at", Float, nullable=False),
    Index("ix_log_tail_stored", "stored_at"),
)

worker = Table(
    "worker",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("device", String(64), nullable=False),
    Column("queue", String(64), nullable=False),
    Column("torch", String(64), nullable=False),
    Column("runtimes", JSON, nullable=False),
    Column("info", JSON, nullable=False),
    Column("seen_at", Float, nullable=False),
)

opdb = Table(
    "opdb",
    metadata,
    Column("torch", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("body", LargeBinary, nullable=False),  # zlib JSON of selector.model.OpDatabase
    Column("stored_at", Float, nullable=False),
)

rerun = Table(
    "rerun",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("delivery_id", String(64), ForeignKey("delivery.id"), nullable=False),
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), nullable=False),
    Column("run_id", String(64), nullable=False),  # the downstream's; "": the dispatch as a whole
    Column("scope", String(8), nullable=False),  # failed, all: which of the run's jobs; dispatch: it is told again
    Column("check_run_id", String(64)),  # ours, where it was asked for; None: at the whole suite
    Column("requested_by", String(255)),
    Column("state", String(16), nullable=False),  # waiting, asked, refused
    Column("reason", Text),  # why it was refused
    Column("due_at", Float),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("delivery_id", "dispatch_id", "run_id"),
    Index("ix_rerun_due", "due_at"),
)
