"""Device names to categories."""

from __future__ import annotations

from collections.abc import Iterable

from selector.triage.subject import Category


def category_of(devices: Iterable[str]) -> Category:
    """The category of a test that runs on these devices only."""
    names = set(devices)
    if names == {"cpu"}:
        return Category.CPU_ONLY
    if "cuda" in names and names <= {"cuda", "cpu"}:
        return Category.CUDA_ONLY
    return Category.OTHER_BACKEND
