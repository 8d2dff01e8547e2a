"""/search, /queues, /config, /outbox, /audit and /about over a real database."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from relay.settings import Settings
from relay.store import audit, test_names
from relay.web.app import create_app

HEAD = "5f1d9c0a77be0b6a4e3f2d1c0b9a88776655aa01"
TEST = "test/test_ops.py::TestCommon::test_out"


def leads(client: Any, q: str) -> str | None:
    answer = client.get("/search", params={"q": q}, follow_redirects=False)
    return answer.headers.get("location") if answer.status_code == 303 else None


def hits(client: Any, q: str) -> list[tuple[str, str]]:
    return [(hit["kind"], hit["href"]) for hit in client.get("/search.json", params={"q": q}).json()["hits"]]


def test_the_box_leads_to_what_can_only_be_meant(client: Any, world: Any) -> None:
    id = world.failed_run()
    with world.engine.begin() as conn:
        test_names.note(conn, [TEST, "test/test_ops.py::TestCommon::test_out_warning"])
    for q in ("171234", "#171234", "pytorch/pytorch#171234", "https://github.com/pytorch/pytorch/pull/171234/files"):
        assert leads(client, q) == "/pr/171234"
    assert leads(client, id) == f"/run/{id}"
    assert leads(client, "torch-sp") == "/crcr/torch-spyre/torch-spyre"
    assert leads(client, TEST) == f"/test/{TEST}"
    assert leads(client, "test_out_w") == f"/test/{TEST}_warning"
    assert hits(client, "testcommon") == [("test", f"/test/{TEST}"), ("test", f"/test/{TEST}_warning")]
    [commit, run] = hits(client, HEAD[:9].upper())
    assert commit == ("commit", "/pr/171234?upstream=pytorch/pytorch")
    assert run == ("run of the commit", f"/run/{id}")


def test_a_pull_request_of_two_upstreams_is_asked_about(client: Any, world: Any) -> None:
    world.failed_run()
    world.dispatch("completed", upstream="a/b", pr_title="Another one")
    assert leads(client, "171234") is None
    assert {href for _, href in hits(client, "171234")} == {
        "/pr/171234?upstream=a/b", "/pr/171234?upstream=pytorch/pytorch"
    }  # fmt: skip
    assert leads(client, "a/b#171234") == "/pr/171234"


@pytest.mark.parametrize(
    "q", ["", "nothing of the sort", "%_'\"; DROP", "🦀" * 300, "<script>alert(1)</script>", "\x00"]
)
def test_what_is_not_found_says_what_the_box_takes(client: Any, world: Any, q: str) -> None:
    world.failed_run()
    answer = client.get("/search", params={"q": q})
    assert answer.status_code == 200
    assert "What the box takes" in answer.text
    assert "<script>alert" not in answer.text
    assert hits(client, q) == []


def test_queues_say_what_is_stuck_and_where_it_waits(client: Any, world: Any) -> None:
    assert "Nothing waits for a worker" in client.get("/queues").text
    id, _ = world.running()
    twin = client.get("/queues.json").json()
    assert twin["sentence"] == "Stuck: nobody works on shards.spyre"
    assert (twin["queued"], twin["leased"], twin["runs"]) == (1, 1, {"running": 1})
    assert [s["dispatch_id"] for s in twin["waiting"]] == [id]
    assert "relay doctor" in client.get("/queues").text
    world.worker("emulator-1")
    twin = client.get("/queues.json").json()
    assert twin["sentence"].startswith("1 shard waiting, the oldest for 1 min")
    assert f'href="/run/{id}"' in client.get("/queues").text


def test_a_queue_is_not_stuck_whose_worker_comes_after_the_hundred_that_are_listed(client: Any, world: Any) -> None:
    world.running()
    for n in range(100):
        world.worker(f"elsewhere-{n}", seen=0, queue="shards.other")
    world.worker("emulator-1", seen=4)
    twin = client.get("/queues.json").json()
    assert "emulator-1" not in {one["name"] for one in twin["workers"]}
    assert twin["sentence"].startswith("1 shard waiting")
    assert "no worker alive" not in client.get("/index.json").text
    assert "✕</span>none" not in client.get("/queues").text


def test_about_says_version_schema_and_health(client: Any, world: Any) -> None:
    twin = client.get("/about.json").json()
    assert (twin["database"], twin["healthy"], twin["late_chores"]) == ("sqlite", True, [])
    assert twin["schema"] == client.get("/readyz").json()["schema"]
    page = client.get("/about").text
    assert twin["version"] in page
    assert 'href="/openapi.json"' in page


CONFIG = """\
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_a.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: [TestA::test_old]
          mode: skip
          reason: was to be looked at again
          until: 2020-01-01
        - names: [TestA::test_soon]
          mode: xfail
          reason: soon
          until: SOON
        - names: [TestA::test_why]
          mode: skip
        - names: [TestA::test_fine]
          mode: xfail
          reason: needs an operator
          issue: owner/repo#12
"""


@pytest.fixture
def configured(tmp_path: Path, world: Any) -> Any:
    """The application over a folder of configs in a git checkout."""
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "capability.yaml").write_text(
        "capability:\n  name: x\n  device: spyre\n  dtypes: [float32]\n  ops: [add]\n"
    )
    soon = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 5 * 86400))
    (folder / "a.yaml").write_text(CONFIG.replace("SOON", soon))
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "configs"]):
        who = ["-c", "user.name=Ada Example", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "-C", str(folder), *who, *command], check=True)
    allowlist = tmp_path / "allowlist.yml"
    allowlist.write_text("L2:\n  - acme/accelerator: {oncalls: [ana]}\n")
    settings = Settings(data_dir=tmp_path, configs_dir=folder, allowlist=str(allowlist))
    with TestClient(create_app(settings)) as client:
        yield client, folder, allowlist


def test_config_shows_what_has_to_be_kept_true(configured: Any, world: Any) -> None:
    client, folder, allowlist = configured
    twin = client.get("/config.json").json()
    states = {tuple(row["names"]): row["state"] for row in twin["rows"]}
    assert states == {
        ("TestA::test_old",): "expired", ("TestA::test_soon",): "expiring", ("TestA::test_why",): "unexplained",
        ("TestA::test_fine",): "holds", ("test/test_a.py",): "holds",
    }  # fmt: skip
    assert twin["states"] == {"dead": 0, "expired": 1, "expiring": 1, "unexplained": 1, "holds": 2}
    assert twin["owners"] == {"Ada Example": 5}
    assert all(abs(row["since"] - time.time()) < 100 for row in twin["rows"])
    assert twin["rows"][0]["place"] == "a.yaml:6"
    assert [e["repo"] for e in twin["allowlist"]["entries"]] == ["acme/accelerator"]
    for word in (twin["sentence"], "was to be looked at again", "acme/accelerator", "Ada Example", "needs an operator"):
        assert word in client.get("/config").text
    assert [row["state"] for row in client.get("/config.json?state=expired").json()["rows"]] == ["expired"]
    assert client.get("/config.json?find=OPERATOR&owner=Ada Example").json()["total"] == 1
    assert client.get("/config.json?owner=nobody").json()["rows"] == []
    assert client.get("/config.json?state=odd").status_code == 400
    assert client.get("/config.json?page=2").status_code == 400

    (folder / "a.yaml").write_text("test_suite_config: 3\n")
    allowlist.write_text("L9: no\n")
    twin = client.get("/config.json").json()
    assert twin["sentence"] == "The configs of the device cannot be read"
    assert "a.yaml" in twin["problem"]
    assert "L9" in twin["allowlist"]["problem"]
    assert str(allowlist.parent) not in client.get("/config").text, "paths of this machine are nobody's to know"
    assert "relay config lint" in client.get("/config").text


def test_outbox_and_audit_are_for_operators(client: Any, world: Any) -> None:
    for path in ("/outbox", "/audit"):
        assert client.get(path).status_code == 401
        assert client.get(f"{path}.json").status_code == 401


def test_audit_is_listed_the_newest_first_and_on(client: Any, world: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("relay.web.pages_operate.operator", lambda *_: None)
    with world.engine.begin() as conn:
        rows = [
            audit.entry("outbox.retry", "a/b", now=float(n), actor="oscar", detail={"effect": n}) for n in range(120)
        ]
        audit.record(conn, rows)
    first = client.get("/audit.json?action=outbox").json()
    assert [len(first["rows"]), first["rows"][0]["detail"]] == [50, {"effect": 119}]
    second = client.get(f"/audit.json?before={first['next']}").json()
    assert second["rows"][0]["detail"] == {"effect": 69}
    assert client.get("/audit.json?actor=eve").json()["rows"] == []
    assert "effect: 119" in client.get("/audit").text
