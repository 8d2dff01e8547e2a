"""A storm of deliveries: many, some several times, in any order, several at a time, over real HTTP; what each is about
is known beforehand, so what must come of it is too."""

from __future__ import annotations

import contextlib
import json
import random
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx2
from outbound_relay import pull_request
from under_chaos.invariants import Findings, constraints
from under_chaos.relay import OWN_CI, RelayUnderChaos
from under_chaos.rounds import Round
from under_chaos.traffic import OVER

from relay.demo.webhook import sign

AT_ONCE = 8
SHARE_TWICE = 0.35
"""of the deliveries that are repeats of another"""
MANY_S = 2400.0


@dataclass(frozen=True)
class Delivery:
    guid: str
    number: int
    sha: str
    at: int
    """GitHub's time of the event: what came last on a pull request is what counts"""
    raw: bytes
    signature: str


def plan(secret: str, total: int, rng: random.Random) -> tuple[list[Delivery], list[Delivery]]:
    """-> (the distinct deliveries, all that are sent: ``total``, some again and again, in any order)"""
    distinct: list[Delivery] = []
    pulls = max(1, total // 12)
    for at in range(int(total * (1 - SHARE_TWICE))):
        number = 50_000 + rng.randrange(pulls)
        sha = uuid.UUID(int=rng.getrandbits(128)).hex + "00000000"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + at))
        body = pull_request("synchronize", sha, number=number, author_association="NONE", updated_at=stamp)
        raw = json.dumps(body).encode()
        guid = str(uuid.UUID(int=rng.getrandbits(128)))
        distinct.append(Delivery(guid, number, sha, at, raw, sign(secret, raw)))
    sent = distinct + [rng.choice(distinct) for _ in range(total - len(distinct))]
    rng.shuffle(sent)
    return distinct, sent


def play(folder: Path, database: str, seed: int, total: int) -> Round:
    """Sends ``total`` deliveries; the findings of it."""
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    with contextlib.ExitStack() as stack:
        relay = RelayUnderChaos(folder, database, workers=False)
        relay.start(stack)
        distinct, sent = plan(relay.secret, total, rng)
        began = time.monotonic()
        answers = _send(relay, sent)
        sent_s = time.monotonic() - began
        left = (
            "select (select count(*) from delivery where state = 'received') + (select count(*) from outbox"
            " where state = 'due') + (select count(*) from dispatch where state not in ('completed', 'failed',"
            " 'superseded'))"
        )
        end = time.monotonic() + MANY_S
        while (waiting := relay.rows(left)[0][0]) and time.monotonic() < end:
            relay.pause(0.5)
        whole = time.monotonic() - began
        found = _check(relay, distinct, answers)
        if waiting:
            found.add("ended", f"{waiting} deliveries, effects and dispatches wait after {MANY_S:.0f} s")
        name = f"{total:,} deliveries ({len(distinct):,} distinct), repeated and in any order"
        doubles = sum(relay.control("GET", "state")["doubles"].values())
        return Round(name, database, sent_s, 0.0, whole, doubles, found.of)


def _send(relay: RelayUnderChaos, sent: list[Delivery]) -> Counter[int]:
    """All of them, as they come, ``AT_ONCE`` at a time, at the web process itself."""
    with httpx2.Client(trust_env=False, timeout=60) as http, ThreadPoolExecutor(AT_ONCE) as pool:

        def send(one: Delivery) -> int:
            headers = {
                "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": one.guid, "Content-Type": "application/json",
                "X-Hub-Signature-256": one.signature,
            }  # fmt: skip
            return http.post(f"{relay.url}/github/webhook", content=one.raw, headers=headers).status_code

        return Counter(pool.map(send, sent))


def _check(relay: RelayUnderChaos, distinct: list[Delivery], answers: Counter[int]) -> Findings:
    found = Findings()
    if set(answers) != {202}:
        found.add("nothing lost", f"answers: {dict(answers)}")
    stored = Counter(row[0] for row in relay.rows("select id from delivery"))
    if missing := [one.guid for one in distinct if one.guid not in stored]:
        found.add("nothing lost", f"{len(missing)} deliveries are not stored")
    runs = {
        row.delivery_id: row
        for row in relay.rows("select delivery_id, id, state, conclusion, pr_number, head_sha from dispatch")
    }
    last = {one.number: one for one in sorted(distinct, key=lambda one: one.at)}
    state = relay.control("GET", "state")
    begun = Counter(run["display_title"] for run in state["runs"] if run["conclusion"] != "skipped")
    checks = Counter((run["head_sha"], run["name"]) for run in state["check_runs"])
    for number, one in last.items():
        run = runs.get(one.guid)
        if run is None or (run.state, run.conclusion) != ("completed", "success"):
            found.add("nothing lost", f"pull request {number}: its newest commit is {run and tuple(run)}")
        elif begun[run.id] != 1:
            found.add("nothing lost", f"pull request {number}: {begun[run.id]} workflow runs of its newest commit")
        elif not any(
            row.get("conclusion") == "success" for key, row in state["hud_rows"].items()
            if key.startswith(f"{OWN_CI}/{one.guid}/")
        ):  # fmt: skip
            found.add("nothing lost", f"pull request {number}: the dashboard does not know its newest commit")
    for what, number in [*begun.items(), *checks.items()]:
        if number > 1:
            found.add("no double", f"{number} of {what}")
    if open_runs := [run for run in runs.values() if run.state not in OVER]:
        found.add("ended", f"{len(open_runs)} dispatches are open")
    for problem in constraints(relay):
        found.add("constraints", problem)
    return found
