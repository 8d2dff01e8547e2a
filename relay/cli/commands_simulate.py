"""``relay simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay.cli.groups import app


@app.command()
def simulate(
    pool: Annotated[list[int] | None, typer.Option(min=1, help="Emulator workers; again for more sizes.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="name=value of the scenario; again for more.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture (.svg, .png); needs the extra plots.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """A month of upstream's traffic against pools of workers, on a virtual clock: waits, cost, what breaks first."""
    from relay.cli import simulate as cli_simulate

    raise typer.Exit(cli_simulate.run(pool or [], change or [], plot=plot, as_json=as_json))
