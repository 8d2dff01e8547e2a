"""docs/attacks.md says what is tried: every row has a result, and tests that are there."""

from __future__ import annotations

import attack_table
import pytest

# the words of the aim, each of which some row must speak of
NAMED = (
    "forged pull request", "forged conclusion", "replay", "algorithm confusion", "unknown keys", "foreign audience",
    "another repository's run id", "fork's workflow", "homoglyphs", "case", "stale", "oversized", "nested", "zip bomb",
    "non-utf-8", "yaml bombs and tags", "path traversal in names of tests", "artifact and log names", "ssrf",
    "javascript:", "</script>", "ansi", "markdown", "csrf", "session fixation", "oauth", "rate-limit evasion",
    "sql injection", "graphql injection", "secrets in answers, errors, logs", "celery messages", "transcripts",
    "environment of tests", "sandbox escape", "forged results", "forged kernel counts", "poisoned caches",
    "poisoned history", "prompt injection", "lease token used for another lease", "dependency confusion",
)  # fmt: skip


@pytest.mark.parametrize("attack", attack_table.ATTACKS, ids=lambda one: one.name[:40])
def test_each_attack_has_a_result_and_tests_that_are_there(attack: attack_table.Attack) -> None:
    assert attack.by
    assert attack.tests
    assert attack_table.missing(attack) == []


@pytest.mark.parametrize("words", NAMED)
def test_every_kind_of_attack_is_tried(words: str) -> None:
    assert any(words in one.name.casefold() for one in attack_table.ATTACKS)


def test_the_page_is_what_the_command_writes() -> None:
    assert attack_table.PAGE.read_text(encoding="utf-8") == attack_table.page(), "python tests/attack_table.py"


def test_a_test_that_is_gone_is_noticed() -> None:
    gone = attack_table.Attack(
        "x", "refused", "y", ("tests/unit/test_attack_table.py::test_that_is_not", "tests/no.py::t")
    )
    assert attack_table.missing(gone) == list(gone.tests)
