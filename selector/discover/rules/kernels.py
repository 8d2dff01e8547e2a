"""Tests of the ops that a changed kernel file names: by what registers its functions, by their names, by its lines."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from selector.discover import native
from selector.discover.dispatch import MANY_OPS, Registrations, implemented_in, registered_in
from selector.discover.filekinds import backend_of, tests_of_backend
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.discover.rules.op_hits import add_ops
from selector.model import Evidence, FileChange


def kernel(
    file: FileChange, findings: Findings, index: OpIndex, registrations: Registrations, *, other_backend: bool
) -> None:
    """Ops of the functions in which a kernel file differs; else of the changed lines; else of the file as a whole. Of
    another backend's file also the tests of that backend."""
    owned = other_backend and _of_backend(file, findings)
    if not by_code(file, findings, index, registrations, other_backend=other_backend):
        whole_file(file, findings, index, other_backend=other_backend, owned=owned)


def _of_backend(file: FileChange, findings: Findings) -> bool:
    """Adds the tests of the other device that the file is for; False where there are none."""
    prefixes = tests_of_backend(file.path)
    fact = Evidence("area", f"holds the tests of {backend_of(file.path)}, for which {file.path} is compiled", file.path)
    found = [test for test, _, _ in findings.inventory.tests() if prefixes and test.file.startswith(prefixes)]
    for test in found:
        findings.add(test, "op-kernel-other-backend", fact, 0.5)
    return bool(found)


def by_code(
    file: FileChange, findings: Findings, index: OpIndex, registrations: Registrations, *, other_backend: bool
) -> bool:
    """The first two of these; False where they name no op."""
    code = "op-kernel-other-backend" if other_backend else "op-kernel"
    functions, mentioned = native.kernel_words(file.old, file.new)
    known = index.database is not None
    for words, factor, what in ((functions, 1.0, "function"), (mentioned if known else frozenset(), 0.4, "line")):
        targets = ops_of(words, file, index, registrations)
        if targets:
            why = f"a {what} of {file.path} that names it differs"
            add_ops(file, targets, code, why, findings, index, factor)
            return True
    return False


def ops_of(words: Iterable[str], file: FileChange, index: OpIndex, registrations: Registrations) -> dict[str, OpTarget]:
    """The ops that C++ functions are for: those that the YAML or the file itself registers them for, else those of
    their names. By the word of each, in order."""
    here = registered_in(file.new) | registered_in(file.old)
    found: dict[str, OpTarget] = {}
    for word in sorted(words):
        stated = registrations.ops(word) | here.get(word, frozenset())
        targets = [t for t in map(index.word, sorted(stated)) if t is not None] if index.database is not None else []
        by_name = index.word(word)
        for target in targets or ([by_name] if by_name is not None else []):
            found[target.word] = target
    return dict(sorted(found.items()))


def whole_file(
    file: FileChange, findings: Findings, index: OpIndex, *, other_backend: bool, owned: bool = False
) -> None:
    """By the family that the file is known to hold, by its name, by the ops whose declarations it includes. ``owned``:
    tests of the other backend are reached already."""
    code = "op-kernel-other-backend" if other_backend else "op-kernel"
    stem = posixpath.basename(file.path).partition(".")[0]
    family = native.FAMILIES.get(stem)
    if family is not None:
        for test, _, found in findings.inventory.tests():
            if found.ops is not None and (family in found.ops.lists or not found.ops.sure):
                findings.add(test, code, Evidence("op", f"{file.path} holds the kernels of {family}", file.path), 0.6)
        return
    known = index.database is not None
    by_stem = index.word(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()) if known else None
    declared = implemented_in(file.new or file.old) if known else frozenset[str]()
    if by_stem is not None:
        add_ops(file, {by_stem.word: by_stem}, code, f"{file.path} is named after it", findings, index, 0.8)
    elif 0 < len(declared) <= MANY_OPS:
        targets = {target.word: target for target in map(index.word, sorted(declared)) if target is not None}
        add_ops(file, targets, code, f"{file.path} implements it", findings, index, 0.5)
    elif owned:
        return  # what it is of beside, nothing tells
    elif other_backend:
        backend = backend_of(file.path) or "another device"
        findings.decide(
            file.path, "no-impact", "other-backend", f"code that is compiled for {backend} only, of no known op"
        )
    else:
        findings.not_mapped(file.path, "no known op could be read out of the change")
