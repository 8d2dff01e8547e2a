"""A model's answers of a replay: what is noted of a model, kept in a file and played back comes to the same plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import agent_lab as lab
import pytest
from model_server import Script, Server, serving

from relay.errors import SettingsError
from relay.replay.recorded import Noting, RecordedAgent, read_recorded, write_recorded
from selector.model import TestId
from selector.pipeline import select
from selector.replay.strategies import Recorded


def test_what_was_recorded_of_a_model_comes_to_the_same_plan(tmp_path: Path) -> None:
    wanted = replace(lab.request(hostile=False), suspect_room_s=60.0)
    script = Script(lab.files(1), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE,))
    with serving(Server(script)) as server:
        noting = Noting(lab.agent(server.url, wanted))
        asked = select(replace(wanted, agent=noting))
    alone = select(wanted)
    assert lab.planned(asked) == (lab.planned(alone) - {lab.SPARSE}) | {lab.ELSEWHERE}
    path = tmp_path / "answers.json"
    write_recorded(path, "scripted", {"a": Recorded(noting.suspected, noting.dropped, 0.25, 1.5, "scripted")})
    said = read_recorded(path)["a"]
    assert said == Recorded(
        (TestId.parse(lab.ELSEWHERE),), frozenset({TestId.parse(lab.SPARSE)}), 0.25, 1.5, "scripted"
    )
    played = select(replace(wanted, agent=RecordedAgent(said)))
    assert [one.test for one in played.plan.tests] == [one.test for one in asked.plan.tests]


def test_a_recorded_test_that_the_tree_has_not_is_not_suspected() -> None:
    wanted = replace(lab.request(hostile=False), suspect_room_s=60.0)
    said = Recorded((TestId("test/test_gone.py", "TestGone", "test_it"),), frozenset(), 0.0, 0.0, "someone")
    assert lab.planned(select(replace(wanted, agent=RecordedAgent(said)))) == lab.planned(select(wanted))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Expecting"),
        ('{"answers": {}}', "by: Field required"),
        ('{"by": "x", "answers": {"f": {"add": []}}}', "answers.f.add: Extra inputs"),
        ('{"by": "x", "answers": {"f": {"usd": -1}}}', "answers.f.usd: Input should be greater"),
        ('{"by": "x", "answers": {"f": {"suspects": ["no test"]}}}', "no test"),
    ],
)
def test_a_recorded_run_that_cannot_be_read_says_where(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=said):
        read_recorded(path)
