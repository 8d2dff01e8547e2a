"""PyTorch's source as the distribution packs it, for tests that need a tree that no one here wrote.

``python tests/pytorch_source.py`` gets it and prints its folder; exit code 1 and the reason where it cannot be had.

``apt-get source`` with a private configuration: the mirror and the keyring are those that this machine's own apt uses,
every folder is the user's own, so no root is needed and nothing of the machine's apt is touched. What comes of it lies
in the user's cache, never in the repository; a second call finds it there.
"""

from __future__ import annotations

import argparse
import fcntl
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUITES = {"2.6.0": "trixie", "1.13.1": "bookworm"}
"""version of PyTorch -> Debian suite whose source package it is"""
DEFAULT = "2.6.0"
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/etc/apt/trusted.gpg.d")
LIMIT_S = 900.0
_DATE = "2025-01-29T00:00:00+00:00"


class CannotHave(Exception):
    """The source package cannot be had here; the text says why."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The Debian archive that this machine's apt uses."""

    uri: str
    signed_by: str


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "crcr-relay" / "pytorch-source"


def cached(version: str = DEFAULT) -> Path | None:
    """The tree, when an earlier call has got it: a git repository with one commit, checked out."""
    tree = cache() / version / "tree"
    return tree if (cache() / version / "complete").is_file() else None


def fetch(version: str = DEFAULT, apt: Path = Path("/etc/apt")) -> Path:
    """Gets the tree into the cache. Raises CannotHave."""
    folder = cache() / version
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once: the second waits and finds it
        found = cached(version)
        if found is not None:
            return found
        if version not in SUITES:
            raise CannotHave(f"no suite is known to have {version} (there are {', '.join(SUITES)})")
        for tool in ("apt-get", "git"):
            if shutil.which(tool) is None:
                raise CannotHave(f"{tool} is not installed")
        packed = _download(version, debian_archive(apt), folder)
        tree = folder / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        _unpack(packed, tree)
        _import(tree)
        packed.unlink()
        (folder / "complete").touch()
        return tree


def debian_archive(apt: Path) -> Archive:
    """Where this machine's apt gets Debian itself from. Raises CannotHave on another distribution."""
    for entry in _entries(apt):
        uri, suite, components, signed_by = entry
        if "main" in components and "security" not in suite and uri.rstrip("/").endswith("/debian"):
            for keyring in (signed_by, *KEYRINGS):
                if keyring and Path(keyring).exists():
                    return Archive(uri, keyring)
            raise CannotHave("there is no keyring of the Debian archive on this machine")
    raise CannotHave(f"{apt} names no Debian archive to get a source package from")


def _entries(apt: Path) -> Iterator[tuple[str, str, list[str], str]]:
    """(uri, suite, components, keyring) of the one-line and the deb822 sources."""
    lists = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    for path in lists:
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
            words = line.partition("#")[0].split()
            if len(words) < 4 or words[0] not in ("deb", "deb-src"):
                continue
            signed_by = ""
            if words[1].startswith("["):
                closing = next(i for i, word in enumerate(words) if word.endswith("]"))
                options = " ".join(words[1 : closing + 1]).strip("[]").split()
                signed_by = next((o.partition("=")[2] for o in options if o.startswith("signed-by=")), "")
                del words[1 : closing + 1]
            if len(words) >= 4:
                yield words[1], words[2], words[3:], signed_by
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        for stanza in path.read_text(errors="replace").split("\n\n"):
            lines = [line for line in stanza.splitlines() if ":" in line and line[:1] not in "# \t"]
            fields = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
            signed_by = fields.get("signed-by", "")
            for uri in fields.get("uris", "").split():
                for suite in fields.get("suites", "").split():
                    yield uri, suite, fields.get("components", "").split(), signed_by


def _download(version: str, archive: Archive, folder: Path) -> Path:
    """The upstream tarball, as signed by the archive."""
    with tempfile.TemporaryDirectory(prefix="apt-", dir=folder) as private:
        root = Path(private)
        for name in ("lists/partial", "cache/archives/partial", "state", "parts", "log", "source"):
            (root / name).mkdir(parents=True)
        signed = "signed-by" if Path(archive.signed_by).is_file() else ""
        option = f"[{signed}={archive.signed_by}] " if signed else ""
        (root / "sources.list").write_text(f"deb-src {option}{archive.uri} {SUITES[version]} main\n")
        options = {
            "Dir::Etc::sourcelist": root / "sources.list",
            "Dir::Etc::sourceparts": root / "parts",
            "Dir::State": root / "state",
            "Dir::State::lists": root / "lists",
            "Dir::State::status": "/var/lib/dpkg/status",
            "Dir::Cache": root / "cache",
            "Dir::Log": root / "log",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
        }
        flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
        told = _run(["apt-get", *flags, "-q", "update"], root)
        # the newest Debian revision of just this version
        said = _run(["apt-get", *flags, "-q", "--download-only", "source", "pytorch"], root / "source")
        found = sorted((root / "source").glob(f"pytorch_{version}*.orig.tar.xz"))
        if not found:
            other = ", ".join(p.name for p in (root / "source").iterdir()) or "nothing"
            why = said.strip().splitlines()[-1:] or told.strip().splitlines()[-1:] or ["apt-get said nothing"]
            raise CannotHave(f"apt-get source got {other} and not PyTorch {version}: {why[0]}")
        kept = folder / found[0].name
        shutil.move(found[0], kept)
        return kept


def _run(command: list[str], cwd: Path) -> str:
    """What the command says, whether it succeeds or not: only the file that must come of it tells."""
    try:
        done = subprocess.run(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {LIMIT_S:.0f} s"
    return done.stdout.decode("utf-8", "replace")


def _unpack(packed: Path, tree: Path) -> None:
    """The tarball without its top folder."""
    careful: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not before Python 3.11.4
    try:
        with lzma.open(packed) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            for member in tar:
                _, _, inside = member.name.partition("/")
                if inside and ".." not in inside.split("/"):
                    member.name = inside
                    tar.extract(member, tree, **careful)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as exc:
        raise CannotHave(f"{packed.name} cannot be unpacked: {exc}") from exc


def _import(tree: Path) -> None:
    """One commit with the same id everywhere."""
    who = {"NAME": "Upstream", "EMAIL": "upstream@example.org", "DATE": _DATE}
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    for args in (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "uploadpack.allowAnySHA1InWant", "true"),
        ("config", "uploadpack.allowFilter", "true"),
        ("add", "--all", "--force"),
        ("commit", "--quiet", "--message", "Source package"),
    ):
        done = subprocess.run(["git", *args], cwd=tree, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotHave(f"git {args[0]}: {done.stderr.strip()}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Get PyTorch's source package into the user's cache.")
    parser.add_argument("--version", default=DEFAULT, choices=sorted(SUITES))
    args = parser.parse_args(argv)
    try:
        print(fetch(args.version))
    except CannotHave as exc:
        sys.stderr.write(f"pytorch source: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
