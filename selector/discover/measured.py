"""What runs elsewhere showed: which test files run which source files, and which tests failed after which changes.

Both are tables that are handed in. The first has the form of upstream's own profile (source file -> test file without
``test/`` and ``.py`` -> weight); the second is made of this relay's trusted runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from selector.errors import SelectorError
from selector.model import TestId


class MeasuredError(SelectorError):
    """A file that is no table of measured links."""

    code = "measured-invalid"


@dataclass(frozen=True, slots=True)
class MeasuredLinks:
    """source path -> test path -> weight (0..1: how surely the test file runs the source file)."""

    links: Mapping[str, Mapping[str, float]]

    @classmethod
    def from_json(cls, text: str | bytes) -> MeasuredLinks:
        """Reads ``{"torch/a.py": {"dynamo/test_b": 1.0}}``. Raises MeasuredError naming the entry that is wrong."""
        hint = "the form is {source file: {test file without test/ and .py: weight}}"
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise MeasuredError(f"the table of measured links is not JSON: {exc}", hint) from exc
        if not isinstance(value, dict):
            raise MeasuredError("the table of measured links is not a JSON object", hint)
        links: dict[str, dict[str, float]] = {}
        for source, tests in value.items():
            if not isinstance(tests, dict):
                raise MeasuredError(f"the table of measured links: {source!r} has no object of test files", hint)
            for name, weight in tests.items():
                if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
                    raise MeasuredError(f"the table of measured links: {source!r}: {name!r} has no weight", hint)
            links[source] = {f"test/{name}.py": min(1.0, float(weight)) for name, weight in tests.items()}
        return cls(links)

    def of(self, path: str) -> Mapping[str, float]:
        """Test files that run the source file; none where it was not measured."""
        return self.links.get(path, {})


@dataclass(frozen=True, slots=True)
class PastFailure:
    """``times`` commits of trunk that changed ``path`` broke ``test``, by trusted runs of theirs and of the commits
    before them."""

    path: str
    test: TestId
    times: int
