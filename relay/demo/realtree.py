"""A real tree as the demo's upstream: a git repository or a folder of sources, and a pull request made on the spot.

The repository borrows the objects of the one it is given and writes only the pull request's; a plain folder is imported
as one commit. Nothing is checked out, and nothing is written to what was given.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from relay.demo.upstream import PR_NUMBER, DemoError, DemoUpstream
from relay.mirror import command, partial
from relay.mirror.git import Mirror

EDITED = "test/test_view_ops.py"
"""the file whose most used helper the pull request edits, where no patch is given"""
MARK = "edited_by_the_demo = True"
LIST_S = 60.0
_DATE = "2026-11-02T09:00:00+00:00"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a real tree comes from (a folder or a URL), and the patch that is its pull request."""

    upstream: str
    patch: Path | None = None


def real_upstream(dir: Path, source: Source, clones: Path) -> DemoUpstream:
    """The demo's upstream out of a real tree. ``clones`` keeps what was fetched from URLs. Raises DemoError."""
    url = source.upstream
    if "://" not in url:
        return build(dir, Path(url).expanduser(), source.patch)
    return build(dir, clone(url, clones), source.patch)


def clone(url: str, clones: Path) -> Path:
    """A bare partial clone of what the URL's default branch is now: its newest commit, and only the files that the
    relay reads. Kept; the next time what is new is fetched. Raises DemoError, SettingsError, UpstreamGone."""
    said = command.git(None, "ls-remote", "--", url, "HEAD", timeout_s=LIST_S)
    sha = said.out.decode("ascii", "replace").split()
    if said.code != 0 or not sha:
        raise DemoError(f"{url} cannot be read: {said.problem}", "can this machine reach it, and is it a repository?")
    path = clones / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.git"
    mirror = Mirror(url, path, partial=True, depth=1)
    mirror.ensure(sha[0])
    mirror.prepare(sha[0])
    _git(path, "update-ref", "HEAD", sha[0])
    return path


@dataclass(frozen=True, slots=True)
class Edit:
    """A pull request's title, and what it changes: path -> new content, or a patch."""

    title: str
    files: dict[str, bytes]
    patch: Path | None = None


def build(dir: Path, source: Path, patch: Path | None = None) -> DemoUpstream:
    """Makes the bare repository ``dir`` (removed first): ``main`` is the tree in ``source``, ``refs/pull/<n>/head`` a
    change to a helper of ``test/test_view_ops.py``, or ``patch`` (a unified diff).

    Raises DemoError when the tree has no tests, no such helper, or does not take the patch.
    """
    if shutil.which("git") is None:
        raise DemoError("git is not on PATH", "install git: the relay needs it too")
    if not source.is_dir():
        raise DemoError(f"{source} is not a folder", "give a git repository, a folder of sources, or a URL")
    if patch is not None and not patch.is_file():
        raise DemoError(f"{patch} is not a file", "give a unified diff, as git diff prints it")
    shutil.rmtree(dir, ignore_errors=True)
    given = git_dir(source)
    _git(None, "init", "--quiet", "--bare", "--initial-branch=main", str(dir))
    for key, value in (
        ("gc.auto", "0"),
        ("uploadpack.allowAnySHA1InWant", "true"),
        ("uploadpack.allowFilter", "true"),
    ):
        _git(dir, "config", key, value)
    base = _borrow(dir, given) if given is not None else _import(dir, source)
    if not _git(dir, "ls-tree", "--name-only", base, "test/").strip():
        raise DemoError(f"{source} has no folder test/", "give the root of a PyTorch tree")
    edit = Edit(f"Apply {patch.name}", {}, patch.absolute()) if patch is not None else helper_edit(dir, base)
    head = _commit(dir, base, edit)
    _git(dir, "update-ref", "refs/heads/main", base)
    _git(dir, "update-ref", f"refs/pull/{PR_NUMBER}/head", head)
    rows = [line.split("\t") for line in _git(dir, "diff", "--numstat", base, head).splitlines()]
    if not rows:
        raise DemoError("the pull request changes nothing", "give a patch that does")
    pr = {
        "number": PR_NUMBER,
        "title": edit.title,
        "body": "A change that the demo made to a real tree.",
        "author": "ada-example",
        "author_association": "CONTRIBUTOR",
        "base_ref": "main",
        "head_ref": "edited-by-the-demo",
        "commits": 1,
        "additions": sum(int(row[0]) for row in rows if row[0] != "-"),
        "deletions": sum(int(row[1]) for row in rows if row[1] != "-"),
        "changed_files": len(rows),
    }
    lacking = given is not None and partial.is_partial(given)
    return DemoUpstream(dir, base, head, pr, None, changed=tuple(row[2] for row in rows), partial=lacking)


def git_dir(source: Path) -> Path | None:
    """The git folder of a repository with or without a work tree; None for a plain folder."""
    for candidate in (source / ".git", source):
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
            return candidate.absolute()
    if (source / ".git").is_file():  # a linked work tree
        return Path(_git(source / ".git", "rev-parse", "--absolute-git-dir").strip())
    return None


def helper_edit(repo: Path, commit: str) -> Edit:
    """A statement without effect at the head of the helper that ``test/test_view_ops.py`` uses most."""
    found = _git_raw(repo, "cat-file", "blob", f"{commit}:{EDITED}")
    if found is None:
        raise DemoError(f"the tree has no {EDITED}", "say what the pull request is to change: --pr-edit FILE")
    name, content = edited_helper(found)
    return Edit(f"Edit {name} of {EDITED.rpartition('/')[2]}", {EDITED: content})


def edited_helper(source: bytes) -> tuple[str, bytes]:
    """(name, source) with a statement put at the head of the most used function or method that is no test itself."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as exc:
        raise DemoError(f"{EDITED} cannot be parsed: {exc}", "give a patch with --pr-edit FILE") from exc
    used = Counter(
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    members = [member for node in tree.body for member in [node, *getattr(node, "body", ())]]
    helpers = [
        node
        for node in members
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("test") and used[node.name]
    ]
    if not helpers:
        raise DemoError(f"{EDITED} has no helper that its tests use", "give a patch with --pr-edit FILE")
    helper = max(helpers, key=lambda node: used[node.name])
    first = helper.body[0]
    lines = source.splitlines(keepends=True)
    lines.insert(first.lineno - 1, b" " * first.col_offset + MARK.encode() + b"\n")
    return helper.name, b"".join(lines)


def _borrow(dir: Path, given: Path) -> str:
    """The commit that the given repository has checked out, its objects reachable from ``dir``."""
    head = _git(given, "rev-parse", "--verify", "HEAD^{commit}").strip()
    common = Path(_git(given, "rev-parse", "--path-format=absolute", "--git-common-dir").strip())
    alternates = dir / "objects" / "info" / "alternates"
    alternates.write_text(f"{common / 'objects'}\n")
    if (common / "shallow").is_file():
        shutil.copyfile(common / "shallow", dir / "shallow")  # git must know where the history ends
    return head


def _import(dir: Path, source: Path) -> str:
    index = {"GIT_INDEX_FILE": str(dir / "import.index")}
    _git(dir, f"--work-tree={source.absolute()}", "add", "--all", "--force", ".", env=index, cwd=source)
    tree = _git(dir, "write-tree", env=index).strip()
    (dir / "import.index").unlink()
    return _git(dir, "commit-tree", tree, "-m", f"Import {source.name}").strip()


def _commit(dir: Path, base: str, edit: Edit) -> str:
    index = {"GIT_INDEX_FILE": str(dir / "edit.index")}
    _git(dir, "read-tree", base, env=index)
    if edit.patch is not None:
        _git(dir, "apply", "--cached", str(edit.patch), env=index)
    for path, content in edit.files.items():
        blob = _git(dir, "hash-object", "-w", "--stdin", given=content).strip()
        _git(dir, "update-index", "--cacheinfo", f"100644,{blob},{path}", env=index)
    # of a partial clone most contents are elsewhere
    tree = _git(dir, "write-tree", "--missing-ok", env=index).strip()
    (dir / "edit.index").unlink()
    return _git(dir, "commit-tree", tree, "-p", base, "-m", edit.title).strip()


def _git_raw(repo: Path, *args: str) -> bytes | None:
    done = subprocess.run(["git", f"--git-dir={repo}", *args], env=_environment(), capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _git(
    repo: Path | None,
    *args: str,
    env: dict[str, str] | None = None,
    given: bytes | None = None,
    cwd: Path | None = None,
) -> str:
    where = [f"--git-dir={repo}"] if repo is not None else []
    done = subprocess.run(
        ["git", *where, *args], env=_environment() | (env or {}), input=given, cwd=cwd, capture_output=True, check=False
    )
    if done.returncode != 0:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DemoError(f"git {args[0]}: {told[-1] if told else f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "surrogateescape")


def _environment() -> dict[str, str]:
    who = {"NAME": "Ada Example", "EMAIL": "ada@example.org", "DATE": _DATE}
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
        # the user's own configuration (signing, hooks, templates) must not reach in here
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
