"""A change that is no commit yet, as one: git applies a patch to a commit in a scratch repository beside it.

Nothing is written to the repository that the commit is in; the scratch borrows its objects.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from relay.errors import BadRequest, UpstreamGone
from relay.mirror import command

TIMEOUT_S = 120.0
MAX_BYTES = 64_000_000
"""a larger patch is refused"""
_SUBJECT = re.compile(rb"^Subject: (?:\[PATCH[^\]]*\] )?(.+(?:\n[ \t].+)*)", re.MULTILINE)
_WHO = ("-c", "user.name=relay", "-c", "user.email=relay@localhost")


@dataclass(frozen=True, slots=True)
class Scratch:
    """A bare repository that holds ``commit`` and borrows everything else."""

    path: Path
    commit: str


@contextmanager
def applied(git_dir: Path, base: str, patch: bytes) -> Iterator[Scratch]:
    """``base`` with the patch applied, as a commit that is gone with the block. ``patch``: a unified diff, of git or
    not, or mails of ``git format-patch``.

    Raises BadRequest when it does not apply (naming the file and line that git names), UpstreamGone when the repository
    cannot be used.
    """
    if len(patch) > MAX_BYTES:
        raise BadRequest(f"the patch has {len(patch)} bytes, more than {MAX_BYTES}", "split it, or give a commit")
    with tempfile.TemporaryDirectory(prefix="relay-patch-") as folder:
        scratch = Path(folder) / "scratch.git"
        _git(None, "init", "--quiet", "--bare", str(scratch))
        objects = _git(git_dir, "rev-parse", "--git-path", "objects").decode("utf-8", "surrogateescape").strip()
        borrowed = (git_dir / objects).resolve() if not Path(objects).is_absolute() else Path(objects)
        (scratch / "objects" / "info" / "alternates").write_bytes(bytes(borrowed) + b"\n")
        _git(scratch, "read-tree", base)
        if patch.strip():
            said = command.git(
                scratch, "apply", "--cached", "--whitespace=nowarn", "-", timeout_s=TIMEOUT_S, given=patch
            )
            if said.code != 0:
                problem = said.problem.removeprefix("error: ")
                hint = f"is the patch against {base[:12]}? Name the commit it is against with --base"
                raise BadRequest(f"the patch does not apply: {problem}", hint)
        tree = _git(scratch, "write-tree").decode("ascii").strip()
        made = _git(scratch, *_WHO, "commit-tree", tree, "-p", base, "-m", "A patch")
        yield Scratch(scratch, made.decode("ascii").strip())


def title_of(patch: bytes) -> str:
    """The subject of the first mail of a ``git format-patch``; '' for a bare diff."""
    found = _SUBJECT.search(patch[:100_000].partition(b"\ndiff --git ")[0])
    return " ".join(found.group(1).decode("utf-8", "replace").split()) if found else ""


def _git(git_dir: Path | None, *args: str) -> bytes:
    said = command.git(git_dir, *args, timeout_s=TIMEOUT_S)
    if said.code != 0:
        name = next((arg for arg in args if not arg.startswith("-") and "=" not in arg), args[0])
        raise UpstreamGone(f"git {name}: {said.problem}", "is the repository whole, and does it hold the base?")
    return said.out
