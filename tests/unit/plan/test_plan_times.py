"""What tests are thought to take: trusted history, then a table of times elsewhere, then the number of variants."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from selector.model import Mode, PlannedTest, TestId
from selector.plan.model import History, RelevantTest
from selector.plan.packing import FILE_SECONDS, lower_bound, makespan, pack
from selector.plan.planner import SLOW_FACTOR, VARIANT_SECONDS, _seconds
from selector.plan.times import TestTimes, TimesError

TABLE = b'{"default": {"default": {"test_a": 120.0, "deep/test_b": 0}, "slow": {"test_a": 1}}, "other": {}}'


def relevant(file: str, method: str = "test_x", variants: int = 10, slow: bool = False) -> RelevantTest:
    return RelevantTest(TestId(f"test/{file}.py", "TestX", method), ("helper",), 1.0, variants, slow)


def test_history_comes_first_then_the_table_then_counts() -> None:
    known = relevant("test_a", "test_known")
    past = History({known.test: 0.5}, {"test/test_c.py": 0.2})
    history = TestTimes.from_json(TABLE).beside(past, lambda file: 40)
    for item, seconds in (
        (known, 10 * 0.5),  # this very test was measured
        (relevant("test_c"), 10 * 0.2),  # others of its file were
        (relevant("test_a"), 120.0 / 40),  # only the table knows its file, whose time its tests share
        (relevant("test_a", slow=True), 120.0 / 40 * SLOW_FACTOR),
        (relevant("deep/test_b"), 10 * VARIANT_SECONDS),  # a file that took no time tells nothing
        (relevant("test_d"), 10 * VARIANT_SECONDS),
    ):
        assert _seconds(item, history) == pytest.approx(seconds), item.test
    assert TestTimes.from_json(TABLE).beside(None, lambda file: 0).recorded == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "not JSON"),
        ("[]", "no object at default.default"),
        ('{"default": {"default": []}}', "no object at default.default"),
        ('{"default": {"default": {"test_a": "long"}}}', "'test_a': 'long' is no number of seconds"),
        ('{"default": {"default": {"test_a": -1}}}', "no number of seconds"),
        ('{"default": {"default": {"test_a": Infinity}}}', "no number of seconds"),
    ],
)
def test_a_table_that_is_none_names_the_entry(text: str, words: str) -> None:
    with pytest.raises(TimesError, match=words):
        TestTimes.from_json(text)


@pytest.mark.parametrize("workers", [2, 8, 20])
def test_the_makespan_on_upstreams_table_is_within_a_tenth_of_the_lower_bound(shared: Path, workers: int) -> None:
    """Predicted from the table as a selection does it, cut into shards, and run at those times."""
    times = TestTimes.from_json((shared / "data" / "pytorch-stats" / "test-times.json").read_bytes())
    counts = Counter({file: 1 + len(file) % 7 for file in times.files})
    history = times.beside(None, counts.__getitem__)
    tests = [
        PlannedTest(item.test, Mode.MANDATORY_SUCCESS, 1.0, _seconds(item, history), ("code",))
        for file in times.files
        for n in range(counts[file])
        for item in [relevant(file.removeprefix("test/").removesuffix(".py"), f"test_{n}")]
    ]
    shards = pack(tests, workers, 60.0)
    # a file costs its import once, at the least
    pieces = [*(t.est_seconds for t in tests), *(FILE_SECONDS for _ in times.files)]
    assert len(times.files) > 900
    assert makespan([s.est_seconds for s in shards], workers) <= 1.10 * lower_bound(pieces, workers)
