from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.worker import trees
from relay.worker.sandbox import remove_tree


def packed(members: dict[str, bytes | str]) -> bytes:
    """A tar.gz; a text member is a link to that text."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def sends(body: bytes, asked: list[str | None]) -> Callable[[Path, str | None], str | None]:
    def fetch(to: Path, etag: str | None) -> str | None:
        asked.append(etag)
        if etag:
            return None
        to.write_bytes(body)
        return '"c"'

    return fetch


def test_a_tree_is_fetched_once_and_read_only(tmp_path: Path) -> None:
    cache, asked = trees.Trees(tmp_path), []
    fetch = sends(packed({"test/test_x.py": b"x = 1\n"}), asked)
    tree = cache.get("c", (), fetch)
    assert (tree / "test/test_x.py").read_text() == "x = 1\n"
    assert (tree / "test/test_x.py").stat().st_mode & 0o222 == 0
    assert (tree / "test").stat().st_mode & 0o222 == 0
    assert cache.get("c", (), fetch) == tree
    assert cache.get("c", ("torch/a.py",), fetch) != tree  # other overlaid files: another tree
    assert asked == [None, '"c"', None]
    remove_tree(tmp_path)


def test_the_tag_of_the_cached_tree_is_asked_about(tmp_path: Path) -> None:
    """The same commit compared with another base: the relay sends the base's texts anew."""
    cache, asked = trees.Trees(tmp_path), []

    def fetch(tag: str, text: bytes) -> Callable[[Path, str | None], str | None]:
        def answer(to: Path, etag: str | None) -> str | None:
            asked.append(etag)
            if etag == tag:
                return None
            to.write_bytes(packed({".base/torch/a.py": text}))
            return tag

        return answer

    for tag, text in (('"c.1"', b"one"), ('"c.1"', b"one"), ('"c.2"', b"two")):
        tree = cache.get("c", ("torch/a.py",), fetch(tag, text))
        assert (tree / ".base/torch/a.py").read_bytes() == text
    assert asked == [None, '"c.1"', '"c.1"']
    remove_tree(tmp_path)


def test_a_few_trees_are_kept(tmp_path: Path) -> None:
    cache = trees.Trees(tmp_path)
    for n in range(7):
        newest = cache.get(f"c{n}", (), sends(packed({"test/a.py": b""}), []))
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == trees.KEEP
    assert len(list(tmp_path.iterdir())) == 2 * trees.KEEP
    assert newest.is_dir()
    remove_tree(tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        packed({"../outside.py": b"x"}),
        packed({"link": "../../outside"}),
        packed({"a.py": b"x"})[:20],
        b"not a tar",
        b"",
    ],
    ids=lambda body: str(len(body)),
)
def test_a_bad_pack_leaves_nothing(tmp_path: Path, body: bytes) -> None:
    cache = trees.Trees(tmp_path / "trees")
    with pytest.raises(trees.TreeUnusable):
        cache.get("c", (), sends(body, []))
    assert list((tmp_path / "trees").iterdir()) == []
    assert [p.name for p in tmp_path.iterdir()] == ["trees"]


def test_what_a_killed_worker_was_unpacking_goes(tmp_path: Path) -> None:
    (tmp_path / "new-999999999-x").mkdir()
    trees.Trees(tmp_path)
    assert list(tmp_path.iterdir()) == []
