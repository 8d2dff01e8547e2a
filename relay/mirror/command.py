"""The git program, called so that nothing that comes from upstream or from this machine's account can steer it.

Lists of arguments, no shell; an environment of our own without prompts, hooks, helpers, replacements and foreign
config; only the protocols named here; a wall clock, at whose end the whole process group goes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.errors import SettingsError, UpstreamGone

PROTOCOLS = ("file", "https", "ssh")
_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "credential.helper": "",
    "gc.auto": "0",  # objects of a pull request are reachable from nothing of ours while git decides
    "maintenance.auto": "false",
    "fetch.unpackLimit": "1",  # a pack appears as a whole; loose objects of a killed fetch would be half a commit
    "fetch.recurseSubmodules": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "protocol.version": "2",
}
_PASSED_ON = (
    *("PATH", "HOME", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a git command said. ``problem`` is the last line of its complaint."""

    code: int
    out: bytes
    problem: str


def environment(*, offline: bool = False) -> dict[str, str]:
    """The environment of every git process. ``offline``: git fetches nothing, also not what a partial clone lacks."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return kept | {
        "LC_ALL": "C",
        # older gits have no word for "fetch nothing by yourself": without a protocol they cannot
        "GIT_ALLOW_PROTOCOL": "none" if offline else ":".join(PROTOCOLS),
        "GIT_ASKPASS": "true",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1" if offline else "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "GIT_TERMINAL_PROMPT": "0",
    }


def arguments(git_dir: Path | None, args: Sequence[str]) -> list[str]:
    """The full command line of ``git args``."""
    where = [f"--git-dir={git_dir}"] if git_dir is not None else []
    return ["git", *where, *(part for key, value in _CONFIG.items() for part in ("-c", f"{key}={value}")), *args]


def start(
    args: Sequence[str], *, stdin: int, stderr: int, pass_fds: Sequence[int] = (), offline: bool = False
) -> subprocess.Popen[bytes]:
    """Starts a command line of ``arguments``. Raises SettingsError when there is no git."""
    try:
        return subprocess.Popen(
            args,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(offline=offline),
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    except FileNotFoundError as exc:
        raise SettingsError("git is not installed", "install git (version 2.36 or newer) and have it on PATH") from exc


def git(
    git_dir: Path | None,
    *args: str,
    timeout_s: float,
    given: bytes | None = None,
    pass_fds: Sequence[int] = (),
    offline: bool = False,
) -> Answer:
    """Runs ``git args`` to its end. Raises UpstreamGone when it takes longer than ``timeout_s``."""
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    command = arguments(git_dir, args)
    with start(command, stdin=stdin, stderr=subprocess.PIPE, pass_fds=pass_fds, offline=offline) as process:
        try:
            out, err = process.communicate(given, timeout=timeout_s)
        except BaseException as exc:
            # the transport's helpers are children of git and hold our pipes: all of them go
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(exc, subprocess.TimeoutExpired):
                raise UpstreamGone(f"git {args[0]} took longer than {timeout_s:g} s", "is upstream reachable?") from exc
            raise
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    return Answer(process.returncode, out, telling[0] if telling else f"exit code {process.returncode}")
