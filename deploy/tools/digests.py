"""Pins the images of others that Dockerfiles and compose files name: ``name:tag`` becomes ``name:tag@sha256:…``, with
what the registry holds under the tag now. ``python deploy/tools/digests.py [--check] [--registry HOST=URL]… [FILE…]``

A tag may be moved, a digest cannot: what was looked at is what is pulled. Run it when a tag in one of the files is
changed, and now and then for the rebuilds that a tag gets; the change is then one to look at and commit. ``--check``
writes nothing and says which images have no digest, or another one than their tag has now (exit code 1). Asks
registries by the OCI distribution protocol, with the anonymous token that they give out; the digest is worked out from
the manifest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "deploy/containers/relay.Dockerfile",
    "deploy/containers/emulator.Dockerfile",
    "deploy/compose/compose.yml",
    "deploy/compose/rabbitmq.yml",
)
OURS = ("crcr-relay", "crcr-emulator")
HUB, HUB_API = "docker.io", "https://registry-1.docker.io"
LINE = re.compile(r"^(?P<before>\s*(?:FROM|image:)\s+)(?P<image>[^\s#]+)", re.MULTILINE)
IMAGE = re.compile(r"(?P<name>[a-z0-9./_:-]+?):(?P<tag>[\w][\w.-]{0,127})(?:@(?P<digest>sha256:[0-9a-f]{64}))?")
TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TIMEOUT_S = 30.0


class Problem(Exception):
    """What is wrong, and with which image."""


@dataclass(frozen=True)
class Image:
    """``name`` as the file has it, ``digest`` "" where there is none."""

    name: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> Image:
        """Problem for what names no tag."""
        found = IMAGE.fullmatch(text)
        if found is None:
            raise Problem(f"{text}: not a name:tag; name the version that was looked at")
        return cls(found["name"], found["tag"], found["digest"] or "")

    def place(self, registries: Mapping[str, str]) -> tuple[str, str]:
        """(the registry's URL, the repository in it)."""
        host, _, rest = self.name.partition("/")
        if not rest or ("." not in host and ":" not in host and host != "localhost"):
            host, rest = HUB, self.name if "/" in self.name else f"library/{self.name}"
        return registries.get(host, f"https://{host}"), rest

    def pinned(self, digest: str) -> str:
        return f"{self.name}:{self.tag}@{digest}"


def images(text: str) -> list[str]:
    """Of others: names of build stages and our own images are left out."""
    stages = {name.casefold() for name in re.findall(r"^FROM\s+\S+\s+AS\s+(\S+)", text, re.MULTILINE | re.IGNORECASE)}
    found = dict.fromkeys(one["image"] for one in LINE.finditer(text))
    return [one for one in found if one.casefold() not in stages and not one.startswith(OURS)]


def resolve(image: Image, registries: Mapping[str, str]) -> str:
    """The digest of what the tag names now. Problem when the registry does not say."""
    url, repository = image.place(registries)
    address = f"{url}/v2/{repository}/manifests/{image.tag}"
    try:
        try:
            body = _get(address)
        except urllib.error.HTTPError as exc:
            if exc.code != 401:
                raise
            body = _get(address, _token(exc.headers.get("WWW-Authenticate") or "", repository))
    except urllib.error.HTTPError as exc:
        raise Problem(f"{image.name}:{image.tag}: {address} answers {exc.code}") from exc
    except (urllib.error.URLError, TimeoutError, ValueError) as exc:
        raise Problem(f"{image.name}:{image.tag}: {address}: {exc}") from exc
    return "sha256:" + hashlib.sha256(body).hexdigest()


def _get(address: str, token: str = "") -> bytes:
    headers = {"Accept": ", ".join(TYPES), **({"Authorization": f"Bearer {token}"} if token else {})}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT_S) as answer:
        body: bytes = answer.read()
    if not isinstance(json.loads(body), dict):
        raise ValueError("the answer is not a manifest")
    return body


def _token(challenge: str, repository: str) -> str:
    """The anonymous token that the registry's challenge names. ValueError when it names none."""
    told = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not challenge.lower().startswith("bearer") or "realm" not in told:
        raise ValueError(f"it asks for {challenge[:60] or 'a login'!r}, not for a token")
    query = {"scope": f"repository:{repository}:pull", **({"service": told["service"]} if "service" in told else {})}
    with urllib.request.urlopen(f"{told['realm']}?{urllib.parse.urlencode(query)}", timeout=TIMEOUT_S) as answer:
        given = json.load(answer)
    token = given.get("token") or given.get("access_token")
    if not token:
        raise ValueError("the registry gives out no token")
    return str(token)


def repinned(text: str, now: Mapping[str, str]) -> str:
    """``text`` with each image replaced by what ``now`` says of it."""
    return LINE.sub(lambda one: one["before"] + now.get(one["image"], one["image"]), text)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="deploy/tools/digests.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, say what would change")
    parser.add_argument(
        "--registry", action="append", default=[], metavar="HOST=URL", help="where a registry is reached"
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", default=[ROOT / name for name in FILES])
    args = parser.parse_args(argv)
    registries = {HUB: HUB_API} | dict(one.split("=", 1) for one in args.registry)
    texts = {path: path.read_text(encoding="utf-8") for path in args.files}
    now: dict[str, str] = {}
    failed = stale = False
    for name in dict.fromkeys(one for text in texts.values() for one in images(text)):
        try:
            image = Image.parse(name)
            digest = resolve(image, registries)
        except Problem as exc:
            sys.stderr.write(f"{exc}\n")
            failed = True
            continue
        now[name] = image.pinned(digest)
        stale |= digest != image.digest
        was = "" if digest == image.digest else f" (was {image.digest or 'not pinned'})"
        sys.stdout.write(f"{image.name}:{image.tag}: {digest}{was}\n")
    if not args.check:
        for path, text in texts.items():
            path.write_text(repinned(text, now), encoding="utf-8")
    return 2 if failed else 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
