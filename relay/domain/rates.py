"""Rates with what is not known about them. Pure."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist


def wilson(hits: int, tries: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a share of ``hits`` among ``tries``: holds with few tries, and at 0 and 1 too.
    ValueError when there was none."""
    if not 0 <= hits <= tries or tries == 0:
        raise ValueError(f"{hits} of {tries} is no share")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, spread = hits / tries, z * z / tries
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / tries + spread / tries / 4) / (1 + spread)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
