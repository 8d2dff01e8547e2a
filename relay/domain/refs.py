"""Rules about refs, as globs: which pushes of upstream are told, which refs of a downstream may report. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

TAKEN_REFS = (
    "refs/heads/main",
    "refs/heads/master",
    "refs/heads/nightly",
    "refs/heads/viable/strict",
    "refs/heads/release/**",
    "refs/tags/v[0-9]*",
    "refs/tags/ciflow/**",
)
"""Pushes that are told to downstreams: trunk, releases, CI labels. Upstream's stacked-commit tool pushes thousands of
helper branches a week, of which nobody wants to hear."""


def fits(name: str, globs: Iterable[str]) -> bool:
    """Whether ``name`` is one that a glob means: ``*`` and ``?`` stop at a slash, ``**`` does not, ``[0-9]`` is one
    of these. A glob without ``refs/`` in front means a branch of that name as well."""
    return any(_pattern(glob).fullmatch(name) for glob in globs)


def problem(glob: str) -> str | None:
    """What is wrong with a glob; None: nothing."""
    if not glob or any(c.isspace() or ord(c) < 32 for c in glob) or len(glob) > 255:
        return "a glob is 1 to 255 characters without spaces"
    try:
        _pattern(glob)
    except re.error as exc:
        return f"not a glob: {exc}"
    return None


@functools.lru_cache(1024)
def _pattern(glob: str) -> re.Pattern[str]:
    out, at = "", 0
    while at < len(glob):
        rest = glob[at:]
        if rest.startswith("**"):
            out, at = out + ".*", at + 2
        elif rest[0] in "*?":
            out, at = out + ("[^/]*" if rest[0] == "*" else "[^/]"), at + 1
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2) + 1
            inside = rest[1 : end - 1].replace("\\", r"\\").replace("[", r"\[")
            out, at = out + f"[{'^' + inside[1:] if inside[0] == '!' else inside}]", at + end
        else:
            out, at = out + re.escape(rest[0]), at + 1
    if not glob.startswith("refs/"):
        out = f"(?:refs/heads/)?{out}"
    return re.compile(out, re.DOTALL)
