"""``relay config explain TEST``: which entry governs each group of variants, and why it wins.

Says nothing of its own: it asks :class:`ReuseConfigs` and :class:`Chain`, which the runtime asks too, once for every op
and dtype that the configs name, and once for "any other". A test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from selector.configs.capability import Capability
from selector.configs.chain import Chain
from selector.configs.governing import Ruling
from selector.configs.model import VariantRule, op_names
from selector.configs.rank import Match, rank_key, scope_score
from selector.configs.rules import ReuseConfigs
from selector.configs.selectors import TestFacts
from selector.configs.tree import Edits, Globals, TestEntry
from selector.model import TestId

OTHER = "*"
"""Stands for every op, or dtype, that the configs do not name; no op or dtype is called so."""
NONE = ""
"""Stands for variants without an op, or without a dtype (or with several of them)."""
Presence = Literal["kept", "added", "dropped"]
"""kept: where upstream has the variant; added: whether upstream has it or not; dropped: never generated."""
Op = tuple[str, str]
"""``OpInfo.name`` and ``variant_test_name``; or ``(OTHER, "")``, ``(NONE, "")``"""


@dataclass(frozen=True, slots=True)
class Group:
    """Variants that one entry governs alike: every op of ``ops`` with every dtype of ``dtypes``."""

    ops: tuple[Op, ...]
    dtypes: tuple[str, ...]
    presence: Presence
    rule: VariantRule
    why: str
    beaten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """All groups of one test. ``notes`` say what holds for all of them."""

    test: TestId
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    def group(self, op: str | None, op_variant: str = "", dtype: str | None = None) -> Group:
        """The group that a variant belongs to, found in the groups as they are printed."""
        named = {known for group in self.groups for known in group.ops}
        words = {known for group in self.groups for known in group.dtypes}
        wanted = (op or NONE, op_variant)
        if wanted not in named:
            wanted = _nearest(op, op_variant, named)
        word = NONE if dtype is None else dtype if dtype in words else OTHER
        return next(g for g in self.groups if wanted in g.ops and word in g.dtypes)


def explain(
    configs: ReuseConfigs,
    test: TestId,
    capability: Capability | None = None,
    *,
    ops: Iterable[Op] | None = None,
    facts: TestFacts | None = None,
) -> Explanation:
    """Explains one test. ``ops``: the op database's names, to tell ``linalg.norm`` from a variant of ``linalg``."""
    chain = Chain(test, configs, capability)
    op_cells, dtype_cells = cells(configs, test, capability, ops)
    entries = [m.entry for m in configs.matches(test)]
    rows: dict[tuple[object, ...], tuple[list[Op], list[str], Group]] = {}
    for op in op_cells:
        by_meaning: dict[tuple[object, ...], tuple[Group, list[str]]] = {}
        for dtype in dtype_cells:
            group = cell(configs, chain, op, dtype, facts)
            key: tuple[object, ...] = (group.presence, group.rule, group.why, group.beaten)
            by_meaning.setdefault(key, (group, []))[1].append(dtype)
        for meaning, (group, dtypes) in by_meaning.items():
            rows.setdefault((*meaning, tuple(dtypes)), ([], dtypes, group))[0].append(op)
    groups = [
        Group(tuple(op_list), tuple(dtypes), g.presence, g.rule, g.why, g.beaten)
        for op_list, dtypes, g in rows.values()
    ]
    order = {"kept": 0, "added": 1, "dropped": 2}
    groups.sort(key=lambda g: (order[g.presence], (NONE, "") not in g.ops))
    return Explanation(test, tuple(groups), tuple(_notes(configs, test, chain, entries)))


def cells(
    configs: ReuseConfigs, test: TestId, capability: Capability | None, ops: Iterable[Op] | None
) -> tuple[list[Op], list[str]]:
    """The ops and the dtypes that can be told apart for a test, with ``NONE`` and ``OTHER``."""
    suites = [suite.globals for suite in configs.suites if any(f.path.matches(test.file) for f in suite.files)]
    entries = [m.entry for m in configs.matches(test)]
    dtype_words = _dtype_words(suites, entries) | (capability.dtypes if capability is not None else set())
    return _op_cells(suites, entries, None if ops is None else list(ops)), [NONE, OTHER, *sorted(dtype_words)]


def cell(configs: ReuseConfigs, chain: Chain, op: Op, dtype: str, facts: TestFacts | None) -> Group:
    name = op[0] if op[0] != NONE else None
    word = dtype if dtype != NONE else None
    ruling = configs.decide(chain.test, name, op[1], word, facts)
    why, beaten = reason_of(ruling, name, op[1], word)
    presence: Presence = "kept"
    if name is not None and not chain.keeps_op(name, op[1], composite=True):
        presence, why, beaten = "dropped", "the op is not among those that stay for this test", ()
    elif word is not None and not chain.keeps_dtype(word, name, op[1]):
        presence, why, beaten = "dropped", "the dtype is not among those that stay for this test", ()
    elif word is not None and word in chain.included_dtypes(name, op[1]):
        presence = "added"
    return Group((op,), (dtype,), presence, ruling.rule, why, beaten)


# ---------------------------------------------------------------------------------------------------------------- cells


def _dtype_words(suites: Sequence[Globals], entries: Sequence[TestEntry]) -> set[str]:
    words = {item.name for g in suites for item in g.dtypes or ()}
    words |= {d.name for g in suites for item in g.ops or () for d in item.dtypes or ()}
    return words | {i.name for e in entries for i in (*e.dtypes.include, *e.dtypes.exclude)}


def _op_cells(suites: Sequence[Globals], entries: Sequence[TestEntry], database: list[Op] | None) -> list[Op]:
    words = {item.name for g in suites for item in g.ops or ()}
    words |= {i.name for e in entries for i in (*e.ops.include, *e.ops.exclude)}
    if database is not None:
        cells = {op for op in database if words & op_names(*op)}
        known = {spelling for op in cells for spelling in op_names(*op)}
        cells |= {(word, "") for word in words - known}
    else:
        cells = {_split(word, words) for word in words}
    return [(NONE, ""), (OTHER, ""), *sorted(cells)]


def _split(word: str, words: set[str]) -> Op:
    """``div.floor_rounding`` is a variant of ``div`` when ``div`` is named as well; without a database, a guess."""
    head, _, tail = word.rpartition(".")
    return (head, tail) if head in words else (word, "")


def _nearest(op: str | None, op_variant: str, named: set[Op]) -> Op:
    """The cell of an op that is in no cell by both names: that of its bare name, else any other."""
    if op is None:
        return (NONE, "")
    spellings = op_names(op, op_variant)
    best = [cell for cell in named if cell[0] in spellings and not cell[1]]
    return max(best, key=lambda cell: len(cell[0]), default=(OTHER, ""))


# ---------------------------------------------------------------------------------------------------------------- words


def reason_of(ruling: Ruling, op: str | None, op_variant: str, dtype: str | None) -> tuple[str, tuple[str, ...]]:
    """(why the rule holds, the entries it beat with what each lacked)."""
    ops = op_names(op, op_variant) if op is not None else frozenset()
    dtypes = frozenset((dtype,)) if dtype is not None else frozenset()
    if ruling.cause == "uncovered":
        return "no config has a file entry for it", ()
    if ruling.cause == "unlisted" and ruling.file is not None:
        return f"no entry names it: unlisted_test_mode of {ruling.file.path.text}", ()
    if ruling.cause == "excluded" and ruling.item is not None:
        return f"{ruling.item.name} is excluded by the edits of an entry that names the test", ()
    forced = f"{ruling.item.name} is force_xfail at {ruling.item.place}; " if ruling.item is not None else ""
    if ruling.match is None:
        return f"{forced}no entry names it", ()
    selected = "its selectors decide; " if ruling.cause == "not-selected" else ""
    beaten = tuple(f"{m.entry.place}: {_over(ruling.match, m, ops, dtypes)}" for m in ruling.beaten)
    why = _over(ruling.match, ruling.beaten[0], ops, dtypes) if ruling.beaten else "the only entry that names the test"
    return forced + selected + why, beaten


def _over(best: Match, other: Match, ops: frozenset[str], dtypes: frozenset[str]) -> str:
    """In what ``best`` is more specific than ``other``."""
    a, b = rank_key(best, ops, dtypes), rank_key(other, ops, dtypes)
    if a[0][0] != b[0][0]:
        return "an exact method name goes before a pattern"
    if a[0][1] != b[0][1]:
        named = "a named class" if a[0][1] == 2 else "a class pattern"
        return f"{named} goes before {'a class pattern' if b[0][1] else 'no class'}"
    if a[1] != b[1]:
        if best.entry.platforms and not other.entry.platforms:
            return "naming the machine goes before naming none"
        if _scope(best.entry.ops, ops) + _scope(best.entry.dtypes, dtypes) > 0:
            return "naming the variant's op or dtype goes before not naming it"
        return "naming no op or dtype goes before naming others only"
    if a[2] != b[2]:
        return "an exact path goes before a glob" if a[2][0] != b[2][0] else "the longer glob goes before the shorter"
    return "equally specific: the one written first"


def _scope(edits: Edits, names: frozenset[str]) -> int:
    return max(0, scope_score(edits, names) - 1)


def _notes(configs: ReuseConfigs, test: TestId, chain: Chain, entries: Sequence[TestEntry]) -> Iterable[str]:
    edits = chain.op_edits
    if chain.capability is not None and edits is not None and edits.supported is None and not edits.include:
        sheet = chain.capability.name
        yield f"no config lists its ops: those that the sheet {sheet} lacks are dropped, but for composites"
    for entry in entries:
        if entry.selectors.include or entry.selectors.exclude:
            yield f"{entry.place} has selectors: they are decided when the test is imported"
        if entry.cpu_move:
            yield f"{entry.place}: arguments of {', '.join(entry.cpu_move)} go to the CPU first"
        if entry.inputs or any(item.inputs for item in (*entry.ops.include, *entry.modules.include)):
            yield f"{entry.place}: inputs of the config take the place of upstream's own"
        if entry.platforms:
            yield f"{entry.place} is about {', '.join(entry.platforms)} alone"
        if entry.no_grad:
            yield f"{entry.place}: runs without gradients"
    named = sorted(configs.named_variants(test))
    if named:
        yield f"entries name {', '.join(named)}: where that is a parametrisation of this test, ask for it by that name"
    opened = configs.bypasses(test)
    if opened:
        yield f"runs where upstream limits it to {', '.join(sorted(opened))}"
    missing = chain.injected_ops()
    if missing:
        yield f"ops added to its list: {', '.join(sorted(missing))}"


__all__ = ["OTHER", "Explanation", "Group", "explain", "reason_of"]
