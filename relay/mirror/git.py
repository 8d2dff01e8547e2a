"""A bare mirror of upstream: fetches the commits that are asked for, and hands out trees, changes and archives.

Any number of processes may use one mirror: fetching takes a file lock, reading takes none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from relay.domain.fields import is_sha
from relay.errors import SettingsError, Unavailable, UpstreamGone
from relay.mirror import archive, command, diff
from relay.mirror import partial as partial_clone
from relay.mirror import tidy as tidying
from relay.mirror.tree import GitTree
from selector.model import Change

__all__ = ["GitTree", "Mirror"]

log = structlog.get_logger(__name__)
QUICK_S = 60.0
_LEFTOVERS = ("refs/**/*.lock", "packed-refs.lock", "shallow.lock", "config.lock", "objects/pack/tmp_*")


class Mirror:
    """The mirror of ``url`` (https, ssh, file, or a folder) in the folder ``path``, made when first needed.

    ``fetch_timeout_s`` bounds one fetch, and the wait for another process's: the first fetch of a large upstream takes
    minutes. ``partial``: commits come with ``depth`` commits of history and without file contents, which are fetched
    for what is read (``prepare``). Raises SettingsError for a URL that git would take for an option or of a protocol
    that is not allowed.
    """

    def __init__(
        self,
        url: str,
        path: Path,
        *,
        fetch_timeout_s: float = 1800.0,
        partial: bool = False,
        depth: int = partial_clone.DEPTH,
    ) -> None:
        self.url = _checked(url)
        self.path = Path(path).absolute()
        self.fetch_timeout_s = fetch_timeout_s
        self.partial = partial
        self.depth = depth

    def ensure(self, *shas: str, pr_number: int | None = None) -> None:
        """Fetches those of the commits that the mirror does not hold yet, with their history: by id, and where
        upstream does not serve ids, through the pull request's ref or the branches.

        Raises UpstreamGone naming the commit when upstream does not have it (any more) or cannot be reached, and
        Unavailable when another process fetches for longer than the limit.
        """
        for sha in shas:
            _check_sha(sha)
        if self._missing(shas):
            with self._locked() as lock:
                self._make(lock)
                missing = self._missing(shas)
                if missing:
                    self._fetch_missing(missing, pr_number, lock)
        tidying.used(self.path, *shas)

    def tip(self, branch: str) -> str:
        """The commit that a branch of upstream is at now, fetched. Raises SettingsError for what is no name of one,
        UpstreamGone where upstream has none of it or cannot be reached, Unavailable."""
        ref = f"refs/heads/{branch}"
        if command.git(None, "check-ref-format", ref, timeout_s=QUICK_S).code != 0 or "*" in branch:
            raise SettingsError(f"{branch!r} is not the name of a branch", "nightly_ref is a branch of upstream")
        with self._locked() as lock:
            self._make(lock)
            said = self._fetch([f"+{ref}:refs/relay/heads/{branch}"], lock)
        if said.code != 0:
            raise UpstreamGone(f"branch {branch} cannot be fetched from {self.url}: {said.problem}")
        found = command.git(self.path, "rev-parse", f"refs/relay/heads/{branch}", timeout_s=QUICK_S)
        return found.out.decode("ascii").strip()

    def prepare(self, *shas: str, paths: Iterable[str] = partial_clone.SPARSE) -> None:
        """Fetches the contents at or below ``paths`` of commits that are there, those that a partial mirror lacks, in
        one request. Raises UpstreamGone, Unavailable."""
        if not self.partial:
            return
        wanted = list(paths)
        if partial_clone.missing(self.path, shas, wanted):
            with self._locked() as lock:
                left = partial_clone.missing(self.path, shas, wanted)
                if left:
                    began = time.monotonic()
                    partial_clone.get(self.path, left, timeout_s=self.fetch_timeout_s, lock=lock)
                    log.info("files fetched", files=len(left), seconds=round(time.monotonic() - began, 3))

    def tidy(self, now: float) -> None:
        """Once a day: lets go of commits that nobody asked for in a month. ``now``: seconds since the epoch. Does
        nothing while another process fetches."""
        if (self.path / "HEAD").exists() and tidying.is_due(self.path, now):
            with contextlib.suppress(Unavailable), self._locked(wait_s=0.0) as lock:
                tidying.tidy(self.path, now, lock)

    def tree(self, sha: str) -> GitTree:
        """The files of a commit that is there. Close it."""
        _check_sha(sha)
        return GitTree(self, sha)

    def merge_base(self, base: str, head: str) -> str | None:
        """The newest commit that both contain; None when their known histories do not meet."""
        _check_sha(base)
        _check_sha(head)
        said = command.git(self.path, "merge-base", base, head, timeout_s=QUICK_S)
        if said.code not in (0, 1):
            raise UpstreamGone(f"{base} and {head} cannot be compared: {said.problem}")
        return said.out.decode("ascii").split()[0] if said.out else None

    def change(
        self,
        base: str,
        head: str,
        title: str = "",
        body: str = "",
        *,
        pr_number: int | None = None,
        max_file_bytes: int = diff.MAX_FILE_BYTES,
    ) -> Change:
        """What ``head`` changes since it left ``base``, fetched when needed: ``Change.base`` is their merge base.

        Histories that do not meet (a shallow upstream, an orphan branch) are compared as they are, which shows too
        many changes rather than too few. Raises UpstreamGone, Unavailable.
        """
        self.ensure(base, head, pr_number=pr_number)
        common = self.merge_base(base, head)
        for depth in (*partial_clone.DEEPER, None) if self.partial else (None,):
            if common is None and (self.path / "shallow").exists():
                self._deepen(base, head, depth)
                common = self.merge_base(base, head)
        if common is None:
            log.warning("no merge base: the commits are compared as they are", base=base, head=head)
            common = base
        self.prepare(common, head, paths=diff.changed_paths(self.path, common, head) if self.partial else ())
        files = diff.changes(self.path, common, head, max_file_bytes=max_file_bytes)
        return Change(common, head, files, title, body)

    def archive(
        self,
        sha: str,
        paths: Iterable[str],
        *,
        without: Iterable[str] = (),
        base: str | None = None,
        base_paths: Iterable[str] = (),
        base_folder: str = ".base",
    ) -> Iterator[bytes]:
        """The commit's files at or below ``paths`` as chunks of a tar.gz, but for those below ``without``; fetched when
        needed. ``base_paths`` of the commit ``base`` are added below ``base_folder``. Paths that a commit does not hold
        are left out; NotFound when ``sha`` holds none of them."""
        also = None
        paths = tuple(paths)
        if base is not None and base_paths:
            base_paths = tuple(base_paths)
            self.ensure(sha, base)
            self.prepare(base, paths=base_paths)
            also = archive.Also(self.tree(base), tuple(base_paths), base_folder)
        else:
            self.ensure(sha)
        self.prepare(sha, paths=paths)
        return archive.pack(self.tree(sha), paths, without=without, also=also)

    def _missing(self, shas: Iterable[str]) -> list[str]:
        wanted = list(dict.fromkeys(shas))
        if not (self.path / "HEAD").exists():
            return wanted
        given = "".join(f"{sha}^{{commit}}\n" for sha in wanted).encode()
        # offline: a partial clone would fetch a commit that it lacks, with all of its history
        said = command.git(self.path, "cat-file", "--batch-check", timeout_s=QUICK_S, given=given, offline=True)
        if said.code != 0:
            raise UpstreamGone(f"{self.path}: {said.problem}", "remove the folder: it is made anew")
        answers = said.out.decode("ascii", "replace").splitlines()
        return [sha for sha, answer in zip(wanted, answers, strict=True) if answer.endswith(" missing")]

    def _only_commits(self, missing: list[str], lock: int) -> None:
        """Raises UpstreamGone for an id that upstream has, and that is no commit: no further fetch can mend that."""
        given = "".join(f"{sha}\n" for sha in missing).encode()
        said = command.git(self.path, "cat-file", "--batch-check", timeout_s=QUICK_S, given=given, offline=True)
        for line in said.out.decode("ascii", "replace").splitlines():
            sha, _, kind = line.partition(" ")
            kind = kind.partition(" ")[0]
            if kind in ("tree", "blob", "tag"):
                # a ref would keep it, and what it holds, from being tidied away
                command.git(self.path, "update-ref", "-d", _ref(sha), timeout_s=QUICK_S, pass_fds=(lock,))
                raise UpstreamGone(f"{sha} of {self.url} is a {kind}, not a commit", "a run needs a commit's id")

    def _fetch_missing(self, missing: list[str], pr_number: int | None, lock: int) -> None:
        tries = [[_by_id(sha) for sha in missing]]
        if len(missing) > 1:
            tries += [[_by_id(sha)] for sha in missing]  # one that is gone fails the whole fetch
        if pr_number is not None:
            tries.append([f"+refs/pull/{int(pr_number)}/head:refs/relay/pull/{int(pr_number)}"])
        tries.append(["+refs/heads/*:refs/relay/heads/*"])
        began = time.monotonic()
        problem = ""
        for refspecs in tries:
            said = self._fetch(refspecs, lock)
            missing = self._missing(missing)
            self._only_commits(missing, lock)
            if not missing:
                log.info("fetched", url=self.url, seconds=round(time.monotonic() - began, 3))
                return
            problem = problem or said.problem
        names = ", ".join(missing)
        hint = "force-pushed away or deleted" if "not our ref" in problem else "can this machine reach upstream?"
        raise UpstreamGone(f"commit {names} cannot be fetched from {self.url}: {problem}", hint)

    def _fetch(self, refspecs: list[str], lock: int, *options: str) -> command.Answer:
        flags = ["--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--quiet", "--update-shallow"]
        if self.partial:
            # always with a depth: whoever is behind the boundary of what we have would bring all of history along
            flags += [f"--filter={partial_clone.FILTER}", *(options or (f"--depth={self.depth}",))]
        else:
            flags += options
        args = ("fetch", *flags, "--", partial_clone.REMOTE if self.partial else self.url, *refspecs)
        return command.git(self.path, *args, timeout_s=self.fetch_timeout_s, pass_fds=(lock,))

    def _deepen(self, base: str, head: str, depth: int | None) -> None:
        """Gets history that a shallow mirror lacks: ``depth`` commits of both, or all, as far as upstream has it."""
        both = [_by_id(base), _by_id(head)]
        with self._locked() as lock:
            if depth is not None:
                said = self._fetch(both, lock, f"--depth={depth}")
            else:
                said = self._fetch(both if self.partial else ["+refs/heads/*:refs/relay/heads/*"], lock, "--unshallow")
        if said.code != 0:
            log.warning("the mirror stays shallow", problem=said.problem)

    def _make(self, lock: int) -> None:
        """The empty mirror, all at once; and, beside an existing one, away with what a killed git left."""
        if (self.path / "HEAD").exists():
            for pattern in _LEFTOVERS:
                for leftover in self.path.glob(pattern):
                    leftover.unlink(missing_ok=True)
            if self.partial:
                partial_clone.configure(self.path, self.url)
            return
        fresh = Path(tempfile.mkdtemp(prefix=f"{self.path.name}.", dir=self.path.parent))
        said = command.git(None, "init", "--bare", "--quiet", str(fresh), timeout_s=QUICK_S, pass_fds=(lock,))
        if said.code != 0:
            shutil.rmtree(fresh)
            raise UpstreamGone(f"{self.path} cannot be made: {said.problem}")
        if self.partial:
            partial_clone.configure(fresh, self.url)
        if self.path.exists():  # half a mirror, without its HEAD
            shutil.rmtree(self.path)
        fresh.rename(self.path)

    @contextmanager
    def _locked(self, wait_s: float | None = None) -> Iterator[int]:
        """The lock's file descriptor. Git inherits it: should we be killed, it stays locked until that git ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            until = time.monotonic() + (self.fetch_timeout_s if wait_s is None else wait_s)
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > until:
                    raise Unavailable(
                        f"another process fetches into {self.path} for too long", "look for a hanging git"
                    )
                time.sleep(0.05)
            yield lock
        finally:
            os.close(lock)


def _by_id(sha: str) -> str:
    return f"+{sha}:{_ref(sha)}"


def _ref(sha: str) -> str:
    return f"refs/relay/commits/{sha}"


def _check_sha(sha: str) -> None:
    # it goes onto a command line: nothing but a commit id may
    if not is_sha(sha):
        raise UpstreamGone(f"{sha[:60]!r} is not a commit id", "40 lower-case hex digits")


def _checked(url: str) -> str:
    scheme, found, _ = url.partition("://")
    if found:
        if scheme not in command.PROTOCOLS:
            allowed = ", ".join(command.PROTOCOLS)
            raise SettingsError(f"upstream_url: protocol {scheme} is not allowed", f"use {allowed}, or a folder")
        return url
    if not url or url.startswith("-") or "::" in url:
        raise SettingsError(f"upstream_url: {url!r} is not a git URL or a folder", "for example https://github.com/o/r")
    return str(Path(url).absolute()) if "@" not in url.partition("/")[0] else url
