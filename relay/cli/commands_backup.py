"""``relay backup``, ``relay restore``, ``relay audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay.cli.groups import ConfigFile, app


@app.command()
def backup(to: Annotated[Path, typer.Argument(help="The file to write.")], config: ConfigFile = None) -> None:
    """Save the whole database in a file, while everything runs."""
    from relay.cli import backup as body

    raise typer.Exit(body.save(config, to))


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(help="A file of `relay backup`.")], config: ConfigFile = None
) -> None:
    """Fill an empty database from a backup; the relay's processes are stopped meanwhile."""
    from relay.cli import backup as body

    raise typer.Exit(body.restore(config, source))


@app.command()
def audit(
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    action: Annotated[str | None, typer.Option(help="As dispatch.sent, or dispatch for all of its kind.")] = None,
    target: Annotated[str | None, typer.Option(help="owner/repo, or a host.")] = None,
    actor: Annotated[str | None, typer.Option(help="relay, or a login.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
    config: ConfigFile = None,
) -> None:
    """Who did what on the outside, and what people did here; the newest first."""
    from relay.cli import backup as body

    raise typer.Exit(body.show(config, limit, action, target, actor, as_json))
