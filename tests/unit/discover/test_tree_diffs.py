from __future__ import annotations

from selector.trees import MemoryTree, diff_trees


def test_every_kind_of_difference() -> None:
    base = MemoryTree({"a": "1", "b": "2", "c": "moved", "same": "s", "bin": b"x"})
    head = MemoryTree({"a": "1!", "d": "moved", "e": "5", "same": "s", "bin": b"x\0"})
    found = {c.path: (c.status, c.old_path, c.old, c.new, c.binary) for c in diff_trees(base, head)}
    assert found == {
        "a": ("modified", "a", b"1", b"1!", False),
        "b": ("removed", "b", b"2", None, False),
        "bin": ("modified", "bin", b"x", b"x\0", True),
        "d": ("renamed", "c", b"moved", b"moved", False),
        "e": ("added", None, None, b"5", False),
    }


def test_two_equal_files_are_paired_in_order() -> None:
    base = MemoryTree({"a": "x", "b": "x"})
    head = MemoryTree({"c": "x", "d": "x", "e": "x"})
    assert [(c.path, c.status, c.old_path) for c in diff_trees(base, head)] == [
        ("c", "renamed", "a"),
        ("d", "renamed", "b"),
        ("e", "added", None),
    ]


def test_nothing_differs() -> None:
    tree = MemoryTree({"a": "x"})
    assert diff_trees(tree, MemoryTree({"a": "x"})) == ()
