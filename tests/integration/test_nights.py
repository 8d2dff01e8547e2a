"""Nights of upstream: asked for once, caught up, compared with the last good one, run on both sides, told, searched."""

from __future__ import annotations

import threading
import time

import pytest
from night_trunk import Trunk, enrol, look, make_settings, play, rows, work
from sqlalchemy import select

from relay import chores
from relay.services import allowlists, bisecting, upgrades
from relay.store import upgrades as store
from relay.store.db import reading
from relay.store.schema import bisection, dispatch, outbox

pytestmark = pytest.mark.both_databases


@pytest.fixture
def trunk(tmp_path):
    return Trunk(tmp_path / "upstream")


@pytest.fixture
def settings(tmp_path):
    allowlists.forget()
    return make_settings(tmp_path)


def test_a_night_is_asked_for_once_and_nights_that_were_missed_are_caught_up(engine, trunk, settings):
    trunk.commit(0, a=1)
    assert look(engine, settings, 0.05) == ["nights"]
    assert rows(engine) == [], "the day is not over"
    look(engine, settings, 1)
    look(engine, settings, 1.1)
    assert [row.night for row in rows(engine)] == ["2026-11-01"]
    trunk.commit(2, a=2)
    trunk.commit(2.05, a=3)  # the newest of the day is the night
    trunk.commit(4, a=4)
    look(engine, settings, 6)  # the relay was away for days
    assert [(row.night, row.new) for row in rows(engine)] == [
        ("2026-11-01", trunk.shas[0]),
        ("2026-11-03", trunk.shas[2]),
        ("2026-11-05", trunk.shas[3]),
    ]


def test_two_relays_that_look_at_once_ask_once(engine, trunk, settings):
    trunk.commit(0, a=1)
    done: list[list[str]] = []
    threads = [threading.Thread(target=lambda: done.append(look(engine, settings, 2))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [[], [], [], ["nights"]], "one leader"
    assert len(rows(engine)) == 1


def test_a_night_names_the_commit_of_trunk_that_a_nightly_release_is_made_of(engine, trunk, settings):
    made_of = trunk.commit(0, a=1)
    trunk.commit(0.01, f"2026-11-01 nightly release ({made_of})", a=1)
    look(engine, settings, 1)
    assert [row.new for row in rows(engine)] == [made_of]


def test_a_regression_is_told_from_a_newcomer_and_searched_for_and_the_next_night_is_held_against_the_last_good_one(
    engine, trunk, settings
):
    first = trunk.commit(0, old=1, other=2)
    look(engine, settings, 1)
    harmless = trunk.commit(1, old=11, other=2)
    bad = trunk.commit(1.02, old=11, other=22, new=3)
    enrol(engine)
    look(engine, settings, 5)
    ran = work(engine, settings, lambda test, commit: (test == "test_old" and commit == bad) or test == "test_new")
    one, two = rows(engine)
    assert (one.state, one.code, one.good) == ("completed", "upgrade-first", True)
    assert (two.old_sha, two.new_sha, two.state, two.good) == (first, bad, "completed", False)
    assert two.code == "upgrade-regressed"
    numbers = two.outcome["counts"]
    assert (numbers["regression"], numbers["newcomer-fails"], numbers["passes"]) == (1, 1, 1)
    assert {t["test"].rpartition("::")[2]: t["standing"] for t in two.outcome["tests"]} == {
        "test_old": "regression",
        "test_new": "newcomer-fails",
    }
    assert sorted(test for tests in ran.values() for test in tests) == [
        "test_new",
        "test_old",
        "test_old",
        "test_other",
        "test_other",
    ]
    with reading(engine) as conn:
        (search,) = conn.execute(select(bisection)).all()
        rows_of_hud = conn.execute(select(outbox).where(outbox.c.kind == "hud")).all()
    assert (search.test.rpartition("::")[2], search.bad_sha) == ("test_old", bad)
    # the first night is only what others are held against; the second is told as the downstream's own nightly
    (told,) = rows_of_hud
    payload = told.payload["untrusted"]["callback_payload"]
    assert (payload["event_type"], payload["delivery_id"]) == ("nightly", bad)
    assert payload["workflow"]["conclusion"] == "failure"
    for _ in range(6):  # and of the night's commits the one that broke it is found
        bisecting.go_on(engine, settings)
        play(engine, settings, ran, lambda test, commit: commit == bad)
    with reading(engine) as conn:
        (search,) = conn.execute(select(bisection)).all()
    assert (search.state, search.first_bad, search.last_good) == ("found", bad, harmless)
    trunk.commit(3, old=1, other=22, new=33)
    look(engine, settings, 6)
    work(engine, settings)
    last = rows(engine)[-1]
    assert (last.old_sha, last.good) == (first, True), "not with the night that was bad"
    upgrades.go_on(engine, settings, last.id, time.time())
    assert len(rows(engine)) == 3


def test_a_pair_of_releases_runs_each_side_on_workers_of_its_torch(engine, trunk, settings):
    old = trunk.commit(0, old=1, gone=2)
    new = trunk.commit(9, version="2.14.0", old=11, new=3)
    enrol(engine, "2.13.0", "a")
    enrol(engine, "2.14.1", "b")
    with engine.begin() as conn:
        (first, again) = [store.ask(conn, kind="release", device="spyre", old=old, new=new, now=1.0) for _ in range(2)]
    assert (first is not None, again) == (True, None)
    ran = work(engine, settings, lambda test, commit: commit == new)
    assert {queue: sorted(tests, reverse=True) for queue, tests in ran.items()} == {
        "spyre.q.2.13.0": ["test_old"],
        "spyre.q.2.14.1": ["test_old", "test_new"],
    }
    (row,) = rows(engine)
    assert {t["test"].rpartition("::")[2]: t["standing"] for t in row.outcome["tests"]} == {
        "test_old": "regression",
        "test_new": "newcomer-fails",
    }


def test_a_version_without_workers_is_compared_and_says_so(engine, trunk, settings):
    old = trunk.commit(0, old=1)
    new = trunk.commit(9, version="2.14.0", old=11)
    enrol(engine, "2.13.0")
    with engine.begin() as conn:
        store.ask(conn, kind="release", device="spyre", old=old, new=new, now=1.0)
    work(engine, settings)
    (row,) = rows(engine)
    assert (row.state, row.good, row.code) == ("completed", None, "upgrade-not-run")
    assert row.counts["kinds"]["body"] == 1
    assert "no live worker has torch 2.14 (there is 2.13.0)" in row.summary
    assert row.outcome["counts"]["not-run"] == 1


def test_a_branch_that_is_not_there_is_said_and_looked_for_again(engine, trunk, settings):
    trunk.commit(0, a=1)
    wrong = settings.model_copy(update={"nightly_ref": "nightly"})
    look(engine, wrong, 2)
    with reading(engine) as conn:
        row = chores.chores.get(conn, "nights")
    assert "branch nightly cannot be fetched" in row.error
    with engine.begin() as conn:
        store.ask(conn, kind="release", device="spyre", old="gone", new="main", now=1.0)
    (row,) = rows(engine)
    for _ in range(upgrades.MAX_TRIES):
        upgrades.go_on(engine, settings, row.id, time.time())
    (row,) = rows(engine)
    assert (row.state, row.code) == ("failed", "upgrade-failed")
    assert "branch gone cannot be fetched" in row.error


def test_two_processes_at_one_upgrade_have_one_effect(engine, trunk, settings):
    trunk.commit(0, old=1)
    enrol(engine)
    look(engine, settings, 2)
    upgrades.go_on(engine, settings, rows(engine)[0].id, time.time())
    trunk.commit(3, old=2)
    look(engine, settings, 6)
    id = rows(engine)[-1].id
    threads = [threading.Thread(target=upgrades.go_on, args=(engine, settings, id, time.time())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with reading(engine) as conn:
        assert len(conn.execute(select(dispatch)).all()) == 2, "one run a side"
    work(engine, settings)
    assert rows(engine)[-1].good is True


def test_who_dies_in_the_middle_is_followed_when_the_claim_runs_out(engine, trunk, settings):
    trunk.commit(0, old=1)
    look(engine, settings, 2)
    now = time.time()
    with engine.begin() as conn:
        assert store.claim(conn, rows(engine)[0].id, "dead", now, now + upgrades.CLAIM_S) is not None
    upgrades.go_on(engine, settings, rows(engine)[0].id, now + 1)
    assert rows(engine)[0].state == "due", "it is the other one's"
    upgrades.go_on(engine, settings, rows(engine)[0].id, now + upgrades.CLAIM_S + 1)
    assert rows(engine)[0].state == "completed"
    with engine.begin() as conn:
        assert not store.move(conn, rows(engine)[0].id, "dead", state="failed"), "what comes back writes nothing"
