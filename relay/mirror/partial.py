"""A mirror without file contents: commits and folders are fetched, and of the files those that are asked for, at once.

Git would fetch what is missing by itself, one file a round trip; thousands of files in one request take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from relay.errors import UpstreamGone
from relay.mirror import command

REMOTE = "relay"
FILTER = "blob:none"
DEPTH = 300
"""commits of history that come with a commit: enough for the merge base of nearly every pull request"""
DEEPER = (3_000, 30_000)
"""where that was too little, before all of it is asked for"""
SPARSE = ("test", "torch", "torchgen", "tools", "aten/src/ATen", "c10", "version.txt")
"""the parts of upstream that selecting reads"""
_QUICK_S = 60.0


def configure(git_dir: Path, url: str) -> None:
    """Makes an empty repository a partial clone of ``url``, or tells an existing one its new address."""
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", REMOTE),
        (f"remote.{REMOTE}.url", url),
        (f"remote.{REMOTE}.promisor", "true"),
        (f"remote.{REMOTE}.partialCloneFilter", FILTER),
    ):
        said = command.git(git_dir, "config", key, value, timeout_s=_QUICK_S)
        if said.code != 0:
            raise UpstreamGone(f"{git_dir} cannot be set up: {said.problem}", "remove the folder: it is made anew")


def is_partial(git_dir: Path) -> bool:
    """Whether the repository was made as a partial clone."""
    return command.git(git_dir, "config", "extensions.partialClone", timeout_s=_QUICK_S).code == 0


def missing(git_dir: Path, shas: Sequence[str], paths: Iterable[str]) -> list[str]:
    """Ids of the files at or below ``paths`` in the commits that the repository does not hold. Fetches nothing."""
    given = "\n".join([*shas, "--", *paths, ""]).encode("utf-8", "surrogateescape")
    args = ("--literal-pathspecs", "rev-list", "--objects", "--missing=print", "--no-walk", "--stdin")
    said = command.git(git_dir, *args, timeout_s=_QUICK_S * 2, given=given)
    if said.code != 0:
        raise UpstreamGone(f"{git_dir}: {said.problem}")
    return sorted({line[1:] for line in said.out.decode("ascii", "replace").splitlines() if line.startswith("?")})


def get(git_dir: Path, ids: Iterable[str], *, timeout_s: float, lock: int) -> None:
    """Fetches objects by id, all in one request. Raises UpstreamGone."""
    args = ("fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--quiet", f"--filter={FILTER}", "--stdin")
    said = command.git(
        git_dir,
        *("-c", "fetch.negotiationAlgorithm=noop"),
        *args,
        REMOTE,
        timeout_s=timeout_s,
        given="".join(f"{one}\n" for one in ids).encode(),
        pass_fds=(lock,),
    )
    if said.code != 0:
        raise UpstreamGone(f"files of upstream cannot be fetched: {said.problem}", "can this machine reach upstream?")
