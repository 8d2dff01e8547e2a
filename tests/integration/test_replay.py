"""A small replay end to end: real faults in the installed torch, upstream's real tests, on the emulated device."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from model_server import KEY, Request, Server, serving

from relay.cli import replay as cli_replay
from relay.cli import trace
from relay.cli.learn import from_replay
from relay.cli.replay import Given, session
from relay.cli.terminal import Terminal
from relay.errors import SettingsError
from relay.replay.recorded import read_recorded
from relay.settings import Settings
from selector.discover.traced import Trace
from selector.plan.learning import TooLittle
from selector.replay.evaluate import evaluate
from selector.replay.model import KILLED

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "test/test_scatter_gather_ops.py",
    "test/test_shape_ops.py",
    "test/test_view_ops.py",
    "test/nn/test_pooling.py",
)
OPDB = ROOT / "tests/data/opdb/torch-2.13.0.json"
NATIVE = "aten/src/ATen/native"
SUSPECTED = "test/test_scatter_gather_ops.py::TestScatterGather::test_gather_backward_with_empty_index_tensor"
FAULTS = 20
QUOTAS = (
    ("references", 120),
    ("primitives", 90),
    ("functional", 110),
    ("modules", 150),
    ("entries", 5),
    ("native", 300),
)
"""many more than are run: the first FAULTS that the small pool reaches"""


@dataclass
class Replayed:
    given: Given
    said: str


@pytest.fixture(scope="module")
def small_tree(pytorch_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of upstream's test files and its native CPU sources: the whole tree takes longer than CI has."""
    tree = tmp_path_factory.mktemp("upstream")
    for name in FILES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pytorch_tree / name, tree / name)
    shutil.copytree(pytorch_tree / NATIVE, tree / NATIVE, ignore=lambda folder, names: _unwanted(Path(folder), names))
    return tree


def _unwanted(folder: Path, names: list[str]) -> set[str]:
    keep = {"cpu", "native_functions.yaml"}
    return {name for name in names if name not in keep and not name.endswith(".cpp")}


@pytest.fixture(scope="module")
def replayed(small_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    work = tmp_path_factory.mktemp("work")
    shutil.copyfile(OPDB, work / "opdb.json")  # else it is exported, which takes seconds
    given = Given(
        small_tree, ROOT / "test_configs/unlimited", work, "ci", FILES,
        faults=FAULTS, share=0.05, least=30, most=40, full=2, fault_s=6.0, quotas=QUOTAS,
    )  # fmt: skip
    out = io.StringIO()
    assert cli_replay.run(replace(given, faults=FAULTS // 2), Terminal(file=out, width=200)) == 0
    # goes on with the pool of the first, and follows what its variants run
    assert cli_replay.run(replace(given, trace=True), Terminal(file=out, width=200)) == 0
    return Replayed(given, out.getvalue())


def test_twenty_faults_are_replayed(replayed: Replayed) -> None:
    replay = session(replayed.given, Terminal(file=io.StringIO()))
    pool = replay.pool()
    faults = replay.first(FAULTS, pool)
    reached = [fault for fault in faults if pool.reached(fault.id)]
    assert len(reached) == FAULTS
    assert set(replay.notes) == {fault.id for fault in faults}
    killed = [fault for fault in faults if KILLED in replay.known[fault.id].values()]
    assert {fault.native for fault in killed} == {True, False}
    found = evaluate(faults, pool, replay.all_cases(), replay.known, replay.notes, "ci")
    assert found.killed == len(killed)
    assert found.killed + found.unkilled + found.undecided + found.no_place == FAULTS
    for outcomes in found.outcomes.values():
        # whatever kills a fault is among all tests, so the strategy that takes them all finds every one
        assert all(one.found for one in outcomes.get("all", ()))
        # what kills a fault runs it, so of the cheap tests that were seen to run it some one mostly does
        traced = outcomes.get("rules + trace", ())
        assert len(traced) == len(outcomes.get("all", ()))
        assert sum(one.found for one in traced) >= sum(one.found for one in outcomes.get("rules", ()))
    assert "rules + trace" in replayed.said
    assert "change recall" in replayed.said
    assert "faults that some test finds" in replayed.said


def test_a_trace_names_what_tests_run(small_tree: Path, tmp_path: Path) -> None:
    shutil.copyfile(OPDB, tmp_path / "opdb.json")
    out, said = tmp_path / "trace.json.gz", io.StringIO()
    files = ("test/test_scatter_gather_ops.py",)
    console = Terminal(file=said, width=200)
    assert trace.run(small_tree, ROOT / "test_configs/unlimited", tmp_path, out, files, console=console) == 0
    found = Trace.from_bytes(out.read_bytes())
    scatter = {found.units[n].test.method for n in found.ops["scatter_add"]}
    # the second one's name says nothing of it: gather's derivative calls it
    assert scatter >= {"test_scatter_add_mult_index_base", "test_gather_backward_with_empty_index_tensor"}
    assert "test_scatter_zero_size_index" not in scatter
    assert found.running("torch/testing/_creation.py", "make_tensor")
    assert found.running("torch/nn/modules/linear.py", "Linear") is None
    assert all(unit.seconds > 0 for unit in found.units)
    assert "functions" in said.getvalue()


def test_a_replay_that_is_there_runs_nothing_again(replayed: Replayed) -> None:
    results = replayed.given.work / "results.jsonl"
    before = results.read_bytes()
    out = io.StringIO()
    assert cli_replay.show(replayed.given, as_json=True, console=Terminal(file=out)) == 0
    assert results.read_bytes() == before
    value = json.loads(out.getvalue())
    assert value["faults"]["not_run"] == 0
    assert sum(value["faults"][name] for name in ("killed", "unkilled", "undecided", "no_place")) == FAULTS


def test_a_run_that_was_cut_off_goes_on_where_it_was(replayed: Replayed, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(replayed.given.work, work)
    rows = (work / "results.jsonl").read_text().splitlines(keepends=True)
    (work / "results.jsonl").write_text("".join(rows[: len(rows) // 2]) + rows[-1][:7])  # the last line half written
    cut = session(_with(replayed.given, work=work), Terminal(file=io.StringIO()))
    whole = session(replayed.given, Terminal(file=io.StringIO()))
    assert 0 < len(cut.notes) < len(whole.notes)
    assert all(whole.known[fault].items() >= variants.items() for fault, variants in cut.known.items())
    assert [fault.id for fault in cut.faults] == [fault.id for fault in whole.faults]


def test_other_settings_do_not_mix_with_a_replay(replayed: Replayed) -> None:
    with pytest.raises(SettingsError, match="another seed"):
        session(_with(replayed.given, seed="other"), Terminal(file=io.StringIO()))


def test_too_few_faults_teach_nothing(replayed: Replayed, tmp_path: Path) -> None:
    with pytest.raises(TooLittle, match="faults that some planned test finds"):
        from_replay(replayed.given, tmp_path / "ranker.json", Terminal(file=io.StringIO()))
    assert not (tmp_path / "ranker.json").exists()


def _lines(request: Request) -> list[dict[str, Any]]:
    """Keeps all that rules are not sure of, with a true quote; suspects one test of those that it read of."""
    quote = {"path": SUSPECTED.partition("::")[0], "text": "def test_gather_backward_with_empty_index_tensor"}
    if request.about == "suspects":
        known = [{"test": SUSPECTED, "reason": "it scatters", "quote": quote}]
        return [*known, {**known[0], "test": "test/test_shape_ops.py::Nobody::test_nothing"}]
    return [{"test": test, "keep": True, "reason": "not sure", "quote": quote} for test in request.ids]


def test_a_models_answers_are_recorded_and_played_back(replayed: Replayed, tmp_path: Path) -> None:
    out, said = tmp_path / "answers.json", io.StringIO()
    with serving(Server(_lines)) as server:
        told = {"url": server.url, "model": "scripted", "key": KEY, "seconds": 60.0}
        settings = Settings.model_validate({"agents": told})
        assert cli_replay.ask(replayed.given, settings, out, Terminal(file=said, width=200)) == 0
        asked = len(server.asked)
        assert cli_replay.ask(replayed.given, settings, out, Terminal(file=said, width=200)) == 0
        assert len(server.asked) == asked  # what was answered is not asked again
    recorded = read_recorded(out)
    assert len(recorded) == FAULTS
    suspected = [one for one in recorded.values() if one.suspects]
    assert len(suspected) == sum(one.about == "suspects" for one in server.asked)
    assert all([str(test) for test in one.suspects] == [SUSPECTED] for one in suspected)
    assert not any(one.drop for one in recorded.values())
    shown = io.StringIO()
    given = _with(replayed.given, model_run=out)
    assert cli_replay.show(given, as_json=True, console=Terminal(file=shown)) == 0
    groups = json.loads(shown.getvalue())["groups"]
    rows = {name: {line["strategy"]: line for line in lines} for name, lines in groups.items() if lines}
    for lines in rows.values():
        # it can only add: whatever the rules find, they find with it
        assert lines["rules + model"]["changes"]["hits"] >= lines["rules"]["changes"]["hits"]
    other = settings.model_copy(update={"agents": settings.agents.model_copy(update={"model": "another"})})
    with pytest.raises(SettingsError, match="the answers of scripted"):
        cli_replay.ask(replayed.given, other, out, Terminal(file=said))


def test_a_model_that_does_not_answer_is_asked_again_another_time(replayed: Replayed, tmp_path: Path) -> None:
    out, said = tmp_path / "answers.json", io.StringIO()
    with serving(Server(_lines)) as server:
        gone = server.url
    settings = Settings.model_validate({"agents": {"url": gone, "model": "away", "seconds": 5.0}})
    assert cli_replay.ask(_with(replayed.given, faults=3), settings, out, Terminal(file=said, width=200)) == 0
    answered = read_recorded(out) if out.exists() else {}
    assert len(answered) + said.getvalue().count("agent-unavailable") == 3
    assert f"{len(answered)} answers of away" in said.getvalue()


def _with(given: Given, **changed: Any) -> Given:
    return replace(given, **changed)
