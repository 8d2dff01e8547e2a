"""The figures of the modelled machine. They turn counted work into modelled time; they are no measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Machine:
    """Units are in the names: ``_bytes``, ``_gbps`` (10^9 bytes a second), ``_us``, ``_ghz``, ``_w``.

    ``cores``, ``scratchpad_bytes`` (a core), ``stick_bytes``, ``memory_bytes`` and ``power_w`` are published figures of
    the card; **bandwidths, launch time, clock and multiply rate are estimates** and only good for comparing variants.
    """

    cores: float = 32
    scratchpad_bytes: float = 2 << 20
    stick_bytes: float = 128
    memory_bytes: float = 128 << 30
    power_w: float = 75
    dram_gbps: float = 166.0
    pcie_gbps: float = 32.0
    launch_us: float = 5.0
    macs_per_core_cycle: float = 1024
    clock_ghz: float = 1.1

    @classmethod
    def from_figures(cls, figures: Mapping[str, float], source: str = "the capability") -> Machine:
        """The default machine with ``figures`` laid over it. ValueError names an unknown or non-positive figure."""
        known = {f.name for f in fields(cls)}
        for key, value in figures.items():
            if key not in known:
                raise ValueError(f"{source}: unknown machine figure {key!r}; known are {', '.join(sorted(known))}")
            if not value > 0:
                raise ValueError(f"{source}: machine figure {key!r} is {value}; it must be above zero")
        return replace(cls(), **dict(figures))
