"""What trusted runs did: which functions of torch and which operators each test ran, each through which op entry.

A table that `relay trace` takes on a torch without the change. It reaches what no reading of sources does: a test
that uses an operator at second hand, through others.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from selector.errors import SelectorError
from selector.model import TestId

FORMAT = 1
MAX_BYTES = 1 << 30
"""of a table when it is unpacked"""


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
class Trace:
    """``functions``: path of a source -> qualified name of a function -> places in ``units``; ``ops``: base name of an
    operator that ran on the device -> the same."""

    torch: str
    units: tuple[Unit, ...]
    functions: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    ops: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(unit.seconds for unit in self.units)

    def running(self, path: str, symbol: str) -> set[int] | None:
        """Units that ran a function, or some method of a class; None where nobody has seen it run."""
        here = self.functions.get(path, {})
        inside = symbol + "."
        found = [units for name, units in here.items() if name == symbol or name.startswith(inside)]
        return set().union(*found) if found else None

    def to_bytes(self) -> bytes:
        value = {
            "format": FORMAT,
            "torch": self.torch,
            "units": [[str(unit.test), unit.op, round(unit.seconds, 4)] for unit in self.units],
            "functions": {path: dict(sorted(names.items())) for path, names in sorted(self.functions.items())},
            "ops": dict(sorted(self.ops.items())),
        }
        return gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 6, mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> Trace:
        """Reads what `to_bytes` wrote. TraceError names what is wrong."""
        hint = "relay trace writes such a table"
        try:
            unpacker = zlib.decompressobj(wbits=31)
            text = unpacker.decompress(data, MAX_BYTES)
            if unpacker.unconsumed_tail:
                raise TraceError(f"the trace has more than {MAX_BYTES} bytes", hint)
            if not unpacker.eof:
                raise TraceError("the trace is cut off", hint)
            file = _File.model_validate_json(text)
            units = tuple(Unit(TestId.parse(test), op, seconds) for test, op, seconds in file.units)
        except zlib.error as exc:
            raise TraceError(f"the trace is not gzip: {exc}", hint) from exc
        except ValidationError as exc:
            first = exc.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise TraceError(f"the trace: {place}: {first['msg']}", hint) from exc
        except ValueError as exc:
            raise TraceError(f"the trace: {exc}", hint) from exc
        return cls(file.torch, units, file.functions, file.ops)


Places = tuple[Annotated[int, Field(ge=0)], ...]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    torch: str
    units: tuple[tuple[str, str | None, Annotated[float, Field(ge=0, allow_inf_nan=False)]], ...]
    functions: dict[str, dict[str, Places]]
    ops: dict[str, Places]

    @model_validator(mode="after")
    def _fits(self) -> _File:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format} is not {FORMAT}, which this version reads")
        most = len(self.units)
        for name, places in [*self.ops.items(), *(one for names in self.functions.values() for one in names.items())]:
            if places and max(places) >= most:
                raise ValueError(f"{name} names unit {max(places)} of {most}")
        return self
