"""Which test files are imported into one process. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath


def groups(files: Sequence[str], apart: Collection[str] = ()) -> Iterator[list[str]]:
    """The files in groups, in the order of their first: no two of one base name in a group, which is a module's name
    there, and none beside one that is to be ``apart``."""
    left = list(files)
    while left:
        taken: dict[str, str] = {}
        for file in left[:1] if left[0] in apart else [file for file in left if file not in apart]:
            taken.setdefault(PurePosixPath(file).name, file)
        left = [file for file in left if file not in taken.values()]
        yield list(taken.values())
