"""What trunk's own commits broke, as a selection asks for it: by the paths that they changed, on both databases."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from relay.store import bisections
from relay.store.db import reading

NOW = 1_000_000.0
TEST = "test/test_x.py::TestX::test_a"
SPEC = {"tests": [TEST]}


def search(engine, bad, *, state="found", paths=("torch/a.py",), test=TEST, device="spyre", at=NOW, variant="v"):
    with engine.begin() as conn:
        bisections.open_(conn, device=device, test=test, variant=variant, bad_sha=bad, spec=SPEC, now=at)
        (one,) = [row for row in bisections.going_on(conn) if row.bad_sha == bad and row.device == device]
        first = bad if state == "found" else None
        more = {"first_bad": first, "last_good": "0" * 40, "paths": paths}
        bisections.close(conn, one.id, state=state, reason="", now=at, **more)


def asked(engine, *paths, since=0.0, limit=100):
    with reading(engine) as conn:
        found = bisections.broken_by_paths(conn, "spyre", set(paths), since, limit)
    return [(one.path, str(one.test), one.times) for one in found]


@pytest.mark.both_databases
def test_only_searches_on_trunk_that_found_a_commit_speak_and_only_for_what_it_changed(engine):
    search(engine, "a" * 40, paths=("torch/a.py", "torch/b.py"))
    search(engine, "a" * 40, variant="another", paths=("torch/a.py", "torch/b.py"))
    search(engine, "b" * 40, paths=("torch/a.py",))
    search(engine, "c" * 40, state="given-up")
    search(engine, "d" * 40, device="another")
    search(engine, "e" * 40, paths=None)
    search(engine, "f" * 40, test="test/test_y.py::TestY::test_b", paths=("torch/c.py",))
    assert asked(engine, "torch/a.py") == [("torch/a.py", TEST, 2)], "two commits, whatever variants they broke"
    assert asked(engine, "torch/b.py", "torch/c.py") == [
        ("torch/b.py", TEST, 1),
        ("torch/c.py", "test/test_y.py::TestY::test_b", 1),
    ]
    assert asked(engine, "torch/never.py") == []


@pytest.mark.both_databases
def test_what_is_old_or_beyond_the_bound_is_not_asked(engine):
    for n in range(5):
        search(engine, f"{n}" * 40, at=NOW + n)
    assert asked(engine, "torch/a.py", since=NOW + 2) == [("torch/a.py", TEST, 2)]
    assert asked(engine, "torch/a.py", limit=3) == [("torch/a.py", TEST, 3)]


@pytest.mark.both_databases
def test_the_question_is_answered_from_its_index(engine):
    statement = "SELECT test FROM bisection WHERE device = 'spyre' AND state = 'found' AND closed_at > 5"
    statement += " ORDER BY closed_at DESC LIMIT 10"
    with engine.begin() as conn:
        if engine.dialect.name == "postgresql":
            conn.execute(text("SET LOCAL enable_seqscan = off"))
            plan = "\n".join(conn.execute(text(f"EXPLAIN {statement}")).scalars())
        else:
            plan = "\n".join(row[-1] for row in conn.execute(text(f"EXPLAIN QUERY PLAN {statement}")))
    assert "ix_bisection_found" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan
