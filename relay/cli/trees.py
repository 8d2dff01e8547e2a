"""The trees that commands compare: folders, or commits of a repository."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relay.cli.select import LocalRepository
from relay.errors import SettingsError
from relay.mirror.git import GitTree
from selector.discover.inventory import is_inventoried
from selector.model import Tree
from selector.trees import DirTree, OnlyTree


@contextmanager
def inventoried_tree(name: str, upstream: Path | None) -> Iterator[Tree]:
    """What the inventory reads of a folder, or of a revision of the repository ``upstream``. SettingsError,
    UpstreamGone."""
    if Path(name).is_dir():
        yield DirTree(Path(name), only=is_inventoried)
        return
    if upstream is None:
        hint = "for a revision give its repository with --upstream DIR"
        raise SettingsError(f"{name}: there is no such folder", hint)
    repository = LocalRepository(upstream)
    with GitTree(repository, repository.commit(name)) as tree:
        yield OnlyTree(tree, is_inventoried)
