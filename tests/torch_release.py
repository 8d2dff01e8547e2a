"""A released torch beside the installed one: its package unpacked without installing, or an environment of its own.

``python tests/torch_release.py 2.14.1 [--env]`` gets it and prints its folder (with ``--env``: the environment's
interpreter); exit code 1 and the reason where it cannot be had. The package comes through pip as it is set up here (555
MB; the environment takes 5.3 GB) and lies in the user's cache, never in the repository; a second call finds it there.

``python tests/torch_release.py 2.14.1 --tests tests/integration/test_reuse_*.py`` runs these tests of the relay's under
that torch, with this checkout; the exit code is pytest's.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 3600.0
NEEDED = ("numpy", "expecttest", "pytest")
"""what upstream's test files and op databases import beside torch"""


class CannotHave(Exception):
    """The release cannot be had here; the text says why."""


def folder(version: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "crcr-relay" / f"torch-{version}"


def unpacked(version: str) -> Path:
    """The folder that holds the package ``torch``. Raises CannotHave."""
    where = folder(version)
    with _lock(where):
        if not (where / "complete").is_file():
            out = where / "unpacked"
            shutil.rmtree(out, ignore_errors=True)
            with zipfile.ZipFile(_wheel(version, where)) as wheel:
                wheel.extractall(out)
            (where / "complete").touch()
    return where / "unpacked"


def environment(version: str) -> Path:
    """The interpreter of an environment that has it. Raises CannotHave."""
    where = folder(version)
    python = where / "env" / "bin" / "python"
    with _lock(where):
        if not (where / "env" / "complete").is_file():
            shutil.rmtree(where / "env", ignore_errors=True)
            venv.create(where / "env", with_pip=True)
            _pip(str(python), "install", "--no-compile", f"torch=={version}", *NEEDED)
            (where / "env" / "complete").touch()
    return python


def runner(version: str) -> Path:
    """The interpreter of an environment that has it, and what the relay's runner imports. Raises CannotHave."""
    python = environment(version)
    ready = python.parents[1] / "runner"
    with _lock(folder(version)):
        if not ready.is_file():
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            _pip(str(python), "install", "--no-compile", *project["dependencies"], "hypothesis")
            ready.touch()
    return python


def run_tests(version: str, tests: Sequence[str]) -> int:
    """pytest's exit code. Raises CannotHave."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(runner(version)), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, env=environ, check=False).returncode


def _wheel(version: str, where: Path) -> Path:
    found = sorted((where / "wheel").glob("torch-*.whl"))
    if not found:
        _pip(sys.executable, "download", "--no-deps", "-d", str(where / "wheel"), f"torch=={version}")
        found = sorted((where / "wheel").glob("torch-*.whl"))
    if not found:
        raise CannotHave(f"pip has no wheel of torch {version} for this machine")
    return found[0]


def _pip(python: str, *arguments: str) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise CannotHave(f"pip did not end within {LIMIT_S:.0f} s") from exc
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise CannotHave(lines[-1] if lines else f"pip ended with {done.returncode}")


@contextmanager
def _lock(where: Path) -> Iterator[None]:
    where.mkdir(parents=True, exist_ok=True)
    with (where / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two at once: the second waits and finds it
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description="Get a released torch beside the installed one.")
    parser.add_argument("version")
    parser.add_argument("--env", action="store_true", help="an environment, and not just the package")
    parser.add_argument("--tests", nargs="+", metavar="FILE", help="run these under it")
    args = parser.parse_args()
    try:
        if args.tests:
            return run_tests(args.version, args.tests)
        print(environment(args.version) if args.env else unpacked(args.version))
    except CannotHave as exc:
        print(f"torch {args.version} cannot be had: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
