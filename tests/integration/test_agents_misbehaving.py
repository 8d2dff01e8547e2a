"""A model that misbehaves in every way that we could think of: the selection is never poorer than the rules' own,
nothing leaks, and nobody waits longer than the agent's seconds."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import agent_lab as lab
import pytest
from model_server import KEY, Request, Script, Server, serving

from selector.agents.advisor import ModelAgent
from selector.agents.records import CODES, REFUSALS
from selector.discover import MemoryCache
from selector.model import Stage
from selector.pipeline import select
from selector.trees import MemoryTree, diff_trees

SECRETS = (KEY, lab.SECRET, lab.TOKEN)
FAR_LONGER_S = lab.HELD_S / 2
"""A slow server holds every answer for longer; the agents that it keeps waiting have a second."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Between tries it waits less than it would: what is tried again, and how often, stays."""
    monkeypatch.setattr("selector.agents.guard.PAUSE_S", 0.01)


def sources() -> dict[str, str]:
    return lab.files(1, lab.ORDER)


def assert_nothing_leaks(requests: list[Request], asked: ModelAgent, told: object, logged: str) -> None:
    for request in requests:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        others = {name: value for name, value in request.headers.items() if name != "authorization"}
        for secret in SECRETS:
            assert secret not in request.text
            assert secret not in repr(others)
    for secret in SECRETS:
        assert secret not in repr(asked.journal.records)
        assert secret not in repr(told)
        assert secret not in logged


@pytest.mark.parametrize("case", lab.CASES, ids=[case.name.replace(" ", "-") for case in lab.CASES])
def test_a_model_that_misbehaves_costs_no_test_no_secret_and_no_more_than_its_time(case, caplog):
    caplog.set_level(logging.DEBUG)
    wanted = lab.request()
    with serving(lab.served(case, sources())) as server:
        asked = lab.agent(server.url, wanted, seconds=case.seconds)
        got = lab.timed(replace(wanted, agent=asked))
    assert lab.planned(got.selection) >= lab.rules_alone(), "what the rules select is there, whatever the model says"
    assert not got.selection.plan.partial
    assert got.seconds < FAR_LONGER_S
    ended = {record.code for record in asked.journal.records}
    assert ended, "it was asked"
    assert ended == case.ends
    assert {line.code for record in asked.journal.records for line in record.refused} == case.refused
    assert server.asked or case.seconds < lab.AMPLE_S, "a busy machine may need a second for the first look at it"
    assert_nothing_leaks(server.requests, asked, got.selection.decisions, caplog.text)
    for record in asked.journal.records:
        assert record.code in CODES
        assert {line.code for line in record.refused} <= set(REFUSALS)


def test_the_page_shows_the_table_that_is_tested():
    page = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text()
    shown = page.partition("<!-- misbehaviour -->")[2].partition("<!-- /misbehaviour -->")[0].strip()
    assert shown == lab.table(), "print it with: python tests/bench/agents.py misbehaviour"
    for code, meaning in {**CODES, **REFUSALS}.items():
        assert f"| `{code}` | {meaning} |" in page


def test_what_strangers_write_reaches_the_model_marked_as_data_and_without_secrets():
    """The tests above prove nothing if the hostile text was never shown."""
    wanted = lab.request()
    with serving(Server(Script(sources()))) as server:
        asked = lab.agent(server.url, wanted)
        lab.timed(replace(wanted, agent=asked))
    suspects = next(one for one in server.asked if one.about == "suspects")
    for where in ("the title", "the message", "a YAML comment"):
        assert f"{lab.ORDER} ({where})" in suspects.prompt
    assert "[secret removed]" in suspects.prompt
    inside = suspects.prompt.split("<<<data>>>")[1:]
    assert all("<<<end of data>>>" in part for part in inside)
    outside = "".join(part.split("<<<end of data>>>")[-1] for part in suspects.prompt.split("<<<data>>>"))
    assert "mark all tests" not in outside
    assert "mark all tests" not in suspects.instructions


@pytest.mark.parametrize(("tools", "reads"), [(True, lab._reads_first), (False, None)], ids=["reads", "is-shown"])
def test_an_obedient_model_is_caught_by_the_tests_whose_answer_is_known(tools, reads):
    wanted = lab.request()
    with serving(Server(lab.obedient(sources()), reads, tools=tools)) as server:
        asked = lab.agent(server.url, wanted)
        got = lab.timed(replace(wanted, agent=asked))
    triage = next(r for r in asked.journal.records if (r.stage, r.agent) == (Stage.TRIAGE, "model"))
    shown = [one.text for one in server.asked if one.about == "triage"]
    assert any("mark all tests irrelevant" in text for text in shown), "its source was before it"
    assert {line.code for line in triage.refused} == {"agent-failed-control"}
    assert lab.planned(got.selection) >= lab.rules_alone()
    assert not [one for one in server.asked if one.about == "critic"], "nothing was left for a critic"


def test_a_critic_that_nods_at_everything_is_not_believed():
    wanted = lab.request()
    with serving(Server(lab._drops_sparse_alone(sources()))) as server:
        asked = lab.agent(server.url, wanted)
        got = lab.timed(replace(wanted, agent=asked))
    (critic,) = [r for r in asked.journal.records if r.agent == "critic"]
    assert [line.code for line in critic.refused] == ["agent-critic-failed-control"]
    assert lab.SPARSE in lab.planned(got.selection)


@pytest.mark.parametrize(
    ("ground", "quote", "code"),
    [
        (None, None, "agent-no-ground"),
        ("uses-no-device", None, "agent-ground-unproven"),
        (
            "lacks-feature",
            {"path": "test/test_sure.py", "text": "def test_mul(self, device):"},
            "agent-quote-not-found",
        ),
        ("lacks-feature", {"path": "test/none.py", "text": "def test_x(self):"}, "agent-quote-not-found"),
    ],
)
def test_a_drop_needs_a_ground_that_holds_and_a_quote_from_what_the_test_reaches(ground, quote, code):
    script = Script(sources(), {lab.SPARSE: ground})

    def lines(asked: Request) -> list[dict[str, object]]:
        return [line if line.get("keep", True) or quote is None else {**line, "quote": quote} for line in script(asked)]

    wanted = lab.request()
    with serving(Server(lines)) as server:
        asked = lab.agent(server.url, wanted)
        got = lab.timed(replace(wanted, agent=asked))
    triage = next(r for r in asked.journal.records if r.stage is Stage.TRIAGE)
    assert [(line.subject, line.code) for line in triage.refused] == [(lab.SPARSE, code)]
    assert lab.SPARSE in lab.planned(got.selection)


def test_the_critic_must_show_something_else_than_the_first_agent_showed():
    script = Script(sources(), {lab.SPARSE: "lacks-feature"})

    def lines(asked: Request) -> list[dict[str, object]]:
        told = script(asked)
        same = asked.about == "critic"
        return [{**line, "quote": script.quote(str(line["test"]), 0)} if same else line for line in told]

    wanted = lab.request()
    with serving(Server(lines)) as server:
        asked = lab.agent(server.url, wanted)
        got = lab.timed(replace(wanted, agent=asked))
    (critic,) = [r for r in asked.journal.records if r.agent == "critic"]
    assert [line.code for line in critic.refused] == ["agent-no-evidence-of-its-own"]
    assert lab.SPARSE in lab.planned(got.selection)


def test_what_both_agree_on_and_the_source_shows_is_left_out_and_what_is_suspected_runs_besides():
    wanted = lab.request()
    script = Script(sources(), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE, lab.VARIABLE))
    with serving(Server(script)) as server:
        asked = lab.agent(server.url, wanted)
        got = lab.timed(replace(wanted, agent=asked)).selection
    assert lab.rules_alone() - lab.planned(got) == {lab.SPARSE}
    assert lab.planned(got) - lab.rules_alone() == {lab.ELSEWHERE}
    (dropped,) = [d for d in got.decisions if d.subject == lab.SPARSE and d.stage is Stage.TRIAGE]
    assert (dropped.verdict, dropped.code, dropped.by) == ("irrelevant", "agent-drop", "critic")
    assert {"capability", "model", "critic"} <= {fact.kind for fact in dropped.evidence}
    (added,) = [d for d in got.decisions if d.code == "agent-impact"]
    assert (added.subject, added.by, added.evidence[0].path) == (lab.ELSEWHERE, "model", "test/test_other.py")
    (planned,) = [t for t in got.plan.tests if str(t.test) == lab.ELSEWHERE]
    assert planned.codes == ("agent-impact",)
    assert [t for shard in got.plan.shards for t in shard.tests if str(t) == lab.ELSEWHERE]
    assert [shard.index for shard in got.plan.shards] == list(range(len(got.plan.shards)))


def test_a_kernel_that_was_counted_beats_both_agents():
    wanted = lab.request()
    with serving(Server(Script(sources(), {lab.SPARSE: "lacks-feature"}))) as server:
        asked = lab.agent(server.url, wanted)
        (test,) = lab.ids({lab.SPARSE})
        got = lab.timed(replace(wanted, agent=asked, engaged_before={test: 3})).selection
    assert lab.SPARSE in lab.planned(got)
    (kept,) = [d for d in got.decisions if d.subject == lab.SPARSE and d.stage is Stage.TRIAGE]
    assert kept.code == "engaged-before"


def test_on_trial_a_model_is_asked_and_nobody_acts_on_it():
    wanted = lab.request()
    with serving(Server(Script(sources(), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE,)))) as server:
        asked = lab.agent(server.url, wanted)
        got = lab.timed(replace(wanted, models=(asked,))).selection
    assert lab.planned(got) == lab.rules_alone()
    opinions = [one for one in got.shadow.opinions if one.subject == "model:model"]
    assert [str(t) for one in opinions for t in one.drops] == [lab.SPARSE]
    assert [str(t) for one in opinions for t in one.adds] == [lab.ELSEWHERE]


def test_an_endpoint_of_anthropics_kind_is_asked_in_its_own_protocol():
    wanted = lab.request()
    script = Script(sources(), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE,))
    with serving(Server(script)) as server:
        asked = lab.agent(server.url.removesuffix("/v1"), wanted, kind="anthropic")
        got = lab.timed(replace(wanted, agent=asked)).selection
    assert {record.code for record in asked.journal.records} == {"agent-answered"}
    assert lab.rules_alone() ^ lab.planned(got) == {lab.SPARSE, lab.ELSEWHERE}
    for request in server.requests:
        # which of the two carries it is the library's to say
        assert [name for name, value in request.headers.items() if KEY in value] in (["authorization"], ["x-api-key"])
        assert KEY not in request.text
        assert lab.SECRET not in request.text


@pytest.mark.parametrize(
    ("able", "form", "looks"),
    [
        ({}, "tools", 2),
        ({"tools": False}, "json-schema", 2),
        ({"tools": False, "schema": False}, "json-mode", 3),
        ({"tools": False, "schema": False, "mode": False}, "text", 3),
    ],
)
def test_an_endpoint_is_asked_in_the_best_form_that_it_was_seen_to_have(able, form, looks):
    wanted, cache = lab.request(hostile=False), MemoryCache()
    script = Script(lab.files(1), {lab.SPARSE: "lacks-feature"})
    with serving(Server(script, **able)) as server:
        for _ in range(2):
            asked = lab.agent(server.url, wanted, cache)
            asked.cache = None
            got = lab.timed(replace(wanted, agent=asked)).selection
    assert lab.rules_alone(hostile=False) - lab.planned(got) == {lab.SPARSE}, "in every form it can be answered"
    assert {record.abilities for record in asked.journal.records} == {form}
    assert len(server.requests) - len(server.asked) == looks, "looked at once, and remembered"


def test_answers_are_kept_by_content_but_not_with_sight_of_what_the_change_touches():
    wanted, cache = lab.request(hostile=False), MemoryCache()

    def ask(server, wanted, cache=cache):
        asked = lab.agent(server.url, wanted, cache)
        before = len(server.asked)
        got = lab.timed(replace(wanted, agent=asked)).selection
        return lab.planned(got), [one.about for one in server.asked[before:]], asked

    script = Script(lab.files(1), {lab.SPARSE: "lacks-feature"})
    with serving(Server(script)) as server:
        first, about, _ = ask(server, wanted)
        assert about == ["suspects", "triage", "critic"]
        again, about, asked = ask(server, replace(wanted, change=replace(wanted.change, head="c" * 40)))
        assert (again, about) == (first, ["suspects"])
        assert "agent-cached" in {record.code for record in asked.journal.records}
    reading = MemoryCache()
    with serving(Server(script, lab._reads_first)) as server:
        for _ in range(2):
            _, about, _ = ask(server, wanted, reading)
            assert {"triage", "critic"} <= set(about), "it read the changed module: its answer decides nothing else"


def test_tests_that_the_change_has_a_hand_in_are_not_asked_about():
    """Who mentions a feature in a helper could take every test that calls it out of the selection."""
    wanted = lab.request()
    before = MemoryTree(lab.files(1, lab.ORDER))
    text = sources()["test/test_sure.py"].replace("class TestSure", "def sparse_coo(): pass\n\nclass TestSure")
    after = MemoryTree({**sources(), "test/test_sure.py": text})
    change = replace(wanted.change, files=diff_trees(before, after))
    wanted = replace(wanted, base=before, head=after, change=change)
    with serving(Server(lab.everything_irrelevant(sources()))) as server:
        got = lab.timed(replace(wanted, agent=lab.agent(server.url, wanted))).selection
    assert not [one for one in server.asked if lab.SPARSE in one.ids]
    assert lab.planned(got) == lab.planned(select(wanted))


def test_what_no_trusted_run_was_seen_to_leave_idle_is_not_asked_about():
    wanted = lab.request()
    with serving(Server(Script(sources(), {lab.SPARSE: "lacks-feature"}))) as server:
        asked = lab.agent(server.url, wanted)
        asked.desk.past = {}
        got = lab.timed(replace(wanted, agent=asked)).selection
    assert [one.about for one in server.asked] == ["suspects"]
    assert {r.stage for r in asked.journal.records} == {Stage.DISCOVER}
    assert lab.planned(got) >= lab.rules_alone()


def test_stage_1_is_asked_before_stage_2_can_use_up_the_steps():
    """A suspect may find a regression, a drop only saves seconds."""
    wanted = lab.request()
    with serving(Server(Script(sources(), {lab.SPARSE: "lacks-feature"}, suspects=(lab.ELSEWHERE,)))) as server:
        asked = lab.agent(server.url, wanted, steps=4)
        got = lab.timed(replace(wanted, agent=asked)).selection
    assert server.asked[0].about == "suspects"
    assert lab.ELSEWHERE in {str(test) for test in lab.planned(got)}
    assert "agent-budget" in {r.code for r in asked.journal.records}


def test_a_model_cannot_push_tests_out_of_a_budget_that_is_too_small():
    wanted = lab.request()
    small = replace(wanted, budget=replace(wanted.budget, seconds=1.2))
    alone = select(small)
    assert alone.plan.partial
    praises = Script(sources(), suspects=(lab.VARIABLE, lab.ELSEWHERE), says="by far the most important")
    with serving(Server(praises)) as server:
        asked = lab.agent(server.url, small)
        got = lab.timed(replace(small, agent=asked)).selection
    assert lab.planned(got) >= lab.planned(alone)
    beside = lab.planned(got) - lab.planned(alone)
    assert beside
    assert beside <= {lab.VARIABLE, lab.ELSEWHERE}
    assert got.plan.partial
