"""GitHub's answer to "compare two commits", as a patch that git can apply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.domain.fields import is_sha
from relay.errors import BadRequest

MAX_FILES = 300
"""files that GitHub lists at most; an answer with as many may lack some"""
_HINT = "give the JSON of GET /repos/{owner}/{repo}/compare/{base}...{head}"


@dataclass(frozen=True, slots=True)
class Compared:
    """``patch`` is against the commit ``base`` (the merge base); ``title`` and ``body`` are the newest commit's.

    ``unread``: (path, status, earlier path) of files whose difference GitHub leaves out (binary, or too large);
    ``cut``: the answer is full, so files may be missing.
    """

    base: str
    head: str
    title: str
    body: str
    patch: bytes
    unread: tuple[tuple[str, str, str | None], ...]
    cut: bool


def compared(text: str | bytes) -> Compared:
    """Reads the answer. Raises BadRequest naming what is missing or of the wrong kind."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"the comparison is not JSON: {exc}", _HINT) from exc
    if not isinstance(value, Mapping) or not isinstance(value.get("files"), list):
        raise BadRequest("the comparison has no list of files", _HINT)
    base = _sha(value, "merge_base_commit")
    commits = value.get("commits")
    last: Mapping[str, Any] = commits[-1] if isinstance(commits, list) and commits else {}
    said = last.get("commit", {}) if isinstance(last, Mapping) else {}
    message = said.get("message", "") if isinstance(said, Mapping) else ""
    title, _, body = message.partition("\n") if isinstance(message, str) else ("", "", "")
    parts: list[str] = []
    unread: list[tuple[str, str, str | None]] = []
    for number, file in enumerate(value["files"]):
        _file(file, number, parts, unread)
    head = str(last.get("sha") or "") if isinstance(last, Mapping) else ""
    patch = "".join(parts).encode("utf-8", "surrogatepass")
    cut = len(value["files"]) >= MAX_FILES
    return Compared(base, head if is_sha(head) else "", title, body.strip(), patch, tuple(unread), cut)


def _sha(value: Mapping[str, Any], key: str) -> str:
    commit = value.get(key)
    sha = commit.get("sha") if isinstance(commit, Mapping) else None
    if not isinstance(sha, str) or not is_sha(sha):
        raise BadRequest(f"the comparison has no {key} with a commit id", _HINT)
    return sha


def _file(file: Any, number: int, parts: list[str], unread: list[tuple[str, str, str | None]]) -> None:
    where = f"file {number} of the comparison"
    if not isinstance(file, Mapping):
        raise BadRequest(f"{where} is not an object", _HINT)
    path, status, patch = file.get("filename"), file.get("status"), file.get("patch")
    if not isinstance(path, str) or not path or not isinstance(status, str):
        raise BadRequest(f"{where} has no filename or no status", _HINT)
    if patch is not None and not isinstance(patch, str):
        raise BadRequest(f"{where} ({path}): its patch is not text", _HINT)
    earlier = file.get("previous_filename")
    old = earlier if isinstance(earlier, str) and status in ("renamed", "copied") else path
    if status == "unchanged":
        return
    if patch is None and file.get("changes") != 0:
        # nothing of it can be applied: it is said, and counts as not understood
        unread.append((path, status, old if old != path else None))
        return
    parts.append(f"diff --git {_quoted('a/' + old)} {_quoted('b/' + path)}\n")
    if status == "added":
        parts.append("new file mode 100644\n")
    elif status == "removed":
        parts.append("deleted file mode 100644\n")
    elif status in ("renamed", "copied"):
        word = "rename" if status == "renamed" else "copy"
        parts.append(f"{word} from {_quoted(old)}\n{word} to {_quoted(path)}\n")
    if patch:
        before = "/dev/null" if status == "added" else _quoted("a/" + old)
        after = "/dev/null" if status == "removed" else _quoted("b/" + path)
        parts.append(f"--- {before}\n+++ {after}\n{patch}\n")


def _quoted(path: str) -> str:
    """A path as git writes it in a diff."""
    if all(" " < c <= "~" and c not in '"\\' for c in path):
        return path
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}" for byte in path.encode()
    )
    return f'"{escaped}"'
