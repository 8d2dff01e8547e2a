"""``relay app create``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay.cli.groups import ConfigFile, _group

app_app = _group("app", "The GitHub App of this relay.")


@app_app.callback()
def _only_a_group() -> None:
    """The GitHub App of this relay."""


@app_app.command("create")
def create(
    secrets: Annotated[Path, typer.Option(help="New folder for its secrets.")] = Path("secrets"),
    name: Annotated[str, typer.Option(help="Its name, unique on GitHub.")] = "Cross-repository CI relay",
    org: Annotated[str, typer.Option(help="Organization that owns it; default: whoever is signed in.")] = "",
    port: Annotated[int, typer.Option(help="Port of the local page; 0: a free one.")] = 0,
    code: Annotated[str, typer.Option(help="The code that GitHub led a browser elsewhere back with.")] = "",
    print_manifest: Annotated[bool, typer.Option("--print-manifest", help="Print the manifest and end.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the browser.")] = 900.0,
    config: ConfigFile = None,
) -> None:
    """Make the App by a page and two clicks; its secrets go into files, and nowhere else."""
    from relay.cli import app_create as body

    raise typer.Exit(body.run(config, secrets, name, org, port, code, print_manifest, wait))
