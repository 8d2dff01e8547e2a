"""``relay config``: the commands over reuse configs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay.cli.groups import ConfigFile, config_app


@config_app.command("lint")
def config_lint(
    paths: Annotated[list[Path], typer.Argument(help="YAML files or folders.")],
    compat: Annotated[bool, typer.Option(help="What the older format let pass is a warning.")] = False,
    upstream: Annotated[Path | None, typer.Option(help="Upstream's root: names must name something there.")] = None,
    was: Annotated[Path | None, typer.Option(help="The upstream that the configs were right for, for renames.")] = None,
    opdb: Annotated[Path | None, typer.Option(help="Op database from python -m relay.worker.opdb.")] = None,
    issues: Annotated[Path | None, typer.Option(help="JSON of issues and their states, for closed ones.")] = None,
    table: Annotated[bool, typer.Option(help="One row a file: warnings by kind.")] = False,
) -> None:
    """Check reuse configs: every problem with file, line, column and what to do."""
    from relay.cli import config as cli_config

    against = cli_config.Against(upstream, was, opdb, issues)
    raise typer.Exit(cli_config.lint_files(paths, compat=compat, against=against, table=table))


@config_app.command("explain")
def config_explain(
    test: Annotated[str, typer.Argument(help="test/test_x.py::TestX::test_a, by its names in the source.")],
    configs: Annotated[Path, typer.Option(help="The device's folder.")] = Path("test_configs/spyre"),
    opdb: Annotated[Path | None, typer.Option(help="Op database from python -m relay.worker.opdb.")] = None,
    machine: Annotated[str, typer.Option("--platform", help="An architecture; default: this machine's.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which entry governs each group of a test's variants, where it stands and why it wins."""
    from relay.cli import explain as cli_explain

    raise typer.Exit(cli_explain.run(test, configs, opdb, machine=machine, as_json=as_json))


@config_app.command("import")
def config_import(
    paths: Annotated[list[Path], typer.Argument(help="Existing configs, or folders of them.")],
    out: Annotated[Path, typer.Option(help="Folder to write into.")],
    force: Annotated[bool, typer.Option(help="Write over files that are there.")] = False,
) -> None:
    """Existing configs into this format: comments become reasons, repeated globals one sheet."""
    from relay.cli import config_write as cli_config_write

    raise typer.Exit(cli_config_write.run_import(paths, out, force=force))


@config_app.command("fmt")
def config_fmt(
    paths: Annotated[list[Path], typer.Argument(help="YAML files or folders.")],
    check: Annotated[bool, typer.Option(help="Write nothing; exit 1 when a file would change.")] = False,
) -> None:
    """Rewrite configs in one layout; comments and order stay."""
    from relay.cli import config_write as cli_config_write

    raise typer.Exit(cli_config_write.run_fmt(paths, check=check))


@config_app.command("diff")
def config_diff(
    a: Annotated[Path, typer.Argument(help="A config or a device's folder, before.")],
    b: Annotated[Path, typer.Argument(help="The same, after.")],
    upstream: Annotated[Path | None, typer.Option(help="Upstream's root: compare all tests, not the named.")] = None,
    opdb: Annotated[Path | None, typer.Option(help="Op database from python -m relay.worker.opdb.")] = None,
    compat: Annotated[bool, typer.Option(help="What the older format let pass is a warning.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which variants change mode between two configs, and which entries say so."""
    from relay.cli import config_write as cli_config_write

    raise typer.Exit(cli_config_write.run_diff(a, b, upstream, opdb, compat=compat, as_json=as_json))


@config_app.command("propose")
def config_propose(
    results: Annotated[list[Path], typer.Argument(help="JSON lines of relay run --out; a file is a run.")],
    out: Annotated[Path | None, typer.Option(help="The config, or with --patch the diff, to write.")] = None,
    extends: Annotated[list[str] | None, typer.Option(help="Sheets that the new config extends.")] = None,
    evidence: Annotated[str, typer.Option(help="The run, for the entries' evidence.")] = "",
    patch: Annotated[Path | None, typer.Option(help="Change this device's folder instead: fewest lines.")] = None,
    upstream: Annotated[Path | None, typer.Option(help="With --patch: import the files under it, too.")] = None,
    enough: Annotated[int, typer.Option(help="Runs that a promotion or demotion takes.", min=1)] = 5,
    branch: Annotated[str, typer.Option(help="Commit the patch on this new branch of the folder's repository.")] = "",
    pull_request: Annotated[str, typer.Option(help="owner/name that a pull request is proposed to.")] = "",
    base: Annotated[str, typer.Option(help="That repository's branch.")] = "main",
    prefix: Annotated[str, typer.Option(help="The folder's path in that repository.")] = "",
    config: ConfigFile = None,
) -> None:
    """Entries for the limits of the device that a run showed, or a patch of its configs; a person merges them."""
    if patch is not None:
        from relay.cli.config_patch import Destination, run_patch

        to = Destination(out, branch, pull_request, base, prefix, config)
        raise typer.Exit(run_patch(results, patch, to, upstream=upstream, enough=enough))
    if out is None:
        raise typer.BadParameter("--out FILE names the config to write; --patch FOLDER changes one that is there")
    from relay.cli import config_write as cli_config_write

    raise typer.Exit(cli_config_write.run_propose(results, out, extends or [], evidence))


@config_app.command("schema")
def config_schema() -> None:
    """Print the format's JSON Schema, for editors."""
    from relay.cli import config_write as cli_config_write

    raise typer.Exit(cli_config_write.run_schema())
