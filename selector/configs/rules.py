"""What the loaded configs say about a test: which entries name it, and what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from selector.configs import governing
from selector.configs.governing import Ruling
from selector.configs.model import ConfigProblem, DtypeEdits, OpEdits, Place, Precision, VariantRule, op_names
from selector.configs.rank import Match
from selector.configs.selectors import TestFacts
from selector.configs.tree import Edits, FileEntry, Item, Suite, TestEntry
from selector.model import Mode, TestId

_ARCHITECTURES = {"amd64": "x86_64", "AMD64": "x86_64", "arm64": "aarch64"}


class ReuseConfigs:
    """All loaded configs, each with its own globals. Paths are relative to upstream's root (``test/test_x.py``).

    ``warnings`` are the problems that did not keep the files from being used.
    """

    def __init__(
        self, suites: Sequence[Suite], warnings: Sequence[ConfigProblem] = (), platform: str | None = None
    ) -> None:
        """``platform``: the machine's architecture (``x86_64``), for entries that are about some only; None: any."""
        self.suites = tuple(suites)
        self.warnings = tuple(warnings)
        self.platform = _ARCHITECTURES.get(platform, platform) if platform else None
        self._files: dict[str, list[tuple[Suite, FileEntry]]] = {}
        self._matches: dict[TestId, list[Match]] = {}
        self._op_places: dict[int, dict[str, int]] = {}
        self._dtype_edits: dict[tuple[TestId, int], DtypeEdits] = {}
        self._edited: dict[tuple[TestId, str], tuple[frozenset[str], frozenset[str]]] = {}

    # ------------------------------------------------------------------------------------------------------ questions

    def covers(self, path: str) -> bool:
        """Whether some config has a file entry for ``path``."""
        return bool(self._entries(path))

    def allows_empty(self, path: str) -> bool:
        """Whether it is fine that nothing is collected from ``path`` (``allow_empty``)."""
        return any(entry.allow_empty or suite.allow_empty for suite, entry in self._entries(path))

    def rule(
        self,
        test: TestId,
        op: str | None = None,
        op_variant: str = "",
        dtype: str | None = None,
        facts: TestFacts | None = None,
    ) -> VariantRule:
        """How the variant of ``test`` with this OpInfo (``name``, ``variant_test_name``) and dtype is to be run.

        Without op and dtype: the rule of the test itself. Without ``facts``, which only the runtime has, every selector
        takes the test. A file that no config covers is skipped, unlisted.
        """
        return self.decide(test, op, op_variant, dtype, facts).rule

    def decide(
        self,
        test: TestId,
        op: str | None = None,
        op_variant: str = "",
        dtype: str | None = None,
        facts: TestFacts | None = None,
    ) -> Ruling:
        """``rule`` with what it came from, for ``explain``."""
        files = self._entries(test.file)
        matches = self._match(test) if files else []
        return governing.decide(test, files, matches, *governing.words(op, op_variant, dtype), facts)

    def runs(self, test: TestId) -> bool:
        """Whether some variant of the test can run: False when its file is not covered or every entry says skip."""
        files = self._entries(test.file)
        if not files:
            return False
        matches = self._match(test)
        if any(m.entry.mode is not Mode.SKIP for m in matches) if matches else files[0][1].unlisted is not Mode.SKIP:
            return True
        variants = (TestId(test.file, test.cls, name) for name in self.named_variants(test))
        return any(m.entry.mode is not Mode.SKIP for variant in variants for m in self._match(variant))

    def dtypes(self, test: TestId, op: str | None = None, op_variant: str = "") -> DtypeEdits:
        """The dtype filter; with ``op``, the dtypes that ``supported_ops`` lists for it count as well.

        Ops that are filtered alike get the same object.
        """
        suite = self._suite(test)
        item = self._own(suite, op, op_variant) if suite is not None and op is not None else None
        key = (test, id(item) if item is not None else 0)
        if key not in self._dtype_edits:
            supported = _names(suite.globals.dtypes) if suite else None
            own = _names(item.dtypes) if item is not None else None
            if own is not None:
                supported = own if supported is None else supported & own
            self._dtype_edits[key] = DtypeEdits(supported, *self._edits(test, governing.dtypes_of))
        return self._dtype_edits[key]

    def has_op_dtypes(self, test: TestId) -> bool:
        """Whether ``supported_ops`` lists dtypes for some op: then the dtype filter differs from op to op."""
        suite = self._suite(test)
        return suite is not None and bool(self._listed(suite))

    def supported_op(self, test: TestId, op: str, op_variant: str = "") -> Place | None:
        """Where the test's config names an op: in ``op_precision``, else in ``supported_ops``."""
        suite = self._suite(test)
        items = (*suite.globals.op_precision, *(suite.globals.ops or ())) if suite is not None else ()
        item = governing.find(items, op_names(op, op_variant))
        return item.place if item is not None else None

    def ops_with_dtypes(self, test: TestId) -> frozenset[str]:
        """Names of the ops for which ``supported_ops`` lists dtypes."""
        suite = self._suite(test)
        items = suite.globals.ops or () if suite is not None else ()
        return frozenset(item.name for item in items if item.dtypes is not None)

    def _own(self, suite: Suite, op: str, op_variant: str) -> Item | None:
        """The first item of ``supported_ops`` that names an op, when it lists dtypes."""
        listed = self._listed(suite)
        places = [listed[name] for name in op_names(op, op_variant) if name in listed] if listed else []
        item = (suite.globals.ops or ())[min(places)] if places else None
        return item if item is not None and item.dtypes is not None else None

    def _listed(self, suite: Suite) -> dict[str, int]:
        """Where each name of ``supported_ops`` stands first; empty when no op lists dtypes."""
        key = id(suite)
        if key not in self._op_places:
            items = suite.globals.ops or ()
            some = any(item.dtypes is not None for item in items)
            self._op_places[key] = {items[n].name: n for n in reversed(range(len(items)))} if some else {}
        return self._op_places[key]

    def ops(self, test: TestId) -> OpEdits:
        suite = self._suite(test)
        return OpEdits(_names(suite.globals.ops) if suite else None, *self._edits(test, governing.ops_of))

    def modules(self, test: TestId) -> OpEdits:
        suite = self._suite(test)
        return OpEdits(_names(suite.globals.modules) if suite else None, *self._edits(test, governing.modules_of))

    def precision(self, test: TestId, op: str | None, dtype: str | None, op_variant: str = "") -> Precision | None:
        """Tolerances: of the governing entry's dtype, else of the op's dtype (in ``op_precision``, else in
        ``supported_ops``), else of the supported dtype."""
        if dtype is None:
            return None
        ops, dtypes = governing.words(op, op_variant, dtype)
        candidates: list[Item | None] = []
        matches = self._match(test)
        if matches:
            candidates.append(governing.find(governing.ranked(matches, ops, dtypes)[0].entry.dtypes.include, dtypes))
        suite = self._suite(test)
        if suite:
            for items in (suite.globals.op_precision, suite.globals.ops or ()):
                op_item = governing.find(items, ops)
                candidates.append(governing.find((op_item.dtypes or ()) if op_item else (), dtypes))
            candidates.append(governing.find(suite.globals.dtypes or (), dtypes))
        return next((c.precision for c in candidates if c is not None and c.precision is not None), None)

    def cpu_move(self, test: TestId) -> tuple[str, ...]:
        """TestCase methods whose tensor arguments go to the CPU first, for this test only."""
        return tuple(dict.fromkeys(name for m in self._match(test) for name in m.entry.cpu_move))

    def no_grad(self, test: TestId) -> bool:
        return any(m.entry.no_grad for m in self._match(test))

    def tags(self, test: TestId) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tag for m in self._match(test) for tag in m.entry.tags))

    def named_variants(self, test: TestId) -> frozenset[str]:
        """Method names beyond the test's own that entries may mean variants of it by: ``test_n_2`` of a parametrized
        ``test_n``. Another test may be called so as well."""
        head = f"{test.method}_"
        return frozenset(
            name.method
            for _, file in self._entries(test.file)
            for entry in file.tests
            for name in entry.names
            if name.method_regex is None and name.method.startswith(head) and name.covers_class(test.cls)
        )

    def matches(self, test: TestId) -> list[Match]:
        """Entries that name a test, the most specific first."""
        return list(self._match(test))

    def bypasses(self, test: TestId) -> frozenset[str]:
        """Device types whose restrictions do not keep the device out of this test (``bypass_device_restrictions``)."""
        matches = self._match(test)
        words = [word for m in matches for word in m.entry.bypass]
        return frozenset(words + [word for _, file in self._entries(test.file) for word in file.bypass])

    def opens(self, path: str, cls: str) -> frozenset[str]:
        """Device types whose ``only_for`` does not keep the device out of a class: those of its file, and of every
        entry that could name one of its tests."""
        found: set[str] = set()
        for _, file in self._entries(path):
            found.update(file.bypass)
            for entry in file.tests:
                if entry.bypass and self._is_here(entry) and any(name.covers_class(cls) for name in entry.names):
                    found.update(entry.bypass)
        return frozenset(found)

    def devices(self, path: str) -> tuple[str, ...]:
        """Device types that the tests of a file are generated for beside the device (``global.devices``)."""
        return tuple(dict.fromkeys(d for suite, _ in self._entries(path) for d in suite.globals.devices))

    # ------------------------------------------------------------------------------------------------------- matching

    def _entries(self, path: str) -> list[tuple[Suite, FileEntry]]:
        """File entries for a path, the most specific first."""
        if path not in self._files:
            found = [(s, f) for s in self.suites for f in s.files if f.path.matches(path)]
            found.sort(key=lambda pair: pair[1].path.specificity, reverse=True)  # stable: then order of writing
            self._files[path] = found
        return self._files[path]

    def _match(self, test: TestId) -> list[Match]:
        """Entries that name a test, the most specific first."""
        if test not in self._matches:
            found: list[Match] = []
            for suite, file in self._entries(test.file):
                for entry in file.tests:
                    if not self._is_here(entry):
                        continue
                    ranks = [name.specificity for name in entry.names if name.matches(test)]
                    if ranks:
                        found.append(Match(max(ranks), file.path.specificity, len(found), entry, suite))
            found.sort(key=lambda m: (m.rank, m.path_rank, -m.order), reverse=True)
            self._matches[test] = found
        return self._matches[test]

    def _is_here(self, entry: TestEntry) -> bool:
        return not entry.platforms or self.platform is None or self.platform in entry.platforms

    def _suite(self, test: TestId) -> Suite | None:
        """The config whose globals count: that of the governing entry, else of the most specific file entry."""
        matches = self._match(test)
        if matches:
            return matches[0].suite
        files = self._entries(test.file)
        return files[0][0] if files else None

    def _edits(self, test: TestId, pick: Callable[[TestEntry], Edits]) -> tuple[frozenset[str], frozenset[str]]:
        key = (test, pick.__name__)
        if key not in self._edited:
            matches = self._match(test)
            include = frozenset(i.name for m in matches for i in pick(m.entry).include)
            named = {i.name for m in matches for i in pick(m.entry).exclude}
            exclude = frozenset(n for n in named if governing.excluded(matches, frozenset((n,)), pick) is not None)
            self._edited[key] = (include, exclude)
        return self._edited[key]


def _names(items: Sequence[Item] | None) -> frozenset[str] | None:
    return None if items is None else frozenset(item.name for item in items)
