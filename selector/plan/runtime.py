"""Whose torch is to run, and what of the change it does not contain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from selector.errors import NoWorker
from selector.model import Change, Decision, Evidence, FileChange, NotExercised, Runtime, RuntimeKind, Stage
from selector.plan.model import WorkerOffer


class Part(StrEnum):
    """What a changed path is made of, and so which runtime contains it."""

    TEST = "test"
    """under ``test/``: the workers get that folder at the PR's commit"""
    PYTHON = "python"
    """a Python file of the package ``torch``: an overlay or a build"""
    BUILD = "build"
    """native code, generated code, build files: only a build"""
    INERT = "inert"
    """nothing that a test could run: pages, CI's own files"""
    UNKNOWN = "unknown"


_NATIVE = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hip", ".hpp", ".metal", ".mm", ".asm", ".S", ".cmake", ".pyx")
_NATIVE_ROOTS = ("aten/", "c10/", "caffe2/", "torch/csrc/", "torch/lib/", "third_party/", "cmake/", "test/cpp/")
_BUILD_ROOTS = ("torchgen/", "tools/", "functorch/", "scripts/", "requirements/")
_BUILD_FILES = re.compile(
    r"(?:.*/)?(?:CMakeLists\.txt|setup\.py|setup\.cfg|pyproject\.toml|requirements.*\.txt|Makefile|BUILD\.bazel|"
    r"version\.txt|buckbuild\.bzl|.*\.bzl|.*\.in|.*\.tpl)"
)
_INERT_ROOTS = ("docs/", ".github/", ".ci/", ".circleci/", ".vscode/", ".devcontainer/", ".claude/", "benchmarks/")
_INERT_ENDS = (".md", ".rst", ".svg", ".png", ".gif", ".jpg")
_INERT_FILES = re.compile(
    r"(?:.*/)?(?:\.git\w+|\.clang-\w+|\.flake8|\.editorconfig|\.lintrunner\.toml|CODEOWNERS|LICENSE|NOTICE|"
    r"CITATION\.cff|mypy.*\.ini|pyrefly\.toml|pytest\.ini|\.ghstackrc|\.gdbinit|\.lldbinit)"
)


def part_of(file: FileChange) -> Part:
    """Which part of upstream a changed path belongs to."""
    path = file.path
    if file.submodule or path.startswith(_NATIVE_ROOTS):
        return Part.INERT if path.endswith((".md", ".rst")) and not file.submodule else Part.BUILD
    if path.startswith("test/"):
        return Part.TEST
    if path.startswith(_INERT_ROOTS) or path.endswith(_INERT_ENDS) or _INERT_FILES.fullmatch(path):
        return Part.INERT
    if path.endswith(_NATIVE) or path.startswith(_BUILD_ROOTS) or _BUILD_FILES.fullmatch(path):
        return Part.BUILD
    if path.startswith("torch/"):
        return Part.PYTHON if path.endswith(".py") else Part.BUILD
    return Part.UNKNOWN


def _version(torch: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", torch.split("+")[0])[:3])


def _best(offers: Sequence[WorkerOffer], kind: RuntimeKind) -> WorkerOffer | None:
    """The newest torch on which somebody runs ``kind``; the first offered among equals."""
    able = [o for o in offers if o.has(kind)]
    return max(able, key=lambda o: _version(o.torch)) if able else None


def choose_runtime(
    change: Change, offers: Sequence[WorkerOffer]
) -> tuple[Runtime, tuple[NotExercised, ...], tuple[Decision, ...]]:
    """The runtime that contains the most of the change, what it leaves out, and why.

    Raises :class:`selector.errors.NoWorker` when nobody offers anything that could run a test.
    """
    parts = {file.path: part_of(file) for file in change.files}
    has_build = Part.BUILD in parts.values() or Part.UNKNOWN in parts.values()
    has_python = Part.PYTHON in parts.values()
    build = _best(offers, RuntimeKind.PR_BUILD)
    overlay = _best(offers, RuntimeKind.OVERLAY)
    plain = _best(offers, RuntimeKind.TESTS_ONLY)
    if build is not None and (has_build or (has_python and overlay is None) or not (overlay or plain)):
        kind, offer = RuntimeKind.PR_BUILD, build
        code, reason = "plan-runtime-build", "a build that contains the change runs the tests"
    elif overlay is not None and (has_python or plain is None):
        kind, offer = RuntimeKind.OVERLAY, overlay
        code, reason = "plan-runtime-overlay", "the change's Python files are laid over the installed torch"
    elif plain is not None:
        kind, offer = RuntimeKind.TESTS_ONLY, plain
        code, reason = "plan-runtime-tests-only", "the change's tests run on the installed torch"
    else:
        raise NoWorker(
            "no worker offers a runtime that could run a test",
            "start a worker (relay worker), or say which torch it has; known runtimes: "
            + ", ".join(k.value for k in RuntimeKind),
        )
    left: list[NotExercised] = []
    decisions: list[Decision] = []
    files: list[str] = []
    for file in change.files:
        why = _not_in(file, parts[file.path], kind, offer.torch)
        if parts[file.path] is Part.PYTHON and kind is RuntimeKind.OVERLAY and file.new is not None:
            files.append(file.path)
        if why is None:
            if parts[file.path] is Part.INERT:
                text = "nothing in it that a test could run"
                decisions.append(Decision(Stage.PLAN, file.path, "inert", "plan-nothing-to-run", text))
            continue
        why_code, sentence = why
        left.append(NotExercised(file.path, sentence))
        evidence = (Evidence("runtime", f"{kind.value} on torch {offer.torch}", path=file.path),)
        decisions.append(Decision(Stage.PLAN, file.path, "not-exercised", why_code, sentence, evidence))
    evidence = (Evidence("runtime", f"torch {offer.torch}, offered: {', '.join(offer.runtimes)}"),)
    chosen = Decision(Stage.PLAN, "change", kind.value, code, f"{reason} ({offer.torch})", evidence)
    return Runtime(kind, offer.torch, tuple(sorted(files))), tuple(left), (chosen, *decisions)


def _not_in(file: FileChange, part: Part, kind: RuntimeKind, torch: str) -> tuple[str, str] | None:
    """(code, sentence) when the runtime does not contain the change of this file."""
    if part in (Part.TEST, Part.INERT) or kind is RuntimeKind.PR_BUILD:
        return None
    if part is Part.BUILD:
        what = "submodule" if file.submodule else "file"
        return "plan-needs-build", f"this {what} takes effect in a build of torch only; the tests run on {torch}"
    if part is Part.UNKNOWN:
        return (
            "plan-unknown-part",
            f"unknown where this file takes effect; the tests run on the installed torch {torch}",
        )
    if kind is RuntimeKind.TESTS_ONLY:
        return "plan-needs-overlay", f"no worker lays Python files over torch; the tests run on {torch} as installed"
    if file.new is None:
        return "plan-removed-stays", f"removed by the change, but still there in the installed torch {torch}"
    if file.status == "renamed" and file.old_path:
        return "plan-removed-stays", f"the new name is laid over torch {torch}, which still has {file.old_path}"
    return None
