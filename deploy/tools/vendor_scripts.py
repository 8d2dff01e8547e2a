"""Brings the browser's scripts from npm into ``relay/web/static/vendor`` (and what tests need into
``tests/data``), unchanged.

``python deploy/tools/vendor_scripts.py``           the versions below
``python deploy/tools/vendor_scripts.py --check``   nothing is written; exit code 1 when a file differs

To take a newer release, raise its version here and run it. ``npm`` must be on PATH; it asks the registry that it is
set up for. Nothing of a package is run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "relay/web/static/vendor"
DATA = ROOT / "tests/data"


@dataclass(frozen=True)
class Package:
    """Files of a package's tarball and the name that each has here."""

    name: str
    version: str
    folder: Path
    files: dict[str, str]
    licence: str
    what: str


PACKAGES = (
    Package(
        "htmx.org",
        "4.0.1",
        STATIC / "htmx",
        {
            "dist/htmx.min.js": "htmx.min.js",
            "dist/ext/hx-sse.min.js": "hx-sse.min.js",
            "dist/ext/hx-csp.min.js": "hx-csp.min.js",
            "LICENSE": "LICENSE",
        },
        "Zero-Clause BSD",
        "htmx with its extensions for event streams and for a content security policy",
    ),
    Package(
        "uplot",
        "1.6.32",
        STATIC / "uplot",
        {"dist/uPlot.iife.min.js": "uPlot.iife.min.js", "dist/uPlot.min.css": "uPlot.min.css", "LICENSE": "LICENSE"},
        "MIT",
        "uPlot, for plots over time",
    ),
    Package(
        "axe-core",
        "4.14.1",
        DATA / "axe-core",
        {"axe.min.js": "axe.min.js", "LICENSE": "LICENSE", "LICENSE-3RD-PARTY.txt": "LICENSE-3RD-PARTY.txt"},
        "Mozilla Public License 2.0",
        "axe-core, which tests use to look for what keeps people from reading a page; no page serves it",
    ),
    Package(
        "ctrf",
        "0.3.0",
        DATA / "ctrf",
        {"dist/ctrf-schema-0.0.json": "ctrf-schema-0.0.json", "LICENSE": "LICENSE"},
        "MIT",
        "The schema of the Common Test Report Format, against which tests hold the downloads of a run",
    ),
)


def fetched(package: Package) -> dict[str, bytes]:
    """The files of ``package`` by their names here. RuntimeError when npm fails or the package lacks one."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        [archive] = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as tar:
            found = {}
            for there, here in package.files.items():
                try:
                    member = tar.extractfile(f"package/{there}")
                except KeyError:
                    member = None
                if member is None:
                    raise RuntimeError(f"{package.name} {package.version} has no {there}")
                found[here] = _served(member.read())
    names = ", ".join(f"`{name}`" for name in found if not name.startswith("LICENSE"))
    found["README.md"] = (
        f"{package.what}: {names} of the npm package `{package.name}` {package.version}, "
        "unchanged but\nfor the source map comment. "
        f"Licence: LICENSE ({package.licence}). `python deploy/tools/vendor_scripts.py` brings them.\n"
    ).encode()
    return found


def _served(body: bytes) -> bytes:
    """Without the comment that sends browsers looking for a source map which we do not serve."""
    lines = body.split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith(b"//# sourceMappingURL="))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say what differs")
    check = parser.parse_args(arguments).check
    differing = 0
    for package in PACKAGES:
        for name, body in fetched(package).items():
            path = package.folder / name
            if path.exists() and path.read_bytes() == body:
                continue
            differing += 1
            sys.stdout.write(f"{path.relative_to(ROOT)}: {'differs' if check else 'written'}\n")
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
    sys.stdout.write(f"{len(PACKAGES)} packages, {differing} files {'differ' if check else 'written'}\n")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
