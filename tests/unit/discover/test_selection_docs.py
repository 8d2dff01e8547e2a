"""Every code that stages 1 and 2 can give stands in docs/reason-codes.md, once, and nothing else of theirs does."""

from __future__ import annotations

import re
from pathlib import Path

from selector.discover.findings import FILE_CODES, IMPACT_CODES
from selector.discover.parser_process import ParserDied
from selector.triage.rules import CODES, RULES
from selector.triage.stage import STAGE_CODES

DOCS = Path(__file__).parents[3] / "docs"


def documented(stage: str) -> list[str]:
    return re.findall(rf"^\| `([\w-]+)` \| {stage} \|", (DOCS / "reason-codes.md").read_text(), re.MULTILINE)


def test_codes_of_discover() -> None:
    assert sorted(documented("discover")) == sorted(FILE_CODES | set(IMPACT_CODES))


def test_codes_of_triage() -> None:
    assert sorted(documented("triage")) == sorted(CODES | STAGE_CODES)


def test_impact_codes_stand_in_order_of_their_weight() -> None:
    order = [code for code in documented("discover") if code in IMPACT_CODES]
    weights = [IMPACT_CODES[code] for code in order]
    assert weights == sorted(weights, reverse=True)


def test_rules_are_explained_in_the_order_they_are_asked() -> None:
    named = re.findall(r"^\| (\w+) \|", (DOCS / "triage.md").read_text(), re.MULTILINE)
    assert [name for name in named if name != "Rule"] == [name for name, _ in RULES]


def test_the_error_is_documented() -> None:
    assert f"`{ParserDied.code}`" in (DOCS / "errors.md").read_text()
