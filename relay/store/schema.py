"""The tables: the only truth. Times are seconds since the epoch (UTC, float); JSON columns hold plain values.

The invariants live in the constraints: a delivery id is claimed once, a downstream gets one dispatch a delivery, a job
is one row per (dispatch, workflow, job, run id, attempt), an effect on the outside is one outbox row per key, a
variant has one result per shard.
"""

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
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

delivery = Table(
    "delivery",
    metadata,
    Column("id", String(64), primary_key=True),  # X-GitHub-Delivery
    Column("event", String(64), nullable=False),
    Column("action", String(64)),
    Column("repo", String(255)),
    Column("received_at", Float, nullable=False),
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
    Index("ix_dispatch_created", "created_at"),
    Index("ix_dispatch_state", "state"),
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
    Column("log_tail", Text),
    Column("fence", Integer, nullable=False),
    Column("recorded_at", Float, nullable=False),
    UniqueConstraint("shard_id", "test", "variant", "attempt"),
    Index("ix_result_dispatch", "dispatch_id", "side", "outcome"),
    Index("ix_result_test", "test", "recorded_at"),
)

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
    Column("runs", Integer, nullable=False, default=0),  # runs asked for, beside what was stored
    Column("reason", Text),
    Column("created_at", Float, nullable=False),
    Column("closed_at", Float),
    Index("ix_bisection_state", "state"),
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
    Index("ix_hud_row_pr", "upstream", "pr_number"),
    Index("ix_hud_row_sha", "head_sha"),
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

rerun = Table(
    "rerun",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("delivery_id", String(64), ForeignKey("delivery.id"), nullable=False),
    Column("dispatch_id", String(32), ForeignKey("dispatch.id"), nullable=False),
    Column("run_id", String(64), nullable=False),  # the downstream's
    Column("scope", String(8), nullable=False),  # failed, all: which of the run's jobs
    Column("requested_by", String(255)),
    Column("state", String(16), nullable=False),  # waiting, asked, refused
    Column("due_at", Float),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("delivery_id", "dispatch_id", "run_id"),
    Index("ix_rerun_due", "due_at"),
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

chore = Table(
    "chore",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("due_at", Float, nullable=False),
    Column("ran_at", Float),
    Column("error", Text),  # of the last time, None: it went well
    Column("memory", JSON, nullable=False),  # what the next time starts from: a watermark, an ETag
)

upstream_commit = Table(
    "upstream_commit",
    metadata,
    Column("sha", String(40), primary_key=True),
    Column("known", Boolean, nullable=False),  # upstream has it on one of the refs that count
    Column("checked_at", Float, nullable=False),
)
