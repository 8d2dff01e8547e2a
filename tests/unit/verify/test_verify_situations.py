"""The table of situations leaves nothing out: each conclusion, each judgement of a failure, the cases that must be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from situation_table import SITUATIONS, Situation

import selector.verify
from selector.model import Conclusion
from selector.plan import codes
from selector.verify.judgements import BLAMES, EXONERATIONS, JUDGEMENTS, OPEN
from selector.verify.sentence import CONCLUSIONS

ROOM = Path(selector.verify.__file__).parent


def names(**wanted: object) -> list[str]:
    return [s.name for s in SITUATIONS if all(getattr(s, field) == value for field, value in wanted.items())]


@pytest.mark.parametrize("code", CONCLUSIONS)
def test_every_conclusion_is_the_only_one_that_some_situation_may_come_to(code: str) -> None:
    surely = [s for s in SITUATIONS if s.codes == (code,)]
    by_chance = [s for s in SITUATIONS if code in s.codes and code in s.judged]
    assert surely or by_chance, f"no situation shows {code}"


@pytest.mark.parametrize("code", JUDGEMENTS)
def test_every_exoneration_and_every_blame_is_shown_by_some_situation(code: str) -> None:
    assert [s for s in SITUATIONS if code in s.judged], f"no situation shows {code}"


def test_every_word_of_a_check_is_there() -> None:
    assert {c for s in SITUATIONS for c in s.conclusions} == {c.value for c in Conclusion}


def test_no_code_is_given_that_is_not_in_the_lists() -> None:
    """Literals of the judges' own modules, so that a new code cannot come without a situation."""
    given = set()
    for name in ("judge.py", "exonerate.py"):
        for node in ast.walk(ast.parse((ROOM / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("verify-"):
                given.add(node.value)
    assert given == set(JUDGEMENTS)
    assert set(BLAMES) <= set(CONCLUSIONS)
    assert set(OPEN) <= set(CONCLUSIONS)
    assert not set(EXONERATIONS) & set(CONCLUSIONS), "what is exonerated ends no verdict by itself"


def test_the_situations_that_must_be_are() -> None:
    assert len({s.name for s in SITUATIONS}) == len(SITUATIONS) >= 20

    def one(part: str) -> Situation:
        (found,) = [s for s in SITUATIONS if s.name.startswith(part)]
        return found

    for rate in ("1 %", "10 %", "50 %"):
        assert one(f"flaky at {rate},").chance
        assert "failure" not in one(f"flaky at {rate},").conclusions
    assert one("a poisoned author").conclusions == ("failure",)
    assert one("an environment's fault on one worker of two").conclusions == ("success",)
    assert [s.codes for s in SITUATIONS if s.name == "a budget too small"] == [("verify-partial",)]
    assert names(codes=("verify-not-exercised",))


@pytest.mark.parametrize(
    "code", [one for name, one in vars(codes).items() if name.isupper() and one != codes.NOT_LISTED]
)
def test_every_way_to_come_to_a_mode_is_shown_by_some_situation(code: str) -> None:
    """What a config's own list leaves out is the configs' to show (tests/unit/plan/test_plan_modes.py)."""
    assert [s for s in SITUATIONS if code in (s.modes or ())], f"no situation shows {code}"
