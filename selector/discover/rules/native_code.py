"""C++ outside of the kernels: headers by who includes them, derivatives by the YAML, parts of torch by their folder."""

from __future__ import annotations

import re

from selector.discover import native
from selector.discover.dispatch import Registrations
from selector.discover.filekinds import FileKind, area_of, in_area, kind_of
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.discover.rules.kernels import by_code, ops_of, whole_file
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


def is_header(path: str, kind: FileKind) -> bool:
    """Whether it is a header beside the kernels, whose users are asked before its own name is."""
    return kind is FileKind.KERNEL and path.endswith(_HEADER)


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
    kernels_own = file.path.startswith("aten/src/ATen/native/")
    if kernels_own and by_code(file, findings, index, registrations, other_backend=False):
        return
    targets, why, lost = _targets(file, functions, mentioned, index, tree, sources, registrations)
    if targets:
        add_ops(file, targets, "op-native-code", why, findings, index, 0.8)
    area = area_of(file.path)
    if area:
        fact = Evidence("area", f"{' and '.join(area)} hold the tests of this part of torch", file.path)
        for test, _, _ in findings.inventory.tests():
            if in_area(test.file, area):
                findings.add(test, "area", fact)
        if file.path.startswith(CONTAINED):
            return
    if not targets and kernels_own and not lost:
        whole_file(file, findings, index, other_backend=False)
    elif not targets or lost:
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
    return _by_header(file, functions or mentioned, index, tree, sources, registrations)


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
    wanted = {word for word in words if len(word) > 3}
    if not wanted:
        return {}, "", "a header in which no name differs"
    texts: dict[str, bytes] = {}
    for user in users:
        if kind_of(user) is not FileKind.OTHER_KERNEL:  # other devices' kernels run on no worker of this one
            try:
                texts[user] = tree.read(user)
            except (KeyError, OSError):
                return {}, "", f"{user} includes it and is not there to be read"
    for user in users:
        if user.endswith(_HEADER) and user in texts:
            wanted |= {name for name in native.functions_with(texts[user], _any(wanted)) if len(name) > 3}
    pattern = _any(wanted)
    found: dict[str, OpTarget] = {}
    others = []
    for user, source in texts.items():
        using = native.functions_with(source, pattern) if not user.endswith(_HEADER) else frozenset[str]()
        if using and kind_of(user) is FileKind.KERNEL:
            found |= ops_of(using, FileChange(user, "modified", user, None, source), index, registrations)
        elif using:
            others.append(user)
    if len(found) > MAX_OPS:
        return {}, "", f"a header that the kernels of {len(found)} ops use: more than {MAX_OPS}"
    lost = f"{others[0]} uses it too, and is no kernel" if others else ""
    return dict(sorted(found.items())), f"a kernel of it uses what differs in {file.path}", lost


def _any(words: set[str]) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(words))) + r")\b")


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
