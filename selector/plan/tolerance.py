"""How far results were off, in the words of upstream's comparisons: tolerances come from measurements alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_DIFFERENCE = re.compile(
    r"(?:Greatest )?(absolute|relative) difference: ([-+.\deE]+|inf|nan).*?\(up to ([-+.\deE]+) allowed\)",
    re.IGNORECASE,
)
FACTOR = 2.0
"""Room above the largest difference that was measured."""
MOST = 1000.0
"""Times the tolerance that was allowed; what is further off is wrong and not rough."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``atol`` and ``rtol`` that would have been enough for every difference that was measured."""

    atol: float
    rtol: float
    measured: str

    @property
    def sentence(self) -> str:
        return f"is off by no more than rounding: precision {{atol: {self.atol:.2g}, rtol: {self.rtol:.2g}}} is enough"


def needed(messages: Iterable[str | None]) -> Tolerance | None:
    """From failure messages; None when one of them is no comparison, or is too far off to be rounding."""
    most = {"absolute": 0.0, "relative": 0.0}
    count = 0
    for message in messages:
        found = {
            kind.lower(): (float(was), float(allowed)) for kind, was, allowed in _DIFFERENCE.findall(message or "")
        }
        if set(found) != {"absolute", "relative"}:
            return None
        near = [was <= allowed * MOST for was, allowed in found.values()]
        if not any(near):
            return None
        for kind, (was, allowed) in found.items():
            most[kind] = max(most[kind], min(was, allowed * MOST))
        count += 1
    if not count:
        return None
    measured = (
        f"largest differences of {count} results: {most['absolute']:.3g} absolute, {most['relative']:.3g} relative"
    )
    return Tolerance(most["absolute"] * FACTOR, most["relative"] * FACTOR, measured)
