"""Which op a name means, and which tests draw or call it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from selector.discover.calling import callers
from selector.discover.inventory import Inventory
from selector.discover.records import DbUse
from selector.model import OpDatabase, OpEntry, TestId

REFS = "_refs."
_AFFIXES = re.compile(
    r"^_+|(_backward|_double_backward|_forward|_out|_outf|_stub|_kernel|_impl|_template|_meta|_cpu|_cuda|_mps|_xpu"
    r"|_sparse|_sparse_csr|_nested|_quantized|_mkldnn|_symint|_copy_out|_functional|_default|_dispatch|_)+$"
)
_UNIONS = {
    "ops_and_refs": ("op_db", "python_ref_db"),
    "binary_ufuncs_and_refs": ("binary_ufuncs",),
    "sparse_csr_unary_ufuncs": ("unary_ufuncs",),
    "sparse_reduction_ops": ("reduction_ops",),
    "sparse_masked_reduction_ops": ("reduction_ops",),
    "reference_filtered_ops": ("reduction_ops",),
    "reference_masked_ops": ("reduction_ops",),
    "njt_op_db": ("op_db",),
    "foreach_pointwise_op_db": ("foreach_other_op_db",),
}
"""lists that upstream makes of others, or has made in some release: each holds at most what those hold"""
_CROWD = 300
"""tests that call an op by name beyond which the call says little about each of them"""


@dataclass(frozen=True, slots=True)
class OpTarget:
    """An op that a change touches: ``word`` as it is called (``logit``), ``names`` its entries in the op databases."""

    word: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class OpHit:
    """A test that runs an op: drawn from a list, called, or in the test's name. ``factor`` 0..1: how surely."""

    test: TestId
    line: int
    ops: frozenset[str]
    how: str
    factor: float
    called: bool = False
    """by the test or a helper of it: neither drawn nor named"""


class OpIndex:
    """Looks names up in an op database. Without one every plausible name is an op and lists hold everything."""

    def __init__(self, database: OpDatabase | None) -> None:
        self.database = database
        self.lists: frozenset[str] = frozenset()
        self.by_name: dict[str, list[OpEntry]] = defaultdict(list)
        self._words: dict[str, set[str]] = defaultdict(set)
        self._lists: dict[OpEntry, frozenset[str]] = {}
        self._refs: dict[str, set[str]] = defaultdict(set)
        entries = database.ops if database is not None else ()
        exported = frozenset(name for entry in entries for name in entry.lists)
        if database is not None:
            self.lists = exported | {union for union, parts in _UNIONS.items() if exported & set(parts)}
        for entry in entries:
            lists = frozenset(entry.lists)
            lists |= {union for union, parts in _UNIONS.items() if union not in exported and lists & set(parts)}
            self._lists[entry] = lists
            self.by_name[entry.name].append(entry)
            last = entry.name.removeprefix(REFS).rpartition(".")[2]
            for word in {last, entry.aten, *(a.rpartition(".")[2] for a in entry.aliases)} - {""}:
                self._words[word].add(entry.name)
            if entry.ref:
                self._refs[entry.ref].add(entry.name)

    def word(self, name: str) -> OpTarget | None:
        """The op called ``name`` in Python or C++ (``logit``, ``logit_``, ``logit_out``); None if there is none."""
        for candidate in dict.fromkeys([name, base_name(name)]):
            if self.database is None:
                if len(candidate) > 1:
                    return OpTarget(candidate, frozenset({candidate, REFS + candidate}))
            elif candidate in self._words:
                return OpTarget(candidate, frozenset(self._words[candidate]))
        return None

    def reference(self, dotted: str) -> frozenset[str]:
        """Entries of the database whose Python reference is ``torch._refs.x``."""
        return frozenset(self._refs.get(dotted, ()))

    def entry(self, name: str) -> OpTarget:
        """The op of an OpInfo entry, by the entry's own name."""
        return OpTarget(name.removeprefix(REFS).rpartition(".")[2], frozenset({name}))

    def drawn(self, use: DbUse, names: Iterable[str]) -> tuple[frozenset[str], bool]:
        """Those of the names that ``@ops`` draws, and whether that is known (False: assumed, to be safe)."""
        found: set[str] = set()
        sure = self.database is not None and use.sure
        for name in names:
            if (use.include is not None and name not in use.include) or name in use.exclude:
                continue
            unknown = not use.sure or any(one not in self.lists for one in use.lists)
            entries = self.by_name.get(name, ())
            if not entries:
                # a database that lacks the entry cannot tell: new in this change, or not exported
                if self.database is None or unknown or (use.include is not None and name in use.include):
                    found.add(name)
                    sure = False
            elif any(not self._lists[e].isdisjoint(use.lists) for e in entries):
                found.add(name)
            elif unknown:
                found.add(name)
                sure = False
        return frozenset(found), sure

    def entries(self, use: DbUse) -> Iterator[OpEntry]:
        """The entries that ``@ops`` draws, as far as lists and literal filters tell."""
        for entry, lists in self._lists.items():
            kept = (use.include is None or entry.name in use.include) and entry.name not in use.exclude
            if kept and not lists.isdisjoint(use.lists):
                yield entry

    def hits(self, inventory: Inventory, targets: Iterable[OpTarget]) -> Iterator[tuple[OpTarget, OpHit]]:
        """Every test that draws, calls or is named after one of the ops; one pass for all of them."""
        words: dict[str, list[OpTarget]] = {}
        for target in targets:
            words.setdefault(target.word, []).append(target)
        if not words:
            return
        every = [target for group in words.values() for target in group]
        wanted = frozenset(words)
        plain: list[tuple[TestId, int]] = []
        for test, _, found in inventory.tests():
            if found.ops is not None:
                source = " + ".join(found.ops.lists) or "its own list"
                for target in every:
                    ops, sure = self.drawn(found.ops, target.names)
                    if ops:
                        yield target, OpHit(test, found.line, ops, f"draws it from {source}", 1.0 if sure else 0.5)
                continue
            plain.append((test, found.line))
            if any(word in found.name for word in wanted):
                for word in sorted(wanted & _parts(found.name)):
                    for target in words[word]:
                        yield target, OpHit(test, found.line, target.names, "is named after it", 0.9)
        for word, hits in callers(inventory, wanted, plain).items():
            crowd = min(1.0, _CROWD / len(hits))
            for hit in hits:
                for target in words[word]:
                    yield target, OpHit(hit.test, hit.line, target.names, hit.how, 0.8 * hit.sure * crowd, called=True)


def _parts(name: str) -> set[str]:
    """``test_index_add_big`` -> index, add, big, index_add, ...: the ops it may be named after."""
    words = name.split("_")
    return {"_".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, min(len(words), i + 6) + 1)}


def base_name(name: str) -> str:
    """``_softmax_backward_data.out`` -> ``softmax_backward_data``; ``add_`` -> ``add``; ``logit_out`` -> ``logit``."""
    plain = name.partition(".")[0]
    stripped = _AFFIXES.sub("", _AFFIXES.sub("", plain))
    return stripped or plain
