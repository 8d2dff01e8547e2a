"""Rules and models on trial: asked beside those in force, written down, not heeded; a fault of theirs ends nothing."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from selector.agents import RulesAgent
from selector.configs import ConfigSource, load_capability, load_configs
from selector.discover.findings import Findings
from selector.discover.rules import helpers, kernels, siblings
from selector.model import Change, OnTrial, Selection
from selector.pipeline import SelectionRequest, select
from selector.plan import Budget, WorkerOffer
from selector.trees import MemoryTree, diff_trees
from selector.triage.rules import RULES, TRIALS, compile_classes
from selector.triage.subject import Opinion, Ruling, Subject
from selector.trials import on_trial

HEAD = "from torch.testing._internal.common_utils import TestCase\n"
GENERIC = (
    HEAD
    + """
def touch():
    return 0
class TestX(TestCase):
    def test_uses(self, device):
        return torch.ones(touch(), device=device)
    def test_beside(self, device):
        return torch.ones(1, device=device)
instantiate_device_type_tests(TestX, globals())
"""
)
COMPILER = HEAD + "def touch():\n    return 0\nclass TestC(TestCase):\n    def test_c(self):\n        touch()\n"
KERNEL = "aten/src/ATen/native/Add.cpp"
CONFIG = """test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/**/test_*.py
      unlisted_test_mode: mandatory_success
    - path: ${TORCH_ROOT}/test/test_*.py
      unlisted_test_mode: mandatory_success
"""


def chosen(before: dict[str, str], after: dict[str, str], **more: object) -> Selection:
    base, head = MemoryTree(before), MemoryTree(after)
    request = SelectionRequest(
        base=base,
        head=head,
        change=Change("a" * 40, "b" * 40, diff_trees(base, head)),
        capability=load_capability("capability: {name: toy, device: toy, dtypes: [float32]}", "capability.yaml"),
        configs=load_configs([ConfigSource("x.yaml", CONFIG)]),
        opdb=None,
        offers=(WorkerOffer("2.13.0", ("tests-only",)),),
        budget=Budget(600.0),
    )
    return select(replace(request, **more))  # type: ignore[arg-type]


def edited(text: str, path: str = "test/test_x.py") -> tuple[dict[str, str], dict[str, str]]:
    return {path: text}, {path: text.replace("return 0", "return 1")}


def opinion(selection: Selection, subject: str) -> OnTrial:
    (found,) = [one for one in selection.shadow.opinions if one.subject == subject]
    return found


def names(tests: object) -> list[str]:
    return [test.method for test in tests]  # type: ignore[attr-defined]


def mark(monkeypatch: pytest.MonkeyPatch, rule: ModuleType, shadow: bool = True) -> None:
    monkeypatch.setattr(rule, "SHADOW", shadow, raising=False)


def test_a_discover_rule_on_trial_adds_nothing_and_says_what_it_would_have_added() -> None:
    assert on_trial(siblings)
    text = GENERIC.replace("return 0", "return 7")
    before, after = {"test/test_x.py": text}, {"test/test_x.py": text.replace("torch.ones(touch()", "torch.ones(2")}
    selection = chosen(before, after)
    assert names(p.test for p in selection.plan.tests) == ["test_uses"]
    said = opinion(selection, "rule:siblings")
    assert (names(said.adds), said.drops, said.error) == (["test_beside"], (), "")
    assert said.decisions[0].code == "same-class"
    assert said.decisions[0].reason == "stands beside test_uses in TestX"
    assert "same-class" not in {d.code for d in selection.decisions}, "none of what counts"


def test_any_discover_rule_can_be_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = edited(GENERIC)
    assert names(p.test for p in chosen(before, after).plan.tests) == ["test_uses"]
    mark(monkeypatch, helpers)
    selection = chosen(before, after)
    assert selection.plan.tests == ()
    assert names(opinion(selection, "rule:helpers").adds) == ["test_uses"]
    mark(monkeypatch, kernels)
    files = {KERNEL: "Tensor add_out(Tensor a) {\n  return 0;\n}\n", "test/test_x.py": GENERIC}
    widened = chosen(files, {**files, KERNEL: files[KERNEL].replace("return 0", "return 1")})
    assert opinion(widened, "rule:kernels").adds == (), "the widening has every test already"
    assert len(widened.plan.tests) == 2, "as if the rule were not there"


def test_a_triage_rule_on_trial_keeps_nothing() -> None:
    assert on_trial(compile_classes)
    assert "compile_classes" not in [name for name, _ in RULES]
    selection = chosen(*edited(COMPILER, "test/inductor/test_c.py"))
    assert selection.plan.tests == ()
    said = opinion(selection, "rule:compile_classes")
    assert names(said.adds) == ["test_c"]
    assert said.decisions[0].code == "compile-class"
    assert chosen(*edited(GENERIC)).shadow.opinions[0].adds == ()


def test_a_rule_behind_the_one_that_answers_is_not_asked() -> None:
    (_, _, ahead) = next(one for one in TRIALS if one[0] == "rule:compile_classes")
    in_order = [name for name, _ in RULES]
    assert in_order[ahead] == "plain_class", "its place is the one that it has in the table"
    skipped = COMPILER.replace("    def test_c", "    @unittest.skip('gone')\n    def test_c")
    opinions = chosen(*edited(skipped, "test/inductor/test_c.py")).shadow.opinions
    assert not [one for one in opinions if one.adds]


class Dropper(RulesAgent):
    name = "dropper"

    def answer(self, subject: Subject, asked: Opinion) -> Opinion:
        return Opinion(Ruling.IRRELEVANT, None, "agent-drop", "a guess", (), 0.6, self.name)


class Breaker(RulesAgent):
    name = "breaker"

    def answer(self, subject: Subject, asked: Opinion) -> Opinion:
        raise ConnectionError("nobody answers")


def test_models_on_trial_are_asked_what_the_agent_is_asked_and_nobody_heeds_them() -> None:
    mixin = GENERIC.replace("class TestX(TestCase)", "class TestX(Unheard)").replace("instantiate", "# ")
    plain = chosen(*edited(mixin))
    assert names(p.test for p in plain.plan.tests) == ["test_uses"], "the rules are not sure, and keep it"
    selection = chosen(*edited(mixin), models=(Dropper(), Breaker()))
    assert selection.plan == plain.plan
    assert selection.decisions == plain.decisions
    assert names(opinion(selection, "model:dropper").drops) == ["test_uses"]
    assert opinion(selection, "model:breaker").error == "ConnectionError: nobody answers"
    seen = chosen(*edited(mixin), models=(Dropper(),), engaged_before={plain.plan.tests[0].test: 3})
    assert opinion(seen, "model:dropper").drops == (), "evidence beats it on trial as it would in force"


def test_a_rule_on_trial_that_breaks_ends_its_own_trial_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(changes: object, findings: Findings) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(siblings, "siblings", broken)
    selection = chosen(*edited(GENERIC))
    assert names(p.test for p in selection.plan.tests) == ["test_uses"]
    assert opinion(selection, "rule:siblings").error == "KeyError: 'no such thing'"
    mark(monkeypatch, siblings, shadow=False)
    with pytest.raises(KeyError):
        chosen(*edited(GENERIC))


def test_what_was_weighed_goes_along_with_the_plan() -> None:
    selection = chosen(*edited(GENERIC))
    (only,) = selection.plan.tests
    assert selection.shadow.orders == {"expected-value": (only.test,), "weight": (only.test,)}
    assert selection.shadow.seconds == {only.test: only.est_seconds}
