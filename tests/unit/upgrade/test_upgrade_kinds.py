"""Edits between two releases, and the kind that each test lands in. The trees are small; the machinery is the one for
a whole PyTorch."""

# ruff: noqa: E501 - the table of edits reads better in long lines

from __future__ import annotations

import pytest

from selector.discover import take
from selector.discover.diff import Difference, Side, compare
from selector.model import OpDatabase, OpEntry, TestId
from selector.trees import MemoryTree

TESTS = """
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCUDA, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, narrow, parametrize

LIMIT = 3
UNUSED = 1


def helper(device):
    return torch.ones(LIMIT, device=device)


class TestAlpha(TestCase):
    scale = 2

    def setUp(self):
        self.seed = 1

    def size(self):
        return self.scale

    def test_plain(self, device):
        x = torch.zeros(2, device=device)
        y = x + 1
        z = y * 2
        self.assertEqual(z, x + 2)

    def test_helped(self, device):
        x = helper(device)
        y = x * 2
        z = y - x
        self.assertEqual(z, x)

    def test_method(self, device):
        n = self.size()
        x = torch.zeros(n, device=device)
        y = x.sum()
        self.assertEqual(y.item(), 0)

    @dtypes(torch.float32, torch.int64)
    def test_typed(self, device, dtype):
        x = torch.zeros(2, device=device, dtype=dtype)
        y = x.clone()
        z = y.sum()
        self.assertEqual(z.item(), 0)

    @ops(op_db, allowed_dtypes=(torch.float32,))
    def test_drawn(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            got = op(sample.input)
            want = sample.input
            self.assertEqual(got, want)

    @parametrize("n", [1, 2])
    def test_many(self, device, n):
        x = torch.zeros(n, device=device)
        y = x.sum()
        z = y + n
        self.assertEqual(z.item(), n)

    def test_narrow(self, device):
        x = torch.zeros(4, device=device)
        y = narrow(x)
        z = y.sum()
        self.assertEqual(z.item(), 0)

    def test_short(self):
        pass


class TestBeta(TestCase):
    def test_one(self):
        a = 1
        b = a + 1
        c = b + 1
        self.assertEqual(c, 3)

    def test_two(self):
        a = 2
        b = a + 2
        c = b + 2
        self.assertEqual(c, 6)


instantiate_device_type_tests(TestAlpha, globals(), except_for="meta")
"""
UTILS = """
class TestCase:
    def assertEqual(self, a, b):
        assert a == b


def narrow(x):
    return x[:2]


def parametrize(*args):
    return args
"""
OPS = """
def sample_add(op, device, dtype):
    yield 1


op_db = [
    OpInfo("add", dtypes=all_types(), sample_inputs_func=sample_add, skips=(skip("TestA"),)),
    OpInfo("neg", dtypes=all_types()),
]
"""
DEVICES = "def instantiate_device_type_tests(cls, scope, **limits):\n    pass\n"
FILE = "test/test_alpha.py"
INTERNAL = "torch/testing/_internal"
MANY = "\n".join(
    f"class TestBulk{n}:\n"
    + "".join(f"    def test_{n}_{i}(self):\n        assert {n} + {i} >= 0\n" for i in range(10))
    for n in range(5)
)
"""so that a helper that one test reaches is one of few"""


def tree(tests: str = TESTS, *, utils: str = UTILS, ops: str = OPS, **more: str) -> MemoryTree:
    files = {
        FILE: tests,
        f"{INTERNAL}/common_utils.py": utils,
        f"{INTERNAL}/common_methods_invocations.py": ops,
        f"{INTERNAL}/common_device_type.py": DEVICES,
        "test/test_bulk.py": MANY,
        **{path.replace("__", "/") + ".py": text for path, text in more.items()},
    }
    return MemoryTree({path: text for path, text in files.items() if text})


def side(tree: MemoryTree, opdb: OpDatabase | None = None) -> Side:
    return Side(tree, take(tree), opdb)


def difference(old: MemoryTree, new: MemoryTree) -> Difference:
    return compare(side(old), side(new))


def edited(old: str, new: str, text: str = TESTS) -> str:
    assert text.count(old) == 1, f"{old!r} must be there once"
    return text.replace(old, new)


def landed(difference: Difference) -> dict[str, str]:
    """Class.method -> kind, and what it was called before"""
    return {
        f"{c.test.cls}.{c.test.method}": c.kind if c.was is None else f"{c.content} < {c.was.cls}.{c.was.method}"
        for c in difference.changes
    }


BETA = TESTS[TESTS.index("class TestBeta") : TESTS.index("instantiate_device_type_tests(TestAlpha")]
ONE, TWO = BETA[BETA.index("    def test_one") : BETA.index("    def test_two")], BETA[BETA.index("    def test_two") :]
HEAD = "from torch.testing._internal.common_utils import TestCase\n\n\n"

# fmt: off
IN_FILE = {
    "nothing": (TESTS, {}),
    "a comment in a test": (edited("        y = x + 1\n", "        y = x + 1  # one more\n"), {"TestAlpha.test_plain": "cosmetic"}),
    "a docstring": (edited("    def test_plain(self, device):\n", '    def test_plain(self, device):\n        """Adds."""\n'),
                    {"TestAlpha.test_plain": "cosmetic"}),
    "reformatted": (edited("        z = y * 2\n", "        z = (\n            y * 2\n        )\n"), {"TestAlpha.test_plain": "cosmetic"}),
    "a comment elsewhere": (edited("UNUSED = 1", "UNUSED = 1  # really"), {}),
    "a constant that nobody reaches": (edited("UNUSED = 1", "UNUSED = 2"), {}),
    "a statement": (edited("        z = y * 2\n", "        z = y * 3\n"), {"TestAlpha.test_plain": "body"}),
    "an argument": (edited("def test_one(self):", "def test_one(self, n=1):"), {"TestBeta.test_one": "body"}),
    "a helper": (edited("torch.ones(LIMIT, device=device)", "torch.ones(LIMIT + 1, device=device)"), {"TestAlpha.test_helped": "helper"}),
    "a constant that a helper uses": (edited("LIMIT = 3", "LIMIT = 4"), {"TestAlpha.test_helped": "helper"}),
    "a method": (edited("return self.scale", "return self.scale + 1"), {"TestAlpha.test_method": "helper"}),
    "a class attribute": (edited("scale = 2", "scale = 5"), dict.fromkeys(
        [f"TestAlpha.{t}" for t in ("test_plain", "test_helped", "test_method", "test_typed", "test_drawn", "test_many", "test_narrow", "test_short")],
        "helper")),
    "setUp": (edited("self.seed = 1", "self.seed = 2"), dict.fromkeys(
        [f"TestAlpha.{t}" for t in ("test_plain", "test_helped", "test_method", "test_typed", "test_drawn", "test_many", "test_narrow", "test_short")],
        "helper")),
    "dtypes": (edited("@dtypes(torch.float32, torch.int64)", "@dtypes(torch.float32)"), {"TestAlpha.test_typed": "decorator"}),
    "allowed dtypes of ops": (edited("allowed_dtypes=(torch.float32,)", "allowed_dtypes=(torch.float64,)"), {"TestAlpha.test_drawn": "decorator"}),
    "another op list": (edited("@ops(op_db, allowed", "@ops(unary_ufuncs, allowed"), {"TestAlpha.test_drawn": "decorator"}),
    "a decorator more": (edited("    def test_plain(", "    @onlyCUDA\n    def test_plain("), {"TestAlpha.test_plain": "decorator"}),
    "a decorator less": (edited("    @dtypes(torch.float32, torch.int64)\n", ""), {"TestAlpha.test_typed": "decorator"}),
    "a parametrisation more": (edited('@parametrize("n", [1, 2])', '@parametrize("n", [1, 2, 3])'), {"TestAlpha.test_many": "decorator"}),
    "devices of the class": (edited('except_for="meta"', 'only_for="cuda"'), dict.fromkeys(
        [f"TestAlpha.{t}" for t in ("test_plain", "test_helped", "test_method", "test_typed", "test_drawn", "test_many", "test_narrow", "test_short")],
        "decorator")),
    "body and decorator": (edited("        x = torch.zeros(2, device=device, dtype=dtype)\n", "        x = torch.zeros(3, device=device, dtype=dtype)\n",
                                  edited("@dtypes(torch.float32, torch.int64)", "@dtypes(torch.float32)")), {"TestAlpha.test_typed": "body"}),
    "a new test": (edited("    def test_two(self):", "    def test_three(self):\n        assert 3 > 2\n\n    def test_two(self):"),
                   {"TestBeta.test_three": "new"}),
    "a test gone": (TESTS.replace(TWO, "\n"), {"TestBeta.test_two": "gone"}),
    "a test renamed": (edited("def test_one(", "def test_first("), {"TestBeta.test_first": "unchanged < TestBeta.test_one"}),
    "a test renamed and reformatted": (edited("        b = a + 1\n", "        b = a + 1  # two\n", edited("def test_one(", "def test_first(")),
                                       {"TestBeta.test_first": "cosmetic < TestBeta.test_one"}),
    "two tests change their names": (edited("def test_@", "def test_two", edited("def test_two", "def test_one", edited("def test_one", "def test_@"))),
                                     {"TestBeta.test_one": "body", "TestBeta.test_two": "body"}),
    "a class renamed": (TESTS.replace("TestBeta", "TestGamma"), {"TestGamma.test_one": "unchanged < TestBeta.test_one",
                                                                "TestGamma.test_two": "unchanged < TestBeta.test_two"}),
    "a class renamed and one body changed": (edited("        c = b + 2\n", "        c = b + 20\n", TESTS.replace("TestBeta", "TestGamma")),
                                             {"TestGamma.test_one": "unchanged < TestBeta.test_one", "TestGamma.test_two": "body < TestBeta.test_two"}),
    "a class split": (TESTS.replace(TWO, f"\nclass TestDelta(TestCase):\n{TWO}\n"), {"TestDelta.test_two": "unchanged < TestBeta.test_two"}),
    "a short test is not taken for another": (edited("    def test_short(self):\n        pass\n", "", TESTS) + "\nclass TestNow:\n    def test_else(self):\n        pass\n",
                                              {"TestAlpha.test_short": "gone", "TestNow.test_else": "new"}),
}
# fmt: on


@pytest.mark.parametrize("name", IN_FILE)
def test_an_edit_of_a_test_file_lands_in_its_kind(name: str) -> None:
    new, expected = IN_FILE[name]
    assert landed(difference(tree(), tree(new))) == expected


def test_a_file_that_moves_takes_its_tests_along() -> None:
    old = tree(TESTS.replace(BETA, ""), test__test_beta=HEAD + BETA)
    new = tree(TESTS.replace(BETA, ""), test__nn__test_beta=HEAD + BETA)
    found = difference(old, new)
    assert {(c.test.file, c.kind, c.content, c.move) for c in found.changes} == {
        ("test/nn/test_beta.py", "renamed", "unchanged", "file moved")
    }
    assert [c.was for c in found.changes] == [
        TestId("test/test_beta.py", "TestBeta", f"test_{n}") for n in ("one", "two")
    ]


def test_a_class_that_moves_to_another_file_and_two_classes_that_become_one() -> None:
    moved = difference(tree(), tree(TESTS.replace(BETA, ""), test__test_beta=HEAD + BETA))
    assert {(c.test.file, c.content, c.move) for c in moved.changes} == {
        ("test/test_beta.py", "unchanged", "file moved")
    }
    apart = f"class TestBeta(TestCase):\n{ONE}\n\nclass TestDelta(TestCase):\n{TWO}"
    merged = difference(tree(test__test_b=HEAD + apart), tree(test__test_b=HEAD + BETA))
    assert landed(merged) == {"TestBeta.test_two": "unchanged < TestDelta.test_two"}
    assert [c.move for c in merged.changes] == ["classes merged"]


def test_a_class_that_splits_says_so() -> None:
    split = difference(tree(), tree(TESTS.replace(TWO, f"\nclass TestDelta(TestCase):\n{TWO}\n")))
    assert [c.move for c in split.changes] == ["class split"]


@pytest.mark.parametrize(
    ("old", "new", "aspects"),
    [
        ("dtypes=all_types(), sample", "dtypes=floating_types(), sample", ("definition",)),
        ('skips=(skip("TestA"),)', "skips=()", ("skips",)),
        ("    yield 1\n", "    yield 2\n", ("samples",)),
    ],
)
def test_an_op_entry_that_differs_reaches_those_that_draw_it(old: str, new: str, aspects: tuple[str, ...]) -> None:
    found = difference(tree(), tree(ops=edited(old, new, OPS)))
    assert {e.label: e.aspects for e in found.entries.values()} == {"add": aspects}
    assert landed(found) == {"TestAlpha.test_drawn": "opinfo"}
    (change,) = found.changes
    assert change.ops == ("add",)
    assert change.details == tuple(f"op {aspect}" for aspect in aspects)


def test_ops_that_come_and_go() -> None:
    found = difference(tree(), tree(ops=edited('OpInfo("neg"', 'OpInfo("relu"', OPS)))
    assert {e.label: e.aspects for e in found.entries.values()} == {"neg": ("gone",), "relu": ("new",)}
    assert landed(found) == {"TestAlpha.test_drawn": "opinfo"}


def database(torch: str, **dtypes: tuple[str, ...]) -> OpDatabase:
    return OpDatabase(torch, tuple(OpEntry(name, lists=("op_db",), dtypes=has) for name, has in dtypes.items()))


def test_evaluated_databases_tell_dtypes_that_the_source_does_not_show() -> None:
    old = side(tree(), database("2.13.0", add=("float32", "int64"), neg=("float32",)))
    new = side(tree(), database("2.14.1", add=("bfloat16", "float32"), neg=("float32",)))
    found = compare(old, new)
    (entry,) = found.entries.values()
    assert (entry.label, entry.aspects, entry.gained, entry.lost) == ("add", ("dtypes",), ("bfloat16",), ("int64",))
    assert landed(found) == {"TestAlpha.test_drawn": "opinfo"}


def test_a_helper_of_the_library_changes_the_few_that_reach_it_and_one_that_all_reach_is_told_once() -> None:
    few = difference(tree(), tree(utils=edited("x[:2]", "x[:3]", UTILS)))
    assert landed(few) == {"TestAlpha.test_narrow": "helper"}
    assert few.changes[0].details == ("shared library",)
    assert few.broad == {}
    crowd = "".join(f"    def test_c{n}(self):\n        self.assertEqual({n}, {n})\n" for n in range(20))
    many = HEAD + f"class TestCrowd(TestCase):\n{crowd}"
    all_ = difference(
        tree(test__test_crowd=many), tree(test__test_crowd=many, utils=edited("a == b", "a == b, (a, b)", UTILS))
    )
    assert landed(all_) == {}
    assert list(all_.broad) == [f"{INTERNAL}/common_utils.py::TestCase.assertEqual"]
    assert all_.broad[f"{INTERNAL}/common_utils.py::TestCase.assertEqual"] >= 20


@pytest.mark.parametrize("broken", ["old", "new"])
def test_a_file_that_one_side_cannot_read_costs_that_file_alone(broken: str) -> None:
    good, bad = tree(edited("x + 1\n", "x + 7\n"), test__test_b=HEAD + BETA), tree(test__test_b="def (:\n")
    found = difference(bad, good) if broken == "old" else difference(good, bad)
    assert landed(found) == {"TestAlpha.test_plain": "body"}
    assert [(where, path) for where, path, _ in found.problems] == [(broken, "test/test_b.py")]


def test_every_test_counts_once() -> None:
    found = difference(tree(), tree(TESTS.replace("TestBeta", "TestGamma").replace("LIMIT = 3", "LIMIT = 4")))
    counts = found.counts()
    assert sum(counts.values()) == found.total_new + counts["gone"]
    assert counts["renamed"] == 2
    assert counts["helper"] == 1
