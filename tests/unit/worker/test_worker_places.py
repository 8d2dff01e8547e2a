"""Places in a failure's message are upstream's, wherever the file lies on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from relay.worker.child import _place


@pytest.mark.parametrize("relative", [False, True])
def test_a_file_of_an_overlay_is_named_from_its_package_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: bool
) -> None:
    site = tmp_path / "relay-shard-1" / "site"
    file = site / "torch" / "_refs" / "__init__.py"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.chdir(tmp_path)  # what pytest was started for holds the overlay's folder
    path = file.relative_to(tmp_path) if relative else file
    assert _place(str(path)) == "torch/_refs/__init__.py"
