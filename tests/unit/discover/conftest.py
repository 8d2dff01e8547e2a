from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from selector.discover import Discovery, InventoryCache, discover
from selector.model import Change, OpDatabase, OpEntry
from selector.trees import MemoryTree, diff_trees

Files = Mapping[str, str | bytes]


@pytest.fixture
def discovered() -> Callable[..., Discovery]:
    """Discovers between two sets of files; ``also`` is in both."""

    def run(
        base: Files,
        head: Files,
        *,
        also: Files | None = None,
        title: str = "",
        opdb: OpDatabase | None = None,
        cache: InventoryCache | None = None,
    ) -> Discovery:
        before, after = MemoryTree({**(also or {}), **base}), MemoryTree({**(also or {}), **head})
        change = Change("a" * 40, "b" * 40, diff_trees(before, after), title)
        return discover(before, after, change, opdb, cache)

    return run


@pytest.fixture
def opdb() -> OpDatabase:
    both = ("op_db", "unary_ufuncs")
    return OpDatabase(
        "2.13.0",
        (
            OpEntry("_refs.logit", "", "logit", ("python_ref_db", "unary_ufuncs"), ("float32",), "torch._refs.logit"),
            OpEntry("add", "", "add", ("op_db", "binary_ufuncs"), ("float32", "int64")),
            OpEntry("addcdiv", "", "addcdiv", ("op_db",), ("float32",)),
            OpEntry("logit", "", "logit", both, ("float32", "float16"), "", ("special.logit",)),
            OpEntry("nn.functional.relu", "", "relu", both, ("float32",)),
            OpEntry("sum", "", "sum", ("op_db", "reduction_ops"), ("float32",)),
        ),
        ("nn.Linear", "nn.ReLU"),
    )
