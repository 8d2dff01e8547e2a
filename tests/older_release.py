"""The release before this one, as sources in a folder: what is still running while a deployment goes on."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = "relay/store/migrations/versions"
LOOK_BACK = 400
"""Commits."""


def _git(*args: str) -> str:
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def older_commit() -> str:
    """The newest release tag that is not this very commit; before the first release, the oldest commit that has the
    same tables as this one: until then the tables may change under an unreleased migration."""
    here = _git("rev-parse", "HEAD")
    for tag in _git("tag", "--merged", "HEAD", "--sort=-creatordate", "--list", "v*").split():
        if _git("rev-parse", f"{tag}^{{commit}}") != here:
            return tag
    mine = _git("rev-parse", f"HEAD:{MIGRATIONS}")
    found = here
    for commit in _git("rev-list", "--first-parent", f"--max-count={LOOK_BACK}", "HEAD").split():
        if _git("rev-parse", f"{commit}:{MIGRATIONS}") != mine:
            break
        found = commit
    return found


def unpack(commit: str, to: Path) -> Path:
    """The sources of a commit; -> the folder for PYTHONPATH."""
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "archive", commit, "relay", "selector"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    to.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(to)  # our own repository's
    return to
