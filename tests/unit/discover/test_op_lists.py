"""Which lists hold an op: those that a torch exports, and those that upstream made of them in other releases."""

from __future__ import annotations

import pytest

from selector.discover.opindex import OpIndex
from selector.discover.records import DbUse
from selector.model import OpDatabase, OpEntry

DATABASE = OpDatabase(
    "2.13.0",
    (
        OpEntry("logit", "", "logit", ("op_db", "unary_ufuncs")),
        OpEntry("add", "", "add", ("op_db", "binary_ufuncs")),
        OpEntry("masked.sum", "", "sum", ("op_db", "reduction_ops", "reference_masked_ops")),
        OpEntry("sum", "", "sum", ("op_db", "reduction_ops")),
    ),
)


@pytest.mark.parametrize(
    ("lists", "name", "drawn", "sure"),
    [
        (("op_db",), "logit", True, True),
        (("binary_ufuncs",), "logit", False, True),
        (("binary_ufuncs_and_refs",), "logit", False, True),
        (("binary_ufuncs_and_refs",), "add", True, True),
        (("reference_masked_ops",), "masked.sum", True, True),
        (("reference_masked_ops",), "sum", False, True),  # exported: what it holds is known
        (("sparse_reduction_ops",), "sum", True, True),  # not exported: at most the reductions
        (("of_the_future",), "logit", True, False),
    ],
)
def test_a_list_draws_what_it_may_hold(lists: tuple[str, ...], name: str, drawn: bool, sure: bool) -> None:
    use = DbUse(lists, None, (), True, None, False, 1)
    found, known = OpIndex(DATABASE).drawn(use, [name])
    assert (bool(found), known) == (drawn, sure or not drawn)
