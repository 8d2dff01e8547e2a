"""The ``relay`` command and its groups of commands; the modules ``commands_*`` put commands into them."""

from __future__ import annotations

from typing import Annotated

import typer

ConfigFile = Annotated[str | None, typer.Option("--config", help="relay.toml; default: $RELAY_CONFIG.")]

app = typer.Typer(
    name="relay",
    help="Cross-repository CI relay: does this upstream change break our accelerator?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _group(name: str, about: str) -> typer.Typer:
    group = typer.Typer(help=about, no_args_is_help=True)
    app.add_typer(group, name=name)
    return group


config_app = _group("config", "The device's reuse configs.")
allowlist_app = _group("allowlist", "The allowlist of downstream repositories.")
quarantine_app = _group("quarantine", "Flaky tests that somebody has noted, each with an end.")
outbox_app = _group("outbox", "What leaves the relay: look, send again, give up.")
triage_app = _group("triage", "Which tests are for the device.")
replay_app = _group("replay", "How good the selection is: faults and real history.")
