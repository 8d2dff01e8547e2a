"""What a run's page reads; see relay.store.views_parts for the rules that hold here as well."""

from __future__ import annotations

from typing import Any, get_args

from sqlalchemy import Connection, func, select

from relay.errors import BadRequest, NotFound
from relay.store import views_agents
from relay.store.schema import decision, dispatch, outbox, plan, result
from relay.store.shard_logs import TAILS
from relay.store.views_device import device_time_of
from relay.store.views_parts import (
    BRIEF,
    CLOSED,
    EFFECT,
    FAILING,
    brief,
    jobs_of,
    plain,
    plain_all,
    shards_of,
)
from selector.model import FailureKind, Outcome, Side, Stage

PER_PAGE = 25
MAX_PER_PAGE = 200
VARIANTS_OF_CAUSE = 20
ROWS_OF_LIST = 100
VARIANTS_COMPARED = 500
"""Failing variants that are looked up on the other side; a run with more has the verdict's word alone."""

KIND_ORDER = get_args(FailureKind)


def live(conn: Connection, id: str, *, base_url: str) -> dict[str, Any]:
    """The part of a run's page that moves while it runs. NotFound when there is no such run."""
    row = conn.execute(select(*BRIEF, dispatch.c.verdict, dispatch.c.oncalls).where(dispatch.c.id == id)).one_or_none()
    if row is None:
        raise NotFound(f"no run {id}", "its address comes from a check run, from /pr/<number> or from /")
    run = brief(row, base_url)
    verdict, oncalls = run.pop("verdict") or {}, run.pop("oncalls")
    planned = conn.execute(
        select(
            plan.c.runtime, plan.c.partial, plan.c.not_exercised, plan.c.counts, plan.c.timings, plan.c.warnings
        ).where(plan.c.dispatch_id == id)
    ).one_or_none()
    outcomes = outcomes_of(conn, id)
    shards = shards_of(conn, [id])[id]
    causes = verdict.get("causes") or []
    groups = group_causes(causes)
    compare(conn, id, groups)
    not_exercised = verdict.get("not_exercised") or (planned.not_exercised if planned else [])
    return {
        "run": run,
        "oncalls": oncalls,
        "open": run["state"] not in CLOSED,
        "plan": plain(planned) if planned else None,
        "outcomes": outcomes,
        "verdict": {k: verdict[k] for k in ("conclusion", "code", "sentence", "counts", "warnings") if k in verdict},
        "causes": {"total": len(causes), "groups": groups},
        "failing": [] if causes else failing(conn, id),
        "not_exercised": {"total": len(not_exercised), "rows": not_exercised[:ROWS_OF_LIST]},
        "shards": shards,
        "jobs": jobs_of(conn, [id])[id],
        "effects": effects(conn, id),
    }


def run(
    conn: Connection,
    id: str,
    *,
    base_url: str,
    now: float,
    side: str = "head",
    outcome: str | None = None,
    page: int = 1,
    per: int = PER_PAGE,
    stage: str | None = None,
    dpage: int = 1,
) -> dict[str, Any]:
    """Everything a run's page shows. ``page`` pages the results, ``dpage`` the decisions; both count from 1."""
    found = live(conn, id, base_url=base_url)
    left_out = conn.execute(select(plan.c.left_out).where(plan.c.dispatch_id == id)).scalar_one_or_none() or []
    return {
        "now": now,
        **found,
        "provenance": conn.execute(select(dispatch.c.provenance).where(dispatch.c.id == id)).scalar_one_or_none(),
        "left_out": {"total": len(left_out), "rows": left_out[:ROWS_OF_LIST]},
        "results": results(conn, id, found["outcomes"], side=side, outcome=outcome, page=page, per=per),
        "device": device_time_of(conn, id, side, over=not found["open"]),
        "decisions": decisions(conn, id, stage=stage, page=dpage, per=per),
        "agents": views_agents.of_run(conn, id),
    }


def outcomes_of(conn: Connection, id: str) -> dict[str, dict[str, int]]:
    """side -> outcome -> variants; an index alone answers it."""
    found: dict[str, dict[str, int]] = {side.value: {} for side in Side}
    for row in conn.execute(
        select(result.c.side, result.c.outcome, func.count().label("n"))
        .where(result.c.dispatch_id == id)
        .group_by(result.c.side, result.c.outcome)
    ):
        found[row.side][row.outcome] = row.n
    return found


def group_causes(causes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Causes that read the same (kind, message, changes) are one group; regressions first, then the larger ones."""
    groups: dict[tuple[str, str, tuple[str, ...]], dict[str, Any]] = {}
    for cause in causes:
        changes = tuple(cause.get("changes") or ())
        key = (cause["kind"], cause.get("message") or "", changes)
        group = groups.setdefault(
            key,
            {
                "kind": cause["kind"],
                "message": key[1],
                "changes": list(changes),
                "why_selected": [],
                "codes": [],
                "variants": 0,
                "tests": {},
            },
        )
        group["variants"] += 1
        _once(group["why_selected"], cause.get("why_selected"))
        for code in cause.get("codes") or ():
            _once(group["codes"], code)
        test = cause["test"]
        shown = group["tests"].setdefault(test, {"test": test, "variants": 0, "keys": []})
        shown["variants"] += 1
        if len(shown["keys"]) < VARIANTS_OF_CAUSE:
            shown["keys"].append({"key": cause["key"], "outcome": cause["outcome"], "log": None})
    for group in groups.values():
        tests = list(group["tests"].values())
        group["test_count"] = len(tests)
        group["tests"] = tests[:ROWS_OF_LIST]
    order = {kind: place for place, kind in enumerate(KIND_ORDER)}
    return sorted(groups.values(), key=lambda g: (order.get(g["kind"], len(order)), -g["variants"], g["message"]))


def compare(conn: Connection, id: str, groups: list[dict[str, Any]]) -> None:
    """Adds to each group how the variants it shows ended on the commit that the change is compared with, and where in
    which shard's log each of them failed."""
    shown = {key["key"]: key for group in groups for test in group["tests"] for key in test["keys"]}
    for group in groups:
        group["base"] = {}
    if not shown or len(shown) > VARIANTS_COMPARED:
        return
    of_key = {key["key"]: group for group in groups for test in group["tests"] for key in test["keys"]}
    columns = (
        result.c.test, result.c.variant, result.c.outcome, result.c.shard_id, result.c.fence, result.c.log_begin,
        result.c.log_end,
    )  # fmt: skip
    # the base side is small, and failures are one end of the head side's index
    based = select(*columns).where(result.c.dispatch_id == id, result.c.side == Side.BASE.value)
    failed = select(*columns).where(
        result.c.dispatch_id == id, result.c.side == Side.HEAD.value, result.c.outcome.in_(FAILING)
    )
    for row in conn.execute(based):
        if _key(row) in of_key:
            counts = of_key[_key(row)]["base"]
            counts[row.outcome] = counts.get(row.outcome, 0) + 1
    for row in conn.execute(failed.where(result.c.log_begin.is_not(None))):
        if _key(row) in shown:
            shown[_key(row)]["log"] = log_place(row)


def _key(row: Any) -> str:
    return f"{row.test.rpartition('::')[0]}::{row.variant}"


def log_place(row: Any) -> dict[str, Any]:
    """Where a variant's output stands: the shard, the lease whose log it is, and the bytes of it."""
    return {"shard": row.shard_id, "fence": row.fence, "begin": row.log_begin, "end": row.log_end}


def _once(items: list[str], item: str | None) -> None:
    if item and item not in items and len(items) < VARIANTS_OF_CAUSE:
        items.append(item)


def failing(conn: Connection, id: str, limit: int = 20) -> list[dict[str, Any]]:
    """The first failures of the head side, while there is no verdict yet."""
    rows = conn.execute(
        select(result.c.id, result.c.test, result.c.variant, result.c.outcome, result.c.message)
        .where(result.c.dispatch_id == id, result.c.side == "head", result.c.outcome.in_(FAILING))
        .order_by(result.c.outcome, result.c.id)
        .limit(limit)
    )
    return plain_all(rows)


def effects(conn: Connection, id: str, limit: int = 100) -> list[dict[str, Any]]:
    """The run's effects on the outside, oldest first, with the address GitHub gave a check run."""
    rows = conn.execute(
        select(*EFFECT, outbox.c.response).where(outbox.c.dispatch_id == id).order_by(outbox.c.id).limit(limit)
    )
    found = []
    for row in rows:
        entry = plain(row)
        response = entry.pop("response")
        entry["html_url"] = response.get("html_url") if isinstance(response, dict) else None
        found.append(entry)
    return found


def pages_of(total: int, page: int, per: int, what: str) -> int:
    """The number of pages. BadRequest for a page that is not there."""
    if not 1 <= per <= MAX_PER_PAGE:
        raise BadRequest(f"per: {per} rows a page", f"give 1 to {MAX_PER_PAGE}")
    pages = max(1, -(-total // per))
    if not 1 <= page <= pages:
        raise BadRequest(f"there is no page {page} of the {what}", f"the last page is {pages}")
    return pages


def results(
    conn: Connection,
    id: str,
    outcomes: dict[str, dict[str, int]],
    *,
    side: str,
    outcome: str | None,
    page: int,
    per: int,
) -> dict[str, Any]:
    """A page of results, failures first (by outcome, in the order of the index)."""
    if side not in outcomes:
        raise BadRequest(f"side: {side!r} is not a side of a run", "one of " + ", ".join(outcomes))
    if outcome is not None and outcome not in set(Outcome):
        raise BadRequest(f"outcome: {outcome!r} is not an outcome", "one of " + ", ".join(Outcome))
    total = outcomes[side].get(outcome, 0) if outcome else sum(outcomes[side].values())
    pages = pages_of(total, page, per, "results")
    wanted = [result.c.dispatch_id == id, result.c.side == side]
    if outcome:
        wanted.append(result.c.outcome == outcome)
    rows = conn.execute(
        select(
            result.c.id,
            result.c.test,
            result.c.variant,
            result.c.op,
            result.c.dtype,
            result.c.mode,
            result.c.outcome,
            result.c.reason,
            result.c.seconds,
            result.c.kernels,
            result.c.modelled_us,
            result.c.meter,
            result.c.message,
            result.c.shard_id,
            result.c.fence,
            result.c.log_begin,
            result.c.log_end,
            result.c.attempt,
            TAILS,
        )
        .where(*wanted)
        .order_by(result.c.outcome, result.c.id)
        .limit(per)
        .offset((page - 1) * per)
    )
    return {
        "side": side,
        "outcome": outcome,
        "page": page,
        "pages": pages,
        "per": per,
        "total": total,
        "rows": plain_all(rows),
    }


def decisions(conn: Connection, id: str, *, stage: str | None, page: int, per: int) -> dict[str, Any]:
    """A page of one stage's decisions; without ``stage`` the first that made any."""
    if stage is not None and stage not in set(Stage):
        raise BadRequest(f"stage: {stage!r} is not a stage", "one of " + ", ".join(Stage))
    counted = {
        row.stage: row.n
        for row in conn.execute(
            select(decision.c.stage, func.count().label("n"))
            .where(decision.c.dispatch_id == id)
            .group_by(decision.c.stage)
        )
    }
    counts = {str(s): counted.get(s, 0) for s in Stage}
    shown = stage or next((s for s, n in counts.items() if n), Stage.DISCOVER.value)
    pages = pages_of(counts[shown], page, per, "decisions")
    rows = conn.execute(
        select(
            decision.c.id,
            decision.c.stage,
            decision.c.subject,
            decision.c.verdict,
            decision.c.code,
            decision.c.reason,
            decision.c.evidence,
            decision.c.confidence,
            decision.c.by,
        )
        .where(decision.c.dispatch_id == id, decision.c.stage == shown)
        .order_by(decision.c.id)
        .limit(per)
        .offset((page - 1) * per)
    )
    return {
        "stage": shown,
        "counts": counts,
        "page": page,
        "pages": pages,
        "per": per,
        "total": counts[shown],
        "rows": plain_all(rows),
    }
