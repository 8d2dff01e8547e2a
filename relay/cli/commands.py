"""Commands that start something or look at upstream; each is a thin call of the module that does it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from relay.cli.groups import ConfigFile, app, triage_app


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
    trace: Annotated[Path | None, typer.Option(help="Table of relay trace.")] = None,
    configs: Annotated[Path, typer.Option(help="The device's folder.")] = Path("test_configs/spyre"),
    opdb: Annotated[Path | None, typer.Option(help="Op database from python -m relay.worker.opdb.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print every decision with its reason.")] = False,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps parsed files between runs.")] = None,
    agents: Annotated[
        bool, typer.Option("--agents", help="Ask the model of the settings where rules are unsure.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Which upstream tests matter for this change and this device, and why."""
    from relay.cli import select as cli_select

    asking = None
    if agents:
        from relay.settings import load

        asking = load(config)
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
            trace=trace,
            asking=asking,
        )
    )


@app.command()
def doctor(
    folder: Annotated[Path | None, typer.Option(help="The worker's folder.")] = None,
    worker: Annotated[bool, typer.Option(help="Look at this machine as a worker's.")] = True,
    config: ConfigFile = None,
) -> None:
    """What is wrong: with this machine as a worker's (torch, sandbox, room), and with --config or $RELAY_CONFIG with a
    relay (settings, allowlist, device, database, broker, GitHub App). 1 when something keeps it from working."""
    from relay.cli import doctor as cli_doctor

    raise typer.Exit(cli_doctor.run(folder, config, worker=worker))


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
        from relay.cli import inventory_diff as cli_inventory_diff

        raise typer.Exit(cli_inventory_diff.run(places[1], places[2], upstream, cache, as_json=as_json))
    if len(places) != 1 or upstream is not None:
        raise typer.BadParameter("give one folder (with --rev a commit of it), or: diff A B")
    from relay.cli import inventory as cli_inventory

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
    from relay.cli import upgrade as cli_upgrade

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
    base: Annotated[
        str, typer.Option(help="Revision the tree came from: Python files of torch changed since run, too.")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds a variant may take.")] = 60.0,
    out: Annotated[Path | None, typer.Option(help="Write results as JSON lines.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
    ctrf: Annotated[Path | None, typer.Option(help="Write a CTRF report.")] = None,
) -> None:
    """Run upstream's tests under a device's configs here, without a relay. 0 passed, 1 failed, 2 config, 3 broken."""
    from relay.cli import run as cli_run

    wanted = cli_run.Wanted(tests or [], tree, configs, tags, timeout, out, junit, ctrf, base)
    if bool(tests) == bool(model):
        raise typer.BadParameter("name tests, or a model with --model")
    try:
        if model:
            from relay.cli.run_models import run_models

            raise typer.Exit(run_models(wanted, model, cases or [configs / "models"]))
        raise typer.Exit(cli_run.run(wanted))
    except cli_run.RunFailed as exc:
        typer.echo(f"relay: {exc.message}", err=True)
        raise typer.Exit(3) from exc


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
    from relay.cli import triage as cli_triage

    raise typer.Exit(cli_triage.run(configs, upstream, sheet, opdb, evidence or [], cache, as_json=as_json))
