"""``relay outbox``, ``relay quarantine``, ``relay allowlist``: what an operator does by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay.cli.groups import ConfigFile, allowlist_app, outbox_app, quarantine_app


@outbox_app.command("list")
def outbox_list(
    state: Annotated[list[str] | None, typer.Option(help="due, parked, sent, dropped; default: due, parked.")] = None,
    kind: Annotated[str | None, typer.Option(help="dispatch, check_run, hud, comment, cancel, rerun.")] = None,
    target: Annotated[str | None, typer.Option(help="owner/repo, or an owner.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: ConfigFile = None,
) -> None:
    """Effects on the outside, the oldest first. 1 when there are parked ones."""
    from relay.cli import outbox as cli_outbox

    raise typer.Exit(cli_outbox.run_list(config, state or ["due", "parked"], kind, target, limit, as_json))


@outbox_app.command("retry")
def outbox_retry(
    ids: Annotated[list[int] | None, typer.Argument(help="Numbers of effects.")] = None,
    parked: Annotated[bool, typer.Option(help="All that are parked.")] = False,
    kind: Annotated[str | None, typer.Option(help="With --parked: only this kind.")] = None,
    target: Annotated[str | None, typer.Option(help="With --parked: only this owner/repo or owner.")] = None,
    config: ConfigFile = None,
) -> None:
    """Have effects sent again, as if they had just been asked for. 1 when one of them cannot be."""
    from relay.cli import outbox as cli_outbox

    raise typer.Exit(cli_outbox.run_retry(config, ids or [], parked, kind, target))


@outbox_app.command("drop")
def outbox_drop(
    ids: Annotated[list[int], typer.Argument(help="Numbers of effects.")],
    reason: Annotated[str, typer.Option(help="Why; it is shown on the run's page.")],
    config: ConfigFile = None,
) -> None:
    """Give effects up: they are never sent."""
    from relay.cli import outbox as cli_outbox

    raise typer.Exit(cli_outbox.run_drop(config, ids, reason))


@quarantine_app.command("add")
def quarantine_add(
    test: Annotated[str, typer.Argument(help="test/test_x.py::TestX::test_a, by its names in the source.")],
    reason: Annotated[str, typer.Option(help="Why it fails now and then.")],
    issue: Annotated[str, typer.Option(help="Where it is mended: a URL or owner/repo#12.")],
    until: Annotated[str, typer.Option(help="The last day, as 2026-12-31.")],
    variant: Annotated[str, typer.Option(help="One generated variant; default: all.")] = "",
    evidence: Annotated[str, typer.Option(help="The runs that showed it.")] = "",
    config: ConfigFile = None,
) -> None:
    """Put a test into quarantine: its failures count again when re-runs blame a change, and from that day on."""
    from relay.cli import quarantine as cli_quarantine

    raise typer.Exit(cli_quarantine.add(config, test, variant, reason, issue, until, evidence))


@quarantine_app.command("end")
def quarantine_end(
    id: Annotated[int, typer.Argument(help="From relay quarantine list.")], config: ConfigFile = None
) -> None:
    """Take an entry out before its time."""
    from relay.cli import quarantine as cli_quarantine

    raise typer.Exit(cli_quarantine.end(config, id))


@quarantine_app.command("list")
def quarantine_list(config: ConfigFile = None) -> None:
    """Every entry with its state: holds, expired, ended."""
    from relay.cli import quarantine as cli_quarantine

    raise typer.Exit(cli_quarantine.show(config))


@allowlist_app.command("lint")
def allowlist_lint(path: Annotated[Path, typer.Argument(help="The allowlist YAML.")]) -> None:
    """Check an allowlist; print who gets what."""
    from relay.cli import config as cli_config

    raise typer.Exit(cli_config.lint_allowlist(path))
