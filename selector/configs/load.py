"""Loading configs: from texts to :class:`ReuseConfigs`, with every problem at its file, line and column."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

from selector.configs.blocks import read
from selector.configs.build import file_entry, globals_of
from selector.configs.capability import CapabilityBlock, raise_first
from selector.configs.check import check_conflicts, check_until, problem_at
from selector.configs.merge import merge_globals
from selector.configs.model import ConfigProblem, ConfigSource, Place
from selector.configs.nodes import Document, kind
from selector.configs.rules import ReuseConfigs
from selector.configs.schema import ConfigFile, SheetFile, SuiteBlock
from selector.configs.tree import Globals, Item, Suite
from selector.configs.upstream import Upstream, check_reasons, check_upstream
from selector.configs.values import Map, Seq


def load_configs(sources: Sequence[ConfigSource], *, compat: bool = False, platform: str | None = None) -> ReuseConfigs:
    """Reads configs and the sheets they extend (give both; a sheet alone covers nothing).

    ``compat`` takes what the older tool took without a word (unknown keys, a glob for a regex, two entries that
    disagree) and says so in ``warnings``. ``platform``: the architecture of the machine that runs the tests, as
    Python's ``platform.machine()`` says it; None: entries for any architecture count.

    Raises :class:`selector.errors.ConfigError` at the first error.
    """
    suites, problems = _Loader(sources, compat).load()
    raise_first(problems)
    return ReuseConfigs(suites, [p for p in problems if p.level == "warning"], platform)


def lint(
    sources: Sequence[ConfigSource],
    *,
    compat: bool = False,
    today: date | None = None,
    upstream: Upstream | None = None,
    issues: Mapping[str, str] | None = None,
) -> list[ConfigProblem]:
    """Every problem of the configs, in order of place.

    With ``today``, entries whose ``until`` has passed; with ``upstream``, what names nothing there; with ``issues``
    (issue -> state), entries whose issue is closed.
    """
    suites, problems = _Loader(sources, compat).load()
    if today is not None:
        problems = problems + check_until(suites, today)
    if upstream is not None:
        problems = problems + check_upstream(suites, upstream, compat=compat)
    if issues or upstream is not None:
        problems = problems + check_reasons(
            suites, version=upstream.version if upstream is not None else "", issues=issues or {}
        )
    return sorted(problems, key=lambda p: (p.source, p.line, p.column, p.code))


def _device_of(doc: Document) -> Iterator[str]:
    """What a sheet calls its device, before anything is known of the sheet."""
    sheet = doc.root.get("capability") if isinstance(doc.root, Map) else None
    device = sheet.get("device") if isinstance(sheet, Map) else None
    if isinstance(device, str) and device.isidentifier():
        yield str(device)


class _Loader:
    """One loading of a set of texts."""

    def __init__(self, sources: Sequence[ConfigSource], compat: bool) -> None:
        self.compat = compat
        self.docs: dict[str, Document] = {}
        self.extra: list[ConfigProblem] = []
        self.globals: dict[str, Globals] = {}
        self.bodies: dict[str, SuiteBlock | SheetFile | None] = {}
        for source in sources:
            name = posixpath.normpath(source.name)
            if name in self.docs:
                problem = "this file is given twice"
                self.extra.append(ConfigProblem(name, 1, 1, "error", "config-duplicate-file", problem))
                continue
            self.docs[name] = Document(source.name, source.text, compat=compat)

        devices = tuple(dict.fromkeys(name for doc in self.docs.values() for name in _device_of(doc)))
        for doc in self.docs.values():
            doc.devices = devices

    def load(self) -> tuple[list[Suite], list[ConfigProblem]]:
        suites = []
        for name, doc in self.docs.items():
            suite = self._suite(name, doc)
            if suite is not None:
                suites.append(suite)
        problems = self.extra + [p for doc in self.docs.values() for p in doc.problems]
        return suites, problems + check_conflicts(suites, self.compat)

    def _body(self, doc: Document) -> SuiteBlock | SheetFile | None:
        """What the file says; each file is read once, whoever extends it."""
        if doc.name not in self.bodies:
            self.bodies[doc.name] = self._read(doc)
        return self.bodies[doc.name]

    @staticmethod
    def _read(doc: Document) -> SuiteBlock | SheetFile | None:
        root = doc.root
        if doc.node is None:
            return None
        if not isinstance(root, Map):
            message = f"the file must be a map with 'test_suite_config', not {kind(doc.node)}"
            doc.problem(doc.place(doc.node), "config-type", message)
            return None
        if "test_suite_config" in root:
            file = read(doc, ConfigFile, root)
            return file.test_suite_config if file is not None else None
        if {"capability", "global"} & set(root):
            return read(doc, SheetFile, root)
        if "cases" in root:
            hint = "inputs of a model's ops belong to edits.ops.include of a test entry"
            message = "a list of op cases, without 'test_suite_config': it says nothing about upstream's tests"
            doc.problem(root.place, "config-not-a-suite", message, hint, lenient=True)
        else:
            hint = "a config starts with 'test_suite_config:', a sheet to extend with 'capability:' or 'global:'"
            doc.problem(root.place, "config-missing-key", "the file has no 'test_suite_config'", hint)
        return None

    def _suite(self, name: str, doc: Document) -> Suite | None:
        body = self._body(doc)
        merged = self._globals(name, doc, body, ())
        if not isinstance(body, SuiteBlock):
            return None
        return Suite(
            source=doc.name,
            files=tuple(file_entry(file) for file in body.files),
            globals=merged,
            labels=tuple(body.labels),
            allow_empty=body.allow_empty,
        )

    def _globals(self, name: str, doc: Document, body: SuiteBlock | SheetFile | None, via: tuple[str, ...]) -> Globals:
        """A file's ``global`` with that of all it extends."""
        if name in self.globals:
            return self.globals[name]
        own = globals_of(doc, body.global_) if body is not None else Globals()
        if isinstance(body, SheetFile) and body.capability is not None:
            own = self._with_capability(body.capability, own)

        def complain(second: Place, first: Place, what: str) -> None:
            message = f"{what} is given here and in {first.source}:{first.line}"
            self.extra.append(problem_at(second, "error", "config-given-twice", message, "take one of them out"))

        base = Globals()
        for index, word in enumerate(body.extends if body is not None else ()):
            assert body is not None
            at = self._place_of_target(doc, body, index)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(doc.name), word))
            if target == name or target in via:
                way = " -> ".join((*via, name, target))
                doc.problem(at, "config-extends-cycle", f"extends goes round in a circle: {way}")
                continue
            other = self.docs.get(target)
            if other is None:
                hint = f"give {target} along with this file"
                doc.problem(at, "config-extends-missing", f"extends {word!r}, which is not there", hint)
                continue
            base = merge_globals(base, self._globals(target, other, self._body(other), (*via, name)), complain)
        self.globals[name] = merge_globals(base, own, complain)
        return self.globals[name]

    @staticmethod
    def _place_of_target(doc: Document, body: SuiteBlock | SheetFile, index: int) -> Place:
        written = body.written["extends"]
        node = written.nodes[index] if isinstance(written, Seq) else body.written.nodes["extends"][1]
        return doc.place(node, body.place_of("extends").path)

    @staticmethod
    def _with_capability(block: CapabilityBlock, own: Globals) -> Globals:
        """A capability's dtypes filter like ``supported_dtypes``. Its ops do not: they are aten's names, and the
        device itself refuses the others; ``supported_ops`` names OpInfos."""
        if own.dtypes is not None:
            return own
        items = tuple(Item(name, block.place) for name in sorted(set(block.dtypes)))
        return replace(own, dtypes=items or None)
