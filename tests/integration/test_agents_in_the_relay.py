"""A model behind a real endpoint, asked by the relay itself: selecting, concluding, proposing; its records, its pages,
and what must not be in any of them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import agent_lab as lab
import pytest
from factories import make_run, result_line, shard_spec
from fastapi.testclient import TestClient
from model_server import KEY, Request, Script, Server, serving
from sqlalchemy import func, insert, select, update
from typer.testing import CliRunner

from relay import chores
from relay.agents.secrets import known_secrets
from relay.agents.settings import AgentSettings
from relay.cli import app
from relay.errors import SettingsError
from relay.services import advising, explaining, leasing, proposing, selecting, tidying
from relay.settings import Settings, load
from relay.store import agents, shards, workers
from relay.store.db import reading
from relay.store.schema import agent_run, decision, dispatch, plan, proposal, result, shard
from relay.web.app import create_app
from selector.agents.records import Record
from selector.model import Stage


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Between tries it waits less than it would: what is tried again, and how often, stays."""
    monkeypatch.setattr("selector.agents.guard.PAUSE_S", 0.01)


HELLO = {
    "name": "w", "device": "spyre", "queue": "shards.spyre", "torch": "2.13.0",
    "runtimes": ["tests-only", "overlay", "pr-build"], "info": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A git repository with the lab's change: (path, base, head)."""
    path = tmp_path_factory.mktemp("upstream")

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *who, *words], cwd=path, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q", "-b", "main")
    shas = []
    for touched, message in ((0, "base"), (1, f"{lab.ORDER} (the title)\n\n{lab.ORDER} {lab.SECRET}")):
        for name, text in lab.files(touched, lab.ORDER).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", message)
        shas.append(git("rev-parse", "HEAD"))
    return path, *shas


@pytest.fixture
def device(tmp_path):
    folder = tmp_path / "device"
    folder.mkdir()
    (folder / "capability.yaml").write_text(lab.SHEET.read_text())
    (folder / "upstream.yaml").write_text(lab.CONFIG)
    return folder


@pytest.fixture
def settings(tmp_path, upstream, device):
    def make(url: str, **over: object) -> Settings:
        told = {"mode": "on", "url": url, "model": "scripted", "key": KEY, "seconds": lab.AMPLE_S, **over}
        return Settings(
            data_dir=tmp_path, upstream_url=str(upstream[0]), configs_dir=device, explore_share=0.0,
            worker_key=lab.SECRET, agents=AgentSettings.model_validate(told),
        )  # fmt: skip

    return make


def idle_on_trunk(engine, test: str) -> None:
    """A run of trunk in which the test passed without a kernel."""
    run = make_run(engine, state="completed", base_ref="main", pr_number=1, head_sha="d" * 40, base_sha="e" * 40)
    with engine.begin() as conn:
        shards.add(
            conn, dispatch_id=run, side="base", queue="shards.spyre", now=time.time(), specs=[shard_spec(test)]
        )  # fmt: skip
        (shard_id,) = conn.execute(select(shard.c.id).where(shard.c.dispatch_id == run)).scalars()
        line = result_line("test_to_sparse_spyre", test=test, outcome="passed", kernels=0)
        values = {k: v for k, v in line.items() if k in result.c}
        conn.execute(
            insert(result).values(
                dispatch_id=run, shard_id=shard_id, side="base", fence=1, recorded_at=time.time(), **values
            )
        )


@pytest.fixture
def run_id(engine, upstream):
    with engine.begin() as conn:
        workers.hello(conn, HELLO, time.time())
    _, base, head = upstream
    idle_on_trunk(engine, lab.SPARSE)
    return make_run(
        engine, state="selecting", due_at=time.time(), base_sha=base, head_sha=head, compare_sha=None,
        pr_title=f"{lab.ORDER} (the title)",
    )  # fmt: skip


def rows(engine, table):
    with reading(engine) as conn:
        return conn.execute(select(table)).all()


def state_of(engine, run_id) -> str:
    return next(one.state for one in rows(engine, dispatch) if one.id == run_id)


def planned(engine) -> set[str]:
    (stored,) = rows(engine, plan)
    return {one["test"] for one in stored.tests}


def sources() -> dict[str, str]:
    return lab.files(1, lab.ORDER)


def assert_in_no_file(folder: Path) -> None:
    """The database with its journal, caches, everything that the relay wrote."""
    for path in folder.rglob("*"):
        if path.is_file() and "mirror" not in path.parts and ".git" not in str(path):
            data = path.read_bytes()
            for secret in (KEY, lab.TOKEN):
                assert secret.encode() not in data, path


def test_a_run_is_selected_with_a_model_and_everything_is_on_record(engine, settings, run_id, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    script = Script(sources(), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE,))
    with serving(Server(script)) as server:
        told = settings(server.url, input_usd=2.0, output_usd=8.0)
        selecting.select_dispatch(engine, told, run_id)
    assert state_of(engine, run_id) == "running"
    assert planned(engine) == (lab.rules_alone() - {lab.SPARSE}) | {lab.ELSEWHERE}
    mine = [one for one in rows(engine, shard) if one.dispatch_id == run_id]
    assert {t for one in mine for t in one.spec["tests"]} == planned(engine)
    kept = rows(engine, agent_run)
    assert [(r.stage, r.agent, r.code, r.in_force) for r in kept] == [
        ("discover", "model", "agent-answered", True),
        ("triage", "model", "agent-answered", True),
        ("triage", "critic", "agent-answered", True),
    ]
    assert all(r.steps and r.tokens_read and r.tokens_written and r.usd > 0 for r in kept)
    assert [one["subject"] for one in kept[1].taken] == [lab.SPARSE]
    transcript = agents.unpack(kept[0].transcript)
    assert transcript[0]["role"] == "instructions"
    assert any(one.get("tool") == "answer" for one in transcript)
    assert_in_no_file(tmp_path)
    assert KEY not in caplog.text
    for request in server.requests:
        assert KEY not in request.text
        assert lab.SECRET not in request.text
        assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("name", ["slow", "500", "drops everything", "obeys strangers", "401"])
def test_no_run_waits_or_is_poorer_for_a_model_that_misbehaves(engine, settings, run_id, tmp_path, name):
    case = next(one for one in lab.CASES if one.name == name)
    with serving(lab.served(case, sources())) as server:
        began = time.monotonic()
        selecting.select_dispatch(engine, settings(server.url, seconds=case.seconds), run_id)
        took = time.monotonic() - began
    assert state_of(engine, run_id) == "running"
    assert planned(engine) >= lab.rules_alone()
    assert took < lab.HELD_S / 2, "a slow server holds its answers for longer"
    assert {r.code for r in rows(engine, agent_run)} == case.ends
    assert_in_no_file(tmp_path)


def test_on_trial_the_run_is_the_rules_own_and_the_difference_is_kept(engine, settings, run_id):
    with serving(Server(Script(sources(), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE,)))) as server:
        selecting.select_dispatch(engine, settings(server.url, mode="shadow"), run_id)
    assert planned(engine) == lab.rules_alone()
    assert {r.in_force for r in rows(engine, agent_run)} == {False}
    assert lab.SPARSE in json.dumps(rows(engine, plan)[0].shadow)


def test_off_nobody_is_asked(engine, settings, run_id):
    with serving(Server(Script(sources()))) as server:
        selecting.select_dispatch(engine, settings(server.url, mode="off"), run_id)
    assert planned(engine) == lab.rules_alone()
    assert (server.requests, rows(engine, agent_run)) == ([], [])


def test_a_key_that_cannot_be_read_leaves_the_rules_to_decide(engine, settings, run_id, caplog):
    with serving(Server(Script(sources()))) as server:
        told = settings(server.url, key="", key_file="/does/not/exist")
        selecting.select_dispatch(engine, told, run_id)
        assert advising.usable(told) is False
        assert [c.name for c in chores.slow_chores_of(engine, told)] == []
    assert planned(engine) == lab.rules_alone()
    assert server.requests == []


def test_the_runs_page_shows_what_was_asked_and_its_twin_every_word(engine, settings, run_id):
    with serving(Server(Script(sources(), {lab.SPARSE: "lacks-feature"}))) as server:
        told = settings(server.url)
        selecting.select_dispatch(engine, told, run_id)
    with TestClient(create_app(told)) as client:
        page = client.get(f"/run/{run_id}").text
        assert 'id="agents"' in page
        assert "agent-answered" in page
        assert lab.SPARSE in page
        whole = client.get(f"/run/{run_id}/agents.json").json()
        assert client.get("/run/none/agents.json").status_code == 404
    assert whole["total"] == 3
    assert whole["usd"] >= 0
    assert whole["rows"][0]["transcript"]
    assert KEY not in json.dumps(whole)


def test_what_is_old_is_forgotten(engine, settings):
    told = settings("http://127.0.0.1:1/v1", keep_days=30.0)
    now = time.time()
    record = Record(Stage.TRIAGE, "model", "m", "1", "agent-answered", "r", advising.Desks(told).meter().used())
    with engine.begin() as conn:
        for age in (1.0, 31.0):
            agents.add(conn, [record], dispatch_id=None, device="spyre", in_force=True, now=now - age * 86400.0)
    assert tidying.tidy(engine, told, now)["agents"] == 1
    assert [now - r.created_at < 2 * 86400.0 for r in rows(engine, agent_run)] == [True]


# ------------------------------------------------------------------------------------------------------------- stage 4

LOG = f"RuntimeError: no kernel for sort\n{lab.ORDER} (the log) token={KEY}\nend of the log"
FAILING = "test/test_sure.py::TestSure::test_add_spyre"


def reported(engine, told, run_id, side, variant, **line) -> None:
    """A worker has run a shard of the run and told of one variant of it."""
    test = f"test/test_sure.py::TestSure::{variant.removesuffix('_spyre')}"
    with engine.begin() as conn:
        shards.add(conn, dispatch_id=run_id, side=side, queue="shards.spyre", now=time.time(), specs=[shard_spec(test)])
        (shard_id,) = conn.execute(select(shard.c.id).where(shard.c.dispatch_id == run_id)).scalars()
    token = leasing.take(engine, told, shard_id, "w", time.time())["token"]
    leasing.record(engine, told, shard_id, token, [result_line(variant, test=test, **line)], time.time())


def concluded(engine, told, run_id, *, conclusion="failure") -> None:
    """The run has its verdict: one regression with its log."""
    reported(engine, told, run_id, "head", "test_add_spyre", outcome="failed", message="no sort", log_tail=LOG)
    with engine.begin() as conn:
        verdict = {
            "causes": [{"key": FAILING, "changes": ["test/test_sure.py:touch"]}],
            "groups": [{"id": "g1", "kind": "regression", "title": "no sort", "frame": "", "keys": [FAILING]}],
        }
        conn.execute(
            update(dispatch).values(
                state="completed", conclusion=conclusion, verdict=verdict, closed_at=time.time(), summary="as it was"
            )
        )


def causes(quote: str, failure: str = "g1", cause: str = "device-limit"):
    def lines(asked: Request) -> list[dict[str, object]]:
        return [{"failure": failure, "cause": cause, "reason": f"says {KEY}", "quote": {"path": "g1", "text": quote}}]

    return lines


@pytest.mark.parametrize(
    ("quote", "failure", "refused"),
    [
        ("RuntimeError: no kernel for sort", "g1", None),
        ("Segmentation fault", "g1", "agent-quote-not-found"),
        ("RuntimeError: no kernel for sort", "g2", "agent-unknown-id"),
    ],
)
def test_the_cause_of_a_failure_is_noted_beside_the_verdict(engine, settings, quote, failure, refused):
    run_id = make_run(engine)
    with serving(Server(causes(quote, failure))) as server:
        told = settings(server.url)
        concluded(engine, told, run_id)
        memory = explaining.causes(engine, told, {}, time.time())
        assert explaining.causes(engine, told, memory, time.time()) == memory
        assert len(server.asked) == 1, "each run once"
        now = time.time()
        assert explaining.causes(engine, told, {"after": now + 3600}, now) == {"after": now}, "the clock was ahead"
    assert f"{lab.ORDER} (the log)" in server.asked[0].prompt
    assert KEY not in server.asked[0].text
    (kept,) = rows(engine, agent_run)
    noted = [d for d in rows(engine, decision) if d.code == "agent-cause"]
    run = rows(engine, dispatch)[0]
    assert (run.conclusion, run.summary) == ("failure", "as it was"), "a note changes no verdict"
    if refused:
        assert noted == []
        assert [line["code"] for line in kept.refused] == [refused]
    else:
        assert [(d.subject, d.verdict, d.by) for d in noted] == [(FAILING, "device-limit", "model")]
        assert KEY not in noted[0].reason


def test_a_model_on_trial_notes_nothing(engine, settings):
    with serving(Server(causes("RuntimeError: no kernel for sort"))) as server:
        told = settings(server.url, mode="shadow")
        concluded(engine, told, make_run(engine))
        explaining.causes(engine, told, {}, time.time())
    assert rows(engine, decision) == []
    assert [r.in_force for r in rows(engine, agent_run)] == [False]


# ------------------------------------------------------------------------------------------------------------- stage 3


@pytest.fixture
def failing_on_trunk(engine, settings):
    """Trunk's one run of a test has failed, with this at the end of its log."""

    def seen(log: str) -> None:
        run_id = make_run(engine, base_ref="main", compare_sha="c" * 40, device="spyre")
        told = {"outcome": "failed", "message": "odd", "log_tail": log}
        reported(engine, settings("http://127.0.0.1:1"), run_id, "base", "test_mul_spyre", **told)

    return seen


def entry(quote: str, mode: str = "xfail", test: str = "test/test_sure.py::TestSure::test_mul"):
    def lines(asked: Request) -> list[dict[str, object]]:
        return [{"test": test, "mode": mode, "reason": "it has no such sort", "quote": {"path": test, "text": quote}}]

    return lines


def test_a_config_entry_is_proposed_with_its_patch_and_nothing_is_written(engine, settings, device, failing_on_trunk):
    failing_on_trunk(f"the device ran out of sorts\n{lab.ORDER}")
    before = {path.name: path.read_bytes() for path in device.iterdir()}
    with serving(Server(entry("the device ran out of sorts"))) as server:
        told = settings(server.url)
        assert explaining.configs(engine, told, time.time()) == {"asked": 1, "proposed": 1}
        (row,) = rows(engine, proposal)
        assert (row.kind, row.state, row.reason) == ("agent", "open", "it has no such sort")
        assert "+    - names:" in row.evidence[-1].replace("  - names", "    - names") or "+" in row.evidence[-1]
        assert "TestSure::test_mul" in row.evidence[-1]
        proposing.refresh(engine, told, time.time())
        assert rows(engine, proposal)[0].state == "open", "the hourly look at trunk is not what closes it"
    assert {path.name: path.read_bytes() for path in device.iterdir()} == before
    with serving(Server(lambda asked: [])) as server:
        explaining.configs(engine, settings(server.url), time.time())
    assert rows(engine, proposal)[0].state == "gone"


@pytest.mark.parametrize(
    ("log", "lines", "code"),
    [
        ("odd", entry("what stands nowhere"), "agent-quote-not-found"),
        ("odd things", entry("odd things", test="test/test_sure.py::TestSure::test_none"), "agent-unknown-id"),
    ],
)
def test_an_entry_that_does_not_hold_is_refused(engine, settings, failing_on_trunk, log, lines, code):
    failing_on_trunk(log)
    with serving(Server(lines)) as server:
        explaining.configs(engine, settings(server.url), time.time())
    assert rows(engine, proposal) == []
    assert [line["code"] for line in rows(engine, agent_run)[0].refused] == [code]


def test_what_an_environment_spoilt_is_not_asked_about(engine, settings, failing_on_trunk):
    failing_on_trunk("OSError: [Errno 28] No space left on device")
    with serving(Server(entry("No space left on device"))) as server:
        explaining.configs(engine, settings(server.url), time.time())
    assert (server.asked, rows(engine, proposal)) == ([], [])


# ------------------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('mode = "on"', "set agents.model"),
        ('mode = "on"\nmodel = "m"\nurl = "ftp://x"', "set agents.url"),
        ('mode = "on"\nmodel = "m"\nurl = "https://me:word@x/v1"', "key and key_file"),
        ('mode = "perhaps"', "agents.mode"),
        ("budget = 1", "agents.budget"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_with_their_place(tmp_path, text, problem):
    path = tmp_path / "relay.toml"
    path.write_text(f"[agents]\n{text}\n")
    with pytest.raises(SettingsError, match=problem) as caught:
        load(path)
    assert "word" not in str(caught.value).partition("password")[0]


def test_every_setting_of_agents_is_documented():
    page = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()
    for name, field in AgentSettings.model_fields.items():
        assert f"| `agents.{name}` |" in page
        assert field.description in page


def test_every_secret_is_known_to_the_scrubber(tmp_path, settings):
    keys, hooks = tmp_path / "key", tmp_path / "hooks"
    keys.write_text("a-key-in-a-file\n")
    hooks.write_text("one-of-two\ntwo-of-two\n")
    told = settings("http://127.0.0.1:1/v1", key_file=str(keys)).model_copy(
        update={"webhook_secrets_file": str(hooks), "database_url": "postgresql://u:of-the-database@h/d"}
    )
    found = known_secrets(told, {"SOME_API_TOKEN": "of-the-environment", "PATH": "/bin", "MAX_TOKENS": "4000"})
    assert {KEY, lab.SECRET, "a-key-in-a-file", "one-of-two", "two-of-two", "of-the-database"} <= found
    assert "of-the-environment" in found
    assert not {"/bin", "4000"} & found


# ---------------------------------------------------------------------------------------------------------- a terminal


def test_relay_select_asks_the_model_of_the_settings(upstream, device, tmp_path):
    path, base, head = upstream
    words = ["select", "--upstream", path, "--base", base, "--head", head, "--configs", device, "--json"]

    def relay(*more: str):
        return CliRunner().invoke(app, [*map(str, words), *more])

    with serving(Server(Script(sources(), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE,)))) as server:
        config = tmp_path / "relay.toml"
        config.write_text(f'[agents]\nurl = "{server.url}"\nmodel = "scripted"\nkey = "{KEY}"\n')
        alone = relay()
        assert (server.requests, "agents" in json.loads(alone.output)) == ([], False), "only who asks for it gets it"
        asked = relay("--agents", "--config", str(config))
    assert asked.exit_code == 0, asked.output
    before, told = json.loads(alone.output), json.loads(asked.output)
    names = [{one["test"] for one in side["tests"]} for side in (before, told)]
    assert names[1] - names[0] == {lab.ELSEWHERE}
    assert names[0] <= names[1], "a terminal knows no trusted runs, so nothing is left out"
    # of what no trusted run was seen to leave idle nothing is asked
    assert [(one["stage"], one["code"]) for one in told["agents"]] == [("discover", "agent-answered")]
    assert KEY not in asked.output
    none = relay("--agents")
    assert isinstance(none.exception, SettingsError)
    assert "the settings name no model" in str(none.exception)


def test_the_selector_works_where_the_library_is_not_installed():
    """Every module of it but the two that ask a model, and the relay's settings and services that use them."""
    code = (
        "import sys, pkgutil, importlib\n"
        "sys.modules['pydantic_ai'] = sys.modules['openai'] = sys.modules['anthropic'] = None\n"
        "import selector, relay.agents.endpoint, relay.services.selecting, relay.chores, relay.cli.select\n"
        "names = [m.name for m in pkgutil.walk_packages(selector.__path__, 'selector.')]\n"
        "ours = {'selector.agents.model', 'selector.agents.guard'}\n"
        "assert ours <= set(names)\n"
        "[importlib.import_module(n) for n in names if n not in ours]\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_without_the_library_a_wanted_model_is_refused_by_name(settings, monkeypatch):
    monkeypatch.setattr("relay.agents.endpoint.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"crcr-relay\[agents\]"):
        _ = advising.Desks(settings("http://127.0.0.1:1/v1")).mind


def test_the_records_are_counted_once_though_a_selection_is_done_twice(engine, settings, run_id):
    with serving(Server(Script(sources()))) as server:
        told = settings(server.url)
        selecting.select_dispatch(engine, told, run_id)
        with engine.begin() as conn:
            again = update(dispatch).where(dispatch.c.id == run_id)
            conn.execute(again.values(state="selecting", due_at=time.time(), claim=None))
            conn.execute(shard.delete().where(shard.c.dispatch_id == run_id))
        selecting.select_dispatch(engine, told, run_id)
    with reading(engine) as conn:
        stages = dict(conn.execute(select(agent_run.c.stage, func.count()).group_by(agent_run.c.stage)).all())
    assert stages == {"triage": 1, "discover": 1}
