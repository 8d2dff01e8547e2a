"""Which file takes what from which other file, in ``test/`` and the shared test library."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from selector.discover.records import FileRecord, Import

TESTS = "test/"
_TESTLIB = "torch/testing/"


def is_testlib(path: str) -> bool:
    """Whether a file is part of what upstream's tests share: its test library, and the base classes beside it."""
    return path.endswith(".py") and (
        path.startswith(_TESTLIB) or (path.startswith("torch/") and path.endswith(("/test_case.py", "/testing.py")))
    )


def importers(files: Mapping[str, FileRecord], path: str) -> list[tuple[str, Import, str]]:
    """(importing file, its import, the name it takes from ``path``; '' for the module) of every importer."""
    stem = posixpath.basename(path).removesuffix(".py")
    if stem == "__init__":
        stem = posixpath.basename(posixpath.dirname(path))
    found = []
    for at in sorted(files):
        record = files[at]
        if stem in record.mentions and at != path:
            for one in record.imports:
                name = taken(at, one, path)
                if name is not None:
                    found.append((at, one, name))
    return found


def taken(importer: str, one: Import, path: str) -> str | None:
    """The name that an import takes from the file ``path``: '' for the module itself, None if it takes nothing.

    Files under ``test/`` are imported by their place under the repository's root, under ``test/``, or beside the
    importer (upstream runs files as scripts).
    """
    module = path.removesuffix(".py").removesuffix("/__init__")
    folder = posixpath.dirname(importer)
    if one.level:
        base = folder
        for _ in range(one.level - 1):
            base = posixpath.dirname(base)
        roots = [base]
    else:
        roots = ["", "test", folder] if path.startswith(TESTS) else [""]
    dotted = one.module.replace(".", "/")
    for root in roots:
        target = posixpath.join(root, dotted) if dotted else root
        if target == module:
            return one.name
        if one.name and posixpath.join(target, one.name) == module:
            return ""
    return None
