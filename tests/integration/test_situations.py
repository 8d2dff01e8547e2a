"""A sample of the situations that a verdict must tell apart, on the device (tests/bench/situations.py has all)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from situation_lab import Lab, lab
from situation_table import SITUATIONS, play, prepare, problems

pytestmark = pytest.mark.torch
SAMPLE = (
    "an edited helper breaks a test",
    "fails in company, passes alone; nobody vouches",
    "fails in company; in quarantine",
    "broken on trunk, the base is not known",
    "an environment's fault on one worker of two",
    "the change edits a test to use what the device lacks",
    "a budget too small",
    "a budget too small for what the change edits",
    "native code that the runtime does not contain",
    "fails on trunk, and the change mends it",
    "known to fail on trunk, mended there since, and broken by the change",
)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, str]]:
    with lab(tmp_path_factory.mktemp("situations")) as here:
        yield here, prepare(here)


@pytest.mark.parametrize("name", SAMPLE)
def test_what_comes_out(upstream: tuple[Lab, str], name: str) -> None:
    here, base = upstream
    (situation,) = (one for one in SITUATIONS if one.name == name)
    row = play(here, base, situation)
    assert problems(here, situation, row) == []
