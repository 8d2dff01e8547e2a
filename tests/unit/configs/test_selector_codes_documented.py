"""Every code of configs, plan and verify stands in the docs, and the docs name no other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("room", "page"), [("configs", "errors.md"), ("plan", "reason-codes.md"), ("verify", "reason-codes.md")]
)
def test_codes_and_docs_agree(room: str, page: str) -> None:
    prefix = "config" if room == "configs" else room
    text = "".join(p.read_text() for p in (ROOT / "selector" / room).glob("*.py"))
    text += (ROOT / "selector/errors.py").read_text() if room == "configs" else ""
    used = set(re.findall(rf'"({prefix}-[a-z-]+)"', text))
    documented = set(re.findall(rf"^\| `({prefix}-[a-z-]+)` \|", (ROOT / "docs" / page).read_text(), re.M))
    assert used
    assert used == documented
