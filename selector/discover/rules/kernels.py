"""Tests of the ops that a changed kernel file names."""

from __future__ import annotations

import posixpath
import re

from selector.discover import native
from selector.discover.filekinds import backend_of
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex
from selector.discover.rules.op_hits import add_ops
from selector.model import Evidence, FileChange


def kernel(file: FileChange, findings: Findings, index: OpIndex, *, other_backend: bool) -> None:
    """Ops named by the functions in which a kernel file differs; else by its changed lines; else by the file's name."""
    code = "op-kernel-other-backend" if other_backend else "op-kernel"
    functions, mentioned = native.kernel_words(file.old, file.new)
    known = index.database is not None
    for words, factor, what in ((functions, 1.0, "function"), (mentioned if known else frozenset(), 0.4, "line")):
        targets = {t.word: t for t in map(index.word, sorted(words)) if t is not None}
        if targets:
            why = f"a {what} of {file.path} that names it differs"
            add_ops(file, dict(sorted(targets.items())), code, why, findings, index, factor)
            return
    stem = posixpath.basename(file.path).partition(".")[0]
    family = native.FAMILIES.get(stem)
    if family is not None:
        for test, _, found in findings.inventory.tests():
            if found.ops is not None and (family in found.ops.lists or not found.ops.sure):
                findings.add(test, code, Evidence("op", f"{file.path} holds the kernels of {family}", file.path), 0.6)
        return
    by_stem = index.word(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()) if known else None
    if by_stem is not None:
        add_ops(file, {by_stem.word: by_stem}, code, f"{file.path} is named after it", findings, index, 0.8)
    elif other_backend:
        backend = backend_of(file.path) or "another device"
        findings.decide(
            file.path, "no-impact", "other-backend", f"code that is compiled for {backend} only, of no known op"
        )
    else:
        findings.not_mapped(file.path, "no known op could be read out of the change")
