"""``relay run --base``: what of a tree's change the installed torch can be given, so that a failure of a change of
torch's own Python files shows at home as it did in the relay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from relay.cli.select import GIT_S, LocalRepository
from relay.errors import SettingsError, UpstreamGone
from relay.mirror import command
from relay.worker import overlay


@dataclass(frozen=True, slots=True)
class Laid:
    """``files``: the changed Python files that are laid over the installed torch, all of them or none, since they may
    need each other. ``left``: what the run does not contain of the change -> why."""

    files: tuple[str, ...]
    left: dict[str, str]


def laid_over(tree: Path, base: str) -> Laid:
    """Compares ``tree`` as it lies there with where its commit left ``base``.

    Raises SettingsError, BadRequest, UpstreamGone."""
    repository = LocalRepository(tree)
    start = _left_at(repository, repository.commit(base))
    changed = sorted(_changed(repository, tree, start))
    site = overlay.installed_site()
    if site is None:
        raise SettingsError("torch is not installed", "install it: the README says how")
    left = {path: "it is no Python file of torch: only a build contains it" for path in changed if not _python(path)}
    ours = [path for path in changed if _python(path)]
    refused = {path: problem.message for path, problem in overlay.refusals(tree, ours, site).items()}
    for path in ours:
        was = command.git(repository.path, "show", f"{start}:{path}", timeout_s=GIT_S)
        installed = site / path
        if path in refused or was.code != 0:
            continue  # a file that the change adds: nothing to compare with
        if not installed.is_file():
            refused[path] = "the installed torch has no such file"
            continue
        share = overlay.match(was.out.decode("utf-8", "replace"), installed.read_text("utf-8", "replace"))
        if share < overlay.MIN_MATCH:
            refused[path] = f"its base and the installed torch share only {share:.0%} of its lines"
    if refused:
        first = next(iter(refused))
        return Laid((), left | {path: refused.get(path, f"not without {first}") for path in ours})
    return Laid(tuple(ours), left)


def _python(path: str) -> bool:
    return path.endswith(".py") and path.partition("/")[0] in overlay.PACKAGES


def _left_at(repository: LocalRepository, base: str) -> str:
    said = command.git(repository.path, "merge-base", base, "HEAD", timeout_s=GIT_S)
    return said.out.decode("ascii").split()[0] if said.code == 0 and said.out else base


def _changed(repository: LocalRepository, tree: Path, start: str) -> Iterator[str]:
    """Paths that differ and reach a test without lying under test/, those that are not committed yet among them."""
    asked = ("diff", "--name-only", "--no-renames", "-z", start, "--", *overlay.PACKAGES, "aten", "c10", "tools")
    said = command.git(repository.path, f"--work-tree={tree.absolute()}", *asked, timeout_s=GIT_S)
    if said.code != 0:
        raise UpstreamGone(f"{tree}: git cannot compare it with {start[:10]}: {said.problem}", "is its history whole?")
    yield from (path for path in said.out.decode("utf-8", "surrogateescape").split("\0") if path)
