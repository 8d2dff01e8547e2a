"""What an installation gets: every package by version and hash, from one index, and what an audit's answer comes to."""

from __future__ import annotations

import glob
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
IMAGES = {"relay.txt": ("postgres", "otel"), "emulator.txt": ("emulator",)}
ALL = tuple(EXTRAS)
LINE = re.compile(
    r"^([A-Za-z0-9][\w.-]*)(?:\[[\w,-]+\])?==([^\s;]+)(?: ; .+?)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "deploy" / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pinned(name: str) -> dict[str, set[str]]:
    """Package -> versions; more than one where Pythons or systems differ."""
    text = (ROOT / "deploy" / "requirements" / name).read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for line in LINE.finditer(text):
        found.setdefault(canonicalize_name(line[1]), set()).add(line[2])
    left = [line for line in LINE.sub("", text).splitlines() if line.strip() and not line.startswith("#")]
    assert left == [], "a line that is no version with its hashes"
    return found


@pytest.mark.parametrize(("name", "extras"), [*IMAGES.items(), ("test.txt", ALL)])
def test_whatever_the_project_names_is_pinned_by_version_and_hash(name: str, extras: tuple[str, ...]) -> None:
    pins = pinned(name)
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]
    asked = [one for one in map(Requirement, texts) if one.name not in ("crcr-relay", "torch")]
    assert len(asked) > 20
    for one in asked:
        versions = pins.get(canonicalize_name(one.name), set())
        assert versions, f"{one.name}: {name} has no version of it (make pins)"
        assert all(one.specifier.contains(version, prereleases=True) for version in versions), f"{one}: {versions}"
    assert {"setuptools"} <= set(pins), "what the build needs is pinned too: nothing is fetched without a hash"
    assert not {"torch", "triton"} & set(pins)


def test_no_installation_looks_a_name_up_in_two_places() -> None:
    """With a second index, whoever registers our name there, or a newer version of a public one, is installed."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    files = (
        [ROOT / one for one in listed] if listed != [""] else [p for p in (ROOT / "deploy").rglob("*") if p.is_file()]
    )
    kinds = ("Makefile", "Dockerfile", ".txt", ".toml", ".yml", ".yaml", ".sh", ".md", ".service", "prepare")
    looked = [path for path in files if path.is_file() and path.name.endswith(kinds)]
    assert len(looked) > 30
    second = "--extra-" + "index-url"
    wrong = [
        str(path)
        for path in looked
        if re.search(second + r"|--find-links|PIP_EXTRA|--trusted-host", path.read_text(errors="replace"))
    ]
    assert wrong == []
    for name in (*IMAGES, "test.txt"):
        assert "://" not in (ROOT / "deploy" / "requirements" / name).read_text(encoding="utf-8"), "names a host"


def test_our_own_name_is_never_asked_for() -> None:
    """The project refers to itself by its extras; pip takes those from the folder that it installs."""
    for name in (*IMAGES, "test.txt"):
        assert "crcr-relay" not in pinned(name)
    for path in (ROOT / "deploy" / "containers").glob("*.Dockerfile"):
        for line in re.findall(r"pip install (.+?)(?: \\)?$", path.read_text(encoding="utf-8"), re.M):
            assert "--require-hashes" in line or "--no-deps" in line, line
            assert "crcr-relay" not in line


AUDITED = {"name": "a", "version": "1", "vulns": []}
VULNERABLE = {**AUDITED, "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
SKIPPED = {"name": "b", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        ([AUDITED], 0, "1 packages looked up, none is known"),
        ([AUDITED, VULNERABLE, SKIPPED], 1, "a 1: PYSEC-1 (fixed in 2)"),
        ([AUDITED, SKIPPED], 3, "NOT AUDITED: the database does not answer for 1 of 2 packages (b"),
        ([], 3, "NOT AUDITED"),
    ],
)
def test_nobody_looked_is_not_nothing_was_found(found: list[dict[str, object]], code: int, says: str) -> None:
    got, lines = tool("audit").judge({"dependencies": found})
    assert (got, lines[0].startswith(says)) == (code, True), lines
    assert tool("audit").judge(None)[0] == 3


def test_the_bill_of_materials_is_made_by_a_kept_library() -> None:
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nsbom:")[2].partition("\n\n")[0]
    assert "-m cyclonedx_py environment" in rule
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "requirements",
        str(ROOT / "deploy" / "requirements" / "relay.txt"),
    ]
    made = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert made["bomFormat"] == "CycloneDX"
    parts = {canonicalize_name(one["name"]): one for one in made["components"]}
    assert set(parts) == set(pinned("relay.txt"))
    assert parts["celery"]["externalReferences"][0]["hashes"][0]["alg"] == "SHA-256"


def test_data_of_packages_is_all_that_is_kept_and_nothing_that_was_compiled() -> None:
    """A glob that takes in ``__pycache__`` packs what this machine compiled, with pages of warnings."""
    toml = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    globs = toml["tool"]["setuptools"]["package-data"]
    for package, patterns in globs.items():
        folder = ROOT.joinpath(*package.split("."))
        names = [name for pattern in patterns for name in glob.glob(pattern, root_dir=folder, recursive=True)]
        found = {folder / name for name in names if (folder / name).is_file()}
        assert not [path for path in found if path.suffix == ".pyc"]
        tops = {folder / pattern.partition("/")[0] for pattern in patterns}
        files = {path for top in tops for path in top.rglob("*") if path.is_file() and path.suffix != ".pyc"}
        kept = {path for path in files if path.suffix != ".py" or not (path.parent / "__init__.py").is_file()}
        assert kept, f"{package}: nothing matches"
        assert kept == found, f"{package}: not packed: {sorted(map(str, kept - found))}"
