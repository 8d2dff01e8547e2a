"""pytest's arguments for the files of a shard."""

from __future__ import annotations

from pathlib import Path

from relay.worker.collect import arguments


def test_logs_are_collected_where_a_file_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(caplog): pass\n")
    (tmp_path / "test_b.py").write_text("def test_b(): pass\n")
    assert "no:logging" not in arguments(tmp_path, tmp_path / "pytest.ini", ["test_b.py", "test_a.py"])
    without = arguments(tmp_path, tmp_path / "pytest.ini", ["test_b.py", "test_not_there.py"])
    assert without[without.index("no:logging") - 1] == "-p"
