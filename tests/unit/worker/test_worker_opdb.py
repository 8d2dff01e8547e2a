from __future__ import annotations

import pytest

from selector import opdb
from selector.model import OpDatabase, OpEntry

DATABASE = OpDatabase(
    "2.13.0",
    (
        OpEntry("add", "", "add", ("op_db", "binary_ufuncs"), ("float32",), "", ("sum",)),
        OpEntry("_refs.logit", "", "logit", ("python_ref_db",), (), "torch._refs.logit"),
    ),
    ("nn.Linear",),
)


def test_an_op_database_survives_json() -> None:
    text = opdb.to_json(DATABASE)
    assert opdb.from_json(text) == DATABASE
    assert opdb.from_json(text.encode()) == DATABASE
    assert opdb.to_json(opdb.from_json(text)) == text
    assert len(opdb.digest(DATABASE)) == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ('{"torch": "2"}', "list of ops"),
        ('{"ops": []}', "which torch"),
        ('{"torch": "2", "ops": [3]}', "op 0"),
        ('{"torch": "2", "ops": [{}]}', "op 0 .* no name"),
        ('{"torch": "2", "ops": [{"name": 3}]}', "name is not a string"),
        ('{"torch": "2", "ops": [{"name": "a", "lists": "x"}]}', "lists is not a list"),
        ('{"torch": "2", "ops": [], "modules": [1]}', "modules is not a list"),
    ],
)
def test_what_is_no_op_database_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(opdb.OpDatabaseError, match=said):
        opdb.from_json(text)
