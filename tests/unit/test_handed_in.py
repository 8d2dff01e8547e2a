"""Tables that an operator hands in: read once, left out and said where they cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from relay.services import handed_in
from relay.settings import Settings
from selector.discover.traced import Trace, Unit
from selector.model import TestId
from selector.plan.learned import NAME

LINKS = {"torch/a.py": {"test_b": 1.0}}
TIMES = {"default": {"default": {"test_b": 12.5}}}
RANKER = {"format": 1, "features": ["weight"], "weights": [1.0], "bias": 0.0}
TRACE = Trace("2.13.0", (Unit(TestId("test/test_b.py", "TestB", "test_c"), None, 1.0),), {}, {"mul": (0,)})
TABLES = {
    "measured_links": (handed_in.links, json.dumps(LINKS).encode()),
    "test_times": (handed_in.times, json.dumps(TIMES).encode()),
    "trace": (handed_in.trace, TRACE.to_bytes()),
    "ranker": (handed_in.rankers, json.dumps(RANKER).encode()),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_once_and_again_when_its_file_is_another(name: str, tmp_path: Path) -> None:
    ask, good = TABLES[name]
    assert not ask(Settings(data_dir=tmp_path))
    path = tmp_path / "table"
    settings = Settings.model_validate({"data_dir": tmp_path, name: path})
    path.write_bytes(good)
    first = ask(settings)
    assert first
    again = ask(settings)
    # the one ranker stands in a new dictionary each time
    if name == "ranker":
        assert again[NAME] is first[NAME]
    else:
        assert again is first
    os.utime(path, (1.0, 1.0))
    other = ask(settings)
    assert other is not first
    assert other == first


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("text", [None, b"\xff\xfe", b"[", b"[]"])
def test_a_table_that_cannot_be_read_is_left_out_and_said(name: str, text: bytes | None, tmp_path: Path) -> None:
    ask, _ = TABLES[name]
    path = tmp_path / "table"
    if text is not None:
        path.write_bytes(text)
    with capture_logs() as said:
        assert not ask(Settings.model_validate({"data_dir": tmp_path, name: path}))
    (line,) = said
    assert (line["log_level"], line["path"]) == ("warning", str(path))
    assert line["error"]
