"""What the demo did, from what the relay and the local GitHub recorded: the timeline, and whether all of it is right.

Pure: ``Facts`` in, lines out. ``problems`` is what ``--once`` ends with; an empty list is the only success.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from relay.demo.upstream import REFS, DemoUpstream

WORKERS_REPO = "torch-spyre/torch-spyre"
GITHUB_REPO = "example-org/backend-ci"
UPSTREAM_REPO = "pytorch/pytorch"
CONCLUSIONS = ("success", "neutral", "failure")
CLOSED = ("completed", "superseded", "failed")
Map = dict[str, Any]


@dataclass
class Facts:
    """``github`` is the local GitHub's /_control/state, ``calls`` its record; ``runs``, ``triage`` and ``results`` come
    from /run/{id}.json, the last two keyed by downstream. ``sent_at``: when the webhook left, epoch seconds."""

    upstream: DemoUpstream
    sent_at: float
    answers: list[Map]
    """one delivery a webhook sent, as GET /app/hook/deliveries has it"""
    pr: Map = field(default_factory=dict)
    runs: dict[str, Map] = field(default_factory=dict)
    results: list[Map] = field(default_factory=list)
    triage: list[Map] = field(default_factory=list)
    github: Map = field(default_factory=dict)
    calls: list[Map] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------------------- timeline


def timeline(facts: Facts) -> list[tuple[float, str]]:
    """(seconds after the webhook was sent, what happened), in order."""
    return sorted((at - facts.sent_at, text) for at, text in _moments(facts) if at is not None)


def _moments(facts: Facts) -> Iterator[tuple[float | None, str]]:
    if facts.answers:
        first = facts.answers[0]
        yield facts.sent_at + first["duration"], f"delivery acknowledged ({first['status_code']})"
    for run in facts.pr.get("dispatches", ()):
        name = run["downstream"]
        yield run["created_at"], f"{name}: routed, executor {run['executor']}, level {run['level']}"
        if run["executor"] == "workers":
            counts = run["counts"]
            shards = len([s for s in run["shards"] if s["side"] == "head"])
            yield run["selected_at"], f"{name}: {counts['planned']} tests selected, {shards} shards"
            yield run["started_at"], f"{name}: first shard leased"
            yield run["ran_at"], f"{name}: {counts['variants_done']} variants run, {counts['failing']} failing"
            yield run["closed_at"], f"{name}: verdict {run['conclusion']}: {run['summary']}"
        else:
            yield run["closed_at"], f"{name}: closed, {run['conclusion']}"
    for call in facts.calls:
        body = call["body"] if isinstance(call["body"], dict) else {}
        if call["path"].endswith("/dispatches") and call["status"] == 204:
            yield call["at"], f"{call['path'].removeprefix('/repos/').removesuffix('/dispatches')}: dispatch accepted"
        elif "/check-runs" in call["path"] and call["method"] in ("POST", "PATCH") and (call["status"] or 500) < 300:
            what = body.get("conclusion") or body.get("status") or "updated"
            yield call["at"], f"check run {body.get('name') or call['path'].rsplit('/', 1)[-1]}: {what}"
        elif call["path"] == "/api/crcr/results" and call["status"] == 200:
            workflow = body["untrusted"]["callback_payload"]["workflow"]
            yield call["at"], f"{body['trusted']['verified_repo']}: HUD row {workflow['status']}"
    for note in facts.github.get("callbacks", ()):
        if note["http"] is not None:
            yield note["at"], f"{note['repo']}: callback {note['status']} answered {note['http']}"


# ------------------------------------------------------------------------------------------------------------- problems


def finished(facts: Facts) -> bool:
    """Everything that can still come has come: runs closed, HUD rows and check run posted, callbacks sent."""
    runs = facts.pr.get("dispatches", ())
    if len(runs) < 2 or any(run["state"] not in CLOSED for run in runs):
        return False
    posted = Counter((b["trusted"]["verified_repo"], _workflow(b)["status"]) for b in facts.github.get("hud", ()))
    rows = all(posted[repo, status] for repo in (WORKERS_REPO, GITHUB_REPO) for status in ("in_progress", "completed"))
    checks = [row for row in facts.github.get("check_runs", ()) if row["status"] == "completed"]
    return rows and bool(checks)


def problems(facts: Facts) -> list[str]:
    """One sentence for everything that did not happen, or happened wrongly."""
    runs = {run["downstream"]: run for run in facts.pr.get("dispatches", ())}
    found = [*_delivery(facts, runs)]
    if WORKERS_REPO in runs:
        found += _workers_run(facts, runs[WORKERS_REPO])
    if GITHUB_REPO in runs:
        found += _github_run(facts, runs[GITHUB_REPO])
    found += _check_runs(facts)
    found += _hud(facts)
    found += [
        f"the local GitHub answered {c['status']} to {c['method']} {c['path']}: call {c['n']} of calls.jsonl"
        for c in facts.calls
        if c["status"] is not None and c["status"] >= 400
    ]
    return found


def _delivery(facts: Facts, runs: dict[str, Map]) -> Iterator[str]:
    for row in facts.answers:
        if row["status_code"] != 202:
            yield f"the webhook was answered {row['status_code']} ({row['status']}), not 202: {row['response']}"
    total = Counter(run["downstream"] for run in facts.pr.get("dispatches", ()))
    for repo in (WORKERS_REPO, GITHUB_REPO):
        if total[repo] != 1:
            yield f"{repo} has {total[repo]} runs after {len(facts.answers)} deliveries of one event, not 1"
    for repo, run in runs.items():
        if run["state"] != "completed":
            yield f"{repo}: the run is {run['state']}, not completed: {run['error'] or run['summary']}"
        if run["head_sha"] != facts.upstream.head_sha:
            yield f"{repo}: the run is for {run['head_sha']}, not the PR's head {facts.upstream.head_sha}"


def _workers_run(facts: Facts, run: Map) -> Iterator[str]:
    expect, page = facts.upstream.expect, facts.runs.get(WORKERS_REPO, {})
    if expect is None:
        yield from _real_run(facts, run, page)
        return
    if run["conclusion"] != expect.conclusion:
        yield f"the verdict is {run['conclusion']}, not {expect.conclusion}: {run['summary']}"
    runtime = (page.get("plan") or {}).get("runtime") or {}
    if runtime.get("kind") != "overlay" or REFS not in (runtime.get("files") or ()):
        yield f"the runtime is {runtime}, not an overlay with {REFS}"
    groups = (page.get("causes") or {}).get("groups", ())
    for kind, tests, keys in (
        ("regression", expect.regressions, expect.regressed_variants),
        ("pre-existing", expect.pre_existing, None),
    ):
        named = [test for group in groups if group["kind"] == kind for test in group["tests"]]
        yield from _differ(f"tests named as {kind}", {test["test"] for test in named}, tests)
        if keys is not None:
            yield from _differ(f"variants named as {kind}", {k["key"] for t in named for k in t["keys"]}, keys)
    for group in groups:
        if group["kind"] not in ("regression", "pre-existing"):
            yield f"the verdict calls {group['variants']} variants {group['kind']}: {group['message']}"
        if group["kind"] == "regression" and not (group["changes"] and group["why_selected"]):
            yield f"a regression does not say which change it comes from, or why it was selected: {group['message']}"
    if (page.get("not_exercised") or {}).get("total"):
        yield f"not exercised: {page['not_exercised']['rows']}, but the overlay holds every change"
    passed = {row["test"] for row in facts.results if row["outcome"] == "passed"}
    ran = {row["test"] for row in facts.results}
    for test in sorted(expect.passing - passed):
        yield f"{test} was to be selected and to pass"
    for test in sorted((expect.untouched | expect.irrelevant) & ran):
        yield f"{test} ran, but the change does not reach it or it is not for this device"
    dropped = {row["subject"] for row in facts.triage if row["verdict"] == "irrelevant"}
    for test in sorted(expect.irrelevant - dropped):
        yield f"{test} was to be found and called irrelevant for this device"
    if any(row["kernels"] is None for row in facts.results if row["outcome"] == "passed"):
        yield "some passed variants have no kernel count"


def _real_run(facts: Facts, run: Map, page: Map) -> Iterator[str]:
    """What must be true of a run on a tree that nobody here wrote, whatever its verdict."""
    planned, ran = run["counts"]["planned"], {row["test"] for row in facts.results}
    if run["conclusion"] not in CONCLUSIONS:
        yield f"the verdict is {run['conclusion']}, not one of {', '.join(CONCLUSIONS)}: {run['summary']}"
    if run["conclusion"] == "success" and (page.get("not_exercised") or {}).get("total"):
        yield "the verdict is success although part of the change was not exercised"
    if planned and not ran and run["conclusion"] != "neutral":
        yield f"{planned} tests were planned, none has a result, and the verdict is {run['conclusion']}"


def _github_run(facts: Facts, run: Map) -> Iterator[str]:
    sent = {d["key"]: d["count"] for d in facts.github.get("dispatches", ()) if d["repo"] == GITHUB_REPO}
    if list(sent.values()) != [1]:
        yield f"{GITHUB_REPO} was to get one dispatch, once; it got (by key) {sent}"
    answered = [n for n in facts.github.get("callbacks", ()) if n["http"] is not None and 200 <= n["http"] < 300]
    for status in ("in_progress", "completed"):
        if not any(note["status"] == status for note in answered):
            yield f"{GITHUB_REPO}: no {status} callback was answered 2xx: {facts.github.get('callbacks')}"
    if run["conclusion"] != "success":
        yield f"{GITHUB_REPO}: the run ended as {run['conclusion']}, its own CI reported success"


def _check_runs(facts: Facts) -> Iterator[str]:
    rows = [row for row in facts.github.get("check_runs", ()) if row["name"].startswith(f"crcr/{WORKERS_REPO}/")]
    if len(rows) != 1:
        yield f"there are {len(rows)} check runs named crcr/{WORKERS_REPO}/…, not 1"
    runs = {run["downstream"]: run["conclusion"] for run in facts.pr.get("dispatches", ())}
    wanted = facts.upstream.expect.conclusion if facts.upstream.expect is not None else runs.get(WORKERS_REPO)
    for row in rows:
        if (row["status"], row["conclusion"]) != ("completed", wanted):
            state = f"{row['status']}, {row['conclusion']}"
            yield f"the check run {row['name']} is {state}; not completed, {wanted}"
        if row["head_sha"] != facts.upstream.head_sha or row["repo"] != UPSTREAM_REPO:
            yield f"the check run {row['name']} is on {row['repo']} {row['head_sha']}, not on the PR's head"
    for row in facts.github.get("check_runs", ()):
        if row["name"].startswith(f"crcr/{GITHUB_REPO}/"):
            yield f"{GITHUB_REPO} is at level L2 and got a check run: {row['name']}"


def _hud(facts: Facts) -> Iterator[str]:
    """The wire format of the dashboard's intake."""
    levels = {WORKERS_REPO: "L4", GITHUB_REPO: "L2"}
    seen: Counter[tuple[str, str]] = Counter()
    for body in facts.github.get("hud", ()):
        trusted, callback = body["trusted"], body["untrusted"]["callback_payload"]
        repo, workflow = trusted["verified_repo"], callback["workflow"]
        status, metrics = workflow.get("status"), trusted.get("ci_metrics", {})
        seen[repo, status] += 1
        where = f"HUD row {repo} {status}"
        if set(body) != {"trusted", "untrusted"} or trusted.get("downstream_repo_level") != levels.get(repo):
            yield f"{where}: level {trusted.get('downstream_repo_level')}, parts {sorted(body)}"
        if callback.get("delivery_id") != facts.answers[0]["guid"] or not callback.get("payload"):
            yield f"{where}: delivery {callback.get('delivery_id')}, or its payload is missing"
        wanted, other = (
            ("queue_time", "execution_time") if status == "in_progress" else ("execution_time", "queue_time")
        )
        if not isinstance(metrics.get(wanted), (int, float)) or metrics.get(other) is not None:
            yield f"{where}: {wanted} must be seconds and {other} null: {metrics}"
        if status == "completed" and not workflow.get("conclusion"):
            yield f"{where}: without a conclusion"
    for repo in levels:
        for status in ("in_progress", "completed"):
            if not seen[repo, status]:
                yield f"there is no HUD row {repo} {status}"
    keys = Counter(key.split("/" + facts.answers[0]["guid"])[0] for key in facts.github.get("hud_rows", ()))
    for repo in levels:
        if keys[repo] > 1:
            yield f"{repo} has {keys[repo]} rows on the HUD for one job: its start and its end have different keys"


def _differ(what: str, got: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    missing, extra = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
    if missing:
        yield f"{what}: missing {', '.join(missing)}"
    if extra:
        yield f"{what}: unexpected {', '.join(extra)}"


def _workflow(body: Map) -> Map:
    found: Map = body["untrusted"]["callback_payload"]["workflow"]
    return found
