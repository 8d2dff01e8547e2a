# ruff: noqa: E501
"""From a change of test files, their helpers and the shared test library to the tests it reaches."""

from __future__ import annotations

import pytest
from impact_cases import ALSO, GENERIC, LIB, LIB_PATH, PLAIN, Discover, about, codes


def test_edited_new_gone_and_renamed_tests(discovered: Discover) -> None:
    base = """
class TestA(TestCase):
    def test_edited(self): return 1
    def test_same(self): return 2
    def test_gone(self): return 3
    def test_old_name(self): return [4]
"""
    head = """
class TestA(TestCase):
    def test_new_name(self): return [4]
    def test_same(self): return 2  # comment
    def test_edited(self): return 10
    def test_new(self): return 5
"""
    found = discovered({"test/test_a.py": base}, {"test/test_a.py": head})
    assert codes(found) == {
        "TestA.test_edited": ("edited-test",),
        "TestA.test_new": ("new-test",),
        "TestA.test_new_name": ("renamed-test",),
    }
    assert about(found, "test/test_a.py::TestA::test_gone") == [("gone", "gone-test")]
    assert about(found, "test/test_a.py::TestA::test_old_name") == []
    renamed = next(i for i in found.impacts if i.codes == ("renamed-test",))
    assert renamed.evidence[0].detail == "was test/test_a.py::TestA::test_old_name"
    assert renamed.evidence[0].line == 3


def test_a_moved_file_is_renamed_tests_and_not_gone_ones(discovered: Discover) -> None:
    code = "class TestA(TestCase):\n    def test_x(self): return 1\n    def test_y(self): return 2\n"
    found = discovered({"test/test_a.py": code}, {"test/nn/test_b.py": code}, also={"test/test_plain.py": PLAIN})
    assert codes(found) == {"TestA.test_x": ("renamed-test",), "TestA.test_y": ("renamed-test",)}
    assert {i.test.file for i in found.impacts} == {"test/nn/test_b.py"}
    assert not [d for d in found.decisions if d.verdict == "gone"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1\n", "x = (1)  # one\n"),
        ("def f():\n    return 'a'\n", 'def f():\n    """Doc."""\n    return "a"\n'),
        ("if __name__ == '__main__':\n    run_tests()\n", "if __name__ == '__main__':\n    main()\n"),
    ],
)
@pytest.mark.parametrize("path", ["test/test_plain.py", "torch/functional.py", "torch/_refs/__init__.py"])
@pytest.mark.parametrize("pages", [False, True])
def test_cosmetic_edits_reach_the_smoke_set_alone(
    discovered: Discover, path: str, old: str, new: str, pages: bool
) -> None:
    also = {k: v for k, v in ALSO.items() if k != path}
    before, after = ({path: PLAIN + text, **({"README.md": text} if pages else {})} for text in (old, new))
    found = discovered(before, after, also=also, title="Fix torch.logit")
    assert found.impacts
    assert {impact.codes for impact in found.impacts} == {("smoke",)}
    assert "comments, formatting or modes alone" in found.impacts[0].evidence[0].detail
    assert ("pages or upstream's own CI alone" in found.impacts[0].evidence[0].detail) is pages
    assert about(found, path) == [("no-impact", "cosmetic")]
    assert not found.widened


def test_how_a_class_is_instantiated_is_part_of_its_tests(discovered: Discover) -> None:
    head = GENERIC.replace("globals())", "globals(), except_for='cpu')")
    found = discovered({"test/test_generic.py": GENERIC}, {"test/test_generic.py": head})
    assert set(codes(found).values()) == {("helper",)}
    assert len(found.impacts) == 7


HELPER = """
def used(): return 1
def through(): return used()
def unused(): return 2
class Mixin(TestCase):
    def check(self): return 3
    def other(self): return 4
"""
IMPORTERS = {
    "test/test_direct.py": "from helpers import used\nclass TestD(TestCase):\n    def test_d(self): used()\n    def test_not(self): pass\n",
    "test/test_through.py": "from helpers import through as t\nclass TestT(TestCase):\n    def test_t(self): t()\n",
    "test/test_module.py": "import helpers\nclass TestM(TestCase):\n    def test_m(self): helpers.used()\n    def test_o(self): helpers.unused()\n",
    "test/test_star.py": "from helpers import *\nclass TestS(TestCase):\n    def test_s(self): used()\n",
    "test/test_base.py": "from helpers import Mixin\nclass TestB(Mixin):\n    def test_b(self): self.check()\n    def test_c(self): self.other()\n",
    "test/nn/test_up.py": "from test.helpers import used\nclass TestU(TestCase):\n    def test_u(self): used()\n",
    "test/again.py": "from helpers import used\ndef wrapped(): return used()\n",
    "test/test_again.py": "from again import wrapped\nclass TestW(TestCase):\n    def test_w(self): wrapped()\n",
    "test/test_stranger.py": "from other.helpers import used\nclass TestX(TestCase):\n    def test_x(self): used()\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        ("return 1", "return 11", {"test_d", "test_t", "test_m", "test_s", "test_u", "test_w"}),
        ("return 2", "return 22", {"test_o", "test_s"}),  # `import *` takes everything
        ("return 3", "return 33", {"test_b", "test_s"}),  # one method of a base class: who calls it
        ("class Mixin(TestCase):", "class Mixin(TestCase):\n    limit = 1", {"test_b", "test_c", "test_s"}),
        ("def used(): return 1\n", "", {"test_d", "test_t", "test_m", "test_s", "test_u", "test_w"}),  # removed
    ],
)
def test_helpers_reach_tests_of_other_files(discovered: Discover, old: str, new: str, reached: set[str]) -> None:
    found = discovered({"test/helpers.py": HELPER}, {"test/helpers.py": HELPER.replace(old, new)}, also=IMPORTERS)
    assert {i.test.method for i in found.impacts} == reached
    assert {i.codes for i in found.impacts} == {("helper-imported",)}
    assert not found.widened


def test_a_helper_file_that_is_removed_reaches_who_imports_it(discovered: Discover) -> None:
    found = discovered({"test/helpers.py": HELPER}, {}, also=IMPORTERS)
    reached = {i.test.method for i in found.impacts}
    assert reached == {"test_d", "test_t", "test_m", "test_o", "test_s", "test_b", "test_c", "test_u", "test_w"}


def test_a_removed_test_file_is_gone_tests(discovered: Discover) -> None:
    found = discovered({"test/test_plain.py": PLAIN}, {}, also={"test/test_generic.py": GENERIC})
    assert found.impacts == ()
    assert about(found, "test/test_plain.py::TestPlain::test_nothing") == [("gone", "gone-test")]
    assert about(found, "test/test_plain.py") == [("no-impact", "no-test-reached")]


def test_evidence_names_the_symbol_and_its_place(discovered: Discover) -> None:
    head = HELPER.replace("return 1", "return 11").replace("return 4", "return 44")
    found = discovered({"test/helpers.py": HELPER}, {"test/helpers.py": head}, also=IMPORTERS)
    by_name = {i.test.method: i.evidence for i in found.impacts}
    assert [(e.path, e.symbol, e.line) for e in by_name["test_d"]] == [("test/helpers.py", "used", 2)]
    assert [(e.path, e.symbol, e.line) for e in by_name["test_c"]] == [("test/helpers.py", "Mixin.other", 7)]
    assert by_name["test_t"][0].detail == "reaches used of test/helpers.py through t"


LIB_USERS = {
    "test/test_l.py": """
from torch.testing._internal.common_utils import TestCase, make, skipIfFoo
class TestL(TestCase):
    def test_equal(self): self.assertEqual(1, 1)
    def test_nothing(self): self.assertNothing()
    @skipIfFoo
    def test_skip(self): pass
    def test_make(self): make(1)
""",
    "torch/_dynamo/test_case.py": "from torch.testing._internal.common_utils import TestCase as Base\nclass TestCase(Base): pass\n",
    "test/dynamo/test_d.py": """
import torch._dynamo.test_case
class TestD(torch._dynamo.test_case.TestCase):
    def test_dynamo(self): self.assertEqual(1, 1)
""",
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "reached"),
    [
        ("return n", "return n + 1", {"test_make"}),
        ("return fn", "return (fn, 1)", {"test_skip"}),
        ("return a == b", "return a is b", {"test_equal", "test_dynamo"}),
        ("def setUp(self): pass", "def setUp(self): self.x = 1", {"test_equal", "test_nothing", "test_skip", "test_make", "test_dynamo"}),
    ],
)  # fmt: skip
def test_the_shared_test_library_is_followed_symbol_by_symbol(
    discovered: Discover, old: str, new: str, reached: set[str]
) -> None:
    found = discovered({LIB_PATH: LIB}, {LIB_PATH: LIB.replace(old, new)}, also=LIB_USERS)
    assert {i.test.method for i in found.impacts} == reached
    assert {i.codes for i in found.impacts} == {("testlib",)}


def test_a_library_symbol_that_no_test_reaches_widens(discovered: Discover) -> None:
    also = {**LIB_USERS, **ALSO}
    found = discovered({LIB_PATH: LIB}, {LIB_PATH: LIB + "def hook(): pass\n"}, also=also)
    assert found.widened
    assert about(found, LIB_PATH) == [("widened", "unmapped-change")]
