"""Stage 1: which tests does a change reach? Fails open: what cannot be mapped widens the selection and says so."""

from __future__ import annotations

from dataclasses import dataclass, replace

from selector.discover import unreadable
from selector.discover.cache import InventoryCache
from selector.discover.changes import PythonChange, compare
from selector.discover.filekinds import FileKind, kind_of
from selector.discover.findings import Findings, Impact
from selector.discover.imports import TESTS
from selector.discover.inventory import Inventory, record_of, take
from selector.discover.native import code_differs
from selector.discover.opindex import OpIndex
from selector.discover.records import EMPTY, FileRecord
from selector.discover.rules import (
    areas,
    edited_tests,
    helpers,
    kernels,
    native_yaml,
    opinfo,
    references,
    text,
    torch_modules,
)
from selector.discover.spread import Spreader
from selector.model import Change, Decision, Evidence, FileChange, NotExercised, OpDatabase, Stage, Tree

MANY_MODULES = 100
"""changed modules of torch beyond which they are no longer compared symbol by symbol"""
MANY_TEST_FILES = 1_500
"""the same for test files, which the inventory has read already"""
MANY_SYMBOLS = 60
"""changed helpers beyond which they are followed file by file"""
_PYTHON = frozenset(
    {FileKind.TEST, FileKind.TESTLIB, FileKind.REFERENCE, FileKind.DECOMPOSITION, FileKind.TORCH}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Discovery:
    """What stage 1 found. ``widened``: something could not be mapped, so every device-generic test is impacted.

    ``inventory`` is head's, with the base's record of each changed test file that head cannot read: every impacted test
    is in it. ``not_exercised``: changed paths about which no run of the impacted tests can tell everything.
    """

    inventory: Inventory
    impacts: tuple[Impact, ...]
    decisions: tuple[Decision, ...]
    warnings: tuple[str, ...]
    widened: bool
    not_exercised: tuple[NotExercised, ...] = ()


def discover(
    base: Tree,
    head: Tree,
    change: Change,
    opdb: OpDatabase | None,
    cache: InventoryCache | None = None,
    inventory: Inventory | None = None,
) -> Discovery:
    """The tests of ``head`` that ``change`` reaches, and why.

    ``inventory`` is that of ``head`` where it is known already. Raises TreeError when head has no tests.
    """
    found = inventory if inventory is not None else take(head, cache)
    run = _Run(base, head, change, found, OpIndex(opdb), cache)
    return run.discovery()


class _Run:
    def __init__(
        self, base: Tree, head: Tree, change: Change, inventory: Inventory, index: OpIndex, cache: InventoryCache | None
    ) -> None:
        self.base, self.head, self.change = base, head, change
        self.index, self.cache = index, cache
        self.warnings = [
            f"{path} cannot be read ({problem}): its tests are unknown"
            for path, problem in inventory.problems()
            if path.startswith(TESTS)
        ]
        self.inventory, self.unreadable = unreadable.find(base, change.files, inventory, cache)
        self.findings = Findings(self.inventory)
        self.not_exercised: list[NotExercised] = []
        self.mattering = False
        self.analysed: list[tuple[FileChange, FileKind]] = []

    def discovery(self) -> Discovery:
        if self.index.database is None:
            self.warnings.append("no op database was given: what op lists hold is assumed, but for literal filters")
        if not self.change.files:
            self.findings.decide("change", "no-impact", "no-change", "base and head do not differ in any file")
        python: list[PythonChange] = []
        for file in sorted(self.change.files, key=lambda one: one.path):
            self.sort(file, python)
        self.python_files(python)
        if self.mattering:
            text.title(self.change, self.findings, self.index)
        self.conclude()
        widened = self.widen()
        self.per_test()
        decisions = tuple(self.findings.decisions)
        impacts, left = self.findings.impacts(), tuple(self.not_exercised)
        return Discovery(self.inventory, impacts, decisions, tuple(self.warnings), widened, left)

    def sort(self, file: FileChange, python: list[PythonChange]) -> None:
        """Handles one changed path, or puts it aside to be compared with the other Python files."""
        kind = kind_of(file.path)
        findings = self.findings
        ours = kind in _PYTHON or kind is FileKind.TEST_DATA
        if kind in _PYTHON and file.binary and not file.submodule and file.old is None and file.new is None:
            file = self.whole(file)
        if file.submodule:
            self.unmapped(
                file, "submodule-bump", "a submodule moves to another commit: what that changes is not in this diff"
            )
        elif file.status == "modified" and file.old == file.new is not None and not (ours and self.linked(file)):
            findings.decide(file.path, "no-impact", "cosmetic", "only its mode differs")
        elif kind is FileKind.DOCS:
            findings.decide(file.path, "no-impact", "cannot-matter", "documentation: no test reads it")
        elif kind is FileKind.TOOLING:
            findings.decide(file.path, "no-impact", "cannot-matter", "tooling of upstream's own CI: no test runs it")
        elif file.path in self.unreadable:
            self.mattering = True
            why = unreadable.reach(self.unreadable[file.path], findings)
            self.not_exercised.append(NotExercised(file.path, why))
        elif ours and self.linked(file):
            self.link(file, kind, python)
        elif file.binary and kind not in (FileKind.TEST, FileKind.TEST_DATA):
            self.unmapped(file, "binary-change", "a binary file: nothing can be read out of it")
        elif kind in _PYTHON:
            self.mattering = True
            shared = kind in (FileKind.TEST, FileKind.TESTLIB)
            limit = MANY_TEST_FILES if shared else MANY_MODULES
            if sum((one.kind in (FileKind.TEST, FileKind.TESTLIB)) is shared for one in python) >= limit:
                why = f"more than {limit} {'test files' if shared else 'modules'} change: not compared one by one"
                self.unmapped(file, "too-many-changes", why)
            else:
                self.python(file, kind, python)
        elif kind is FileKind.TEST_DATA:
            self.test_data(file)
        elif kind in (FileKind.KERNEL, FileKind.OTHER_KERNEL):
            if not code_differs(file.old, file.new):
                findings.decide(file.path, "no-impact", "cosmetic", "only blank lines or comments differ")
                return
            self.mattering = True
            self.analysed.append((file, kind))
            kernels.kernel(file, findings, self.index, other_backend=kind is FileKind.OTHER_KERNEL)
        elif kind is FileKind.NATIVE_YAML:
            self.mattering = True
            self.analysed.append((file, kind))
            native_yaml.native_yaml(file, findings, self.index)
        else:
            self.mattering = True
            self.unmapped(file, "unmapped-change", "no rule says which tests this file can reach")

    def python(self, file: FileChange, kind: FileKind, python: list[PythonChange]) -> None:
        new = self.inventory.files.get(file.path) if file.new is not None else None
        change = compare(
            file,
            kind,
            self.side(self.base, file.old_path or file.path, file.old),
            new or self.side(self.head, file.path, file.new),
        )
        if change.problem and kind is FileKind.TEST:
            # head can be read, or the file would be among the unreadable: every test of it counts as new
            python.append(compare(file, kind, EMPTY, change.new))
        elif change.problem:
            why = f"it cannot be read as Python ({change.problem})"
            self.unmapped(file, "unparsable-file", why)
        elif change.cosmetic and not self.linked(file):
            why = "only comments, formatting or docstrings differ"
            self.findings.decide(file.path, "no-impact", "cosmetic", why)
        else:
            python.append(change)

    def whole(self, file: FileChange) -> FileChange:
        """A large file, of which the change carries no contents, with what the trees say (the parser has a limit of its
        own, and says so)."""
        old_path = file.old_path or file.path
        old = self.base.read(old_path) if file.status != "added" and old_path in self.base.paths() else None
        new = self.head.read(file.path) if file.status != "removed" and file.path in self.head.paths() else None
        known = [side for side in (old, new) if side is not None]
        return replace(file, old=old, new=new, binary=any(b"\0" in side for side in known)) if known else file

    def linked(self, file: FileChange) -> bool:
        """Whether a side is a symbolic link: the change speaks of it, and its tree has no such file."""
        old_path = file.old_path or file.path
        return (file.status != "removed" and file.path not in self.head.paths()) or (
            file.status != "added" and old_path not in self.base.paths()
        )

    def link(self, file: FileChange, kind: FileKind, python: list[PythonChange]) -> None:
        """A link that comes, goes, or takes a file's place. Workers get regular files only, so what it points at is in
        no run; what a file held whose place it takes is compared with nothing."""
        self.mattering = True
        why = "it is a symbolic link in the base or the head: workers get regular files only, so no run shows it"
        self.not_exercised.append(NotExercised(file.path, why))
        if kind is FileKind.TEST:
            self.findings.decide(file.path, "not-exercised", "not-a-file", why)
            self.python(file, kind, python)
        elif kind is FileKind.TEST_DATA:
            self.test_data(file)
        else:
            self.unmapped(file, "not-a-file", why)

    def side(self, tree: Tree, path: str, source: bytes | None) -> FileRecord:
        """The record of one side, by the tree's own content id: the trunk's files are in the cache already."""
        content = tree.paths().get(path)
        return EMPTY if source is None or content is None else record_of(source, content, self.cache)

    def python_files(self, python: list[PythonChange]) -> None:
        findings = self.findings
        tests = [change for change in python if change.kind is FileKind.TEST]
        shared = [change for change in python if change.kind in (FileKind.TEST, FileKind.TESTLIB)]
        renamed = edited_tests.renamed_tests(tests)
        for change in tests:
            edited_tests.test_file(change, renamed, findings)
        batched = sum(len(change.changed) for change in shared) > MANY_SYMBOLS
        helpers.helpers(shared, findings, Spreader(self.inventory), batched=batched)
        for change in python:
            self.analysed.append((change.file, change.kind))
            if change.kind is FileKind.TESTLIB:
                opinfo.opinfo_entries(change, findings, self.index)
            elif change.kind in (FileKind.REFERENCE, FileKind.DECOMPOSITION):
                references.python_ops(change, findings, self.index)
            elif change.kind is FileKind.TORCH:
                torch_modules.torch_module(change, findings, self.index, self.head, self.cache)

        areas.areas([change.path for change in python if change.kind is FileKind.TORCH], findings)

    def test_data(self, file: FileChange) -> None:
        """A file that tests read: those of the files that name it, else those beside it."""
        name = file.path.rpartition("/")[2].encode()
        naming = [path for path in self.inventory.files if path.startswith(TESTS) and name in self.text(path)]
        folder = file.path.rpartition("/")[0] + "/"
        beside = [path for path in self.inventory.files if path.startswith(folder) and folder != TESTS]
        self.mattering = True
        if not naming and not beside:
            self.unmapped(file, "unmapped-change", "no test file names it, and no test lies beside it")
            return
        self.analysed.append((file, FileKind.TEST_DATA))
        why = "its file names" if naming else "its file lies beside"
        for path in naming or beside:
            for test, _, found in self.inventory.tests(path):
                fact = Evidence("data", f"{why} {file.path} ({path}:{found.line})", file.path)
                self.findings.add(test, "test-data", fact, 1.0 if naming else 0.5)

    def text(self, path: str) -> bytes:
        """A file of head; nothing where it is listed and its content is not there (the inventory warns about it)."""
        try:
            return self.head.read(path)
        except (KeyError, OSError):
            return b""

    def unmapped(self, file: FileChange, code: str, why: str) -> None:
        self.mattering = True
        self.findings.not_mapped(file.path, why)
        self.findings.decide(file.path, "widened", code, why)

    # ---------------------------------------------------------------------------------------------------- conclusions

    def conclude(self) -> None:
        """One decision a changed path: what it reaches, or that nothing could be said about it."""
        findings = self.findings
        reached = findings.reached_by_path()
        unmapped = {fact.path for fact in findings.unmapped}
        decided = {decision.subject for decision in findings.decisions}
        for file, kind in self.analysed:
            count = reached.get(file.path, 0)
            if file.path in decided:
                continue
            if file.path in unmapped:
                facts = [fact for fact in findings.unmapped if fact.path == file.path]
                text = f"reaches {_tests(count)}, and more that no rule can name: {facts[0].detail}"
                findings.decide(file.path, "widened", "unmapped-change", text, *facts[:10])
            elif count:
                findings.decide(file.path, "mapped", "mapped", f"reaches {_tests(count)}")
            elif kind is FileKind.TEST:
                findings.decide(
                    file.path, "no-impact", "no-test-reached", "no test of this tree reaches what changed here"
                )
            else:
                findings.not_mapped(file.path, "no test was found to reach this change")
                text = "no test was found to reach this change"
                findings.decide(file.path, "widened", "unmapped-change", text)

    def widen(self) -> bool:
        """Adds every device-generic test (every test, where there are none) when something could not be mapped."""
        facts = self.findings.unmapped
        if not facts:
            return False
        everything = list(self.inventory.tests())
        generic = [(test, found) for test, cls, found in everything if cls.instantiated]
        chosen = generic or [(test, found) for test, _, found in everything]
        kind = "device-generic tests" if generic else "tests"
        paths = list(dict.fromkeys(fact.path or "" for fact in facts))
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        for test, _ in chosen:
            self.findings.add(test, "unmapped-change", Evidence("unmapped", f"{facts[0].detail}", facts[0].path))
        text = f"{shown}: no rule can name every test these reach, so all {len(chosen)} {kind} are in the selection"
        self.findings.decide("change", "widened", "unmapped-change", text, *facts[:20])
        return True

    def per_test(self) -> None:
        """A decision for each test that more than the widening has put in."""
        for impact in self.findings.impacts():
            if impact.codes != ("unmapped-change",):
                first = impact.evidence[0]
                reason = first.detail if first.detail.startswith(impact.test.cls) else f"the test {first.detail}"
                self.findings.decisions.append(
                    Decision(
                        Stage.DISCOVER,
                        str(impact.test),
                        "impacted",
                        impact.codes[0],
                        reason,
                        impact.evidence,
                        impact.weight,
                    )
                )


def _tests(count: int) -> str:
    return f"{count} test" + ("" if count == 1 else "s")
