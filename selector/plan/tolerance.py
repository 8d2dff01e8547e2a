"""How far results were off, in the words of upstream's comparisons: tolerances come from measurements alone."""

from __future__ import annotations

import math
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
COARSE = 0.1
"""A relative tolerance above which a comparison compares nothing."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``atol`` and ``rtol`` that would have been enough for every difference that was measured. One of them is as it
    was: a value passes when it differs by no more than their sum, so the one that has to grow less is enough."""

    atol: float
    rtol: float
    measured: str

    @property
    def sentence(self) -> str:
        return f"is off by no more than rounding: precision {{atol: {self.atol:.2g}, rtol: {self.rtol:.2g}}} is enough"


def needed(messages: Iterable[str | None]) -> Tolerance | None:
    """From failure messages; None when one of them is no comparison, or is too far off to be rounding."""
    most = {"absolute": 0.0, "relative": 0.0}
    allowed = {"absolute": 0.0, "relative": 0.0}
    count = 0
    for message in messages:
        found = {kind.lower(): (float(was), float(ok)) for kind, was, ok in _DIFFERENCE.findall(message or "")}
        if set(found) != {"absolute", "relative"}:
            return None
        for kind, (was, ok) in found.items():
            was = math.inf if math.isnan(was) else was
            most[kind], allowed[kind] = max(most[kind], was), max(allowed[kind], ok)
        count += 1
    grown = {kind: most[kind] / allowed[kind] for kind in most if allowed[kind]}
    if not grown:
        return None
    least = min(grown, key=lambda kind: grown[kind])
    wide = dict(allowed)
    wide[least] = most[least] * FACTOR
    if grown[least] > MOST or wide["relative"] > COARSE:
        return None
    measured = (
        f"largest differences of {count} results: {most['absolute']:.3g} absolute, {most['relative']:.3g} relative"
    )
    return Tolerance(wide["absolute"], wide["relative"], measured)
