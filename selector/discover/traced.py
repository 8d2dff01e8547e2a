"""What trusted runs did: which functions of torch and which operators each test ran, each through which op entry.

A table that `relay trace` takes on a torch without the change, or a relay's own workers on trunk, a part each day. It
reaches what no reading of sources does: a test that uses an operator at second hand, through others.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from selector.errors import SelectorError
from selector.model import TestId

FORMAT = 1
MAX_BYTES = 1 << 30
"""of a table when it is unpacked"""
WHOLE = 0.8
"""Part of the device's tests of which a table must know, before what it saw says that a change needs nothing more."""


PATH = re.compile(r"torch/[\w./+-]{1,240}\.py")
LONGEST = 300
"""characters of a function's or operator's name"""


def is_source(path: str) -> bool:
    """Whether a table may speak of this file: Python of torch's own."""
    return PATH.fullmatch(path) is not None and ".." not in path


def is_name(text: object, longest: int = LONGEST) -> bool:
    """Whether it may stand in a table as the name of a function or an operator."""
    return isinstance(text, str) and 0 < len(text) <= longest and text.isprintable()


class TraceError(SelectorError):
    """A file that is no such table."""

    code = "trace-invalid"


@dataclass(frozen=True, slots=True)
class Unit:
    """What was followed as one: a test, or where it draws ops, its variants of one ``op`` entry. ``seconds`` of the
    suite that it stands for."""

    test: TestId
    op: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Followed:
    """When a test was followed (``day``, UTC) and what it was then: its own fingerprint (`Prints.own`)."""

    print: str
    day: str


@dataclass(frozen=True, slots=True)
class Trace:
    """``functions``: path of a source -> qualified name of a function -> places in ``units``; ``ops``: base name of an
    operator that ran on the device -> the same. ``tests``: those that were followed, also where none of their variants
    passed; ``of``: how many tests there are for the device, 0 where nobody said."""

    torch: str
    units: tuple[Unit, ...]
    functions: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    ops: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tests: Mapping[TestId, Followed] = field(default_factory=dict)
    of: int = 0

    @property
    def whole(self) -> bool:
        """Whether it knows of so many of the device's tests that who ran a function is who runs it."""
        return not self.of or len(self.tests) >= WHOLE * self.of

    @property
    def seconds(self) -> float:
        return sum(unit.seconds for unit in self.units)

    def running(self, path: str, symbol: str) -> set[int] | None:
        """Units that ran a function, or some method of a class; None where nobody has seen it run."""
        here = self.functions.get(path, {})
        inside = symbol + "."
        found = [units for name, units in here.items() if name == symbol or name.startswith(inside)]
        return set().union(*found) if found else None

    def only(self, tests: Collection[TestId]) -> Trace:
        """The same of these tests alone."""
        gone = Trace(self.torch, (), tests={test: Followed("", "") for test in self.tests if test not in tests})
        kept = joined([self, gone], self.torch, self.of)
        return replace(kept, tests={test: one for test, one in kept.tests.items() if test in tests})

    def to_bytes(self) -> bytes:
        value = {
            "format": FORMAT,
            "torch": self.torch,
            "units": [[str(unit.test), unit.op, round(unit.seconds, 4)] for unit in self.units],
            "functions": {path: dict(sorted(names.items())) for path, names in sorted(self.functions.items())},
            "ops": dict(sorted(self.ops.items())),
            "tests": {str(test): [one.print, one.day] for test, one in sorted(self.tests.items())},
            "of": self.of,
        }
        return gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 6, mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes, most: int = MAX_BYTES) -> Trace:
        """Reads what `to_bytes` wrote, at most ``most`` bytes when it is unpacked. TraceError names what is wrong."""
        hint = "relay trace writes such a table"
        try:
            unpacker = zlib.decompressobj(wbits=31)
            text = unpacker.decompress(data, most)
            if unpacker.unconsumed_tail:
                raise TraceError(f"the trace has more than {most} bytes", hint)
            if not unpacker.eof:
                raise TraceError("the trace is cut off", hint)
            file = _File.model_validate_json(text)
            units = tuple(Unit(TestId.parse(test), op, seconds) for test, op, seconds in file.units)
            tests = {TestId.parse(test): Followed(*one) for test, one in file.tests.items()}
        except zlib.error as exc:
            raise TraceError(f"the trace is not gzip: {exc}", hint) from exc
        except ValidationError as exc:
            first = exc.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise TraceError(f"the trace: {place}: {first['msg']}", hint) from exc
        except ValueError as exc:
            raise TraceError(f"the trace: {exc}", hint) from exc
        return cls(file.torch, units, file.functions, file.ops, tests, file.of)


class Gathering:
    """What variants ran, one after the other, put together by test and op entry."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[TestId, str | None], float] = {}
        self._functions: dict[str, dict[str, set[tuple[TestId, str | None]]]] = {}
        self._ops: dict[str, set[tuple[TestId, str | None]]] = {}
        self.tried: set[TestId] = set()
        """tests of which some variant ended, however it did"""

    def __len__(self) -> int:
        return len(self._seconds)

    def __contains__(self, unit: tuple[TestId, str | None]) -> bool:
        return unit in self._seconds

    def passed(
        self, test: TestId, op: str | None, seconds: float, ran: Mapping[str, Iterable[str]], ops: Iterable[str]
    ) -> None:
        """A variant passed. ``ran``: path of a source -> functions; ``ops``: operators."""
        unit = (test, op)
        self._seconds[unit] = self._seconds.get(unit, 0.0) + seconds
        for path, names in ran.items():
            here = self._functions.setdefault(path, {})
            for name in names:
                here.setdefault(name, set()).add(unit)
        for name in ops:
            self._ops.setdefault(name, set()).add(unit)

    def trace(self, torch: str, tests: Mapping[TestId, Followed], of: int = 0) -> Trace:
        order = sorted(self._seconds, key=lambda unit: (unit[0], unit[1] or ""))
        place = {unit: n for n, unit in enumerate(order)}

        def places(names: Mapping[str, set[tuple[TestId, str | None]]]) -> dict[str, tuple[int, ...]]:
            return {name: tuple(sorted(place[unit] for unit in units)) for name, units in names.items()}

        return Trace(
            torch,
            tuple(Unit(test, op, self._seconds[test, op]) for test, op in order),
            {path: places(names) for path, names in self._functions.items()},
            places(self._ops),
            tests,
            of,
        )


def minor(torch: str) -> str:
    """``2.13`` of ``2.13.0+cpu``: torches that differ in no more have the same functions."""
    return ".".join(torch.split("+")[0].split(".")[:2])


def joined(parts: Iterable[Trace], torch: str, of: int) -> Trace:
    """One table of several that follow different tests, all of ``torch``; where two follow the same test, the later
    part stands for it alone."""
    last: dict[TestId, int] = {}
    known = list(parts)
    for n, part in enumerate(known):
        for test in {*part.tests, *(unit.test for unit in part.units)}:
            last[test] = n
    kept = sorted(
        ((unit.test, unit.op or "", n, place) for n, part in enumerate(known) for place, unit in enumerate(part.units)
         if last[unit.test] == n)
    )  # fmt: skip
    where = {(n, place): new for new, (_, _, n, place) in enumerate(kept)}
    functions: dict[str, dict[str, list[int]]] = {}
    ops: dict[str, list[int]] = {}
    for n, part in enumerate(known):
        for path, names in part.functions.items():
            for name, places in names.items():
                if found := [where[n, place] for place in places if (n, place) in where]:
                    functions.setdefault(path, {}).setdefault(name, []).extend(found)
        for op, places in part.ops.items():
            if found := [where[n, place] for place in places if (n, place) in where]:
                ops.setdefault(op, []).extend(found)
    return Trace(
        torch,
        tuple(known[n].units[place] for _, _, n, place in kept),
        {path: {name: tuple(sorted(places)) for name, places in names.items()} for path, names in functions.items()},
        {op: tuple(sorted(places)) for op, places in ops.items()},
        {test: known[n].tests[test] for test, n in last.items() if test in known[n].tests},
        of,
    )


Places = tuple[Annotated[int, Field(ge=0)], ...]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    torch: str
    units: tuple[tuple[str, str | None, Annotated[float, Field(ge=0, allow_inf_nan=False)]], ...]
    functions: dict[str, dict[str, Places]]
    ops: dict[str, Places]
    tests: dict[str, tuple[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=10)]]] = {}
    of: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _fits(self) -> _File:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format} is not {FORMAT}, which this version reads")
        most = len(self.units)
        for name, places in [*self.ops.items(), *(one for names in self.functions.values() for one in names.items())]:
            if places and max(places) >= most:
                raise ValueError(f"{name} names unit {max(places)} of {most}")
        return self
