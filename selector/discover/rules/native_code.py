"""C++ outside of the kernels: headers by who includes them, derivatives by the YAML, parts of torch by their folder."""

from __future__ import annotations

import re

from selector.discover import native
from selector.discover.dispatch import Registrations
from selector.discover.filekinds import FileKind, area_of, kind_of
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.discover.rules.kernels import ops_of
from selector.discover.rules.op_hits import add_ops
from selector.discover.sources import Sources
from selector.model import Evidence, FileChange, Tree

MAX_INCLUDERS = 150
"""sources that include a header, itself or through others, beyond which it counts as used everywhere"""
MAX_STEPS = 3
MAX_OPS = 60
"""ops that a header's users may be for before the header counts as used everywhere"""
_HEADER = (".h", ".hpp", ".cuh", ".inl")
# Parts of torch whose C++ nothing else runs: their tests are all that a change there reaches.
CONTAINED = (
    "torch/csrc/distributed/", "torch/csrc/dynamo/", "torch/csrc/functorch/", "torch/csrc/fx/", "torch/csrc/inductor/",
    "torch/csrc/jit/", "torch/csrc/lazy/", "torch/csrc/onnx/", "torch/csrc/profiler/", "aten/src/ATen/functorch/",
)  # fmt: skip


def native_code(
    file: FileChange,
    findings: Findings,
    index: OpIndex,
    tree: Tree,
    sources: Sources,
    registrations: Registrations,
) -> None:
    """Adds the tests; widens where the change cannot be followed to ops or to a part of torch, and says how far."""
    functions, mentioned = native.kernel_words(file.old, file.new)
    targets, why, lost = _targets(file, functions, mentioned, index, tree, sources, registrations)
    if targets:
        add_ops(file, targets, "op-native-code", why, findings, index, 0.8)
    area = area_of(file.path)
    if area:
        fact = Evidence("area", f"{' and '.join(area)} hold the tests of this part of torch", file.path)
        for test, _, _ in findings.inventory.tests():
            if test.file.startswith(area):
                findings.add(test, "area", fact)
        if file.path.startswith(CONTAINED):
            return
    if not targets or lost:
        findings.not_mapped(file.path, lost or "C++ that nothing leads from to an op")


def _targets(
    file: FileChange,
    functions: frozenset[str],
    mentioned: frozenset[str],
    index: OpIndex,
    tree: Tree,
    sources: Sources,
    registrations: Registrations,
) -> tuple[dict[str, OpTarget], str, str]:
    """(ops, why they are reached, what was not followed)."""
    if index.database is None:
        return {}, "", "C++, and no op database says which names are ops"
    by_derivative = {op for name in functions for op in registrations.derivatives(name)}
    found = {t.word: t for t in map(index.word, sorted(by_derivative)) if t is not None}
    if found:
        return dict(sorted(found.items())), f"its derivative calls a function of {file.path} that differs", ""
    if not file.path.endswith(_HEADER):
        found = ops_of(functions, file, index, registrations)
        found = {word: target for word, target in found.items() if _registered(functions, target, registrations, file)}
        return found, f"a function of {file.path} that is registered for it differs", ""
    return _by_header(file, functions | mentioned, index, tree, sources, registrations)


def _registered(functions: frozenset[str], target: OpTarget, registrations: Registrations, file: FileChange) -> bool:
    """Whether a registration, and not only a like name, says that the op is meant: outside of kernels names mislead."""
    text = (file.new or b"") + (file.old or b"")
    return any(target.word in registrations.ops(name) for name in functions) or f'"{target.word}'.encode() in text


def _by_header(
    file: FileChange,
    words: frozenset[str],
    index: OpIndex,
    tree: Tree,
    sources: Sources,
    registrations: Registrations,
) -> tuple[dict[str, OpTarget], str, str]:
    users, complete = _includers(file.path, sources)
    if not complete:
        return {}, "", f"a header that more than {MAX_INCLUDERS} sources include: it is used everywhere"
    wanted = [w for w in words if len(w) > 3]
    if not wanted:
        return {}, "", "a header in which no name differs"
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(wanted))) + r")\b")
    found: dict[str, OpTarget] = {}
    others = []
    for path in users:
        kind = kind_of(path)
        if kind is FileKind.OTHER_KERNEL or path.endswith(_HEADER):
            continue  # headers hand the names on; other devices' kernels run on no worker of this one
        if kind is not FileKind.KERNEL:
            others.append(path)
            continue
        try:
            source = tree.read(path)
        except (KeyError, OSError):
            return {}, "", f"{path} includes it and is not there to be read"
        using = native.functions_with(source, pattern)
        if using:
            whole = FileChange(path, "modified", path, None, source)
            found |= ops_of(using, whole, index, registrations)
    if len(found) > MAX_OPS:
        return {}, "", f"a header that the kernels of {len(found)} ops use: more than {MAX_OPS}"
    lost = f"{others[0]} includes it too, and is no kernel" if others else ""
    return dict(sorted(found.items())), f"a kernel of it uses what differs in {file.path}", lost


def _includers(path: str, sources: Sources) -> tuple[list[str], bool]:
    """Every source that includes the header, at most three steps away; False: there are more."""
    seen: dict[str, None] = {}
    todo = [(path, 0)]
    while todo:
        at, steps = todo.pop(0)
        for user in sources.includers(at):
            if user not in seen and user != path:
                seen[user] = None
                if len(seen) > MAX_INCLUDERS:
                    return [], False
                if user.endswith(_HEADER):
                    if steps + 1 >= MAX_STEPS and sources.includers(user):
                        return [], False
                    todo.append((user, steps + 1))
    return sorted(seen), True
