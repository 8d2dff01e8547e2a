"""Names of tests that the search box finds."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from relay.store import test_names
from relay.store.db import reading

OPS = "test/test_ops.py::TestCommon::test_out"
OPS_2 = "test/test_ops.py::TestCommon::test_out_warning"
INDUCTOR = "test/inductor/test_torchinductor.py::CpuTests::test_Output_strides"
ODD = "test/test_x.py::TestX::test_50%_done"

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("test_out", [INDUCTOR, OPS, OPS_2]),
        ("TEST_OUT_W", [OPS_2]),
        ("testcommon", [OPS, OPS_2]),
        ("TestCommon.test_out_", [OPS_2]),
        ("TestCommon::test_out_", [OPS_2]),
        ("test_ops.py", [OPS, OPS_2]),
        ("test/inductor/", [INDUCTOR]),
        (OPS, [OPS, OPS_2]),
        ("test_50%", [ODD]),
        ("test_50_", []),
        ("nothing", []),
    ],
)
def test_a_name_is_found_by_how_any_part_of_it_begins(engine: Engine, text: str, found: list[str]) -> None:
    with engine.begin() as conn:
        test_names.note(conn, [OPS_2, OPS, INDUCTOR, OPS])
        test_names.note(conn, [ODD, OPS])
    with reading(engine) as conn:
        assert test_names.beginning(conn, text, 10) == sorted(found)


def test_no_more_are_found_than_asked_for(engine: Engine) -> None:
    with engine.begin() as conn:
        test_names.note(conn, [f"test/test_x.py::TestX::test_{n:03}" for n in range(300)])
    with reading(engine) as conn:
        assert len(test_names.beginning(conn, "test_", 20)) == 20
