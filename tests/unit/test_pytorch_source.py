"""Where the source package would come from, read out of apt's sources of either format."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_source

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: {key}

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: {key}
"""


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "key.gpg").touch()
    return tmp_path


def test_of_deb822(apt: Path) -> None:
    (apt / "sources.list.d" / "debian.sources").write_text(DEB822.format(key=apt / "key.gpg"))
    found = pytorch_source.debian_archive(apt)
    assert found == pytorch_source.Archive("http://mirror.example/debian", str(apt / "key.gpg"))


def test_of_one_line(apt: Path) -> None:
    lines = [
        "deb https://other.example/repo stable main",
        "# deb http://old.example/debian bookworm main",
        f"deb [arch=amd64 signed-by={apt / 'key.gpg'}] http://mirror.example/debian bookworm main contrib # ours",
    ]
    (apt / "sources.list").write_text("\n".join(lines))
    assert pytorch_source.debian_archive(apt).uri == "http://mirror.example/debian"


def test_another_distribution_is_said(apt: Path) -> None:
    (apt / "sources.list").write_text("deb http://mirror.example/ubuntu noble main\n")
    with pytest.raises(pytorch_source.CannotHave, match="names no Debian archive"):
        pytorch_source.debian_archive(apt)


def test_the_command_says_why_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pytorch_source.main([]) == 1
    assert "apt-get is not installed" in capsys.readouterr().err
    assert pytorch_source.cached() is None
