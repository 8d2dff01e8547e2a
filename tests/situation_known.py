"""What is known before a situation is played: of trunk, of quarantine, of other changes (tests/situation_table.py)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from situation_bodies import BAD, OK, PASSES, VALUE, files_of
from situation_lab import TORCH, Lab, Worker, module
from sqlalchemy import insert

from relay.services import trunk_runs
from relay.store import workers
from relay.store.schema import quarantine
from selector.plan.modes import ENOUGH


def trunk_of(*commits: Mapping[str, str | None], repeat: int = 1) -> Callable[[Lab, str], Mapping[str, Any]]:
    """Runs the whole files of these further commits of trunk beforehand; with none, of the base."""

    def before(lab: Lab, base: str) -> Mapping[str, Any]:
        shas = [base] if not commits else [_ahead(lab, base, files) for files in commits]
        for sha in shas:
            for n in range(repeat):
                _run_trunk(lab, sha, f"history {n}", commits[0] if commits else {})
        return {}

    return before


def _ahead(lab: Lab, base: str, files: Mapping[str, str | None]) -> str:
    return lab.commit(files, base, "a later commit of trunk")


def _run_trunk(lab: Lab, sha: str, why: str, files: Mapping[str, str | None], tests: tuple[str, ...] = ()) -> None:
    crew = [lab.enrol(Worker("w1"))]
    spec = {**lab.spec(), "tests": list(tests) or lab.tests_at(sha, files), "est_seconds": 1.0}
    with lab.engine.begin() as conn:
        run = trunk_runs.request(conn, lab.settings, [spec], sha, time.time(), why=f"{why} {time.monotonic_ns()}")
    assert run is not None
    assert lab.finish(run, crew).code == "trunk-ran"


def company_known(lab: Lab, base: str) -> Mapping[str, Any]:
    """Trunk has run both tests together (the second fails) and each alone (it passes), on one commit."""
    both = tuple(f"test/test_company2.py::TestIt::{name}" for name in ("test_a_leaves_something", "test_b_minds"))
    for tests in (both, both[::-1], both[:1], both[1:]):  # whichever comes second minds
        _run_trunk(lab, base, "company", {}, tests)
    return {}


def put_into_quarantine(test: str, until_s: float) -> Callable[[Lab, str], Mapping[str, Any]]:
    def before(lab: Lab, base: str) -> Mapping[str, Any]:
        now = time.time()
        values = {"device": "spyre", "test": test, "variant": "", "reason": "loses a race", "evidence": "seen by hand"}
        with lab.engine.begin() as conn:
            conn.execute(
                insert(quarantine).values(**values, issue="example/backend#7", until=now + until_s, created_at=now)
            )
        return {}

    return before


def poisoned(lab: Lab, base: str) -> Mapping[str, Any]:
    """Before the change is played, another pull request of the same author makes the test fail and pass by turns, and
    one against a stacked base of the author's own makes its *base* fail."""
    file = "test/test_poison.py"
    flaky = {file: module("TestIt", VALUE, "def weight():\n    return 2.0 + (os.urandom(1)[0] % 2)\n")}
    broken = {file: module("TestIt", VALUE, BAD)}
    crew = [lab.enrol(Worker("w1"))]
    for _ in range(3):
        lab.play(lab.commit(flaky, base), base, crew)
    stacked = lab.commit(broken, base)
    on_top = {file: module("TestIt", VALUE + OK, BAD)}
    lab.play(lab.commit(on_top, stacked), stacked, crew, base_ref="gh/mallory/1/base")
    return {}


def base_known(lab: Lab, base: str) -> Mapping[str, Any]:
    """Another change has had the same base run for it."""
    file = "test/test_known.py"
    lab.play(lab.commit({file: module("TestIt", VALUE, "def weight():\n    return 5.0\n")}, base), base, [Worker("w1")])
    return {}


def known(
    name: str, body: str, top: str = "", *, commits: int = 3, repeat: int = 2
) -> Callable[[Lab, str], Mapping[str, Any]]:
    """Trunk has run the whole file so often, on so many commits, as it is with this helper."""
    return trunk_of(*(files_of(name, module("TestIt", body, top, n + 2)) for n in range(commits)), repeat=repeat)


def unmerged(lab: Lab, base: str) -> Mapping[str, Any]:
    """As many pull requests as it takes for an expectation have failed the test, and none of them is merged."""
    crew = [lab.enrol(Worker("w1"))]
    for n in range(ENOUGH.runs):
        lab.play(lab.commit(files_of("unmerged", module("TestIt", VALUE + PASSES, BAD, n + 2)), base), base, crew)
    return {}


def ops_known(lab: Lab, base: str) -> Mapping[str, Any]:
    """The worker has told which ops its torch has."""
    out = lab.tmp / "opdb.json"
    subprocess.run([sys.executable, "-m", "relay.worker.opdb", "--out", str(out)], check=True, capture_output=True)
    with lab.engine.begin() as conn:
        workers.store_opdb(conn, TORCH, out.read_bytes(), time.time())
    return {}
