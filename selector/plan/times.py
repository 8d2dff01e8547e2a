"""How long test files took elsewhere: upstream publishes such a table of its own CI, and an operator may hand one in.

It is asked where trusted runs of the relay measured nothing of a file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from selector.errors import SelectorError
from selector.plan.model import History

JOB, CONFIG = "default", "default"
"""What upstream itself takes for a job that its table does not know."""
HINT = "the form is {job: {config: {test file without test/ and .py: seconds}}}"


class TimesError(SelectorError):
    """A file that is no table of test times."""

    code = "test-times-invalid"


@dataclass(frozen=True, slots=True)
class TestTimes:
    """test file -> seconds of all its tests together."""

    __test__ = False
    files: Mapping[str, float]

    @classmethod
    def from_json(cls, text: str | bytes) -> TestTimes:
        """Reads ``{"default": {"default": {"test_torch": 377.0}}}``; other jobs and configs are left alone. Raises
        TimesError naming the entry that is wrong."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise TimesError(f"the table of test times is not JSON: {exc}", HINT) from exc
        job = value.get(JOB) if isinstance(value, dict) else None
        found = job.get(CONFIG) if isinstance(job, dict) else None
        if not isinstance(found, dict):
            raise TimesError(f"the table of test times has no object at {JOB}.{CONFIG}", HINT)
        for name, seconds in found.items():
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
                raise TimesError(f"the table of test times: {name!r}: {seconds!r} is no number of seconds", HINT)
        return cls({f"test/{name}.py": float(seconds) for name, seconds in found.items()})

    def beside(self, history: History | None, tests: Callable[[str], int]) -> History:
        """The history with each file's seconds shared among its tests. ``tests``: how many a file has; 0: none."""
        shares = {file: seconds / count for file, seconds in self.files.items() if seconds and (count := tests(file))}
        return replace(history or History(), recorded=shares)
