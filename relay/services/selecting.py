"""Selecting the tests of a run: fetch the two commits, run the first three stages, store plan and shards.

Selecting takes seconds, so it is claimed: one process at a time, the claim renewed while it lives, taken over within
seconds when it dies. What it found is stored in one transaction that still holds the claim.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, Update, select, update
from sqlalchemy.exc import DBAPIError

from relay.errors import RelayError, fault
from relay.mirror.git import GitTree
from relay.services import advising, caches, closing, exploring, handed_in, queueing, run_job, traces
from relay.services.device_configs import DeviceConfigs
from relay.services.keeping import kept
from relay.services.pinning import Unusable, device_for
from relay.services.sharding import head_specs
from relay.services.upstream import mirror
from relay.settings import Settings
from relay.store import bisections, plans, shards, workers
from relay.store.db import reading
from relay.store.schema import dispatch
from selector.discover import Hints, Shelf
from selector.discover.measured import PastFailure
from selector.errors import NoWorker, SelectorError, TreeError
from selector.model import Change, OpDatabase, Selection, Side
from selector.opdb import from_value
from selector.pipeline import SelectionRequest
from selector.pipeline import select as run_selector
from selector.plan.model import Budget, WorkerOffer

log = structlog.get_logger(__name__)
CLAIM_S = 10.0
NO_MERGE_BASE = (
    "upstream's known history does not say where the change left its base: the two commits are compared as they are, "
    "so other changes count as this one's"
)
_SHELF = Shelf()
"""this process's last inventory: the next pull request's tree is nearly the same"""
NOBODY = "no queue takes this job now: no worker of {device} is alive; it waits for one"
HISTORY_S = 180 * 86400.0
"""Trunk's breakages this long ago still say which tests a file's changes break."""
SEARCHES = 1000
"""Newest searches on trunk that are looked at for them."""
MAX_TRIES = 5
"""Selections begun, not messages received: a run that waited long in the queue has not failed yet."""


def select_dispatch(engine: Engine, settings: Settings, dispatch_id: str) -> None:
    """Selects for one dispatch in state ``selecting``. Doing it again, or twice at once, has one effect."""
    claim = secrets.token_hex(16)
    run = _claim(engine, settings, dispatch_id, claim)
    if run is None:
        return
    try:
        with kept(engine, CLAIM_S / 3, lambda: _renewal(dispatch_id, claim), dispatch=dispatch_id):
            _select(engine, settings, run, claim)
    except TreeError as exc:
        # the two commits stay what they are: there is nothing to wait for
        _failed(engine, settings, run, claim, str(exc), final=True)
    except Unusable as exc:
        # the commit stays what it is
        _failed(engine, settings, run, claim, str(exc), final=True)
    except (queueing.NoQueue, NoWorker) as exc:
        # the workers that are there cannot, and waiting makes no other ones
        _failed(engine, settings, run, claim, str(exc), final=True, code=queueing.NoQueue.code)
    except (RelayError, SelectorError) as exc:
        _failed(engine, settings, run, claim, str(exc))
    except DBAPIError:
        raise  # nothing can be written down now: the claim runs out, and the pump hands the run over again
    except Exception as exc:
        # a fault of ours, and perhaps one that a hostile change can cause: the run must end all the same
        log.exception("selection broke", dispatch=run.id)
        _failed(engine, settings, run, claim, f"the relay failed while it selected tests: {fault(exc)}")
    mirror(settings).tidy(time.time())
    caches.tidy(settings, time.time())


def _select(engine: Engine, settings: Settings, run: Row[Any], claim: str) -> None:
    now = time.time()
    with reading(engine) as conn:
        alive = workers.alive(conn, run.device or settings.device, now)
        learned = exploring.learn(conn, run.device or settings.device, now)
        others = workers.all_alive(conn, now)
        opdb = _opdb(conn, alive)
    if not alive and others:
        raise queueing.refuse(run.device or settings.device, others)
    if not alive and now - run.created_at < settings.worker_wait_s:
        _wait_for_a_worker(engine, run, claim, now)
        return
    device = device_for(engine, settings, run, claim, now)
    repo = mirror(settings)
    fetched = time.perf_counter()
    change = repo.change(run.base_sha, run.head_sha, title=run.pr_title or "", pr_number=run.pr_number)
    repo.prepare(change.base, change.head)
    fetch_s = time.perf_counter() - fetched
    with GitTree(repo, change.base) as base, GitTree(repo, change.head) as head:
        asked = advising.advice_or_rules(settings, change, head, device.capability, learned)
        selection = run_selector(
            SelectionRequest(
                base=base,
                head=head,
                change=change,
                capability=device.capability,
                configs=device.configs,
                opdb=opdb,
                offers=tuple({WorkerOffer(w.torch, tuple(w.runtimes)) for w in alive}),
                budget=Budget(settings.budget_minutes * 60, settings.shard_seconds, max(1, len(alive))),
                cache=caches.cache(settings, "inventory"),
                engaged_before=learned.kernels,
                history=learned.history,
                times=handed_in.times(settings),
                hints=Hints(
                    handed_in.links(settings),
                    _failures(engine, run.device or settings.device, change, now),
                    trace=traces.in_use(engine, settings, run.device or settings.device, {w.torch for w in alive}),
                ),
                shelf=_SHELF,
                agent=asked.agent,
                models=asked.on_trial,
                suspect_room_s=asked.room_s,
                rankers=handed_in.rankers(settings),
            )
        )
    selection.timings["fetch"] = fetch_s
    if repo.merge_base(run.base_sha, run.head_sha) is None:
        selection = replace(selection, warnings=(*selection.warnings, NO_MERGE_BASE))
    selection, drawn = exploring.extend(selection, _SHELF.latest, device.configs, settings, len(alive))
    extra = {"exploration": drawn, "shadow": exploring.shadow_map(selection.shadow)}
    _store(engine, settings, run, claim, selection, device, extra, asked)


def _failures(engine: Engine, device: str, change: Change, now: float) -> tuple[PastFailure, ...]:
    """What trunk's own commits broke when they changed the same files. An unmerged change has no say in it: it could
    make every later run of a file dear."""
    paths = {path for file in change.files for path in (file.path, file.old_path) if path}
    with reading(engine) as conn:
        return bisections.broken_by_paths(conn, device, paths, now - HISTORY_S, SEARCHES)


def _store(
    engine: Engine,
    settings: Settings,
    run: Row[Any],
    claim: str,
    selection: Selection,
    device: DeviceConfigs,
    extra: dict[str, Any],
    asked: advising.Advice,
) -> None:
    now = time.time()
    device_name = run.device or settings.device
    specs = head_specs(selection.plan, selection.change.head, device, device_name)
    runtime = {"kind": selection.plan.runtime.kind.value, "torch": selection.plan.runtime.torch}
    begun = {"claim": None, "attempts": 0, "tries": 0, "error": None}
    state = {"state": "running", "due_at": None} if specs else {"state": "verifying", "due_at": now, "ran_at": now}
    with engine.begin() as conn:
        mine = conn.execute(
            update(dispatch)
            .where(dispatch.c.id == run.id, dispatch.c.state == "selecting", dispatch.c.claim == claim)
            .values(selected_at=now, compare_sha=selection.change.base, **begun, **state)
        )
        if mine.rowcount != 1:
            log.info("selection dropped: the run went on without it", dispatch=run.id)
            return
        plans.store(conn, run.id, selection, now, **extra)
        asked.store(conn, run.id, device_name, now)
        shards.add(
            conn,
            dispatch_id=run.id,
            side=Side.HEAD.value,
            queue=queueing.queue_of(conn, device_name, runtime, now),
            specs=specs,
            now=now,
        )
    log.info("selected", dispatch=run.id, shards=len(specs), **selection.counts)


def _claim(engine: Engine, settings: Settings, dispatch_id: str, claim: str) -> Row[Any] | None:
    """The run as it is now, claimed and counted as one more try; None where there is nothing to do."""
    now = time.time()
    with engine.begin() as conn:
        row = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id).with_for_update()).one_or_none()
        # the pump moved due_at on when it sent the message, so a claim is what says that somebody is at work
        if row is None or row.state != "selecting" or (row.claim is not None and (row.due_at or 0) > now):
            return None
        if row.tries >= MAX_TRIES:  # none of them came to its end, or the run would have ended with it
            error = f"{row.tries} processes that selected its tests ended in the middle of it"
            closing.without_verdict(conn, settings, dispatch_id, code="select-failed", error=error, now=now)
            return None
        mine = {"claim": claim, "due_at": now + CLAIM_S, "tries": row.tries + 1}
        conn.execute(update(dispatch).where(dispatch.c.id == dispatch_id).values(**mine))
        # announced while the run is surely wanted: who supersedes it sees the job, and ends it too
        run_job.ensure(conn, settings, row, now)
        return conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()


def _wait_for_a_worker(engine: Engine, run: Row[Any], claim: str, now: float) -> None:
    with engine.begin() as conn:
        conn.execute(
            update(dispatch)
            .where(dispatch.c.id == run.id, dispatch.c.claim == claim)
            .values(claim=None, due_at=now + 0.5, attempts=0, tries=0, error=NOBODY.format(device=run.device))
        )


def _failed(
    engine: Engine, settings: Settings, run: Row[Any], claim: str, error: str, *,
    final: bool = False, code: str = "select-failed",
) -> None:  # fmt: skip
    """Tries again a little later, and at last (at once, when ``final``) says on the pull request that nothing could be
    selected."""
    now = time.time()
    log.warning("selection failed", dispatch=run.id, attempt=run.tries, error=error)
    final = final or run.tries >= MAX_TRIES
    again = now if final else now + settings.requeue_s * 2**run.tries
    with engine.begin() as conn:
        mine = conn.execute(
            update(dispatch)
            .where(dispatch.c.id == run.id, dispatch.c.state == "selecting", dispatch.c.claim == claim)
            .values(claim=None, due_at=again, error=error)
        )
        if mine.rowcount and final:
            closing.without_verdict(conn, settings, run.id, code=code, error=error, now=now)


def _renewal(dispatch_id: str, claim: str) -> Update:
    mine = (dispatch.c.id == dispatch_id, dispatch.c.claim == claim, dispatch.c.state == "selecting")
    return update(dispatch).where(*mine).values(due_at=time.time() + CLAIM_S)


def _opdb(conn: Connection, alive: Any) -> OpDatabase | None:
    for w in alive:
        stored = workers.load_opdb(conn, w.torch)
        if stored is not None:
            return from_value(stored)
    return None
