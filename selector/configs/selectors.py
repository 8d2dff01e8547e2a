"""``selectors`` of a test entry: which of its tests run, by what they are (RFC 1287, 5.4 and 7).

The list's items are alternatives; within one item everything must hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from selector.configs.patterns import glob_regex
from selector.configs.tree import Selector, Selectors
from selector.model import TestId

_KEYS = ("has_ops", "ops_in_supported", "markers", "name_patterns", "module_patterns", "decorators")


@dataclass(frozen=True, slots=True)
class TestFacts:
    """What a test is, as its own objects say: ``ops`` the full names of its ``@ops`` list (None: it has no ``@ops``),
    ``markers`` its pytest marks (``slow`` for upstream's ``@slowTest``), ``decorators`` the names written above it."""

    __test__ = False

    ops: tuple[str, ...] | None = None
    ops_supported: bool = False
    markers: frozenset[str] = frozenset()
    decorators: frozenset[str] = frozenset()


def refusal(selectors: Selectors, test: TestId, facts: TestFacts) -> str | None:
    """Why the test is not selected, None when it is."""
    for selector in selectors.exclude:
        if _holds(selector, test, facts):
            return f"taken out by the selector at {selector.place}: {_words(selector)}"
    if selectors.include and not any(_holds(s, test, facts) for s in selectors.include):
        if facts.ops is None and all(s.has_ops or s.ops_in_supported for s in selectors.include):
            return "it has no @ops, which every selector of its entry asks for"
        return "no selector of its entry takes it: " + "; ".join(_words(s) for s in selectors.include)
    return None


def _holds(selector: Selector, test: TestId, facts: TestFacts) -> bool:
    return (
        (selector.has_ops is None or selector.has_ops == (facts.ops is not None))
        and (selector.ops_in_supported is None or selector.ops_in_supported == facts.ops_supported)
        and (not selector.markers or any(marker in facts.markers for marker in selector.markers))
        and (not selector.decorators or any(name in facts.decorators for name in selector.decorators))
        and (not selector.name_patterns or any(fnmatchcase(test.method, p) for p in selector.name_patterns))
        and (not selector.module_patterns or any(glob_regex(p).fullmatch(test.file) for p in selector.module_patterns))
    )


def _words(selector: Selector) -> str:
    said = [f"{key}: {str(getattr(selector, key)).lower()}" for key in _KEYS[:2] if getattr(selector, key) is not None]
    said += [f"{key}: {', '.join(getattr(selector, key))}" for key in _KEYS[2:] if getattr(selector, key)]
    return ", ".join(said)
