"""What must hold whatever happens, seen from outside: GitHub's and the dashboard's own records, the database by SQL."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import private_postgres
from sqlalchemy import text
from under_chaos.relay import OURS, OWN_CI, RelayUnderChaos
from under_chaos.traffic import Sent
from under_chaos.upstream import BROKEN, VARIANTS

from relay.store.schema import metadata

RECOVERY_S = 15.0
NAMES = ("nothing lost", "no double", "ended", "verdict", "recovery", "constraints")


@dataclass
class Findings:
    """What did not hold, by invariant."""

    of: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in NAMES})

    def add(self, name: str, what: str) -> None:
        self.of[name].append(what)

    @property
    def good(self) -> bool:
        return not any(self.of.values())

    def lines(self) -> Iterator[str]:
        for name, found in self.of.items():
            for what in found:
                yield f"{name}: {what}"


def check(
    relay: RelayUnderChaos, sent: Sequence[Sent], recovery_s: float, limit_s: float = RECOVERY_S, late: bool = False
) -> Findings:
    """Everything about the deliveries of a round, and the database as a whole. ``recovery_s``: the longest that one of
    them stood still after the fault. ``late``: the receivers did what they were asked when nobody waited any more."""
    found = Findings()
    state = relay.control("GET", "state")
    for one in sent:
        _ended(relay, one, found)
        _arrived(relay, state, one, found)
        if one.ours:
            _verdict(relay, one, found)
    _doubles(state, {one.sha for one in sent}, {one.guid for one in sent}, late, found)
    if recovery_s > limit_s:
        found.add("recovery", f"something stood still for {recovery_s:.1f} s after the fault")
    for problem in constraints(relay):
        found.add("constraints", problem)
    return found


def _ended(relay: RelayUnderChaos, one: Sent, found: Findings) -> None:
    if one.done_at is not None:
        return
    stuck = relay.rows(
        "select d.downstream, d.state, d.error, o.kind, o.state, o.last_error from dispatch d"
        " left join outbox o on o.dispatch_id = d.id and o.state = 'due' where d.delivery_id = :guid",
        guid=one.guid,
    )
    found.add("ended", f"pull request {one.number} has not ended: {[tuple(row) for row in stuck]}")


def _arrived(relay: RelayUnderChaos, state: dict[str, Any], one: Sent, found: Findings) -> None:
    """The event was stored, each downstream was told, and the dashboard and the check runs say how it ended."""
    runs = {row[1]: row for row in relay.rows(
        "select id, downstream, state, conclusion from dispatch where delivery_id = :guid", guid=one.guid
    )}  # fmt: skip
    for downstream in one.downstreams:
        if downstream not in runs:
            found.add("nothing lost", f"pull request {one.number}: {downstream} was not told")
            continue
        wanted = "failure" if downstream == OURS else "success"
        key, _, stored, conclusion = runs[downstream]
        if (stored, conclusion) != ("completed", wanted):
            found.add("nothing lost", f"pull request {one.number}: {downstream} is {stored}, {conclusion}")
        if downstream == OWN_CI and not any(d["key"] == key for d in state["dispatches"]):
            found.add("nothing lost", f"pull request {one.number}: no dispatch reached {downstream}")
        about = [row for name, row in state["hud_rows"].items() if name.startswith(f"{downstream}/{one.guid}/")]
        if [row.get("conclusion") for row in about] != [wanted]:
            found.add("nothing lost", f"pull request {one.number}: the dashboard shows {about} of {downstream}")
        checks = [
            run for run in state["check_runs"]
            if run["head_sha"] == one.sha and downstream in run["name"] and run["conclusion"] == wanted
        ]  # fmt: skip
        if not checks:
            found.add("nothing lost", f"pull request {one.number}: no check run of {downstream} says {wanted}")


def _verdict(relay: RelayUnderChaos, one: Sent, found: Findings) -> None:
    """The run on our own workers says exactly what it says in quiet times, from one result of each variant."""
    rows = relay.rows(
        "select r.test, r.variant, r.side, r.attempt, s.id, r.outcome, s.state from result r"
        " join dispatch d on d.id = r.dispatch_id join shard s on s.id = r.shard_id where d.delivery_id = :guid",
        guid=one.guid,
    )
    # a shard that its worker could not run is run again as a whole, by another one: that is a second opinion
    rows = [row for row in rows if row.state != "failed"]
    twice = [key for key, number in Counter(tuple(row[:4]) for row in rows).items() if number > 1]
    if twice:
        found.add("no double", f"pull request {one.number}: two results of {twice[:3]}")
    head = {row.variant for row in rows if row.side == "head"}
    if head != VARIANTS:
        found.add("verdict", f"pull request {one.number}: results of {sorted(head)}, not of {sorted(VARIANTS)}")
    failing = {row.test for row in rows if row.side == "head" and row.outcome not in ("passed", "skipped")}
    if failing != {BROKEN}:
        found.add("verdict", f"pull request {one.number}: {sorted(failing)} fail")
    said = relay.rows(
        "select code from dispatch where delivery_id = :guid and downstream = :ours", guid=one.guid, ours=OURS
    )
    if [row.code for row in said] != ["verify-regression"]:
        found.add("verdict", f"pull request {one.number}: the verdict is {[row.code for row in said]}")


def _doubles(state: dict[str, Any], shas: set[str], guids: set[str], late: bool, found: Findings) -> None:
    """At the receivers, by key: a check run by commit and name, a workflow run by dispatch key, a row of the dashboard
    by its key; a row that has ended stays so. ``late``: they act when nobody waits any more, and it counts what stands
    in the end."""
    checks = Counter((run["head_sha"], run["name"]) for run in state["check_runs"] if run["head_sha"] in shas)
    for (sha, name), number in checks.items():
        if number > 1 and not (late and _say_one_thing(state, sha, name)):
            found.add("no double", f"{number} check runs {name} on {sha[:8]}")
    begun = Counter(run["display_title"] for run in state["runs"] if run["conclusion"] != "skipped")
    for key, number in begun.items():
        if number > 1:
            found.add("no double", f"{number} workflow runs of dispatch {key}")
    last: dict[tuple[str, str, str, str], str] = {}
    for body in state["hud"]:
        callback = body["untrusted"]["callback_payload"]
        flow = callback["workflow"]
        if callback["delivery_id"] in guids:
            key = (body["trusted"]["verified_repo"], callback["delivery_id"], flow["job_name"], flow["name"])
            if last.get(key) == "completed" and flow["status"] != "completed" and not late:
                found.add("no double", f"the dashboard heard of {key} as {flow['status']} after its end")
            last[key] = flow["status"]
    for key, status in last.items():
        if late and status != "completed":
            found.add("no double", f"what the dashboard heard last of {key} is {status}")


def _say_one_thing(state: dict[str, Any], sha: str, name: str) -> bool:
    """Whether all check runs of a name say the same, so that it is one whichever of them is shown."""
    mine = [run for run in state["check_runs"] if (run["head_sha"], run["name"]) == (sha, name)]
    return len({(run["status"], run["conclusion"], str(run["output"])) for run in mine}) == 1


def constraints(relay: RelayUnderChaos) -> list[str]:
    """Problems of the database itself: foreign keys and unique keys by looking at every row, and its own checker."""
    problems = []
    for table in metadata.tables.values():
        for key in table.foreign_key_constraints:
            mine, theirs = key.column_keys, [element.column.name for element in key.elements]
            on = " and ".join(f'p.{b} = c."{a}"' for a, b in zip(mine, theirs, strict=True))
            there = " and ".join(f'c."{a}" is not null' for a in mine)
            query = (
                f'select count(*) from "{table.name}" c where {there} and not exists'
                f' (select 1 from "{key.referred_table.name}" p where {on})'
            )
            if orphans := relay.rows(query)[0][0]:
                problems.append(f"{orphans} rows of {table.name} refer to no {key.referred_table.name}")
    if relay.database == "sqlite":
        with relay.engine.connect().execution_options(read_only=True) as conn:
            told = [row[0] for row in conn.execute(text("pragma integrity_check")).all()]
            problems += [f"integrity_check: {line}" for line in told if line != "ok"]
            problems += [f"foreign_key_check: {tuple(row)}" for row in conn.execute(text("pragma foreign_key_check"))]
    else:
        problems += _amcheck(relay)
    return problems


def _amcheck(relay: RelayUnderChaos) -> list[str]:
    """PostgreSQL's own look at every table and index, with every entry of the heap looked for in each index."""
    assert relay.postgres is not None
    binary = relay.postgres.bin / "pg_amcheck"
    if not binary.exists():
        return [f"{binary} is not there: nothing checked the tables"]
    command = [
        str(binary), "--install-missing", "--heapallindexed", "-h", str(relay.postgres.folder), "-U", "relay", "relay",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, **private_postgres._unprivileged())
    return [f"pg_amcheck: {(done.stdout + done.stderr).strip()[-500:]}"] if done.returncode else []
