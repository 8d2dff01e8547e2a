"""Op databases of torches that this process does not have: each told by an interpreter of its own.

Neither the relay nor what it needs is installed there: the two packages are laid beside torch for that one process, and
only what is asked for is imported. What was told is kept by torch's version and commit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import relay
import selector
from relay.errors import SettingsError
from selector.discover.cache import InventoryCache
from selector.errors import SelectorError
from selector.model import OpDatabase
from selector.opdb import from_json

EXPORT_S = 600.0
ASK_S = 60.0
_ASK = """
import importlib.util, json, pathlib, runpy
found = importlib.util.find_spec("torch")
place = pathlib.Path(found.origin).parent if found and found.origin else None
version = runpy.run_path(str(place / "version.py")) if place and (place / "version.py").is_file() else {}
print(json.dumps([version.get("__version__"), version.get("git_version")]))
"""
_PARTS = (Path(relay.__file__).parent / "worker" / "opdb.py", Path(selector.__file__).parent / "opdb.py")


def database_of(where: Path, cache: InventoryCache | None = None) -> OpDatabase:
    """The op database of a torch. ``where``: a Python interpreter that has it, or the folder that a torch package was
    unpacked into, for this interpreter. SettingsError says what of it cannot be used, in torch's own words."""
    python, path = _interpreter(where)
    version, commit = _version(where, python, path)
    key = f"opdb2-{sha256('|'.join([version, commit, *(p.read_text() for p in _PARTS)]).encode()).hexdigest()[:40]}"
    kept = cache.get(key) if cache is not None else None
    if kept is not None:
        try:
            return from_json(kept)
        except SelectorError:
            pass  # damaged: exported again and overwritten
    with tempfile.TemporaryDirectory(prefix="relay-opdb-") as tmp:
        beside = Path(tmp) / "packages"
        beside.mkdir()
        for package in (relay, selector):
            (beside / package.__name__).symlink_to(Path(package.__file__ or "").parent)
        out = Path(tmp) / "opdb.json"
        arguments = [python, "-m", "relay.worker.opdb", "--out", str(out)]
        # torch reads and writes its caches: into the folder that goes
        environment = {**_environment([beside, *path]), "TMPDIR": tmp, "HOME": tmp}
        done = _run(where, arguments, environment, EXPORT_S, cwd=tmp)
        if done.returncode != 0 or not out.is_file():
            raise SettingsError(f"{where}: its op database cannot be evaluated: {_last(done)}", "see what torch says")
        text = out.read_bytes()
    database = from_json(text)
    if cache is not None:
        cache.put(key, text)
    return database


def _interpreter(where: Path) -> tuple[str, list[Path]]:
    """(interpreter, folders for its path)."""
    if where.is_dir():
        if not (where / "torch" / "version.py").is_file():
            raise SettingsError(f"{where}: there is no torch in this folder", "unpack its wheel there")
        return sys.executable, [where.absolute()]
    if not where.is_file() or not os.access(where, os.X_OK):
        raise SettingsError(f"{where} is no interpreter", "give .../bin/python of the environment that has this torch")
    return str(where.absolute()), []


def _version(where: Path, python: str, path: list[Path]) -> tuple[str, str]:
    done = _run(where, [python, "-c", _ASK], _environment(path), ASK_S, cwd=tempfile.gettempdir())
    try:
        version, commit = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError) as exc:
        raise SettingsError(f"{where}: {_last(done)}", "is it a Python?") from exc
    if not version:
        raise SettingsError(f"{where} has no torch", "install it there, or give --opdb-from and --opdb-to")
    return str(version), str(commit)


def _environment(path: list[Path]) -> dict[str, str]:
    """This process's, without what would lead another interpreter to its packages."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "RELAY_", "TORCH_"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}


def _run(
    where: Path, arguments: list[str], environment: dict[str, str], limit: float, cwd: str
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            arguments, env=environment, cwd=cwd, capture_output=True, text=True, timeout=limit, check=False
        )
    except OSError as exc:
        raise SettingsError(f"{where}: cannot be run: {exc.strerror}", "is it an interpreter of this machine?") from exc
    except subprocess.TimeoutExpired as exc:
        raise SettingsError(f"{where}: torch did not answer within {limit:.0f} s", "try it by hand") from exc


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else f"exit code {done.returncode}"
