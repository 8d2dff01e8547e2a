"""Conditions of skips: the text that is kept of them, and what it is worth where only some of its flags are known."""

from __future__ import annotations

import ast

import pytest

from selector.discover import take
from selector.discover.conditions import as_text, truth
from selector.discover.literals import Scope
from selector.discover.records import UNKNOWN
from selector.trees import MemoryTree

READ = [
    # condition, the module's own names, text
    ("not TEST_CUDA", "", "not TEST_CUDA"),
    ("not (A or B)  and  c.D", "", "not (A or B) and c.D"),
    ("torch.cuda.is_available()", "", "torch.cuda.is_available()"),
    ("READY", "READY = A and not B", "A and (not B)"),
    ("not READY", "READY = A or B", "not (A or B)"),
    ("READY", "READY = works(3)", "READY"),
    ("A or works(3)", "", "A or ..."),
    ("cap() < (9, 0) and A", "", "... and A"),
    ("works(3)", "", UNKNOWN),
    ("not works(3)", "", UNKNOWN),
    ("A", "A = B\nB = A", "A"),
    (" or ".join(f"FLAG_{n}" for n in range(60)), "", UNKNOWN),
]


def scope_of(code: str) -> Scope:
    """The module-level names of a code with what each is given."""
    return {
        node.targets[0].id: node.value
        for node in ast.parse(code).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


@pytest.mark.parametrize(("condition", "module", "text"), READ)
def test_what_is_kept_of_a_condition(condition: str, module: str, text: str) -> None:
    assert as_text(ast.parse(condition, mode="eval").body, scope_of(module)) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("YES", True), ("not YES", False), ("OPEN", None), ("lib.YES", True), ("asked()", True), ("asked(1)", None),
        ("OPEN or YES", True), ("OPEN or NO", None), ("OPEN and NO", False), ("OPEN and YES", None),
        ("not (OPEN and NO)", True), ("... or YES", True), ("... or NO", None), ("True", True), ("3", None),
        (UNKNOWN, None), ("", None), ("not", None),
    ],
)  # fmt: skip
def test_one_known_part_can_decide_it(text: str, value: bool | None) -> None:
    known = {"YES": True, "lib.YES": True, "NO": False, "asked()": True}
    assert truth(text, known.get) is value


def test_names_that_stand_for_ever_more_names_end() -> None:
    code = "".join(f"X{n} = {' or '.join([f'X{n + 1}'] * 40)}\n" for n in range(30))
    text = as_text(ast.parse("X0", mode="eval").body, scope_of(code))
    assert text == UNKNOWN


def test_a_decorator_that_the_module_makes_of_a_skip_is_that_skip_at_its_own_line() -> None:
    code = """
needs_it = unittest.skipUnless(HAS_IT, "x")
needs_all = functools.partial(unittest.skipIf, not HAS_ALL, "x")
class TestX(TestCase):
    @needs_it
    def test_a(self): pass
    @needs_all()
    def test_b(self): pass
    @other
    def test_c(self): pass
"""
    record = take(MemoryTree({"test/test_x.py": code})).files["test/test_x.py"].classes["TestX"]
    found = {test.name: test.decorators[0] for test in record.tests}
    assert (found["test_a"].name, found["test_a"].args, found["test_a"].line) == ("skipUnless", ("HAS_IT", "x"), 5)
    assert (found["test_b"].name, found["test_b"].args, found["test_b"].line) == ("skipIf", ("not HAS_ALL", "x"), 7)
    assert (found["test_c"].name, found["test_c"].args) == ("other", ())
