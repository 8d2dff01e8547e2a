from __future__ import annotations

from pathlib import Path

import pytest

from relay.worker import overlay


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, text in {
        "torch/__init__.py": "import torch._refs\n",
        "torch/_refs/__init__.py": "".join(f"a{n} = {n}\n" for n in range(100)),
        "torch/_refs/nn/__init__.py": "",
        "torch/lib/libtorch.so": "binary",
        "torch/_refs/__pycache__/__init__.cpython-311.pyc": "compiled",
        "functorch/__init__.py": "",
    }.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "site"


def write(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_changed_files_are_in_place_and_the_rest_are_links(tmp_path: Path, site: Path) -> None:
    write(tmp_path / "tree", "torch/_refs/__init__.py", "changed\n")
    write(tmp_path / "tree", "torch/_new/thing.py", "new\n")
    out = overlay.build(
        tmp_path / "tree", ["torch/_refs/__init__.py", "torch/_new/thing.py"], site, tmp_path / "overlay"
    )
    assert (out / "torch/_refs/__init__.py").read_text() == "changed\n"
    assert (out / "torch/_new/thing.py").read_text() == "new\n"
    assert (out / "torch/_refs/nn").is_symlink()
    assert (out / "torch/lib/libtorch.so").read_text() == "binary"
    assert not (out / "functorch").exists()
    # what is compiled into the overlay must not replace what is installed
    cached = out / "torch/_refs/__pycache__/__init__.cpython-311.pyc"
    fresh = cached.with_name("fresh")
    fresh.write_text("compiled from the change")
    fresh.rename(cached)
    assert (site / "torch/_refs/__pycache__/__init__.cpython-311.pyc").read_text() == "compiled"
    assert (site / "torch/_refs/__init__.py").read_text().startswith("a0")


def test_a_base_that_is_too_far_from_the_installed_file_is_refused(tmp_path: Path, site: Path) -> None:
    name = "torch/_refs/__init__.py"
    installed = (site / name).read_text()
    write(tmp_path / "tree", name, "changed\n")
    write(tmp_path / "tree", f".base/{name}", installed.replace("a7 =", "b7 ="))
    overlay.build(tmp_path / "tree", [name], site, tmp_path / "near")
    write(tmp_path / "tree", f".base/{name}", installed.replace("a", "b"))
    with pytest.raises(overlay.OverlayRefused, match="0% of the file's lines"):
        overlay.build(tmp_path / "tree", [name], site, tmp_path / "far")


def test_every_file_that_is_refused_is_named(tmp_path: Path, site: Path) -> None:
    for name in ("torch/_refs/__init__.py", "torch/_refs/gone.py", "torch/_refs/added.py"):
        write(tmp_path / "tree", name, "changed\n")
        if "added" not in name:
            write(tmp_path / "tree", f".base/{name}", "another file\n")
    files = ["torch/_refs/__init__.py", "torch/_refs/gone.py", "torch/_refs/added.py"]
    found = overlay.refusals(tmp_path / "tree", files, site)
    assert list(found) == files[:2]
    assert "0% of the file's lines" in found[files[0]].message
    assert "the installed torch has no such file" in found[files[1]].message


def test_lines_that_moved_are_lines_in_common() -> None:
    text = "".join(f"    ),\n    name{n},\n" for n in range(20_000))
    moved = "".join(reversed(text.splitlines(keepends=True)))
    assert overlay.match(text, moved) == 1.0
    assert overlay.match(text, "") == 0.0
    assert overlay.match("", "") == 1.0


@pytest.mark.parametrize(
    "name", ["aten/x.cpp", "torch/csrc/x.cpp", "../x.py", "/etc/x.py", "setup.py", "torch/gone.py"]
)
def test_what_cannot_be_laid_over_is_refused_by_name(tmp_path: Path, site: Path, name: str) -> None:
    (tmp_path / "tree").mkdir()
    with pytest.raises(overlay.OverlayRefused, match=name):
        overlay.build(tmp_path / "tree", [name], site, tmp_path / "out")


def test_a_link_in_the_tree_leads_nowhere(tmp_path: Path, site: Path) -> None:
    (tmp_path / "tree/torch").mkdir(parents=True)
    (tmp_path / "tree/torch/x.py").symlink_to("/etc/passwd")
    with pytest.raises(overlay.OverlayRefused):
        overlay.build(tmp_path / "tree", ["torch/x.py"], site, tmp_path / "out")
