"""An upgrade from asked for to answered: compared, run on both sides, judged, told. One step a call, by one process.

A night is compared with the last good one before it. What is to be run is run as the relay's own runs of trunk are, on
workers whose torch is the side's; the results decide whether a failing test is a regression or a newcomer.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, Update, select, update
from sqlalchemy.exc import DBAPIError

from relay.errors import RelayError, fault
from relay.mirror.git import GitTree
from relay.services import caches, nights, trunk_runs
from relay.services.device_configs import DeviceConfigs, load_device
from relay.services.keeping import kept
from relay.services.sharding import shard_spec
from relay.services.upgrading import Release, report
from relay.services.upstream import mirror
from relay.settings import Settings
from relay.store import bisections, upgrade_changes, upgrades, workers
from relay.store.db import reading
from relay.store.schema import shard, upgrade
from selector.discover.inventory import is_inventoried
from selector.discover.traced import minor
from selector.errors import SelectorError
from selector.model import OpDatabase, TestId
from selector.opdb import from_value
from selector.plan import Budget, WorkerOffer
from selector.trees import OnlyTree
from selector.verify.upgrade import Stood, counts, stand

log = structlog.get_logger(__name__)
CLAIM_S = 30.0
LOOK_S = 2.0
MAX_TRIES = 5
RUNTIME = "tests-only"
CLOSED = ("completed", "failed", "superseded")
SEARCHES = 4
"""commits that one night searches for"""
SHOWN = 5_000
"""tests that the outcome names; its counts are of all"""
MESSAGE = 500
"""characters of a failure's message that are stored"""


def go_on(engine: Engine, settings: Settings, id: str, now: float) -> None:
    """One step of an upgrade. Doing it again, or twice at once, has one effect."""
    token = secrets.token_hex(16)
    with engine.begin() as conn:
        row = upgrades.claim(conn, id, token, now, now + CLAIM_S)
    if row is None:
        return
    try:
        with kept(engine, CLAIM_S / 3, lambda: _renewal(id, token), upgrade=id):
            if row.state == "due":
                _compare(engine, settings, row, token, now)
            else:
                _look(engine, settings, row, token, now)
    except (RelayError, SelectorError) as exc:
        _failed(engine, row, token, str(exc), now)
    except DBAPIError:
        raise  # the claim runs out, and another step takes it up
    except Exception as exc:
        log.exception("an upgrade broke", upgrade=id)
        _failed(engine, row, token, f"the relay failed while it worked on this: {fault(exc)}", now)


# ------------------------------------------------------------------------------------------------------------- compare


def _compare(engine: Engine, settings: Settings, row: Row[Any], token: str, now: float) -> None:
    repo = mirror(settings)
    old = row.old
    if row.kind == "nightly":
        with reading(engine) as conn:
            earlier = upgrades.before(conn, row)
        if any(one.state in upgrades.OPEN for one in earlier):
            _later(engine, row, token, now)  # nights are answered in their order
            return
        good = next((one for one in earlier if one.good), None)
        if good is None:
            first = {"state": "completed", "good": True, "code": "upgrade-first", "due_at": None, "closed_at": now}
            summary = "the first night: what later ones are compared with"
            with engine.begin() as conn:
                upgrades.move(conn, row.id, token, new_sha=row.new, summary=summary, **first)
            return
        old = good.new_sha
    old_sha, new_sha = (nights.commit(repo, name) for name in (old, row.new))
    with reading(engine) as conn:
        alive = workers.alive(conn, row.device, now)
        torches = {w.torch: workers.load_opdb(conn, w.torch) for w in alive}
    device = load_device(settings.configs_dir)
    repo.prepare(old_sha, new_sha)
    with GitTree(repo, old_sha) as old_tree, GitTree(repo, new_sha) as new_tree:
        notes: list[str] = []
        able = {w.torch for w in alive if RUNTIME in w.runtimes}
        sides = [
            _torch_for(tree, able, name, exact=row.kind == "release", notes=notes)
            for tree, name in ((old_tree, old), (new_tree, row.new))
        ]
        databases = [_database(torches, torch) for torch in sides]
        value = report(
            Release(old_sha if row.old is None else str(row.old), OnlyTree(old_tree, is_inventoried), databases[0]),
            Release(row.night or row.new, OnlyTree(new_tree, is_inventoried), databases[1]),
            device,
            (WorkerOffer(sides[1] or sides[0] or "unknown", (RUNTIME,)),),
            Budget(settings.budget_minutes * 60, settings.shard_seconds, max(1, len(alive))),
            datetime.fromtimestamp(now, UTC).date(),
            caches.cache(settings, "inventory"),
        ).value
    compared = {"old_sha": old_sha, "new_sha": new_sha, "counts": _counts(value)}
    with engine.begin() as conn:
        runs = _request(conn, settings, row, value, device, (old_sha, new_sha), sides, now)
        going = any(runs[side] for side in ("old", "new"))
        values = {**compared, "old": row.old or old_sha, "runs": {**runs, "notes": notes}, "compared_at": time.time()}
        values |= {"state": "running", "due_at": now + LOOK_S if going else now, "attempts": 0, "tries": 0}
        if not upgrades.keep(conn, row.id, token, value, error=None, **values):
            raise _Lost(row.id)
    caches.tidy(settings, now)
    log.info("upgrade compared", upgrade=row.id, old=old_sha, new=new_sha, **_counts(value)["totals"])


class _Lost(RelayError):
    """Another process has taken the upgrade over: what this one asked for is rolled back with its transaction."""

    code = "upgrade-lost"
    status = 409

    def __init__(self, id: str) -> None:
        super().__init__(f"upgrade {id} is another process's by now", "nothing is to be done")


def _counts(value: Mapping[str, Any]) -> dict[str, Any]:
    totals = {key: value[key] for key in ("evaluate", "relevant", "carried", "planned")}
    seconds = value["seconds"].get("all")
    return {"kinds": value["kinds"], "total": value["total"], "totals": totals, "seconds": seconds}


def _torch_for(tree: GitTree, able: set[str], name: str, *, exact: bool, notes: list[str]) -> str | None:
    """The torch of the live workers that a side is run on: that of the side's own version. A night's build is nobody's:
    there the newest torch runs the night's tests, and it is said."""
    try:
        version = tree.read("version.txt").decode("ascii", "replace").strip()
    except KeyError:
        version = ""
    same = sorted((torch for torch in able if minor(torch) == minor(version)), key=torch_number)
    if same:
        return same[-1]
    if not able:
        notes.append(f"{name}: no worker is alive; it is compared, not run")
        return None
    if exact and version:
        notes.append(
            f"{name}: no live worker has torch {minor(version)} (there is {', '.join(sorted(able))}); it is not run"
        )
        return None
    newest = max(able, key=torch_number)
    notes.append(f"{name}: its tests run on torch {newest}, no worker has {version or 'its own'}")
    return newest


def torch_number(torch: str) -> tuple[int, ...]:
    """What versions of torch are ordered by."""
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in torch.split("+")[0].split("."))


def _database(torches: Mapping[str, Any], torch: str | None) -> OpDatabase | None:
    stored = torches.get(torch) if torch is not None else None
    return from_value(stored) if stored is not None else None


def _request(
    conn: Connection,
    settings: Settings,
    row: Row[Any],
    value: Mapping[str, Any],
    device: DeviceConfigs,
    commits: tuple[str, str],
    torches: Sequence[str | None],
    now: float,
) -> dict[str, Any]:
    """Asks for the plan's tests on the new side, and for those that the old one has, by their names there."""
    was = _was(value)
    asked: dict[str, Any] = {"old": None, "new": None}
    for side, commit, torch in zip(("old", "new"), commits, torches, strict=True):
        specs = []
        for part in value["plan"]["shards"] if torch is not None else ():
            names = {test: was.get(test) if side == "old" else test for test in part["tests"]}
            tests = [name for name in names.values() if name]
            ops = {name: value["plan"]["ops"][t] for t, name in names.items() if name and t in value["plan"]["ops"]}
            if tests:
                runtime = {"kind": RUNTIME, "torch": str(torch), "files": []}
                specs.append(shard_spec(row.device, commit, runtime, device, tests, part["seconds"], ops))
        if specs:
            why = f"{row.night or 'upgrade'} {row.id} {side}"
            run = trunk_runs.request(conn, settings, specs, commit, now, why=why)
            asked[side] = {"run": run, "torch": torch, "tests": sum(len(spec["tests"]) for spec in specs)}
    return asked


def _was(value: Mapping[str, Any]) -> dict[str, str]:
    """Tests of the report that the old side has -> their names there."""
    return {c["test"]: c["was"] or c["test"] for c in value["changes"] if c["kind"] not in ("new", "gone")}


# --------------------------------------------------------------------------------------------------------------- judge


def _look(engine: Engine, settings: Settings, row: Row[Any], token: str, now: float) -> None:
    ids = {side: row.runs[side]["run"] for side in ("old", "new") if row.runs[side]}
    with reading(engine) as conn:
        states = upgrades.run_states(conn, list(ids.values()))
    if any(state not in CLOSED for state in states.values()):
        _later(engine, row, token, now, ids.get("new"))
        return
    with reading(engine) as conn:
        shown = {side: upgrades.results_of(conn, id) for side, id in ids.items()}
    value = upgrades.unpack(row.report) or {}
    planned = [TestId.parse(test) for part in value["plan"]["shards"] for test in part["tests"]]
    was = {TestId.parse(test): TestId.parse(name) for test, name in _was(value).items()}
    stood = stand(planned, was, shown.get("new", ()), shown.get("old", ()))
    numbers = counts(stood)
    told = [
        _plain(one) for one in sorted(stood, key=lambda s: list(numbers).index(s.standing)) if one.standing != "passes"
    ]
    good = _is_good(numbers, planned, ids)
    code = "upgrade-not-run" if "new" not in ids and planned else "upgrade-good" if good else "upgrade-regressed"
    entry = nights.listener(engine, settings, row.device, now) if row.kind == "nightly" else None
    with engine.begin() as conn:
        values = {"state": "completed", "due_at": None, "closed_at": now, "good": good, "code": code, "error": None}
        summary = _sentence(numbers, len(planned), row.runs["notes"])
        outcome = {"counts": numbers, "tests": told[:SHOWN]}
        if not upgrades.move(conn, row.id, token, outcome=outcome, summary=summary, **values):
            return
        upgrade_changes.note_results(conn, row.id, ids.get("new"))
        standings = {str(one.test): (one.standing, one.message[:MESSAGE]) for one in stood}
        upgrade_changes.note_standings(conn, row.id, standings)
        if row.kind == "nightly":
            if entry is not None:
                nights.tell(conn, settings, entry, row, numbers, good, now)
            _search(conn, row, stood, now)
    log.info("upgrade answered", upgrade=row.id, good=good, **numbers)


def _is_good(numbers: Mapping[str, int], planned: Sequence[TestId], ids: Mapping[str, str]) -> bool | None:
    """None where nothing was seen of what was to be seen."""
    if numbers["regression"]:
        return False
    if not planned:
        return True
    ran = sum(numbers.values()) - numbers["not-run"] - numbers["environment"]
    return True if "new" in ids and ran else None


def _plain(one: Stood) -> dict[str, Any]:
    return {
        "test": str(one.test),
        "standing": one.standing,
        "variants": list(one.variants[:20]),
        "message": one.message[:MESSAGE],
    }


def _sentence(numbers: Mapping[str, int], planned: int, notes: Sequence[str]) -> str:
    if not planned:
        return "nothing that the device runs has changed"
    words = {
        "regression": "passed before and fail",
        "newcomer-fails": "are new and fail",
        "fails-on-both": "fail on both sides",
        "unknown": "fail, unseen before",
        "fixed": "pass now",
    }
    told = [f"{numbers[key]} {word}" for key, word in words.items() if numbers[key]]
    ran = planned - numbers["not-run"]
    return f"{ran} of {planned} tests ran: {', '.join(told) or 'all as before'}" + "".join(
        f"; {note}" for note in notes
    )


def _search(conn: Connection, row: Row[Any], stood: Sequence[Stood], now: float) -> None:
    """Begins the search for the commit behind a night's regressions: the relay's runs of trunk go on with it."""
    run = row.runs["new"]["run"] if row.runs["new"] else None
    spec = conn.execute(select(shard.c.spec).where(shard.c.dispatch_id == run).limit(1)).scalar_one_or_none()
    if spec is None:
        return
    for one in [s for s in stood if s.standing == "regression"][:SEARCHES]:
        key = f"{one.test.file}::{one.test.cls}::{one.variants[0]}"
        alone = {**spec, "tests": [str(one.test)], "variants": [key], "est_seconds": 2.0}
        bisections.open_(
            conn,
            device=row.device,
            test=str(one.test),
            variant=one.variants[0],
            bad_sha=row.new_sha,
            spec=alone,
            now=now,
        )


# ------------------------------------------------------------------------------------------------------------ the claim


def _later(engine: Engine, row: Row[Any], token: str, now: float, run: str | None = None) -> None:
    with engine.begin() as conn:
        if upgrades.move(conn, row.id, token, due_at=now + LOOK_S, attempts=0):
            upgrade_changes.note_results(conn, row.id, run)


def _failed(engine: Engine, row: Row[Any], token: str, error: str, now: float) -> None:
    tries = row.tries + 1
    log.warning("upgrade failed", upgrade=row.id, tries=tries, error=error)
    values: dict[str, Any] = {"tries": tries, "error": error, "due_at": now + 30.0 * 2**tries, "attempts": 0}
    if tries >= MAX_TRIES:
        values |= {"state": "failed", "due_at": None, "closed_at": now, "code": "upgrade-failed", "summary": error}
    with engine.begin() as conn:
        upgrades.move(conn, row.id, token, **values)


def _renewal(id: str, token: str) -> Update:
    mine = (upgrade.c.id == id, upgrade.c.claim == token, upgrade.c.claim_until > 0)
    return update(upgrade).where(*mine).values(claim_until=time.time() + CLAIM_S)
