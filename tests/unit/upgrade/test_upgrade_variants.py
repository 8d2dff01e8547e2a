"""Variants of two torches, by the op databases of the real 2.13.0 and 2.14.1 (tests/data/opdb)."""

from __future__ import annotations

from pathlib import Path

import pytest

from selector.discover import take
from selector.discover.diff import Side, compare
from selector.discover.diff.variants import VariantCounts, count_variants
from selector.model import OpDatabase
from selector.opdb import from_json
from selector.trees import MemoryTree

DATA = Path(__file__).resolve().parents[2] / "data" / "opdb"
FILE = """
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, parametrize


class TestOps(TestCase):
{tests}

instantiate_device_type_tests(TestOps, globals())
"""
EVERY = "    @ops(op_db)\n    def test_every(self, device, dtype, op):\n        self.assertTrue(op is not None)\n"
HALF = "    @ops(op_db, allowed_dtypes=(torch.float16,))\n    def test_half(self, device, dtype, op):\n        op()\n"
TYPED = "    @dtypes(torch.int8, torch.int16)\n    def test_typed(self, device, dtype):\n        torch.ones(2)\n"
PLAIN = "    def test_plain(self, device):\n        torch.zeros(2).sum().item()\n"
TWICE = "    @parametrize('n', [1, 2])\n" + PLAIN


@pytest.fixture(scope="module")
def databases() -> tuple[OpDatabase, OpDatabase]:
    old, new = (from_json((DATA / f"torch-{version}.json").read_bytes()) for version in ("2.13.0", "2.14.1"))
    return old, new


def counted(old: str, new: str, databases: tuple[OpDatabase | None, OpDatabase | None]) -> VariantCounts | None:
    trees = [MemoryTree({"test/test_ops.py": FILE.format(tests=tests)}) for tests in (old, new)]
    a, b = (Side(tree, take(tree), ops) for tree, ops in zip(trees, databases, strict=True))
    return count_variants(compare(a, b), a, b)


def cells(database: OpDatabase) -> set[tuple[str, str, str]]:
    return {(op.name, op.variant, dtype) for op in database.ops if "op_db" in op.lists for dtype in op.dtypes}


def test_entries_and_dtypes_that_differ_between_the_two_torches(databases: tuple[OpDatabase, OpDatabase]) -> None:
    tree = MemoryTree({"test/test_ops.py": FILE.format(tests=EVERY)})
    sides = [Side(tree, take(tree), database) for database in databases]
    entries = compare(*sides).entries.values()
    assert sorted(e.label for e in entries if e.aspects == ("new",)) == [
        "linalg.matrix_sqrth",
        "linalg.polar",
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
    ]
    assert sorted(e.label for e in entries if e.aspects == ("gone",)) == ["cholesky", "qr"]
    assert {e.label: (e.gained, e.lost) for e in entries if e.aspects == ("dtypes",)} == {
        "_refs._conversions.polar": (("float16",), ()),
        "_refs.to": (("bcomplex32", "complex32"), ()),
        "polar": (("float16",), ()),
        "randint": (("bool",), ()),
        "randint_like": (("bool",), ()),
        "to": (("bcomplex32", "complex32"), ()),
    }


def test_variants_of_a_test_over_every_op(databases: tuple[OpDatabase, OpDatabase]) -> None:
    old, new = map(cells, databases)
    wanted = VariantCounts(len(new - old), len(old - new), len(new & old), 1, 0)
    assert counted(EVERY, EVERY, databases) == wanted
    assert (wanted.added, wanted.gone, wanted.kept) == (17, 8, 6113)


def test_variants_within_the_dtypes_that_a_test_allows(databases: tuple[OpDatabase, OpDatabase]) -> None:
    old, new = ({cell for cell in cells(database) if cell[2] == "float16"} for database in databases)
    assert counted(HALF, HALF, databases) == VariantCounts(len(new - old), len(old - new), len(new & old), 1, 0)


@pytest.mark.parametrize(
    ("old", "new", "added", "gone", "kept", "tests"),
    [
        pytest.param(PLAIN, PLAIN, 0, 0, 1, 0, id="a plain test is one"),
        pytest.param(PLAIN, PLAIN + TYPED, 2, 0, 1, 1, id="a new test, a dtype each"),
        pytest.param(PLAIN + TYPED, PLAIN, 0, 2, 1, 1, id="a test that is gone"),
        pytest.param(TYPED, TYPED.replace("torch.int16", "torch.int64"), 1, 1, 1, 1, id="another dtype"),
        pytest.param(PLAIN, TWICE, 1, 0, 1, 1, id="a parametrisation more"),
    ],
)
def test_variants_of_other_tests(
    old: str, new: str, added: int, gone: int, kept: int, tests: int, databases: tuple[OpDatabase, OpDatabase]
) -> None:
    assert counted(old, new, databases) == VariantCounts(added, gone, kept, tests, 0)


def test_a_renamed_test_keeps_its_variants(databases: tuple[OpDatabase, OpDatabase]) -> None:
    long = TYPED.replace("torch.ones(2)", "x = torch.ones(2)\n        y = x + 1\n        z = y * 3\n        self.f(z)")
    renamed = long.replace("test_typed", "test_other")
    assert counted(long, renamed, databases) == VariantCounts(0, 0, 2, 0, 0)


def test_without_both_databases_nothing_is_counted(databases: tuple[OpDatabase, OpDatabase]) -> None:
    assert counted(EVERY, EVERY, (databases[0], None)) is None
