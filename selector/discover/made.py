"""Tests that code makes: the programs of ``programs`` are run on names alone, with a bound on their steps.

``copy_tests(Template, CpuTests, "cpu")`` gives CpuTests a test for each of Template's; ``make_dynamic_cls(MiscTests)``
gives the module a class. What cannot be told without running the code becomes a pattern (``test_*_neg_dim``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from selector.discover.family import Family, Place
from selector.discover.programs import MODULE_PROGRAM, Node
from selector.discover.records import MODULE, ClassRecord, MethodRecord

_STEPS = 20_000
"""statements that one module's program may run"""
_DEPTH = 6
_ANY = "*"


class MadeTest(NamedTuple):
    """A test of class ``cls`` that code makes out of the test method at ``origin``."""

    cls: ClassRecord
    method: MethodRecord
    origin: Place


class Pattern(NamedTuple):
    """Tests that code at ``line`` makes under names that only running it tells: ``cls`` and ``name`` with ``*``."""

    line: int
    cls: str
    name: str


@dataclass
class Made:
    """What one file's code makes."""

    tests: list[MadeTest] = field(default_factory=list)
    patterns: list[Pattern] = field(default_factory=list)


@dataclass(eq=False)
class _Class:
    """A class while programs run: one that is written, or a new one that takes after ``source``."""

    name: str
    line: int
    place: Place | None
    source: _Class | None = None
    own: dict[str, tuple[MethodRecord, Place]] = field(default_factory=dict)
    bare: dict[str, tuple[MethodRecord, Place]] = field(default_factory=dict)
    loose: list[str] = field(default_factory=list)


class _Each(NamedTuple):
    """Stands for the name of every test of a class."""

    of: _Class
    inherited: bool


class _Text(NamedTuple):
    parts: tuple[str | _Each, ...]


class _Attributes(NamedTuple):
    of: _Class
    inherited: bool


Value = _Class | _Text | _Attributes | list[Any] | None


class Maker:
    """Runs each module's program once, those that it needs first."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._done: dict[str, Made] = {}
        self.globals: dict[str, dict[str, Value]] = {}
        self._classes: dict[Place, _Class] = {}
        self._steps = 0

    def made(self, path: str) -> Made:
        """What the module at ``path`` makes when it is imported."""
        if path not in self._done:
            made = self._done[path] = Made()
            scope: dict[str, Value] = {}
            self.globals[path] = scope
            program = self.family.files[path].programs.get(MODULE_PROGRAM)
            if program:
                before, self._steps = self._steps, _STEPS
                run = _Run(self, path, made)
                run.body(program[2], scope, _DEPTH)
                run.finish(scope)
                self._steps = before
        return self._done[path]

    def written(self, place: Place) -> _Class:
        if place not in self._classes:
            record = self.family.record(place)
            self._classes[place] = _Class(record.name.rpartition(".")[2], record.line, place)
        return self._classes[place]

    def step(self) -> bool:
        self._steps -= 1
        return self._steps >= 0

    def lookup(self, path: str, dotted: str) -> Value:
        """A class by its name in a module: made there, written there, or imported."""
        scope = self.globals.get(path)
        if scope is not None and dotted in scope:
            return scope[dotted]
        place = self.family.cls(path, dotted)
        if place is not None:
            return self.written(place)
        head, _, rest = dotted.partition(".")
        for one in self.family.files[path].imports:
            # a class that another module makes is in no record of it
            if one.local == head:
                for target in self.family.targets(path, one):
                    name = rest or one.name
                    if name and "." not in name and target in self.family.files:
                        self.made(target)
                        found = self.globals[target].get(name)
                        if isinstance(found, _Class | _Text):
                            return found
        return None


class _Run:
    """The program of one module; ``made`` gets what comes of it."""

    def __init__(self, maker: Maker, path: str, made: Made) -> None:
        self.maker, self.path, self.made = maker, path, made
        self.touched: dict[int, _Class] = {}
        self.here = Place(path, MODULE)
        """the symbol whose code runs"""

    def body(self, statements: list[Node], scope: dict[str, Value], depth: int, at: str | None = None) -> Value:
        """Runs statements in a scope; ``at``: the module whose globals they see (default: the program's own)."""
        result: Value = None
        for one in statements:
            if not self.maker.step():
                return result
            kind, line = one[0], one[1]
            if kind == "let":
                scope[one[2]] = self.value(one[3], scope, depth, line, at)
            elif kind == "do":
                self.value(one[2], scope, depth, line, at)
            elif kind == "ret":
                returned = self.value(one[2], scope, depth, line, at)
                result = returned if returned is not None else result
            elif kind == "set":
                self.set(line, self.value(one[2], scope, depth, line, at), self.value(one[3], scope, depth, line, at))
            elif kind == "put":
                if at in (None, self.path):  # globals() are those of the module that the function is written in
                    name, value = (self.value(part, scope, depth, line, at) for part in one[2:])
                    self.put(name, value)
            elif kind == "for":
                self.loop(one, scope, depth, at)
            elif kind == "is":
                place = scope.get("<locals>")
                if isinstance(place, _Text):
                    key = Place(at or self.path, f"{place.parts[0]}.<locals>.{one[2]}")
                    if key.key in self.maker.family.files[key.path].classes:
                        scope[one[2]] = self.new(one[2], line, self.maker.written(key), bare=True)
        return result

    def loop(self, one: Node, scope: dict[str, Value], depth: int, at: str | None) -> None:
        _, line, name, over, inner = one
        values = self.value(over, scope, depth, line, at)
        if isinstance(values, _Attributes):
            values = [_Text((_Each(values.of, values.inherited),))]
        for item in values if isinstance(values, list) else [_Text((_ANY,))]:
            if isinstance(item, list):  # `for name, ... in [(...), ...]`: the first is what names are made of
                item = item[0] if item else None
            scope[name] = item if item is not None else _Text((_ANY,))
            self.body(inner, scope, depth, at)

    def value(self, node: Node, scope: dict[str, Value], depth: int, line: int, at: str | None) -> Value:
        kind = node[0]
        if kind == "s":
            return _Text((node[1],))
        if kind in ("n", "a"):
            return self.name(node, scope, depth, line, at)
        if kind == "f":
            parts: list[str | _Each] = []
            for part in node[1]:
                found = self.value(part, scope, depth, line, at)
                parts.extend(found.parts if isinstance(found, _Text) else (_ANY,))
            return _Text(tuple(parts))
        if kind == "l":
            return [self.value(item, scope, depth, line, at) for item in node[1]]
        if kind in ("d", "D"):
            of = self.value(node[1], scope, depth, line, at)
            return (
                _Attributes(of, kind == "D") if isinstance(of, _Class) else of if isinstance(of, _Attributes) else None
            )
        if kind == "t":
            name, attributes = (self.value(part, scope, depth, line, at) for part in node[1:])
            source = attributes.of if isinstance(attributes, _Attributes) else None
            made = self.new(_plain(name), line, source, bare=source is not None)
            return made
        if kind == "c":
            return self.call(node, scope, depth, line, at)
        return None

    def name(self, node: Node, scope: dict[str, Value], depth: int, line: int, at: str | None) -> Value:
        dotted = _dotted(node)
        if dotted and dotted in scope:
            return scope[dotted]
        if node[0] == "a":
            of = self.value(node[1], scope, depth, line, at)
            if isinstance(of, _Class):
                return _Text((of.name,)) if node[2] in ("__name__", "__qualname__") else None
        if not dotted or not self.maker.step():
            return None
        return self.maker.lookup(at or self.path, dotted)

    def call(self, node: Node, scope: dict[str, Value], depth: int, line: int, at: str | None) -> Value:
        if depth == 0:
            return None
        place = self.maker.family.function(at or self.path, node[1])
        if place is None:
            return None
        if place.path != (at or self.path):
            self.maker.made(place.path)
        parameters, defaults, body = self.maker.family.files[place.path].programs[place.key]
        inner: dict[str, Value] = {"<locals>": _Text((place.key,))}
        for name, default in defaults.items():
            inner[name] = self.value(default, {}, 1, line, place.path)
        for name, argument in zip(parameters, node[2], strict=False):
            inner[name] = self.value(argument, scope, depth - 1, line, at)
        for name, argument in node[3].items():
            inner[name] = self.value(argument, scope, depth - 1, line, at)
        for name in parameters:
            inner.setdefault(name, None)
            if inner[name] is None:
                inner[name] = _Text((_ANY,))
        outer, self.here = self.here, place
        try:
            return self.body(body, inner, depth - 1, place.path)
        finally:
            self.here = outer

    # ---------------------------------------------------------------------------------------------------- what is made

    def new(self, name: str, line: int, source: _Class | None, *, bare: bool) -> _Class:
        made = _Class(name, line, None, source)
        if source is not None and bare:
            made.own.update({test.name: (test, origin) for test, origin in self.tests(source, inherited=True)})
        return made

    def tests(self, of: _Class, *, inherited: bool) -> list[tuple[MethodRecord, Place]]:
        """The tests that a class has by now."""
        found = {name: one for name, one in of.bare.items() if not of.own}
        if of.place is not None:
            family = self.maker.family
            if inherited:
                found.update({one.method.name: (one.method, one.origin) for one in family.inherited(of.place)})
            place = of.place
            for test in family.record(place).tests:
                key = place.key.partition(".<locals>.")[0] if ".<locals>." in place.key else f"{place.key}.{test.name}"
                found[test.name] = (test, Place(place.path, key))
        found.update(of.own)
        return list(found.values())

    def set(self, line: int, target: Value, name: Value) -> None:
        if not isinstance(target, _Class) or not isinstance(name, _Text):
            return
        each = next((part for part in name.parts if isinstance(part, _Each)), None)
        self.touched[id(target)] = target
        if each is None:
            text = "".join(part for part in name.parts if isinstance(part, str))
            if text.startswith("test") and _ANY not in text:
                target.own[text] = (MethodRecord(text, line, (), (), None, None, None, 1), self.here)
            elif text.startswith(("test", _ANY)):
                target.loose.append(f"{line} {text}")
            return
        if target.source is None and target.place is None:
            target.source = each.of
        sources = self.tests(each.of, inherited=each.inherited)
        kept = target.bare if len(name.parts) == 1 else target.own
        for test, origin in sources:
            text = "".join(part if isinstance(part, str) else test.name for part in name.parts)
            if _ANY in text:
                target.loose.append(f"{line} {_pattern(name)}")
                break
            kept[text] = (test._replace(name=text), origin)

    def put(self, name: Value, value: Value) -> None:
        text = _plain(name)
        if isinstance(value, _Class) and _ANY not in text:
            self.maker.globals[self.path][text] = value

    def finish(self, scope: dict[str, Value]) -> None:
        """Everything by a name in the module that was not there as written."""
        family, path = self.maker.family, self.path
        seen: set[tuple[int, str]] = set()
        candidates = [(name, value) for name, value in scope.items() if isinstance(value, _Class) and "." not in name]
        candidates += [(one.name, one) for one in self.touched.values() if one.place is not None]
        for name, value in candidates:
            place = value.place
            if (id(value), name) in seen or (place is not None and (place.path != path or place.key != name)):
                continue
            seen.add((id(value), name))
            record = family.record(place) if place is not None else _record(name, value, family)
            there = {test.name for test in record.tests} if place is not None else set()
            if place is None:
                tests = self.tests(value, inherited=True)
            else:
                tests = [one for one in (value.own or value.bare).values() if one[0].name not in there]
            for test, origin in tests:
                at = test if origin.path == path else test._replace(line=value.line)
                self.made.tests.append(MadeTest(record, at, origin))
            for one in dict.fromkeys(value.loose):
                line, _, text = one.partition(" ")
                self.made.patterns.append(Pattern(int(line), name, text))


def _record(name: str, value: _Class, family: Family) -> ClassRecord:
    source = value.source
    while source is not None and source.place is None:
        source = source.source
    if source is None or source.place is None:
        return ClassRecord(name, value.line, (), (), (), (), False, "")
    return family.record(source.place)._replace(name=name, line=value.line, tests=(), instantiated=(), hides=())


def _plain(value: Value) -> str:
    if not isinstance(value, _Text):
        return _ANY
    return "".join(part if isinstance(part, str) else _ANY for part in value.parts)


def _pattern(name: _Text) -> str:
    return re.sub(r"\*+", _ANY, "".join(part if isinstance(part, str) else "test_*" for part in name.parts))


def _dotted(node: Node) -> str:
    if node[0] == "n":
        return str(node[1])
    if node[0] == "a":
        inner = _dotted(node[1])
        return f"{inner}.{node[2]}" if inner else ""
    return ""
