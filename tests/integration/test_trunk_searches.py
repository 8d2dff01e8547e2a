"""Trunk's own runs: the commit that broke a test is searched for, and what trunk shows is proposed."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from factories import make_run, result_line, shard_spec
from sqlalchemy import insert, select, update

from relay.services import bisecting, concluding, leasing, proposing
from relay.services.upstream import mirror
from relay.settings import Settings
from relay.store import shards
from relay.store.db import reading
from relay.store.schema import bisection, dispatch, proposal, result, shard
from selector.verify.bisect import Found

TEST = "test/test_x.py::TestX::test_a"
KEY = "test/test_x.py::TestX::test_a_spyre"
SHEET = "capability: {name: toy, device: spyre, dtypes: [float32]}\n"
CONFIG = """test_suite_config:
  extends: capability.yaml
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: mandatory_success
      tests:
        - {names: [TestX::test_old], mode: xfail, reason: rounds, until: 2020-01-01}
"""


@pytest.fixture
def history(tmp_path):
    """Twenty commits of trunk, oldest first."""
    repo = tmp_path / "upstream"
    who = {f"GIT_{r}_{w}": "t" for r in ("AUTHOR", "COMMITTER") for w in ("NAME", "EMAIL")}

    def git(*args):
        env = {**os.environ, **who}
        done = subprocess.run(["git", "-C", str(repo), *args], env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (repo / "test").mkdir(parents=True)
    git("init", "-q", "-b", "main")
    shas = []
    for n in range(20):
        (repo / "test" / "test_x.py").write_text(f"N = {n}\n")
        git("add", ".")
        git("commit", "-q", "-m", f"c{n}")
        shas.append(git("rev-parse", "HEAD"))
    return shas


@pytest.fixture
def settings(tmp_path, history):
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "capability.yaml").write_text(SHEET)
    (configs / "x.yaml").write_text(CONFIG)
    found = Settings(data_dir=tmp_path, upstream_url=str(tmp_path / "upstream"), configs_dir=configs)
    mirror(found).ensure(history[-1])
    return found


def play_trunk(engine, settings, history, first_bad, silent=()):
    """The worker: runs what is queued, as a trunk that ``first_bad`` broke. -> commits that were run."""
    ran = []
    with reading(engine) as conn:
        queued = conn.execute(select(shard.c.id, shard.c.spec, shard.c.dispatch_id).where(shard.c.state == "queued"))
        rows = queued.all()
    for row in rows:
        at = history.index(row.spec["commit"])
        ran.append(at)
        token = leasing.take(engine, settings, row.id, "w", time.time())["token"]
        failed = {"outcome": "failed", "message": "Error: no"} if at >= first_bad else {}
        report = {"unmatched": [TEST]} if at in silent else {}
        lines = [] if at in silent else [result_line("test_a_spyre", test=TEST, **failed)]
        leasing.record(engine, settings, row.id, token, lines, time.time())
        leasing.complete(engine, settings, row.id, token, status="done", error=None, report=report, now=time.time())
        concluding.conclude(engine, settings, row.dispatch_id, time.time())
    return ran


def broken_run(engine, settings, history, at=-1, **over):
    """A pull request against ``history[at]`` whose failure is there without it, too; concluded."""
    run = make_run(engine, head_sha="f" * 40, base_sha=history[at], compare_sha=history[at], base_ref="main", **over)
    now = time.time()
    with engine.begin() as conn:
        for side, commit in (("head", "f" * 40), ("base", history[at])):
            shards.add(
                conn, dispatch_id=run, side=side, queue="q", now=now,
                specs=[{**shard_spec(TEST, commit=commit), **({"round": 1} if side == "base" else {})}],
            )  # fmt: skip
        for row in conn.execute(select(shard).where(shard.c.dispatch_id == run)):
            line = row_of(outcome="failed", message="Error: no")
            more = {"dispatch_id": run, "shard_id": row.id, "side": row.side, "fence": 1, "recorded_at": now}
            conn.execute(insert(result).values(**line, **more))
        conn.execute(update(shard).values(state="done", due_at=None))
        conn.execute(update(dispatch).where(dispatch.c.id == run).values(state="verifying", due_at=now))
    concluding.conclude(engine, settings, run, now)
    return run


def row_of(**over):
    """The columns of a result that a worker's line fills."""
    return {k: v for k, v in result_line("test_a_spyre", test=TEST, **over).items() if k in result.c}


def searches(engine):
    with reading(engine) as conn:
        return conn.execute(select(bisection)).all()


@pytest.mark.parametrize("first_bad", [1, 13, 19])
def test_the_commit_that_broke_it_is_found_by_few_runs_and_named(engine, settings, history, first_bad):
    broken_run(engine, settings, history)
    ran = []
    for _ in range(12):
        bisecting.go_on(engine, settings)
        bisecting.go_on(engine, settings)  # while the run is under way it asks for nothing more
        new = play_trunk(engine, settings, history, first_bad)
        assert len(new) <= 1
        ran += new
        if not new:
            break
    (found,) = searches(engine)
    assert (found.state, found.first_bad, found.last_good) == ("found", history[first_bad], history[first_bad - 1])
    assert found.paths == ["test/test_x.py"]
    assert found.runs == len(ran) == len(set(ran)) <= 9
    run = broken_run(engine, settings, history, pr_number=8)
    with reading(engine) as conn:
        verdict = conn.execute(select(dispatch.c.verdict).where(dispatch.c.id == run)).scalar_one()
    reasons = [d["reason"] for d in verdict["decisions"] if d["code"] == "verify-pre-existing"]
    assert f"(broken on trunk by {history[first_bad][:10]})" in reasons[0]
    assert len(searches(engine)) == 1, "it is not searched for again"


def test_results_that_are_stored_need_no_run(engine, settings, history):
    broken_run(engine, settings, history, at=13, pr_number=9)
    with engine.begin() as conn:  # what another change's base showed
        conn.execute(bisection.delete())
    run = make_run(engine, compare_sha=history[12], base_ref="main", state="completed")
    with engine.begin() as conn:
        (id,) = shards.add(conn, dispatch_id=run, side="base", queue="q", now=1.0, specs=[shard_spec(TEST)])
        more = {"dispatch_id": run, "shard_id": id, "side": "base", "fence": 1, "recorded_at": time.time()}
        conn.execute(insert(result).values(**row_of(), **more))
        conn.execute(update(shard).values(state="done"))
    broken_run(engine, settings, history)
    assert bisecting.go_on(engine, settings) == 1
    (found,) = searches(engine)
    assert (found.state, found.first_bad, found.runs) == ("found", history[13], 0)


def test_a_commit_that_changes_very_much_or_cannot_be_read_says_of_no_path_what_it_breaks(
    engine, settings, history, monkeypatch
):
    repo = mirror(settings)
    one_file = Found(history[13], history[12], ())
    assert bisecting._paths(repo, one_file) == ("test/test_x.py",)
    monkeypatch.setattr(bisecting, "PATHS", 0)
    assert bisecting._paths(repo, one_file) is None
    assert bisecting._paths(repo, Found("9" * 40, history[12], ())) is None


def test_commits_without_the_test_say_nothing_and_an_unmerged_base_is_not_searched(engine, settings, history):
    broken_run(engine, settings, history)
    with engine.begin() as conn:
        conn.execute(update(dispatch).values(base_ref="main"))
    for _ in range(14):
        bisecting.go_on(engine, settings)
        if not play_trunk(engine, settings, history, 12, silent=(10, 11)):
            break
    (found,) = searches(engine)
    assert (found.first_bad, found.last_good) == (history[12], history[9])
    assert "2 commits before it say nothing" in found.reason
    assert found.paths is None, "another's change may have broken it"
    with engine.begin() as conn:
        conn.execute(bisection.delete())
    run = make_run(engine, compare_sha=history[3], base_ref="gh/mallory/1/base")
    with reading(engine) as conn:
        row = conn.execute(select(dispatch).where(dispatch.c.id == run)).one()
        told = conn.execute(select(dispatch.c.verdict).where(dispatch.c.verdict.is_not(None)).limit(1)).scalar_one()
    from selector.verify.serialise import from_map

    with engine.begin() as conn:
        assert bisecting.begin(conn, row, from_map(told), [], time.time()) == 0


def test_proposals_open_and_close_with_their_reasons_and_stay_dismissed(engine, settings, history):
    now = time.time()
    told = proposing.refresh(engine, settings, now)
    assert told == {"open": 1, "new": 1, "gone": 0}
    for n in range(6):
        run = make_run(engine, compare_sha=history[n], base_ref="main", state="completed")
        with engine.begin() as conn:
            (id,) = shards.add(conn, dispatch_id=run, side="base", queue="q", now=1.0, specs=[shard_spec(TEST)])
            line = row_of(outcome="failed", message="Error: no")
            more = {"dispatch_id": run, "shard_id": id, "side": "base", "fence": 1, "recorded_at": now + n}
            conn.execute(insert(result).values(**line, **more))
    assert proposing.refresh(engine, settings, now)["new"] == 1
    with reading(engine) as conn:
        rows = {row.kind: row for row in conn.execute(select(proposal))}
    assert rows["remove"].subject == "x.yaml:7"
    assert "2020-01-01" in rows["remove"].reason
    assert (rows["demote"].subject, rows["demote"].state) == (TEST, "open")
    assert rows["demote"].evidence == [f"6 runs on 6 commits, the newest {history[5][:10]}"]
    with engine.begin() as conn:
        conn.execute(update(proposal).where(proposal.c.kind == "remove").values(state="dismissed"))
        conn.execute(update(dispatch).values(base_ref="gh/somebody/1/base"))  # then none of it is trunk's
    assert proposing.refresh(engine, settings, now)["gone"] == 1
    with reading(engine) as conn:
        assert {r.kind: r.state for r in conn.execute(select(proposal))} == {"remove": "dismissed", "demote": "gone"}
