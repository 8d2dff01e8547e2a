"""Where ``relay select`` takes a change from: two commits, a patch file, or GitHub's comparison of two commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx2

from relay.errors import BadRequest, SettingsError, UpstreamGone
from relay.github.compare import MAX_FILES, compared
from relay.mirror import diff, patches
from relay.mirror.tree import Repository
from selector.model import Change, ChangeStatus, FileChange

FETCH_S = 30.0


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """One of ``head`` (a revision), ``patch`` (a file) and ``compare`` (a file or a URL). ``base``: the revision that
    the change is compared with; '' where the comparison names it, and for a patch the repository's HEAD."""

    base: str = ""
    head: str = ""
    patch: Path | None = None
    compare: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """A change and the repository that holds both of its commits. ``warnings``: what it does not hold."""

    repository: Repository
    change: Change
    warnings: tuple[str, ...] = ()


class Upstream(Repository, Protocol):
    def commit(self, revision: str) -> str: ...

    def change(self, base: str, head: str) -> Change: ...


@contextmanager
def opened(upstream: Upstream, source: ChangeSource) -> Iterator[Opened]:
    """Raises SettingsError where not exactly one source is given or a file cannot be read, BadRequest for what is no
    patch or no comparison, UpstreamGone for a commit that the repository does not hold."""
    given = [one for one in (source.head, source.patch, source.compare) if one]
    if len(given) != 1:
        raise SettingsError(f"{len(given)} changes are given", "give one of --head, --patch and --compare")
    if source.head:
        if not source.base:
            raise SettingsError("--head without --base", "name the revision that it is compared with")
        yield Opened(upstream, upstream.change(upstream.commit(source.base), upstream.commit(source.head)))
    elif source.patch is not None:
        data = _read(source.patch)
        base = upstream.commit(source.base or "HEAD")
        with patches.applied(upstream.path, base, data) as scratch:
            files = diff.changes(scratch.path, base, scratch.commit)
            yield Opened(scratch, Change(base, scratch.commit, files, patches.title_of(data)))
    else:
        with _by_comparison(upstream, source) as found:
            yield found


@contextmanager
def _by_comparison(upstream: Upstream, source: ChangeSource) -> Iterator[Opened]:
    answer = compared(_fetched(source.compare) if "://" in source.compare else _read(Path(source.compare)))
    base = upstream.commit(source.base or answer.base)
    with patches.applied(upstream.path, base, answer.patch) as scratch:
        files = list(diff.changes(scratch.path, base, scratch.commit))
        warnings = []
        for path, status, earlier in answer.unread:
            # of what differs in it nothing is known: no rule may take it for read
            kind: ChangeStatus = "modified" if status in ("modified", "changed", "renamed") else "added"
            files.append(FileChange(path, kind, earlier or path, binary=True))
            warnings.append(f"{path}: the comparison leaves out what differs in it")
        if answer.cut:
            warnings.append(f"the comparison lists {MAX_FILES} files, as many as it can: there may be more")
        change = Change(base, scratch.commit, tuple(sorted(files, key=lambda one: one.path)), answer.title, answer.body)
        yield Opened(scratch, change, tuple(warnings))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", "name a file that can be read") from exc


def _fetched(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise BadRequest(f"{url} is no address of a comparison", "give an http(s) address or a file")
    try:
        answer = httpx2.get(url, headers={"Accept": "application/vnd.github+json"}, timeout=FETCH_S)
    except httpx2.HTTPError as exc:
        raise UpstreamGone(
            f"{url} cannot be read: {exc}", "is the host reachable? A saved answer does as well"
        ) from exc
    if answer.status_code != 200:
        hint = "a private repository needs a token: save the answer with one, and give the file"
        raise UpstreamGone(f"{url} answered {answer.status_code}", hint)
    return answer.content
