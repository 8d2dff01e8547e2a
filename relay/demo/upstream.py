"""Makes the demo's upstream: a git repository with a base commit and a pull request that breaks a known set of tests.

The tests lie in ``relay/demo/tree``; ``torch/_refs/__init__.py`` is copied from the installed torch, so that the PR's
edit of an operator's Python reference can be laid over it (the *overlay* runtime). Nothing here imports torch.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.errors import RelayError

TREE = Path(__file__).with_name("tree")
REFS = "torch/_refs/__init__.py"
HELPERS = "test/ladder_operands.py"
POINTWISE = "test/test_pointwise_demo.py"
REFS_TEST = "test/test_refs_demo.py"
NOTES = "docs/source/notes/numerics.md"
PR_NUMBER = 183002

FIND_TORCH = """\
import importlib.metadata, importlib.util, sys
spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    sys.exit("torch is not installed for " + sys.executable)
print(list(spec.submodule_search_locations)[0])
print(importlib.metadata.version("torch"))
"""


class DemoError(RelayError):
    """The demo cannot be set up or did not do what it must."""

    code = "demo-failed"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a true verdict on the demo's PR says. All test ids are ``file::Class::method``."""

    conclusion: str
    regressions: frozenset[str]
    """tests of which at least one variant fails at head and passes at base"""
    regressed_variants: frozenset[str]
    """``file::Class::variant`` of exactly the failing variants"""
    pre_existing: frozenset[str]
    """tests that fail on the device on both sides"""
    passing: frozenset[str]
    """tests that must have been selected, and pass"""
    irrelevant: frozenset[str]
    """tests that the change reaches but that are not for this device"""
    untouched: frozenset[str]
    """tests that the change does not reach: they must not run"""


@dataclass(frozen=True, slots=True)
class DemoUpstream:
    """The repository at ``path``; ``pr`` holds number, title, body, author, refs and size of the pull request;
    ``expect`` what must come out (None: a real tree, of which nobody knows)."""

    path: Path
    base_sha: str
    head_sha: str
    pr: dict[str, Any]
    expect: Expectation | None
    torch: str = ""
    changed: tuple[str, ...] = field(default=())
    partial: bool = False
    """the repository lacks the contents of files that the relay does not read"""


def _ids(file: str, cls: str, *methods: str) -> frozenset[str]:
    return frozenset(f"{file}::{cls}::{method}" for method in methods)


EXPECT = Expectation(
    conclusion="failure",
    regressions=_ids(
        POINTWISE, "TestPointwiseDemo", "test_weighted_rows", "test_weighted_difference", "test_clamp_from_below"
    )
    | _ids(REFS_TEST, "TestRefsDemo", "test_ref_matches_operator"),
    regressed_variants=_ids(
        POINTWISE,
        "TestPointwiseDemo",
        "test_weighted_rows_spyre_float16",
        "test_weighted_rows_spyre_float32",
        "test_weighted_difference_spyre_float16",
        "test_weighted_difference_spyre_float32",
        "test_clamp_from_below_spyre_float32",
    )
    | _ids(
        REFS_TEST,
        "TestRefsDemo",
        "test_ref_matches_operator__refs_addcdiv_spyre_float16",
        "test_ref_matches_operator__refs_addcdiv_spyre_float32",
    ),
    pre_existing=_ids(POINTWISE, "TestPointwiseDemo", "test_offset_by_weights"),
    passing=_ids(
        POINTWISE, "TestPointwiseDemo", "test_unary_matches_cpu", "test_binary_matches_cpu", "test_subtract_in_place"
    ),
    irrelevant=_ids("test/test_host_demo.py", "TestHostDemo", "test_ladder_values_rise_evenly")
    | _ids(POINTWISE, "TestPointwiseDemo", "test_weights_across_streams"),
    untouched=_ids("test/test_reductions_demo.py", "TestReductionsDemo", "test_whole_tensor", "test_sum_along")
    | _ids("test/test_modules_demo.py", "TestModulesDemo", "test_forward")
    | _ids("test/test_cuda_demo.py", "TestCudaDemo", "test_caching_allocator_reuses_blocks")
    | _ids(POINTWISE, "TestPointwiseDemo", "test_halves_are_views"),
)

# The pull request, as (file, before, after); `before` must be there exactly once.
EDITS: tuple[tuple[str, str, str], ...] = (
    # a harmless new parameter: reaches nearly every test, breaks none
    (HELPERS, "def ladder_values(count, step=0.25):", "def ladder_values(count, step=0.25, start=0.0):"),
    (
        HELPERS,
        '    """``count`` rising numbers: step, 2 * step, 3 * step, ..."""\n'
        "    return [step * (i + 1) for i in range(count)]",
        '    """``count`` rising numbers: start + step, start + 2 * step, ..."""\n'
        "    return [start + step * (i + 1) for i in range(count)]",
    ),
    # the weights lose their device: right on the CPU, mixed devices everywhere else
    (
        HELPERS,
        "    return torch.tensor(ladder_values(tensor.shape[-1]), device=tensor.device, dtype=tensor.dtype)",
        "    values = ladder_values(tensor.shape[-1])\n    return torch.tensor(values, dtype=tensor.dtype)",
    ),
    # an edited test that builds its floor on the CPU, and a new one that is fine
    (
        POINTWISE,
        "        floor = torch.full((6,), 1.0, device=device, dtype=dtype)",
        "        floor = torch.ones(values.shape[-1], dtype=dtype)",
    ),
    (
        POINTWISE,
        "    @dtypes(torch.float32)\n    def test_clamp_from_below",
        "    @dtypes(torch.float32)\n"
        "    def test_subtract_in_place(self, device, dtype):\n"
        "        rest = ladder((4, 4), device=device, dtype=dtype)\n"
        "        rest.sub_(rest.clone())\n"
        "        self.assertEqual(rest.cpu(), torch.zeros(4, 4, dtype=dtype))\n"
        "\n"
        "    @dtypes(torch.float32)\n    def test_clamp_from_below",
    ),
    (
        NOTES,
        "* Reductions may sum in any order.",
        "* Reductions may sum in any order.\n* `addcdiv` rounds `value` to the operands' dtype before it multiplies.",
    ),
)


def build(dir: Path, python: str) -> DemoUpstream:
    """Makes the repository in ``dir`` (emptied first) for the torch that ``python`` has installed.

    ``main`` is the base, ``refs/pull/<n>/head`` the PR, as on GitHub. Commit ids are the same for the same torch.
    Raises DemoError when git or torch is missing, or torch's source is not what the PR's edit expects.
    """
    if shutil.which("git") is None:
        raise DemoError("git is not on PATH", "install git: the relay needs it too")
    package, version = _find_torch(python)
    shutil.rmtree(dir, ignore_errors=True)
    shutil.copytree(TREE, dir, ignore=shutil.ignore_patterns("__pycache__"))
    refs = dir / REFS
    refs.parent.mkdir(parents=True)
    shutil.copyfile(package / "_refs" / "__init__.py", refs)
    (dir / "version.txt").write_text(version.split("+")[0] + "\n")

    _git(dir, "init", "--quiet", "--initial-branch=main")
    _git(dir, "config", "gc.auto", "0")
    _git(dir, "config", "uploadpack.allowAnySHA1InWant", "true")
    base = _commit(dir, "Elementwise, reduction and module tests", "2026-11-02T09:00:00+00:00")

    _git(dir, "switch", "--quiet", "--create", "weights-from-ladder")
    for name, before, after in EDITS:
        path = dir / name
        text = path.read_text(encoding="utf-8")
        if text.count(before) != 1:
            raise DemoError(f"{name}: the text the PR edits is there {text.count(before)} times, not once: {before!r}")
        path.write_text(text.replace(before, after), encoding="utf-8")
    refs.write_bytes(break_addcdiv(refs.read_bytes()))
    head = _commit(dir, PR_TITLE, "2026-11-03T14:30:00+00:00")
    _git(dir, "update-ref", f"refs/pull/{PR_NUMBER}/head", head)
    _git(dir, "switch", "--quiet", "main")

    added = removed = 0
    changed: list[str] = []
    for line in _git(dir, "diff", "--numstat", base, head).splitlines():
        plus, minus, name = line.split("\t")
        added, removed = added + int(plus), removed + int(minus)
        changed.append(name)
    pr = {
        "number": PR_NUMBER,
        "title": PR_TITLE,
        "body": PR_BODY,
        "author": "ada-example",
        "author_association": "CONTRIBUTOR",
        "base_ref": "main",
        "head_ref": "weights-from-ladder",
        "commits": 1,
        "additions": added,
        "deletions": removed,
        "changed_files": len(changed),
    }
    return DemoUpstream(dir, base, head, pr, EXPECT, version, tuple(changed))


PR_TITLE = "Round the value of addcdiv to the operands' dtype"
PR_BODY = """\
`addcdiv` multiplied by a Python number, which keeps more digits than the operands have. This makes the number a tensor
of their dtype first, and lets the tests' ladders start anywhere.

Tested on the CPU.
"""


def break_addcdiv(source: bytes) -> bytes:
    """The Python reference of ``addcdiv`` with its factor made a tensor *without a device*: right on the CPU, mixed
    devices elsewhere. The place is found by the syntax tree. Raises DemoError where the function has another shape."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "addcdiv":
            last = node.body[-1]
            names = [n for n in ast.walk(last) if isinstance(n, ast.Name) and n.id == "value"]
            if isinstance(last, ast.Return) and len(names) == 1:
                factor = b"torch.full(tensor1.shape, value, dtype=tensor1.dtype)"
                lines = source.splitlines(keepends=True)
                at = names[0]
                line = lines[at.lineno - 1]  # col_offset counts bytes of UTF-8
                lines[at.lineno - 1] = line[: at.col_offset] + factor + line[at.end_col_offset :]
                return b"".join(lines)
    raise DemoError(
        f"{REFS}: addcdiv does not end in a return statement with one `value` in it",
        "the demo knows torch 2.13; another version needs another edit in relay/demo/upstream.py",
    )


def _find_torch(python: str) -> tuple[Path, str]:
    try:
        done = subprocess.run([python, "-c", FIND_TORCH], capture_output=True, text=True, check=False)
    except OSError as exc:
        raise DemoError(f"{python}: {exc.strerror or exc}", "give the path of a Python interpreter") from exc
    if done.returncode != 0:
        raise DemoError(done.stderr.strip().splitlines()[-1], "install the package with its `demo` extra: make demo")
    folder, version = done.stdout.split("\n")[:2]
    return Path(folder), version


def _commit(repo: Path, message: str, date: str) -> str:
    _git(repo, "add", "--all")
    _git(repo, "commit", "--quiet", "--message", message, date=date)
    return _git(repo, "rev-parse", "HEAD").strip()


def _git(repo: Path, *args: str, date: str = "2026-11-02T09:00:00+00:00") -> str:
    who = {"NAME": "Ada Example", "EMAIL": "ada@example.org", "DATE": date}
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
        # the user's own configuration (signing, hooks, templates) must not reach in here
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    done = subprocess.run(["git", "-C", str(repo), *args], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoError(f"git {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout
