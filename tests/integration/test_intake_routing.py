"""From a committed delivery to dispatches and their effects, on a real database file."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from factories import shard_spec
from sqlalchemy import func, insert, select, update

from relay.errors import AllowlistError, NotFound, SettingsError
from relay.services import allowlists, routing
from relay.settings import Settings
from relay.store import deliveries, shards
from relay.store.schema import allowlist_version, delivery, dispatch, job, outbox, shard

pytestmark = pytest.mark.both_databases

LIST = """
L1:
  - org/one
L2:
  - torch-spyre/torch-spyre: {executor: workers, device: spyre, oncalls: [alice]}
  - org/nightly: {events: nightly}
L4:
  - Org/Two: [bob]
"""


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "allowlist.yml").write_text(LIST)
    return Settings(
        data_dir=tmp_path, upstream_repo="codertocat/hello-world", allowlist=str(tmp_path / "allowlist.yml")
    )


@pytest.fixture
def deliver(engine, shared):
    """Commits a real webhook as a delivery; ``head`` replaces the commit."""

    def deliver(
        delivery_id: str,
        name: str = "pull_request_opened",
        at: float = 100.0,
        head: str | None = None,
        told_at: str | None = None,
    ) -> str:
        body = (shared / f"data/relay/webhook/{name}.json").read_bytes()
        if head:
            body = body.replace(b"ec26c3e57ca3a959ca5aad62de7213c562f8c821", head.encode())
        event = "push" if name.startswith("push") else "pull_request"
        with engine.begin() as conn:
            assert deliveries.claim(
                conn,
                delivery_id=delivery_id,
                event=event,
                action=json.loads(body).get("action"),
                repo="Codertocat/Hello-World",
                body=deliveries.pack(body),
                now=at,
                told_at=told_at,
            )
        return delivery_id

    return deliver


def all_of(engine, table):
    with engine.connect() as conn:
        return conn.execute(select(table).order_by(table.c.id)).all()


def of(engine, delivery_id, key):
    with engine.connect() as conn:
        return conn.execute(
            select(dispatch).where(dispatch.c.delivery_id == delivery_id, dispatch.c.downstream_key == key)
        ).one()


def test_an_opened_pull_request_becomes_one_dispatch_a_downstream(engine, settings, deliver):
    routing.route_delivery(engine, settings, deliver("d"), 101.0)
    runs = {r.downstream: r for r in all_of(engine, dispatch)}
    assert set(runs) == {"org/one", "torch-spyre/torch-spyre", "Org/Two"}
    ours = runs["torch-spyre/torch-spyre"]
    assert (ours.executor, ours.state, ours.due_at, ours.device, ours.oncalls) == (
        "workers",
        "selecting",
        101.0,
        "spyre",
        ["alice"],
    )
    assert (ours.pr_number, ours.pr_title, ours.author, ours.author_trusted) == (
        2,
        "Update the README with new information.",
        "Codertocat",
        True,
    )
    assert (ours.head_sha[:8], ours.base_sha[:8], ours.base_ref) == ("ec26c3e5", "f95f852b", "master")
    two = runs["Org/Two"]
    assert (two.executor, two.state, two.due_at, two.level, two.downstream_key) == (
        "github",
        "sending",
        None,
        "L4",
        "org/two",
    )
    effects = all_of(engine, outbox)
    assert {(e.key, e.kind, e.target, e.state) for e in effects} == {
        (f"dispatch:{r.id}", "dispatch", r.downstream, "due") for r in runs.values() if r.executor == "github"
    } | {(f"response:{two.id}:queued", "check_run", two.upstream, "due")}  # level 4 is seen from the dispatch on
    (row,) = all_of(engine, delivery)
    assert (row.state, row.code, row.due_at) == ("routed", "routed", None)
    assert "3 dispatched" in row.reason
    assert "org/nightly listens to nightly only" in row.reason


def test_routing_again_or_at_the_same_instant_changes_nothing(engine, settings, deliver):
    deliver("d")
    together = threading.Barrier(4)

    def route(_: int) -> None:
        together.wait()
        routing.route_delivery(engine, settings, "d", 101.0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(route, range(4)))
    routing.route_delivery(engine, settings, "d", 150.0)
    assert len(all_of(engine, dispatch)) == 3
    assert sorted(row.kind for row in all_of(engine, outbox)) == ["check_run", "dispatch", "dispatch"]


def test_a_newer_push_ends_the_older_runs_and_unsent_posts(engine, settings, deliver):
    routing.route_delivery(engine, settings, deliver("d1"), 101.0)
    ours, two = of(engine, "d1", "torch-spyre/torch-spyre"), of(engine, "d1", "org/two")
    with engine.begin() as conn:
        conn.execute(update(outbox).where(outbox.c.dispatch_id == two.id).values(state="sent", due_at=None))
        conn.execute(update(dispatch).where(dispatch.c.id == two.id).values(state="sent"))
        conn.execute(update(dispatch).where(dispatch.c.id == ours.id).values(state="running", due_at=None))
        conn.execute(
            insert(job).values(
                id="j" * 32,
                dispatch_id=ours.id,
                workflow="spyre-emulator",
                name="selected-tests",
                run_id=ours.id,
                attempt=1,
                status="in_progress",
                start_known=True,
                version=1,
            )
        )
    routing.route_delivery(engine, settings, deliver("d2", "pull_request_synchronize", 200.0, "c" * 40), 201.0)
    for key in ("torch-spyre/torch-spyre", "org/two", "org/one"):
        old, new = of(engine, "d1", key), of(engine, "d2", key)
        assert (old.state, old.conclusion, old.code, old.closed_at, old.due_at) == (
            "superseded",
            "cancelled",
            "superseded",
            201.0,
            None,
        )
        assert new.state in ("selecting", "sending")
        assert new.head_sha == "c" * 40
    posts = {e.dispatch_id: e.state for e in all_of(engine, outbox) if e.kind == "dispatch"}
    assert posts[two.id] == "sent"
    assert posts[of(engine, "d1", "org/one").id] == "dropped"
    assert posts[of(engine, "d2", "org/one").id] == "due"
    (ended,) = all_of(engine, job)
    assert (ended.status, ended.conclusion) == ("completed", "cancelled")


def test_deliveries_routed_in_the_wrong_order_end_as_in_the_right_one(engine, settings, deliver):
    deliver("old", at=100.0)
    deliver("new", "pull_request_synchronize", 200.0, "c" * 40)
    routing.route_delivery(engine, settings, "new", 201.0)
    routing.route_delivery(engine, settings, "old", 202.0)
    assert {r.delivery_id for r in all_of(engine, dispatch)} == {"new"}
    assert {r.state for r in all_of(engine, dispatch)} == {"selecting", "sending"}
    rows = {r.id: r for r in all_of(engine, delivery)}
    assert (rows["old"].state, rows["old"].due_at) == ("ignored", None)
    assert "a later delivery about #2" in rows["old"].reason


def test_closing_stops_our_workers_and_tells_the_others(engine, settings, deliver):
    routing.route_delivery(engine, settings, deliver("d1"), 101.0)
    asked = of(engine, "d1", "torch-spyre/torch-spyre").id
    with engine.begin() as conn:
        ids = shards.add(
            conn,
            dispatch_id=asked,
            side="head",
            queue="shards.spyre",
            specs=[shard_spec("test/a.py::A::t")] * 2,
            now=1.0,
        )
        shards.lease(conn, ids[0], worker="w", now=150.0, lease_s=99.0)
    routing.route_delivery(engine, settings, deliver("d2", "pull_request_closed", 200.0), 201.0)
    rows = {row.id: row for row in all_of(engine, shard)}
    begun, waiting = (rows[key] for key in ids)
    assert begun.state == "leased", "its worker hears of it by its next heartbeat"
    assert (waiting.state, waiting.due_at) == ("failed", None), "or the pump would offer it for ever"
    ours = of(engine, "d1", "torch-spyre/torch-spyre")
    assert (ours.state, ours.code, ours.conclusion) == ("superseded", "pull-request-closed", "cancelled")
    assert of(engine, "d2", "org/two").action == "closed"
    assert {r.downstream for r in all_of(engine, dispatch) if r.delivery_id == "d2"} == {"org/one", "Org/Two"}


def test_a_push_goes_to_github_executors_only(engine, settings, deliver):
    routing.route_delivery(engine, settings, deliver("p", "push_with-new-branch"), 101.0)
    assert {(r.downstream, r.head_sha, r.pr_number) for r in all_of(engine, dispatch)} == {
        ("org/one", "6113728f27ae82c7b1a177c8d03f9e96e0adf246", None),
        ("Org/Two", "6113728f27ae82c7b1a177c8d03f9e96e0adf246", None),
    }


def test_a_deleted_tag_is_ignored_with_the_reason(engine, settings, deliver):
    routing.route_delivery(engine, settings, deliver("p", "push_payload"), 101.0)
    (row,) = all_of(engine, delivery)
    assert (row.state, row.code) == ("ignored", "push-deleted")
    assert all_of(engine, dispatch) == []


def test_a_stored_body_that_cannot_be_read_ends_with_the_reason(engine, settings, deliver):
    deliver("d")
    with engine.begin() as conn:
        conn.execute(update(delivery).values(body=b"not zlib"))
    routing.route_delivery(engine, settings, "d", 101.0)
    (row,) = all_of(engine, delivery)
    assert (row.state, row.code, row.due_at) == ("ignored", "unreadable", None)


def test_an_unknown_delivery(engine, settings):
    with pytest.raises(NotFound, match="no delivery nope"):
        routing.route_delivery(engine, settings, "nope", 1.0)


def test_a_delivery_that_breaks_the_routing_stays_due_and_says_so(engine, settings, deliver, monkeypatch):
    deliver("d")

    def broken(*_):
        raise KeyError("x")

    with monkeypatch.context() as patch:
        patch.setattr(routing, "route", broken)
        with pytest.raises(KeyError):
            routing.route_delivery(engine, settings, "d", 101.0)
    (row,) = all_of(engine, delivery)
    assert (row.state, row.code, row.due_at) == ("received", "route-failed", 100.0)
    assert row.reason == "the relay failed while it routed this: KeyError, the relay's log says where"
    routing.route_delivery(engine, settings, "d", 102.0)
    (row,) = all_of(engine, delivery)
    assert (row.state, row.code) == ("routed", "routed"), "nothing is lost: the mended relay routes it"


def test_without_a_usable_allowlist_a_delivery_waits_and_says_why(engine, settings, deliver):
    deliver("d")
    path = settings.data_dir / "allowlist.yml"
    path.write_text("L1:\n  - a/b/c\n")
    with pytest.raises(AllowlistError, match=":2:5: "):
        routing.route_delivery(engine, settings, "d", 101.0)
    (row,) = all_of(engine, delivery)
    assert (row.state, row.code, row.due_at) == ("received", "allowlist-invalid", 100.0)
    assert f"{path}:2:5" in row.reason
    path.write_text(LIST)
    routing.route_delivery(engine, settings, "d", 102.0)
    assert all_of(engine, delivery)[0].state == "routed"
    with pytest.raises(SettingsError, match="no file is set"):
        routing.route_delivery(engine, settings.model_copy(update={"allowlist": ""}), "d", 103.0)


def test_a_broken_allowlist_never_replaces_a_good_one(engine, settings, capfd):
    path = settings.data_dir / "allowlist.yml"
    assert allowlists.current(engine, settings, 1.0).find("org/one")
    for broken in ("", "L1: [", "L1: [a/b, A/B]", "L1:\n  - \xe9\n".encode("latin-1")):
        path.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        assert allowlists.current(engine, settings, 2.0).find("org/one")
        assert allowlists.problem(engine, settings) is not None
    path.unlink()
    assert allowlists.current(engine, settings, 3.0).find("org/one")
    logged = capfd.readouterr()
    assert str(path) in logged.out + logged.err
    path.write_text("L1: [org/new]\n")
    assert allowlists.current(engine, settings, 4.0).find("org/new")
    assert allowlists.problem(engine, settings) is None
    path.write_text(LIST)
    assert allowlists.current(engine, settings, 5.0).find("org/one")
    with engine.connect() as conn:
        texts = conn.execute(select(allowlist_version).order_by(allowlist_version.c.loaded_at.desc())).all()
    assert [v.text for v in texts] == [LIST, "L1: [org/new]\n"]


def test_a_restart_beside_a_broken_file_keeps_the_last_good_version(engine, settings):
    allowlists.current(engine, settings, 1.0)
    path = settings.data_dir / "allowlist.yml"
    path.write_text("L1: [")
    allowlists.forget()
    assert allowlists.current(engine, settings, 2.0).find("org/one")


def test_an_unchanged_file_is_not_stored_again(engine, settings):
    allowlists.current(engine, settings, 1.0)
    allowlists.forget()
    allowlists.current(engine, settings, 2.0)
    with engine.connect() as conn:
        assert conn.execute(select(func.count(), func.max(allowlist_version.c.loaded_at))).one() == (1, 1.0)


@pytest.mark.parametrize("first", ["old", "new"])
def test_an_event_that_comes_late_does_not_end_the_run_of_a_later_one(engine, settings, deliver, first):
    """Whichever is stored and routed first: GitHub's own time of the event counts, not the order of arrival."""
    told = {"old": ("2026-01-01T00:00:00Z", "1" * 40), "new": ("2026-01-01T00:00:01Z", "2" * 40)}
    order = ["old", "new"] if first == "old" else ["new", "old"]
    for at, name in enumerate(order):
        when, head = told[name]
        deliver(name, at=100.0 + at, head=head, told_at=when)
        routing.route_delivery(engine, settings, name, 200.0 + at)
    open_runs = {row.head_sha for row in all_of(engine, dispatch) if row.state not in ("superseded", "completed")}
    assert open_runs == {"2" * 40}
    with engine.connect() as conn:
        assert conn.execute(select(delivery.c.code).where(delivery.c.id == "new")).scalar_one() == "routed"


def test_of_the_same_second_the_order_of_arrival_counts(engine, settings, deliver):
    when = "2026-01-01T00:00:00Z"
    deliver("first", at=100.0, head="1" * 40, told_at=when)
    deliver("second", at=101.0, head="2" * 40, told_at=when)
    routing.route_delivery(engine, settings, "second", 200.0)
    routing.route_delivery(engine, settings, "first", 201.0)
    assert {row.head_sha for row in all_of(engine, dispatch)} == {"2" * 40}
