"""The *overlay* runtime: the installed torch with a change's Python files laid over it.

A folder of links to the installed packages, in which only the folders on the way to a changed file are real. Nothing
is copied or compiled, the installed packages are never written to, and the folder is made in a few milliseconds.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from relay.errors import RelayError

PACKAGES = ("torch", "torchgen", "functorch")
BASE_FOLDER = ".base"
"""Where a tree may carry the base commit's text of an overlaid file: ``.base/torch/_refs/__init__.py``."""
MIN_MATCH = 0.95
"""Share of lines that base and installed file must have in common: below, other changes are in between."""


class OverlayRefused(RelayError):
    """A change's file cannot be laid over the installed torch; the run would not show what the change does."""

    code = "overlay-refused"
    status = 409


def build(tree: Path, files: Iterable[str], site: Path, out: Path) -> Path:
    """Makes ``out`` a folder to put first on ``sys.path``: ``site``'s packages with the tree's ``files`` in place.

    ``site`` is the folder that holds the installed ``torch``; ``files`` are relative (``torch/_refs/__init__.py``).
    Raises OverlayRefused with the first file that cannot be laid over, and the reason.
    """
    files = tuple(files)
    for refused in refusals(tree, files, site).values():
        raise refused
    wanted = [PurePosixPath(name) for name in files]
    out.mkdir(parents=True, exist_ok=True)
    for package in sorted({path.parts[0] for path in wanted} | {"torch"}):
        if (site / package).is_dir():
            (out / package).symlink_to(site / package, target_is_directory=True)
    for path in wanted:
        folder = out
        for part in path.parts[:-1]:
            folder = folder / part
            _make_real(folder)
        target = folder / path.name
        target.unlink(missing_ok=True)
        target.write_bytes((tree / path).read_bytes())
    return out


def needed(tree: Path, files: Iterable[str], site: Path) -> bool:
    """Whether the tree's files can be laid over the torch in ``site`` and one of them differs from it.

    If not, the run's torch is the one that is installed.
    """
    files = tuple(files)
    if refusals(tree, files, site):
        return False
    return any(
        not (site / name).is_file() or (site / name).read_bytes() != (tree / name).read_bytes() for name in files
    )


def installed_site() -> Path | None:
    """The folder that holds the installed torch, which is not imported; None when there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).parent


def refusals(tree: Path, files: Iterable[str], site: Path) -> dict[str, OverlayRefused]:
    """The files that cannot be laid over the torch in ``site``, each with the reason."""
    found = {}
    for name in files:
        try:
            _check(tree, site, name)
        except OverlayRefused as exc:
            found[name] = exc
    return found


def _check(tree: Path, site: Path, name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.suffix != ".py" or path.parts[0] not in PACKAGES:
        raise OverlayRefused(
            f"{name} cannot be laid over the installed torch",
            f"only Python files of {', '.join(PACKAGES)} can; other changes need a build",
        )
    source = tree / path
    if source.is_symlink() or not source.is_file():
        raise OverlayRefused(f"{name} is not a file of the tree", "a removed file needs a build")
    base, installed = tree / BASE_FOLDER / path, site / path
    if not base.is_file():
        return  # a file that the change adds, or a tree without the base's texts: nothing to compare with
    if not installed.is_file():
        raise OverlayRefused(
            f"{name}: the installed torch has no such file, and the change's base has",
            "install a torch nearer to the base commit, or build the change",
        )
    share = match(base.read_text("utf-8", "replace"), installed.read_text("utf-8", "replace"))
    if share < MIN_MATCH:
        raise OverlayRefused(
            f"{name}: the change's base and the installed torch share only {share:.0%} of the file's lines",
            "install a torch nearer to the base commit, or build the change",
        )


def match(base: str, installed: str) -> float:
    """Share of lines two texts have in common, 0..1, in whatever order: in time that grows with the lines only."""
    if base == installed:
        return 1.0
    ours, theirs = Counter(base.splitlines()), Counter(installed.splitlines())
    return 2 * (ours & theirs).total() / max(1, ours.total() + theirs.total())


def _make_real(folder: Path) -> None:
    """Turns a link to a folder into a folder of links to its entries; makes a folder that is not there."""
    if folder.is_symlink():
        source = folder.resolve()
        folder.unlink()
        folder.mkdir()
        for entry in source.iterdir():
            if entry.name != "__pycache__":
                (folder / entry.name).symlink_to(entry)
        # a real folder of links to compiled files: unchanged modules are not compiled again, and whatever is
        # written here replaces the link, not the installed file
        cache = folder / "__pycache__"
        cache.mkdir()
        if (source / "__pycache__").is_dir():
            for entry in (source / "__pycache__").iterdir():
                (cache / entry.name).symlink_to(entry)
    else:
        folder.mkdir(exist_ok=True)
