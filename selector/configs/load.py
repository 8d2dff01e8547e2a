"""Loading configs: from texts to :class:`ReuseConfigs`, with every problem at its file, line and column."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from yaml.nodes import MappingNode, Node

from selector.configs.capability import raise_first, read_capability
from selector.configs.check import check_conflicts, check_until
from selector.configs.merge import merge_globals
from selector.configs.model import ConfigProblem, ConfigSource
from selector.configs.nodes import Document, Fields, kind
from selector.configs.rules import ReuseConfigs
from selector.configs.schema import place, read_files, read_globals
from selector.configs.tree import Globals, Item, Place, Suite
from selector.configs.upstream import Upstream, check_reasons, check_upstream

SUITE_KEYS = ("files", "labels", "global", "extends", "allow_empty")
_SHEET = ("capability", "global", "extends")


def load_configs(sources: Sequence[ConfigSource], *, compat: bool = False) -> ReuseConfigs:
    """Reads configs and the sheets they extend (give both; a sheet alone covers nothing).

    ``compat`` takes what the older tool took without a word (unknown keys, a glob for a regex, two entries that
    disagree) and says so in ``warnings``. Raises :class:`selector.errors.ConfigError` at the first error.
    """
    suites, problems = _Loader(sources, compat).load()
    raise_first(problems)
    return ReuseConfigs(suites, [p for p in problems if p.level == "warning"])


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


class _Loader:
    """One loading of a set of texts."""

    def __init__(self, sources: Sequence[ConfigSource], compat: bool) -> None:
        self.compat = compat
        self.docs: dict[str, Document] = {}
        self.extra: list[ConfigProblem] = []
        self.globals: dict[str, Globals] = {}
        for source in sources:
            name = posixpath.normpath(source.name)
            if name in self.docs:
                problem = "this file is given twice"
                self.extra.append(ConfigProblem(name, 1, 1, "error", "config-duplicate-file", problem))
                continue
            self.docs[name] = Document(source.name, source.text, compat=compat)

    def load(self) -> tuple[list[Suite], list[ConfigProblem]]:
        suites = []
        for name, doc in self.docs.items():
            suite = self._suite(name, doc)
            if suite is not None:
                suites.append(suite)
        problems = self.extra + [p for doc in self.docs.values() for p in doc.problems]
        return suites, problems + check_conflicts(suites, self.compat)

    def _body(self, doc: Document) -> tuple[bool, Fields]:
        """(whether it is a suite, its fields); a suite's are those below ``test_suite_config``."""
        root = doc.root
        if root is None:
            return False, {}
        keys = {str(key.value) for key, _ in root.value} if isinstance(root, MappingNode) else set()
        if "test_suite_config" in keys:
            outer = doc.fields(root, "the file", ("test_suite_config",)) or {}
            node = outer["test_suite_config"][1]
            found = doc.fields(node, "test_suite_config", SUITE_KEYS)
            if found is not None and "files" not in found:
                doc.problem(node, "config-missing-key", "test_suite_config has no 'files'", "files: [] covers nothing")
            return found is not None, found or {}
        if keys & {"capability", "global"}:
            return False, doc.fields(root, "the sheet", _SHEET) or {}
        if not isinstance(root, MappingNode):
            doc.problem(root, "config-type", f"the file must be a map with 'test_suite_config', not {kind(root)}")
        elif "cases" in keys:
            hint = "inputs of a model's ops belong to edits.ops.include of a test entry"
            message = "a list of op cases, without 'test_suite_config': it says nothing about upstream's tests"
            doc.problem(root, "config-not-a-suite", message, hint, lenient=True)
        else:
            hint = "a config starts with 'test_suite_config:', a sheet to extend with 'capability:' or 'global:'"
            doc.problem(root, "config-missing-key", "the file has no 'test_suite_config'", hint)
        return False, {}

    def _suite(self, name: str, doc: Document) -> Suite | None:
        is_suite, found = self._body(doc)
        merged = self._globals(name, doc, found, ())
        if not is_suite:
            return None
        return Suite(
            source=doc.name,
            files=read_files(doc, found["files"][1]) if "files" in found else (),
            globals=merged,
            labels=doc.each(found, "labels", lambda n: doc.texts(n, "labels")) or (),
            allow_empty=doc.each(found, "allow_empty", lambda n: doc.flag(n, "allow_empty")) or False,
        )

    def _globals(self, name: str, doc: Document, found: Fields, via: tuple[str, ...]) -> Globals:
        """A file's ``global`` with that of all it extends."""
        if name in self.globals:
            return self.globals[name]
        own = read_globals(doc, found["global"][1]) if "global" in found else Globals()
        if "capability" in found:
            own = self._with_capability(doc, found["capability"][1], own)

        def complain(second: Place, first: Place, what: str) -> None:
            message = f"{what} is given here and in {first.source}:{first.line}"
            place = (second.source, second.line, second.column)
            self.extra.append(ConfigProblem(*place, "error", "config-given-twice", message, "take one of them out"))

        base = Globals()
        for node in self._targets(doc, found):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(doc.name), str(node.value)))
            if target == name or target in via:
                way = " -> ".join((*via, name, target))
                doc.problem(node, "config-extends-cycle", f"extends goes round in a circle: {way}")
                continue
            other = self.docs.get(target)
            if other is None:
                hint = f"give {target} along with this file"
                doc.problem(node, "config-extends-missing", f"extends {node.value!r}, which is not there", hint)
                continue
            base = merge_globals(base, self._globals(target, other, self._body(other)[1], (*via, name)), complain)
        self.globals[name] = merge_globals(base, own, complain)
        return self.globals[name]

    def _targets(self, doc: Document, found: Fields) -> list[Node]:
        if "extends" not in found:
            return []
        node = found["extends"][1]
        nodes = [node] if node.tag == "tag:yaml.org,2002:str" else doc.items(node, "extends")
        return [n for n in nodes if doc.text(n, "extends") is not None]

    def _with_capability(self, doc: Document, node: Node, own: Globals) -> Globals:
        """A capability's dtypes filter like ``supported_dtypes``. Its ops do not: they are aten's names, and the
        device itself refuses the others; ``supported_ops`` names OpInfos."""
        capability = read_capability(doc, node)
        if capability is None or own.dtypes is not None:
            return own
        at = place(doc, node)
        items = tuple(Item(name, at) for name in sorted(capability.dtypes))
        return replace(own, dtypes=items or None)
