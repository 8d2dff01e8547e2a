"""Tries what the images are told to run, without an image: the project is built into a wheel, installed as the
Dockerfiles install it into an environment of its own, and each command is started there by an unprivileged user who has
nothing but the image's variables.

    python tests/bench/images.py

torch and what only tests need are taken from the environment that runs this (a .pth file), for they are several hundred
megabytes; everything else is installed by deploy/requirements/relay.txt. Prints a line a command.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import private_brokers  # noqa: E402
from manifests import DEPLOY, instructions  # noqa: E402

READY_S = 120.0


def user() -> dict[str, object]:
    """Somebody who is not root and has no rights."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def installed(folder: Path) -> Path:
    """A virtual environment as the images have it; -> its python."""
    source = folder / "src"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("relay", "selector"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps"]
    pinned = str(DEPLOY / "requirements" / "relay.txt")
    subprocess.run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", pinned], check=True)
    subprocess.run([*pip, "--no-build-isolation", str(source)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    checked = subprocess.run([str(python), "-m", "pip", "check"], capture_output=True, text=True, check=False)
    if checked.returncode:
        raise SystemExit(checked.stdout)
    beside = folder / "venv" / "lib" / version / "site-packages" / "torch-of-the-machine.pth"
    beside.write_text(next(path for path in sys.path if path.endswith("site-packages")) + "\n")
    for path in folder.rglob("*"):  # as in an image: everybody may read
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.is_dir() else 0))
    folder.chmod(0o755)
    return python


def variables(dockerfile: str) -> dict[str, str]:
    """The image's own: ENV lines."""
    found: dict[str, str] = {}
    for what, rest in instructions(DEPLOY / "containers" / dockerfile):
        if what == "ENV":
            found |= dict(part.split("=", 1) for part in rest.split())
    return found


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="images.py"
    ).parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-image-", dir="/tmp")))
        began = time.monotonic()
        python = installed(folder)
        packages = subprocess.run([str(python), "-m", "pip", "check"], capture_output=True, text=True, check=False)
        print(
            json.dumps({"installed_s": round(time.monotonic() - began, 1), "pip check": packages.returncode}),
            flush=True,
        )
        broker = stack.enter_context(private_brokers.redis())
        data, work, port = folder / "data", folder / "work", private_brokers.free_ports(1)[0]
        for place in (data, work):
            place.mkdir()
            if user():
                os.chown(place, int(str(user()["user"])), int(str(user()["group"])))
        (folder / "allowlist.yml").write_text("L2:\n  - example-org/backend-ci\n")
        url = f"http://127.0.0.1:{port}"
        relay = variables("relay.Dockerfile") | {
            "PATH": f"{python.parent}:/usr/bin:/bin", "RELAY_DATA_DIR": str(data), "RELAY_PORT": str(port),
            "RELAY_CONFIGS_DIR": str(ROOT / "test_configs" / "spyre"), "RELAY_BROKER_URL": broker.url,
            "RELAY_ALLOWLIST": str(folder / "allowlist.yml"), "RELAY_WORKER_KEY": "key",
        }  # fmt: skip
        emulator = variables("emulator.Dockerfile") | {
            "PATH": f"{python.parent}:/usr/bin:/bin", "RELAY_WORKER_DIR": str(work), "RELAY_URL": url,
            "RELAY_BROKER_URL": broker.url, "RELAY_WORKER_KEY": "key", "RELAY_WORKER_DRAIN_S": "0",
            "RELAY_WORKER_TRUST": "lenient",
        }  # fmt: skip
        good = True
        running: list[subprocess.Popen[bytes]] = []
        for command, env in (
            ("relay.web", relay),
            ("relay.pump", relay),
            ("relay.queue.tasks route,outbox --concurrency 6", relay),
            ("relay.queue.tasks select", relay),
            ("relay.worker", emulator),
        ):
            alive = work / f"alive-{len(running)}"
            told = env | {"RELAY_ALIVE_FILE": str(alive), "HOME": str(work)}
            log = folder / f"{len(running)}.log"
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [str(python), "-m", *command.split()],
                    env=told,
                    cwd=str(work),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    **user(),  # type: ignore[call-overload]
                )
            running.append(process)
            began, ready = time.monotonic(), False
            while not ready and process.poll() is None and time.monotonic() - began < READY_S:
                time.sleep(0.1)
                ready = _answers(f"{url}/healthz") if command == "relay.web" else alive.exists()
            good &= ready
            print(
                json.dumps({"command": command, "ready_s": round(time.monotonic() - began, 1), "ready": ready}),
                flush=True,
            )
            if not ready:
                print(log.read_text()[-3000:], file=sys.stderr)
        for arguments in ("relay.cli doctor --no-worker", "relay.cli outbox list", f"relay.cli backup {work}/b.zip"):
            done = subprocess.run(
                [str(python), "-m", *arguments.split()], env=relay | {"HOME": str(work)}, cwd=str(work),
                capture_output=True, text=True, check=False, **user(),  # type: ignore[call-overload]
            )  # fmt: skip
            good &= done.returncode == 0
            print(json.dumps({"command": arguments, "code": done.returncode}), flush=True)
            if done.returncode:
                print(done.stdout, done.stderr, file=sys.stderr)
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(60) for process in running]
        print(json.dumps({"codes after SIGTERM": codes}))
        return 0 if good and not any(codes) else 1


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
