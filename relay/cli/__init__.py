"""The ``relay`` command. Exit codes: 0 done, 1 the thing asked for found a failure, 2 usage, settings or config."""

from __future__ import annotations

import sys

from relay.cli import (
    commands,
    commands_app,
    commands_backup,
    commands_config,
    commands_operate,
    commands_replay,
    commands_simulate,
)
from relay.cli.groups import app
from relay.errors import RelayError
from selector.errors import SelectorError

__all__ = [
    "app",
    "commands",
    "commands_app",
    "commands_backup",
    "commands_config",
    "commands_operate",
    "commands_replay",
    "commands_simulate",
    "main",
]


def main() -> None:
    """Entry point: an error of ours is one sentence and a hint, never a traceback."""
    try:
        app()
    except (RelayError, SelectorError) as exc:
        sys.stderr.write(f"relay: {exc.message}\n")
        if exc.hint:
            sys.stderr.write(f"  {exc.hint}\n")
        sys.exit(2)
