"""The table of conclusions: complete, in the docs, and what level 4 blocks on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relay.domain.conclusions import BY_CODE, TABLE, blocks, gate_sentence, of_run

ROOT = Path(__file__).resolve().parents[3]


DECISIONS_ONLY = {
    "verify-flaky", "verify-flaky-on-trunk", "verify-broken-on-trunk", "verify-pre-existing",
    "verify-quarantined", "verify-ran-elsewhere",
}  # fmt: skip
"""what stage 4 says about single variants, and never about a run"""


def test_every_code_of_a_verdict_is_in_the_table():
    """The docs' codes of stage 4 that say what the run's conclusion is."""
    rows = (ROOT / "docs" / "reason-codes.md").read_text().splitlines()
    found = {
        row.split("`")[1] for row in rows if re.match(r"\| `verify-", row) and re.search(r": (failure|neutral)", row)
    }
    assert found - DECISIONS_ONLY - set(BY_CODE) == set()
    assert len(found) > 10


@pytest.mark.parametrize("name", sorted(TABLE))
def test_the_docs_have_the_same_table(name):
    meaning = TABLE[name]
    row = f"| {name} | `{meaning.conclusion}` | {'blocks' if meaning.blocks else 'lets it pass'} | {meaning.words} |"
    assert row in (ROOT / "docs" / "conclusions.md").read_text()


def test_only_a_failure_blocks_and_only_at_level_4():
    assert {name for name, meaning in TABLE.items() if meaning.blocks} == {"failed"}
    for name, meaning in TABLE.items():
        assert blocks("L4", "completed", meaning.conclusion) == meaning.blocks, name
        assert not blocks("L3", "completed", meaning.conclusion)
    assert blocks("L4", "queued", None)
    assert blocks("L4", "in_progress", None)


@pytest.mark.parametrize(
    ("code", "conclusion", "found"),
    [
        ("verify-infrastructure", "neutral", "infrastructure"),
        ("verify-regression", "failure", "failed"),
        ("verify-regression", "neutral", "neutral"),  # a code never makes a conclusion worse than it was published
        ("no-response", "timed_out", "no-response"),
        ("jobs-not-passed", "failure", "failed"),
        (None, "timed_out", "timed-out"),
        (None, None, "neutral"),
    ],
)
def test_what_a_run_came_to(code, conclusion, found):
    assert of_run(code, conclusion) == found


def test_a_check_run_says_what_it_means_for_the_merge():
    assert gate_sentence("L4", "queued", None) == "Level 4: the merge waits for this."
    assert gate_sentence("L4", "completed", "failure") == "Level 4: this blocks the merge."
    assert gate_sentence("L4", "completed", "timed_out") == "Level 4: this does not block the merge."
    assert "blocks nothing" in gate_sentence("L3", "completed", "failure")
    assert gate_sentence("L2", "completed", "failure") == ""
