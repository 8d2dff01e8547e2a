"""The ``relay`` command. Exit codes: 0 done, 1 the thing asked for found a failure, 2 usage, settings or config."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from relay.errors import RelayError
from selector.errors import SelectorError

app = typer.Typer(
    name="relay",
    help="Cross-repository CI relay: does this upstream change break our accelerator?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="The device's reuse configs.", no_args_is_help=True)
allowlist_app = typer.Typer(help="The allowlist of downstream repositories.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(allowlist_app, name="allowlist")
quarantine_app = typer.Typer(help="Flaky tests that somebody has noted, each with an end.", no_args_is_help=True)
app.add_typer(quarantine_app, name="quarantine")
outbox_app = typer.Typer(help="What leaves the relay: look, send again, give up.", no_args_is_help=True)
app.add_typer(outbox_app, name="outbox")
triage_app = typer.Typer(help="Which tests are for the device.", no_args_is_help=True)
app.add_typer(triage_app, name="triage")

ConfigFile = Annotated[str | None, typer.Option("--config", help="relay.toml; default: $RELAY_CONFIG.")]


@app.command()
def up(
    config: ConfigFile = None,
    port: Annotated[int | None, typer.Option(help="Overrides port; 0 takes a free one.")] = None,
    worker: Annotated[bool, typer.Option(help="Start an emulator worker here (needs torch).")] = True,
) -> None:
    """Start every process of the relay here: broker, web, pump, workers. Ctrl-C ends them all."""
    from relay.logs import setup
    from relay.settings import load
    from relay.up import up as run

    if port is not None:
        os.environ["RELAY_PORT"] = str(port)
    setup()
    run(load(config), config, worker)


@app.command()
def migrate(config: ConfigFile = None) -> None:
    """Bring the database to this version's schema."""
    from relay.settings import load
    from relay.store import db

    settings = load(config)
    db.migrate(db.open_engine(settings.database))
    typer.echo("The database has the newest schema.")


@app.command()
def select(
    upstream: Annotated[Path, typer.Option(help="A git checkout or bare repository of upstream.")],
    base: Annotated[str, typer.Option(help="Revision the change is compared with.")] = "",
    head: Annotated[str, typer.Option(help="Revision with the change.")] = "",
    patch: Annotated[Path | None, typer.Option(help="The change as a patch against --base (else HEAD).")] = None,
    compare: Annotated[str, typer.Option(help="The change as GitHub compares it: a JSON file or its URL.")] = "",
    measured: Annotated[Path | None, typer.Option(help="Table of which test files run which sources.")] = None,
    configs: Annotated[Path, typer.Option(help="The device's folder.")] = Path("test_configs/spyre"),
    opdb: Annotated[Path | None, typer.Option(help="Op database from python -m relay.worker.opdb.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print every decision with its reason.")] = False,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps parsed files between runs.")] = None,
) -> None:
    """Which upstream tests matter for this change and this device, and why."""
    from relay import cli_select

    raise typer.Exit(
        cli_select.run(
            upstream,
            base,
            head,
            configs,
            opdb,
            as_json=as_json,
            explain=explain,
            cache=cache,
            patch=patch,
            compare=compare,
            measured=measured,
        )
    )


@app.command()
def doctor(folder: Annotated[Path | None, typer.Option(help="The worker's folder.")] = None) -> None:
    """What this machine lacks for an emulator worker: torch, a sandbox for tests, room. 1 when it cannot run one."""
    from relay import cli_doctor

    raise typer.Exit(cli_doctor.run(folder))


@app.command()
def inventory(
    places: Annotated[list[str], typer.Argument(metavar="DIR | diff A B", help="A checkout, or two to compare.")],
    rev: Annotated[str | None, typer.Option(help="Read this commit and not the folder's files.")] = None,
    upstream: Annotated[Path | None, typer.Option(help="With diff: A and B are revisions of this repository.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps parsed files between runs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which tests a tree of upstream has, found without importing anything; or what differs between two trees."""
    if len(places) == 3 and places[0] == "diff" and rev is None:
        from relay import cli_inventory_diff

        raise typer.Exit(cli_inventory_diff.run(places[1], places[2], upstream, cache, as_json=as_json))
    if len(places) != 1 or upstream is not None:
        raise typer.BadParameter("give one folder (with --rev a commit of it), or: diff A B")
    from relay import cli_inventory

    raise typer.Exit(cli_inventory.run(Path(places[0]), rev, cache, as_json=as_json))


@app.command()
def upgrade(
    old: Annotated[str, typer.Option("--from", help="The release before: a folder, or a revision of --upstream.")],
    new: Annotated[str, typer.Option("--to", help="The new release: a folder, or a revision of --upstream.")],
    configs: Annotated[Path, typer.Option(help="The device's folder.")] = Path("test_configs/spyre"),
    upstream: Annotated[Path | None, typer.Option(help="A git repository of upstream.")] = None,
    opdb_from: Annotated[Path | None, typer.Option(help="Op database of the old torch.")] = None,
    opdb_to: Annotated[Path | None, typer.Option(help="Op database of the new torch.")] = None,
    torch_from: Annotated[
        Path | None, typer.Option(help="Python with the old torch, or a folder with its package: evaluates its ops.")
    ] = None,
    torch_to: Annotated[Path | None, typer.Option(help="The same of the new torch.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps what was found between runs.")] = None,
    write: Annotated[Path | None, typer.Option(help="Folder for upgrade.md, upgrade.json, configs.patch.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    run_on: Annotated[
        Path | None, typer.Option(help="relay.toml of a relay that compares them and runs both sides.")
    ] = None,
) -> None:
    """What a new upstream release changes for the device: tests that are new, changed, renamed or gone, and why."""
    from relay import cli_upgrade

    if run_on is not None:
        raise typer.Exit(cli_upgrade.run_on(old, new, str(run_on)))
    torches = {"torch_old": torch_from, "torch_new": torch_to}
    request = cli_upgrade.Request(old, new, configs, upstream, opdb_from, opdb_to, cache, write, **torches)
    raise typer.Exit(cli_upgrade.run(request, as_json=as_json))


@app.command("run")
def run_tests(
    tests: Annotated[list[str] | None, typer.Argument(help="test/test_x.py, ...::TestX or ...::TestX::test_a.")] = None,
    tree: Annotated[Path, typer.Option(help="Upstream's root.")] = Path(),
    configs: Annotated[Path, typer.Option(help="The device's folder.")] = Path("test_configs/spyre"),
    tags: Annotated[str, typer.Option(help='Tag expression: "model__x and not slow".')] = "",
    model: Annotated[list[str] | None, typer.Option(help="Run the calls of this model instead; or all.")] = None,
    cases: Annotated[list[Path] | None, typer.Option(help="Configs that hold the models' calls.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds a variant may take.")] = 60.0,
    out: Annotated[Path | None, typer.Option(help="Write results as JSON lines.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
    ctrf: Annotated[Path | None, typer.Option(help="Write a CTRF report.")] = None,
) -> None:
    """Run upstream's tests under a device's configs here, without a relay. 0 passed, 1 failed, 2 config, 3 broken."""
    from relay import cli_run

    wanted = cli_run.Wanted(tests or [], tree, configs, tags, timeout, out, junit, ctrf)
    if bool(tests) == bool(model):
        raise typer.BadParameter("name tests, or a model with --model")
    try:
        if model:
            from relay.cli_run_models import run_models

            raise typer.Exit(run_models(wanted, model, cases or [configs / "models"]))
        raise typer.Exit(cli_run.run(wanted))
    except cli_run.RunFailed as exc:
        typer.echo(f"relay: {exc.message}", err=True)
        raise typer.Exit(3) from exc


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
    from relay import cli_outbox

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
    from relay import cli_outbox

    raise typer.Exit(cli_outbox.run_retry(config, ids or [], parked, kind, target))


@outbox_app.command("drop")
def outbox_drop(
    ids: Annotated[list[int], typer.Argument(help="Numbers of effects.")],
    reason: Annotated[str, typer.Option(help="Why; it is shown on the run's page.")],
    config: ConfigFile = None,
) -> None:
    """Give effects up: they are never sent."""
    from relay import cli_outbox

    raise typer.Exit(cli_outbox.run_drop(config, ids, reason))


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
    from relay import cli_config

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
    from relay import cli_explain

    raise typer.Exit(cli_explain.run(test, configs, opdb, machine=machine, as_json=as_json))


@config_app.command("import")
def config_import(
    paths: Annotated[list[Path], typer.Argument(help="Existing configs, or folders of them.")],
    out: Annotated[Path, typer.Option(help="Folder to write into.")],
    force: Annotated[bool, typer.Option(help="Write over files that are there.")] = False,
) -> None:
    """Existing configs into this format: comments become reasons, repeated globals one sheet."""
    from relay import cli_config_write

    raise typer.Exit(cli_config_write.run_import(paths, out, force=force))


@config_app.command("fmt")
def config_fmt(
    paths: Annotated[list[Path], typer.Argument(help="YAML files or folders.")],
    check: Annotated[bool, typer.Option(help="Write nothing; exit 1 when a file would change.")] = False,
) -> None:
    """Rewrite configs in one layout; comments and order stay."""
    from relay import cli_config_write

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
    from relay import cli_config_write

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
        from relay.cli_config_patch import Destination, run_patch

        to = Destination(out, branch, pull_request, base, prefix, config)
        raise typer.Exit(run_patch(results, patch, to, upstream=upstream, enough=enough))
    if out is None:
        raise typer.BadParameter("--out FILE names the config to write; --patch FOLDER changes one that is there")
    from relay import cli_config_write

    raise typer.Exit(cli_config_write.run_propose(results, out, extends or [], evidence))


@config_app.command("schema")
def config_schema() -> None:
    """Print the format's JSON Schema, for editors."""
    from relay import cli_config_write

    raise typer.Exit(cli_config_write.run_schema())


@triage_app.command("eval")
def triage_eval(
    configs: Annotated[Path, typer.Option(help="Folder of reuse configs with people's decisions.")],
    upstream: Annotated[Path, typer.Option(help="Upstream's root.")],
    sheet: Annotated[Path, typer.Option(help="The device's sheet.")] = Path("test_configs/spyre/capability.yaml"),
    opdb: Annotated[Path | None, typer.Option(help="Op database from python -m relay.worker.opdb.")] = None,
    evidence: Annotated[list[Path] | None, typer.Option(help="Trusted results of relay run --out.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps parsed files between runs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """How often triage says what people decided, and where it does not, why."""
    from relay import cli_triage

    raise typer.Exit(cli_triage.run(configs, upstream, sheet, opdb, evidence or [], cache, as_json=as_json))


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
    from relay import cli_quarantine

    raise typer.Exit(cli_quarantine.add(config, test, variant, reason, issue, until, evidence))


@quarantine_app.command("end")
def quarantine_end(
    id: Annotated[int, typer.Argument(help="From relay quarantine list.")], config: ConfigFile = None
) -> None:
    """Take an entry out before its time."""
    from relay import cli_quarantine

    raise typer.Exit(cli_quarantine.end(config, id))


@quarantine_app.command("list")
def quarantine_list(config: ConfigFile = None) -> None:
    """Every entry with its state: holds, expired, ended."""
    from relay import cli_quarantine

    raise typer.Exit(cli_quarantine.show(config))


@allowlist_app.command("lint")
def allowlist_lint(path: Annotated[Path, typer.Argument(help="The allowlist YAML.")]) -> None:
    """Check an allowlist; print who gets what."""
    from relay import cli_config

    raise typer.Exit(cli_config.lint_allowlist(path))


def main() -> None:
    """Entry point: an error of ours is one sentence and a hint, never a traceback."""
    try:
        app()
    except (RelayError, SelectorError) as exc:
        sys.stderr.write(f"relay: {exc.message}\n")
        if exc.hint:
            sys.stderr.write(f"  {exc.hint}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
