"""Each weakness in docs/reuse-weaknesses.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
KNOWN = {1, 2, 5, 6, 7, 8, 10, 11, 12, 14, 15, 16, 18, 20, 21, 22, 23, 24}
"""of the contract's list"""


def test_every_weakness_names_tests_that_are_there() -> None:
    text = (ROOT / "docs/reuse-weaknesses.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| [W#]", line) and not line.startswith("| Weakness")]
    assert {int(n) for row in rows for n in re.findall(r"\bW(\d+)", row)} == KNOWN
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert [name for name in named if f"def {name}(" not in tests] == [], row


def test_every_pitfall_names_a_test_that_is_there() -> None:
    text = (ROOT / "docs/reuse.md").read_text(encoding="utf-8").partition("## Pitfalls")[2]
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    rows = [line for line in text.splitlines() if re.match(r"\| \d", line)]
    pitfalls = {int(n) for row in rows for n in re.findall(r"(?:^\| |, )(\d+) ", row)}
    assert pitfalls == set(range(1, 14))
    for row in rows:
        place = row.rpartition(" | ")[2] if row.count("|") == 2 else row.split("|")[2]
        for file in re.findall(r"`(test_\w+\.py)`", place):
            assert list((ROOT / "tests").rglob(file)), row
        for word in re.findall(r"`(\w+)`", place):
            assert word in tests, (row, word)
