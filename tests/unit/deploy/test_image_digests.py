"""Images of others are pinned by digest, by a command that asks their registry; here a local one."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qs, urlsplit

import pytest
from manifests import DEPLOY

MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}).encode()
DIGEST = "sha256:" + hashlib.sha256(MANIFEST).hexdigest()
DOCKERFILE = (
    "FROM python:3.11-slim AS build\nRUN x\nFROM python:3.11-slim AS last\nCOPY --from=build /a /a\nFROM build\n"
)
COMPOSE = f"""services:
  web: {{}}
  a:
    image: crcr-relay:0.1.0
  b:
    image: valkey/valkey:8@sha256:{"0" * 64}  # why
"""


@pytest.fixture(scope="module")
def digests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digests", DEPLOY / "tools" / "digests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["digests"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


class Registry(BaseHTTPRequestHandler):
    """Gives out a manifest to who has asked for a token of that repository."""

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path == "/token":
            assert query["service"] == ["a registry"]
            self.answer(200, json.dumps({"token": query["scope"][0]}).encode())
        elif self.headers.get("Authorization") != f"Bearer repository:{path.split('/manifests/')[0][4:]}:pull":
            host = self.headers["Host"]
            self.answer(401, b"{}", f'Bearer realm="http://{host}/token",service="a registry",scope="ignored"')
        elif path in ("/v2/library/python/manifests/3.11-slim", "/v2/valkey/valkey/manifests/8"):
            assert "application/vnd.oci.image.index.v1+json" in self.headers["Accept"], (
                "else it answers for one machine"
            )
            self.answer(200, MANIFEST)
        elif path.endswith("/page"):
            self.answer(200, b"<html>")
        else:
            self.answer(404, b"{}")

    def answer(self, code: int, body: bytes, challenge: str = "") -> None:
        self.send_response(code)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"docker.io=http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "compose.yml").write_text(COMPOSE)
    return [str(tmp_path / "Dockerfile"), str(tmp_path / "compose.yml")]


def test_every_image_of_others_gets_the_digest_that_its_tag_has(
    digests: ModuleType, registry: str, files: list[str]
) -> None:
    assert digests.main(["--check", "--registry", registry, *files]) == 1
    assert Path(files[0]).read_text() == DOCKERFILE, "--check writes nothing"
    assert digests.main(["--registry", registry, *files]) == 0
    dockerfile, compose = (Path(name).read_text() for name in files)
    assert dockerfile == DOCKERFILE.replace("3.11-slim", f"3.11-slim@{DIGEST}")
    assert f"image: valkey/valkey:8@{DIGEST}  # why" in compose
    assert "image: crcr-relay:0.1.0\n" in compose
    assert digests.main(["--check", "--registry", registry, *files]) == 0


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("python:none", "answers 404"),
        ("python:page", "python:page"),
        ("python", "not a name:tag"),
        ("127.0.0.1:1/a/b:c", "127.0.0.1:1/v2/a/b/manifests/c"),
    ],
)
def test_what_a_registry_does_not_say_is_told_and_left_as_it_was(
    digests: ModuleType, registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], image: str, said: str
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\n")
    assert digests.main(["--registry", registry, str(tmp_path / "Dockerfile")]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "Dockerfile").read_text() == f"FROM {image}\n"


def test_the_images_that_could_be_looked_up_are_pinned(digests: ModuleType) -> None:
    """Valkey's could not be, without its registry: docs/deploy.md says so, and the command's first run mends it."""
    found = {}
    for name in digests.FILES:
        for one in digests.images((digests.ROOT / name).read_text()):
            image = digests.Image.parse(one)
            assert found.setdefault(image.name, image) == image, "one version of each"
    assert set(found) == {"python", "postgres", "valkey/valkey", "rabbitmq"}
    assert {name for name, image in found.items() if not image.digest} <= {"valkey/valkey"}
