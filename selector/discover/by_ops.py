"""Impacts through op names: references, decompositions, op database entries, YAML, kernels, titles."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from selector.discover import native
from selector.discover.by_python import PythonChange
from selector.discover.filekinds import FileKind, backend_of
from selector.discover.findings import Findings
from selector.discover.opindex import REFS, OpIndex, OpTarget
from selector.discover.reach import Reach
from selector.discover.records import MODULE
from selector.model import Change, Evidence, FileChange

_REGISTERED = re.compile(
    r"^@register_decomposition\((?P<args>[^@]*?)\)\n(?:@[^\n]*\n(?:[ )][^\n]*\n)*)*def (?P<function>\w+)", re.MULTILINE
)
_CAUSES = 3
"""changed functions that are named for one op and test"""
_ATEN = re.compile(r"\baten\.(\w+)")
_WORD = re.compile(r"[A-Za-z_][\w.]*")
# fmt: off
_ENGLISH = frozenset((
    "add", "all", "any", "at", "cat", "compile", "copy", "cross", "data", "device", "diff", "dist", "div", "dot",
    "dtype",
    "equal", "exp", "fill", "flip", "floor", "full", "gather", "grad", "index", "item", "load", "log", "max", "mean",
    "median", "min", "mode", "module", "mul", "neg", "new", "norm", "not", "pad", "pin", "pow", "prod", "range", "real",
    "repeat", "resize", "round", "save", "scatter", "select", "set", "sign", "size", "sort", "split", "stack", "std",
    "sub", "sum", "take", "tensor", "test", "tile", "trace", "type", "unique", "values", "var", "view", "where", "zero",
))
# fmt: on


def python_ops(change: PythonChange, findings: Findings, index: OpIndex) -> None:
    """A changed function of ``torch/_refs`` or ``torch/_decomp``: its op, and the ops of all that reach it."""
    code = "op-reference" if change.kind is FileKind.REFERENCE else "op-decomposition"
    registered = _registered(change.file.new) | _registered(change.file.old)
    reach = Reach(change.new)
    module = change.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    causes: dict[OpTarget, list[tuple[str, str]]] = {}
    for key in sorted(change.changed):
        if key in ("__all__", MODULE) and len(change.changed) > 1:
            continue
        symbol = change.new.symbols.get(key) or change.old.symbols[key]
        if symbol.kind == "import":
            continue
        seen: set[OpTarget] = set()
        for user in sorted(_users(reach, key), key=lambda one: (one != key, one)):
            for target in _targets(user, module, registered.get(user, frozenset()), index):
                if target not in seen:  # `add_` of `add`: the same op by a longer way
                    seen.add(target)
                    causes.setdefault(target, []).append((key, user))
        if not seen:
            findings.not_mapped(change.path, f"{key} belongs to no known op", key)
    for target, hit in index.hits(findings.inventory, causes):
        # a list that draws the reference itself runs the edited code; the op alone may not
        runs_it = code != "op-reference" or any(name.startswith(REFS) for name in hit.ops)
        for key, user in sorted(causes[target], key=lambda pair: pair[0] != pair[1])[:_CAUSES]:
            link = "" if user == key else f", which uses {key}"
            text = f"runs {target.word} ({hit.how}){link} of {change.path}"
            fact = Evidence("op", text, change.path, change.place(key), key)
            nearness = 1.0 if user == key else 0.8
            findings.add(hit.test, code, fact, nearness * hit.factor * (1.0 if runs_it else 0.5), hit.ops)


def _users(reach: Reach, key: str) -> dict[str, frozenset[str]]:
    """The symbol and all of its file that reach it; of one that only the base has, itself."""
    return reach.dependents({key: frozenset()}) or {key: frozenset[str]()}


def _targets(name: str, module: str, registered: frozenset[str], index: OpIndex) -> list[OpTarget]:
    plain = name.partition(".")[0]
    found: dict[str, OpTarget] = {}
    exact = index.reference(f"{module}.{plain}")
    if exact:
        word = plain
        known = index.word(plain)
        found[word] = OpTarget(word, exact | (known.names if known is not None else frozenset()))
    else:
        for candidate in (plain, *sorted(registered)):
            target = index.word(candidate)
            if target is not None and (index.database is not None or not candidate.startswith("_")):
                found[target.word] = target
    return list(found.values())


def _registered(source: bytes | None) -> dict[str, frozenset[str]]:
    """function -> aten names in its ``register_decomposition`` decorator.

    By pattern and not by syntax: the files have thousands of lines, and a miss costs an alias of the function's name.
    """
    text = (source or b"").decode("utf-8", "replace")
    found: dict[str, frozenset[str]] = {}
    for match in _REGISTERED.finditer(text):
        found[match["function"]] = frozenset(_ATEN.findall(match["args"]))
    return found


def opinfo_entries(change: PythonChange, findings: Findings, index: OpIndex) -> None:
    """Entries of op and module databases in the shared test library that differ, or use a helper that does."""
    reach = Reach(change.new)
    causes: dict[OpTarget, list[tuple[str, Evidence]]] = {}
    drawing = [(test, found.modules) for test, _, found in findings.inventory.tests() if found.modules is not None]
    for key in sorted(change.changed | change.soft):
        soft = key in change.soft
        users = {key: frozenset[str]()} if soft else _users(reach, key)
        for user in sorted(users):
            database, _, label = user.partition("[")
            if not label:
                continue
            name = label.removesuffix("]")
            text = f"{database} entry {name}" + (" (skips or decorators only)" if soft else "")
            text += "" if user == key else f" uses {key}"
            code = "op-info-skips" if soft else "op-info"
            fact = Evidence("op", text, change.path, change.place(user) or change.place(key), user)
            if "module" not in database and "optim" not in database:
                causes.setdefault(_entry_target(name, index), []).append((code, fact))
                continue
            for test, use in drawing:
                if (use.include is None or name in use.include) and name not in use.exclude:
                    findings.add(test, code, fact)
    for target, hit in index.hits(findings.inventory, causes):
        if hit.how.startswith("draws"):
            for code, fact in causes[target][:_CAUSES]:
                findings.add(hit.test, code, fact, hit.factor, hit.ops)


def _entry_target(label: str, index: OpIndex) -> OpTarget:
    """The entry ``name.variant``: a dot may belong to the name itself."""
    if index.database is not None and label not in index.by_name:
        shorter = label.rpartition(".")[0]
        if shorter in index.by_name:
            return index.entry(shorter)
    return index.entry(label)


def native_yaml(file: FileChange, findings: Findings, index: OpIndex) -> None:
    """Functions whose entries in ``native_functions.yaml`` or ``derivatives.yaml`` differ."""
    names = {name: index.word(name) for name in sorted(native.yaml_ops(file.old, file.new))}
    _ops(file, names, "op-native", f"its entry in {file.path} differs", findings, index)
    if native.yaml_head_changed(file.old, file.new):
        findings.not_mapped(file.path, "the part before the first entry differs")


def kernel(file: FileChange, findings: Findings, index: OpIndex, *, other_backend: bool) -> None:
    """Ops named by the functions in which a kernel file differs; else by its changed lines; else by the file's name."""
    code = "op-kernel-other-backend" if other_backend else "op-kernel"
    functions, mentioned = native.kernel_words(file.old, file.new)
    known = index.database is not None
    for words, factor, what in ((functions, 1.0, "function"), (mentioned if known else frozenset(), 0.4, "line")):
        targets = {t.word: t for t in map(index.word, sorted(words)) if t is not None}
        if targets:
            why = f"a {what} of {file.path} that names it differs"
            _ops(file, dict(sorted(targets.items())), code, why, findings, index, factor)
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
        _ops(file, {by_stem.word: by_stem}, code, f"{file.path} is named after it", findings, index, 0.8)
    elif other_backend:
        backend = backend_of(file.path) or "another device"
        findings.decide(
            file.path, "no-impact", "other-backend", f"code that is compiled for {backend} only, of no known op"
        )
    else:
        findings.not_mapped(file.path, "no known op could be read out of the change")


def _ops(
    file: FileChange,
    targets: Mapping[str, OpTarget | None],
    code: str,
    why: str,
    findings: Findings,
    index: OpIndex,
    factor: float = 1.0,
) -> None:
    """Adds the tests that run the ops, by the names that the file gives them; a name that leads nowhere widens."""
    found = {target: name for name, target in targets.items() if target is not None}
    reached: set[OpTarget | None] = set()
    for op, hit in index.hits(findings.inventory, found):
        reached.add(op)
        fact = Evidence("op", f"runs {op.word} ({hit.how}): {why}", file.path, symbol=found[op])
        findings.add(hit.test, code, fact, hit.factor * factor, hit.ops)
    if code != "op-kernel-other-backend":
        for name, target in targets.items():
            if target not in reached:
                findings.not_mapped(file.path, f"no test was found to run {name}", name)


def title(change: Change, findings: Findings, index: OpIndex) -> None:
    """Ops named in the title. English words that are also ops count only when written as code."""
    if index.database is None:
        return
    text = change.title[:500]
    quoted = set(re.findall(r"`([\w.]+)`", text))
    named: dict[OpTarget, str] = {}
    for word in dict.fromkeys(_WORD.findall(text)):
        plain = word.strip(".").rpartition(".")[2]
        as_code = word in quoted or "." in word.strip(".") or "_" in plain
        if len(plain) < 3 or (plain.lower() in _ENGLISH and not as_code):
            continue
        target = index.word(plain)
        if target is not None and target.word == plain:
            named[target] = plain
    for target, hit in index.hits(findings.inventory, named):
        fact = Evidence("title", f"the title names {named[target]}, which the test runs ({hit.how})")
        findings.add(hit.test, "op-title", fact, hit.factor, hit.ops)
