"""The rows of an upgrade's changes: filtered as nights put together are, paged without gaps; the burn-down."""

from __future__ import annotations

import itertools

import pytest
from sqlalchemy import update

from relay.store import upgrade_changes, upgrades, views_nights
from relay.store.db import reading
from relay.store.schema import upgrade_change
from relay.store.upgrade_changes import Wanted, burn_down

pytestmark = pytest.mark.both_databases
KINDS = ("body", "renamed", "gone", "helper")
NAMES = ("test_100%_sure", "test_UPPER", "test_under_score", "test_underXscore", "test_back\\slash")


def change(n: int) -> dict[str, object]:
    kind = KINDS[n % 4]
    return {
        "test": f"test/test_x.py::TestX::{NAMES[n % 5]}_{n}",
        "kind": kind,
        "content": "body" if kind == "renamed" else kind,
        "was": None,
        "move": None,
        "details": [],
        "reason": "differs",
        "evaluate": n % 3 > 0,
        "relevant": n % 3 == 1,
        "category": None,
        "ops": [],
    }


@pytest.fixture
def stored(engine):
    """-> (id, changes with where they stand)"""
    changes = [change(n) for n in range(30)]
    with engine.begin() as conn:
        id = upgrades.ask(conn, kind="release", device="spyre", old="a", new="b", now=1.0)
        assert id is not None
        upgrade_changes.add(conn, id, changes)
        stood = {c["test"]: ("regression", "Error: no") for c in changes[::7]}
        upgrade_changes.note_standings(conn, id, stood)
        done = [c["test"] for c in changes[::5]]
        mine = (upgrade_change.c.upgrade_id == id, upgrade_change.c.test.in_(done))
        conn.execute(update(upgrade_change).where(*mine).values(done_at=5.0))
    known = [
        {**c, "done": c["test"] in done, "standing": (stood.get(c["test"]) or (None,))[0],
         "message": (stood.get(c["test"]) or ("", ""))[1]}
        for c in changes
    ]  # fmt: skip
    return id, known


def test_the_database_filters_as_nights_that_are_put_together_are(engine, stored):
    id, known = stored
    finds = ("", "upper", "TEST_", "0%", "under_score", "back\\s", "_1", "nothing of the kind")
    seen = set()
    with reading(engine) as conn:
        for kind, find, only in itertools.product(
            (None, *KINDS), finds, (None, "evaluate", "relevant", "left", "regression", "fixed")
        ):
            wanted = Wanted(kind, find, only)
            expected = [c for c in known if views_nights.passes(c, wanted)]
            assert upgrade_changes.some(conn, id, wanted, after=0, limit=100) == expected, wanted
            assert upgrade_changes.matching(conn, id, wanted) == len(expected), wanted
            seen.add(len(expected))
    assert len(seen) > 10, "the filters differ in what they leave"


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(kind="body"), Wanted(find="test")])
def test_screens_follow_each_other_without_a_gap(engine, stored, wanted):
    id, known = stored
    with reading(engine) as conn:
        screens = [upgrade_changes.some(conn, id, wanted, after=n, limit=4) for n in range(0, 32, 4)]
    assert [c for screen in screens for c in screen] == [c for c in known if views_nights.passes(c, wanted)]


def test_a_burn_down_ends_with_what_is_left_and_has_few_points():
    assert burn_down([], 5) == []
    assert burn_down([1.0, 2.0], 5) == [{"at": 1.0, "left": 5}, {"at": 1.0, "left": 4}, {"at": 2.0, "left": 3}]
    many = burn_down([float(n) for n in range(40_000)], 40_000)
    assert many[-1] == {"at": 39_999.0, "left": 0}
    assert len(many) <= 2 * upgrade_changes.POINTS
    assert [p["left"] for p in many] == sorted((p["left"] for p in many), reverse=True)
