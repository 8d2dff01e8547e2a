"""Writes ``deploy/requirements/*.txt``: every package that an installation gets, by version and hash, from the
extras of pyproject.toml. ``python deploy/tools/pins.py [--check]``; needs ``uv`` and the package registry.

torch stands apart: its default and its CPU build are different files under one version, so no hash is good for both. It
is installed by its own line; what it needs besides (but for its GPU libraries, which the CPU build does not have) is in
``emulator.txt``. No file names a registry: that is for the installation to say.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "requirements"
CONSTRAINTS = ROOT / "deploy" / "containers" / "constraints.txt"
SETS = {
    # the two images
    "relay.txt": ("postgres", "otel"),
    "emulator.txt": ("emulator",),
    # everything that a developer's machine or CI gets
    "test.txt": ("emulator", "embedded", "plots", "postgres", "agents", "otel", "deploy", "test", "security"),
}
HEAD = """\
# Made by `python deploy/tools/pins.py`. Install it with
#   pip install --require-hashes --only-binary :all: --no-deps -r deploy/requirements/{name}
#   pip install --no-deps --no-build-isolation .
"""
APART = "# torch is installed apart, before: its default and its CPU build have one version and different hashes.\n"


def wanted(extras: tuple[str, ...]) -> list[str]:
    """The requirements of the project with these extras, and what its build needs; torch is replaced by what it
    needs itself."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = config["project"]
    found = [*config["build-system"]["requires"], *project["dependencies"]]
    for extra in extras:
        found += [one for one in project["optional-dependencies"][extra] if not one.startswith("crcr-relay")]
    torch = [one for one in found if one.startswith("torch==")]
    found = [one for one in found if one not in torch]
    if torch:
        needs = distribution("torch").requires or []
        found += [one for one in needs if "extra ==" not in one and not one.startswith(("nvidia", "triton", "cuda"))]
    return found


def made(name: str, uv: str) -> str:
    """The text of one file. CalledProcessError when the registry cannot be asked or nothing fits."""
    with tempfile.TemporaryDirectory() as tmp:
        given = Path(tmp, "given.in")
        given.write_text("\n".join(wanted(SETS[name])) + "\n", encoding="utf-8")
        out = Path(tmp, name)
        command = [uv, "pip", "compile", "-q", str(given), "-o", str(out), "--python-version", "3.11", "--universal"]
        command += ["--generate-hashes", "--no-emit-index-url", "--no-emit-find-links", "--no-header"]
        command += ["--no-annotate", "-c", str(CONSTRAINTS)]
        if (FOLDER / name).exists():  # versions stay until somebody removes the file
            shutil.copy(FOLDER / name, out)
        subprocess.run(command, check=True)
        return HEAD.format(name=name) + (APART if "emulator" in SETS[name] else "") + out.read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="deploy/tools/pins.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the files are what would be written")
    args = parser.parse_args()
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        sys.stderr.write("deploy/tools/pins.py: uv is not there (pip install uv)\n")
        return 2
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for name in SETS:
        try:
            text = made(name, uv)
        except subprocess.CalledProcessError as exc:
            sys.stderr.write(f"deploy/tools/pins.py: {name}: uv ended with {exc.returncode}; nothing was written\n")
            return 2
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not args.check:
                path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{'stale' if args.check else 'written'}: {', '.join(stale) or 'nothing'}\n")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
