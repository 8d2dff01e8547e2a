"""Stage 1: which tests does a change reach? Fails open: what cannot be mapped widens the selection and says so."""

from __future__ import annotations

from dataclasses import dataclass, replace

from selector.discover import conclusions, unreadable
from selector.discover.cache import InventoryCache
from selector.discover.changes import PythonChange, compare
from selector.discover.dispatch import Registrations
from selector.discover.filekinds import FileKind, is_native, kind_of
from selector.discover.findings import Findings, Impact
from selector.discover.imports import TESTS
from selector.discover.inventory import Inventory, record_of, take
from selector.discover.measured import MeasuredLinks, PastFailure
from selector.discover.native import code_differs
from selector.discover.opindex import OpIndex
from selector.discover.records import EMPTY, FileRecord
from selector.discover.rules import (
    areas,
    codegen,
    edited_tests,
    helpers,
    kernels,
    measured_links,
    native_code,
    native_yaml,
    opinfo,
    past_failures,
    references,
    siblings,
    text,
    torch_modules,
    traced,
)
from selector.discover.sources import Sources
from selector.discover.spread import Spreader
from selector.discover.traced import Trace
from selector.discover.watch import Watch
from selector.model import Change, Decision, Evidence, FileChange, NotExercised, OpDatabase, TestId, Tree

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
class Hints:
    """What others measured. ``links``: which test files run which sources; ``failures``: tests that merged changes
    broke, by the path that had changed; ``smoke``: the tests to run where a change can reach none (none given: chosen
    from the tree); ``trace``: which tests were seen to run which functions and operators."""

    links: MeasuredLinks | None = None
    failures: tuple[PastFailure, ...] = ()
    smoke: tuple[TestId, ...] = ()
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class Discovery:
    """What stage 1 found. ``widened``: something could not be mapped, so every device-generic test is impacted.

    ``inventory`` is head's, with the base's record of each changed test file that head cannot read: every impacted test
    is in it. ``not_exercised``: changed paths about which no run of the impacted tests can tell everything.
    ``native_files``: changed paths that take effect in a build only; ``native_impacted``: the tests that they reach,
    those of the widening left out. ``watch``: what rules on trial found besides.
    """

    inventory: Inventory
    impacts: tuple[Impact, ...]
    decisions: tuple[Decision, ...]
    warnings: tuple[str, ...]
    widened: bool
    not_exercised: tuple[NotExercised, ...] = ()
    native_files: int = 0
    native_impacted: int = 0
    watch: Watch | None = None


def discover(
    base: Tree,
    head: Tree,
    change: Change,
    opdb: OpDatabase | None,
    cache: InventoryCache | None = None,
    inventory: Inventory | None = None,
    hints: Hints | None = None,
) -> Discovery:
    """The tests of ``head`` that ``change`` reaches, and why.

    ``inventory`` is that of ``head`` where it is known already; ``hints``: what is known from
    elsewhere. Raises TreeError when head has no tests.
    """
    found = inventory if inventory is not None else take(head, cache)
    run = _Run(base, head, change, found, OpIndex(opdb), cache, hints or Hints())
    return run.discovery()


class _Run:
    def __init__(
        self,
        base: Tree,
        head: Tree,
        change: Change,
        inventory: Inventory,
        index: OpIndex,
        cache: InventoryCache | None,
        hints: Hints,
    ) -> None:
        self.base, self.head, self.change = base, head, change
        self.index, self.cache = index, cache
        self.sources, self.registrations = Sources(head, cache), Registrations(head)
        self.hints = hints
        self.warnings = [
            f"{path} cannot be read ({problem}): its tests are unknown"
            for path, problem in inventory.problems()
            if path.startswith(TESTS)
        ]
        self.inventory, self.unreadable = unreadable.find(base, change.files, inventory, cache)
        self.findings = Findings(self.inventory)
        self.watch = Watch(self.findings)
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
            with self.watch.ask(text) as found:
                text.text(self.change, found, self.index)
            with self.watch.ask(past_failures) as found:
                past_failures.past_failures(self.change, self.hints.failures, found)
            with self.watch.ask(measured_links) as found:
                for file, _ in self.analysed if self.hints.links is not None else ():
                    measured_links.measured(file, self.hints.links, found)  # type: ignore[arg-type]
        if self.hints.trace is not None:
            with self.watch.ask(traced) as found:
                seen = self.hints.trace
                traced.traced(python, self.analysed, seen, found, self.index, self.registrations)
        conclusions.conclude(self.findings, self.analysed)
        widened = conclusions.widen(self.findings)
        conclusions.smoke_set(self.findings, self.change, self.hints.smoke)
        conclusions.per_test(self.findings)
        decisions = tuple(self.findings.decisions)
        impacts, left = self.findings.impacts(), tuple(self.not_exercised)
        native = {file.path for file in self.change.files if is_native(file.path)}
        by_native = sum(1 for one in impacts if any(f.path in native and f.kind != "unmapped" for f in one.evidence))
        warnings = tuple(self.warnings)
        counts = len(native), by_native
        return Discovery(self.inventory, impacts, decisions, warnings, widened, left, *counts, self.watch)

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
        elif kind in (FileKind.KERNEL, FileKind.OTHER_KERNEL) and not native_code.is_header(file.path, kind):
            if not code_differs(file.old, file.new):
                findings.decide(file.path, "no-impact", "cosmetic", "only blank lines or comments differ")
                return
            self.mattering = True
            self.analysed.append((file, kind))
            other = kind is FileKind.OTHER_KERNEL
            with self.watch.ask(kernels) as found:
                kernels.kernel(file, found, self.index, self.registrations, other_backend=other)
        elif kind in (FileKind.NATIVE_CODE, FileKind.CODEGEN, FileKind.KERNEL):
            if kind is not FileKind.CODEGEN and not code_differs(file.old, file.new):
                findings.decide(file.path, "no-impact", "cosmetic", "only blank lines or comments differ")
                return
            self.mattering = True
            self.analysed.append((file, kind))
            if kind is FileKind.CODEGEN:
                with self.watch.ask(codegen) as found:
                    codegen.codegen(file, found, self.index)
            else:
                with self.watch.ask(native_code) as found:
                    native_code.native_code(file, found, self.index, self.head, self.sources, self.registrations)
        elif kind is FileKind.NATIVE_YAML:
            self.mattering = True
            self.analysed.append((file, kind))
            with self.watch.ask(native_yaml) as found:
                native_yaml.native_yaml(file, found, self.index)
        else:
            self.mattering = True
            self.unmapped(file, "unmapped-change", "no rule says which tests this file can reach")

    def python(self, file: FileChange, kind: FileKind, python: list[PythonChange]) -> None:
        if file.binary and file.status == "modified" and file.old is None and file.new is None:
            # a test file of which only that it differs is known: all of its tests count as edited
            record = self.inventory.files.get(file.path, EMPTY)
            self.not_exercised.append(NotExercised(file.path, "what differs in it is not known"))
            python.append(compare(file, kind, EMPTY, record))
            return
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
        if file.status == "modified" and old == new:
            return file  # a change that the trees do not hold: nothing is known of it
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
        tests = [change for change in python if change.kind is FileKind.TEST]
        shared = [change for change in python if change.kind in (FileKind.TEST, FileKind.TESTLIB)]
        renamed = edited_tests.renamed_tests(tests)
        with self.watch.ask(edited_tests) as found:
            for change in tests:
                edited_tests.test_file(change, renamed, found)
        with self.watch.ask(siblings) as found:
            siblings.siblings(tests, found)
        batched = sum(len(change.changed) for change in shared) > MANY_SYMBOLS
        with self.watch.ask(helpers) as found:
            helpers.helpers(shared, found, Spreader(self.inventory), batched=batched)
        for change in python:
            self.analysed.append((change.file, change.kind))
            if change.kind is FileKind.TESTLIB:
                with self.watch.ask(opinfo) as found:
                    opinfo.opinfo_entries(change, found, self.index)
            elif change.kind in (FileKind.REFERENCE, FileKind.DECOMPOSITION):
                with self.watch.ask(references) as found:
                    references.python_ops(change, found, self.index)
            elif change.kind is FileKind.TORCH:
                with self.watch.ask(torch_modules) as found:
                    torch_modules.torch_module(change, found, self.index, self.head, self.cache, self.sources)
        with self.watch.ask(areas) as found:
            areas.areas([change.path for change in python if change.kind is FileKind.TORCH], found)

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
