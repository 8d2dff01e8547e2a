from __future__ import annotations

from relay.worker.groups import groups

A, B, C, DEEP = "test/test_a.py", "test/test_b.py", "test/test_c.py", "test/deep/test_a.py"


def test_two_files_of_one_name_are_in_two_groups() -> None:
    assert list(groups([A, B, DEEP, C])) == [[A, B, C], [DEEP]]


def test_a_file_that_is_to_be_apart_is_alone_and_the_order_stays() -> None:
    assert list(groups([A, B, C], {B})) == [[A, C], [B]]
    assert list(groups([A, B, C], {A})) == [[A], [B, C]]
    assert list(groups([A, B, DEEP], {A, B})) == [[A], [B], [DEEP]]
    assert list(groups([])) == []
