"""What the inventory knows about one source file. Free of paths, so that it can be cached by content.

All records are named tuples of strings, numbers and tuples: they go to JSON and back without a schema of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

# Part of every cache key: change it when a record or the hash changes its meaning. Syntax trees differ by interpreter.
FORMAT = f"inv6-py{sys.version_info[0]}.{sys.version_info[1]}"

MAKES = "instantiate_device_type_tests"
"""what upstream calls to make a test class for each device type"""
MODULE = "<module>"
"""the symbol of a file's loose statements (loops that make tests, calls); every test of the file reaches it"""
UNKNOWN = "?"
"""a device, dtype or op that only running the code could tell"""

SymbolKind = Literal["function", "class", "method", "value", "import", "entry", "module"]


class Decorator(NamedTuple):
    """``@name(args)``: ``name`` is the last part of a dotted name; ``args`` the literal or dotted arguments in order,
    keyword ones as ``key=value``, others as ``?``; a skip's condition is ``conditions.as_text`` of it, and a decorator
    that the module makes of a skip is that skip; ``names`` every name in them (``TEST_CUDA`` in a skip's condition).
    """

    name: str
    line: int
    args: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class DbUse(NamedTuple):
    """The list that ``@ops(...)`` or ``@modules(...)`` draws from.

    ``lists``: names of the databases in the expression (``op_db``, ``unary_ufuncs``); ``include``: the only names that
    pass the literal filters (None: no such filter); ``exclude``: names that do not; ``sure``: every other part of the
    expression was understood, so that a name outside of ``lists`` is not drawn; ``dtypes``: allowed dtypes (None: all
    supported ones); ``once``: one dtype (or none) an op.
    """

    lists: tuple[str, ...]
    include: tuple[str, ...] | None
    exclude: tuple[str, ...]
    sure: bool
    dtypes: tuple[str, ...] | None
    once: bool
    line: int


class MethodRecord(NamedTuple):
    """A test method as written. ``dtypes``: those of ``@dtypes``, if given; ``factor``: parametrisations."""

    name: str
    line: int
    args: tuple[str, ...]
    decorators: tuple[Decorator, ...]
    ops: DbUse | None
    modules: DbUse | None
    dtypes: tuple[str, ...] | None
    factor: int


class Instantiation(NamedTuple):
    """A call of ``instantiate_device_type_tests``; None: no limit; ``?`` in a tuple: a limit that is not literal."""

    line: int
    only_for: tuple[str, ...] | None
    except_for: tuple[str, ...] | None


class ClassRecord(NamedTuple):
    """A class of a module, of another class (``Outer.Inner``) or of a function that makes tests
    (``make.<locals>.TestX``). ``bases`` are dotted names; ``hardware`` is the ``hw_classification`` it declares;
    ``hides``: inherited tests that it sets to something else (``test_x = None``)."""

    name: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[Decorator, ...]
    tests: tuple[MethodRecord, ...]
    instantiated: tuple[Instantiation, ...]
    parametrized: bool
    hardware: str
    hides: tuple[str, ...] = ()

    @property
    def nested(self) -> bool:
        """Whether it lies in another class or in a function: no runner collects it by itself."""
        return "." in self.name


class Symbol(NamedTuple):
    """A piece of a module with a hash of its own.

    ``key``: ``name``, ``Class``, ``Class.method`` or ``list[entry]``; a class's own symbol holds its frame (bases,
    decorators, attributes, ``setUp``). ``refs``: module names it mentions; ``selfs``: attributes of ``self``;
    ``attrs``: attributes of anything else; ``literals``: devices named by strings. ``soft``: for an entry of an op
    database the hash with its skips and decorators, which ``own`` leaves out. ``shell``: the hash of its decorators
    alone, ``body`` that of everything else ('' for both: it has no decorators, and ``own`` is its body).
    """

    key: str
    kind: SymbolKind
    line: int
    end: int
    own: str
    refs: tuple[str, ...]
    selfs: tuple[str, ...]
    attrs: tuple[str, ...]
    literals: tuple[str, ...]
    soft: str = ""
    shell: str = ""
    body: str = ""


class Import(NamedTuple):
    """``local`` is bound to ``name`` of ``module`` (name "": to the module itself; "*": everything it has)."""

    local: str
    module: str
    name: str
    level: int
    line: int


class FileRecord(NamedTuple):
    """Everything about one file. ``problem``: why it could not be read (then all else is empty)."""

    problem: str
    imports: tuple[Import, ...]
    symbols: dict[str, Symbol]
    classes: dict[str, ClassRecord]
    mentions: frozenset[str] = frozenset()
    """every name, attribute and imported module of the file: a quick test before its symbols are looked at"""
    programs: Mapping[str, list[Any]] = MappingProxyType({})
    """what makes tests when it runs: a function's program by its name, the module's own by ``""``; see ``programs``"""
    tests: int = 0
    """test methods written in it, those of classes inside of classes and functions included"""


EMPTY = FileRecord("", (), {}, {})


def unreadable(problem: str) -> FileRecord:
    return FileRecord(problem, (), {}, {})


def to_bytes(record: FileRecord) -> bytes:
    """JSON, compact."""
    rows = [
        record.problem,
        record.imports,
        list(record.symbols.values()),
        list(record.classes.values()),
        dict(record.programs),
        record.tests,
    ]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def from_bytes(data: bytes) -> FileRecord:
    """The reverse of ``to_bytes``. Raises ValueError for anything else (a damaged cache entry)."""
    try:
        problem, imports, symbols, classes, programs, tests = json.loads(data.decode("utf-8", "surrogatepass"))
        table = {row[0]: _symbol(row) for row in symbols}
        bound = tuple(Import(*row) for row in imports)
        made = {row[0]: _class(row) for row in classes}
        return FileRecord(problem, bound, table, made, mentions(table, bound), dict(programs), tests)
    except (TypeError, LookupError, AttributeError, UnicodeDecodeError) as exc:
        raise ValueError(f"not an inventory record: {exc}") from exc


def mentions(symbols: dict[str, Symbol], imports: tuple[Import, ...]) -> frozenset[str]:
    found: set[str] = set()
    for s in symbols.values():
        found.update(s.refs, s.selfs, s.attrs)
    for i in imports:
        found.add(i.name)
        found.update(i.module.split("."))
    return frozenset(found)


def _symbol(row: list[Any]) -> Symbol:
    key, kind, line, end, own, refs, selfs, attrs, literals, soft, shell, body = row
    return Symbol(
        key, kind, line, end, own, tuple(refs), tuple(selfs), tuple(attrs), tuple(literals), soft, shell, body
    )


def _class(row: list[Any]) -> ClassRecord:
    name, line, bases, decorators, tests, instantiated, parametrized, hardware, hides = row
    return ClassRecord(
        name,
        line,
        tuple(bases),
        tuple(_decorator(d) for d in decorators),
        tuple(_test(t) for t in tests),
        tuple(Instantiation(i[0], _optional(i[1]), _optional(i[2])) for i in instantiated),
        parametrized,
        hardware,
        tuple(hides),
    )


def _test(row: list[Any]) -> MethodRecord:
    name, line, args, decorators, ops, modules, dtypes, factor = row
    return MethodRecord(
        name,
        line,
        tuple(args),
        tuple(_decorator(d) for d in decorators),
        _use(ops),
        _use(modules),
        _optional(dtypes),
        factor,
    )


def _decorator(row: list[Any]) -> Decorator:
    return Decorator(row[0], row[1], tuple(row[2]), tuple(row[3]))


def _use(row: list[Any] | None) -> DbUse | None:
    if row is None:
        return None
    lists, include, exclude, sure, dtypes, once, line = row
    return DbUse(tuple(lists), _optional(include), tuple(exclude), sure, _optional(dtypes), once, line)


def _optional(row: list[str] | None) -> tuple[str, ...] | None:
    return None if row is None else tuple(row)
