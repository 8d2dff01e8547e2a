"""``relay replay`` and ``relay learn``: how good the selection is, measured with faults and with real history."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from relay.cli.groups import ConfigFile, app, replay_app

Upstream = Annotated[Path, typer.Option(help="Root of an upstream checkout: its tests and native sources.")]
Work = Annotated[Path, typer.Option(help="Folder of this replay's state; the same one goes on with it.")]
Configs = Annotated[Path, typer.Option(help="The device's folder.")]
Seed = Annotated[str, typer.Option(help="What faults, pool and draws come from.")]
Files = Annotated[list[str] | None, typer.Option("--file", help="Test file of the pool; again for more.")]
Count = Annotated[int | None, typer.Option(help="Faults that some test reaches; default: all that are drawn.")]
Share = Annotated[float, typer.Option(help="Part of a large file's variants that the pool takes.")]
Most = Annotated[int, typer.Option(help="Variants of a file that the pool takes at most.")]
PoolMinutes = Annotated[float, typer.Option(help="Minutes that taking the pool may last: more of them, more variants.")]
Full = Annotated[int, typer.Option(help="Faults that are run to the end, for the recall of tests.")]
RankerFile = Annotated[Path | None, typer.Option("--ranker", help="Weights of relay learn: one more strategy.")]
ModelRun = Annotated[Path | None, typer.Option(help="A model's recorded answers: one more strategy.")]
DEVICE = Path("test_configs/unlimited")


@replay_app.command("run")
def replay_run(
    upstream: Upstream,
    work: Work,
    configs: Configs = DEVICE,
    seed: Seed = "1",
    files: Files = None,
    faults: Count = None,
    minutes: Annotated[float | None, typer.Option(help="Stop running after so many; a later call goes on.")] = None,
    share: Share = 0.02,
    most: Most = 700,
    full: Full = 20,
    pool_minutes: PoolMinutes = 8.0,
    ranker: RankerFile = None,
    model_run: ModelRun = None,
    trace: Annotated[bool, typer.Option(help="Follow what the tests run: one more strategy.")] = False,
) -> None:
    """Put faults into the installed torch, run the tests that reach them, and print which strategies find them."""
    from relay.cli import replay

    given = replay.Given(
        upstream, configs, work, seed, files or (), faults, minutes, share, most, full, ranker, model_run, trace=trace,
        pool_s=pool_minutes * 60,
    )  # fmt: skip
    raise typer.Exit(replay.run(given))


@replay_app.command("show")
def replay_show(
    upstream: Upstream,
    work: Work,
    configs: Configs = DEVICE,
    seed: Seed = "1",
    files: Files = None,
    faults: Count = None,
    share: Share = 0.02,
    most: Most = 700,
    full: Full = 20,
    pool_minutes: PoolMinutes = 8.0,
    ranker: RankerFile = None,
    model_run: ModelRun = None,
    reports: Annotated[Path | None, typer.Option(help="Write what the setting replay_reports takes.")] = None,
    missed: Annotated[Path | None, typer.Option(help="Write the faults that the rules miss, as cases.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the table of what a replay has run so far. Runs nothing."""
    from relay.cli import replay

    given = replay.Given(
        upstream, configs, work, seed, files or (), faults, None, share, most, full, ranker, model_run,
        pool_s=pool_minutes * 60,
    )  # fmt: skip
    raise typer.Exit(replay.show(given, as_json=as_json, reports=reports, missed=missed))


@replay_app.command("ask")
def replay_ask(
    upstream: Upstream,
    work: Work,
    out: Annotated[Path, typer.Option(help="File for the answers: what --model-run takes. Goes on where it is.")],
    configs: Configs = DEVICE,
    seed: Seed = "1",
    files: Files = None,
    faults: Count = None,
    share: Share = 0.02,
    most: Most = 700,
    full: Full = 20,
    pool_minutes: PoolMinutes = 8.0,
    config: ConfigFile = None,
) -> None:
    """Ask the model of the settings what it would of each fault's diff, and write down what it said. Runs no test."""
    from relay.cli import replay
    from relay.settings import load

    given = replay.Given(
        upstream, configs, work, seed, files or (), faults, None, share, most, full, pool_s=pool_minutes * 60
    )
    raise typer.Exit(replay.ask(given, load(config), out))


@replay_app.command("cases")
def replay_again(
    file: Annotated[Path, typer.Argument(help="Cases, as relay replay show --missed writes them.")],
    upstream: Upstream,
    work: Work,
    configs: Configs = DEVICE,
) -> None:
    """Faults that the rules missed once: do they select a test that finds them now? 1 when one is still missed."""
    from relay.cli import replay_cases

    raise typer.Exit(replay_cases.run(file, upstream, configs, work))


@replay_app.command("history")
def replay_history(
    repository: Annotated[Path, typer.Option(help="A git repository with upstream's history.")],
    work: Work,
    head: Annotated[str, typer.Option(help="The newest commit that counts.")] = "HEAD",
    commits: Annotated[int, typer.Option(help="Commits that are drawn.")] = 100,
    seed: Seed = "1",
    opdb: Annotated[Path | None, typer.Option(help="Op database from python -m relay.worker.opdb.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many; a later call goes on.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the selector real commits without their tests: does it select the tests that the authors edited?"""
    from relay.cli import replay_history as body

    raise typer.Exit(body.run(repository, work, head, commits, seed, opdb, minutes, as_json=as_json))


class Source(StrEnum):
    """What `relay learn` learns from."""

    REPLAY = "replay"
    HISTORY = "history"


@app.command()
def learn(
    out: Annotated[Path, typer.Option(help="File for the weights.")],
    source: Annotated[
        Source, typer.Option("--from", help="A replay's faults, or the relay's database.")
    ] = Source.REPLAY,
    config: ConfigFile = None,
    device: Annotated[str | None, typer.Option(help="history: the device; default: the setting's.")] = None,
    upstream: Annotated[Path | None, typer.Option(help="replay: root of the upstream checkout.")] = None,
    work: Annotated[Path | None, typer.Option(help="replay: folder of its state.")] = None,
    configs: Configs = DEVICE,
    seed: Seed = "1",
    files: Files = None,
    share: Share = 0.02,
    most: Most = 700,
    full: Full = 20,
    pool_minutes: PoolMinutes = 8.0,
) -> None:
    """Fit a ranker for the trial (needs torch): to a replay's faults, those of kinds that only score left out, or to
    what the changes of trusted authors broke in the relay's own runs."""
    from relay.cli import learn as body
    from relay.cli import replay
    from relay.errors import BadRequest

    if source is Source.HISTORY:
        if upstream is not None or work is not None:
            raise BadRequest("relay learn --from history takes no --upstream and no --work", "it reads the database")
        raise typer.Exit(body.from_history(config, device, out))
    if upstream is None or work is None:
        raise BadRequest("relay learn --from replay needs --upstream and --work", "or --from history")
    given = replay.Given(
        upstream, configs, work, seed, files or (), None, None, share, most, full, pool_s=pool_minutes * 60
    )
    raise typer.Exit(body.from_replay(given, out))


@app.command()
def trace(
    upstream: Upstream,
    work: Annotated[Path, typer.Option(help="Folder for what is expensive to make again.")],
    out: Annotated[Path, typer.Option(help="File for the table: what the setting trace takes.")],
    configs: Configs = DEVICE,
    files: Annotated[list[str] | None, typer.Option("--file", help="Test file to follow; again for more.")] = None,
    share: Annotated[float, typer.Option(help="Part of a large file's variants that is followed.")] = 1.0,
    minutes: Annotated[float | None, typer.Option(help="Stop following after so many.")] = None,
) -> None:
    """Run tests on the installed torch and write down which of its functions and operators each runs (needs torch)."""
    from relay.cli import trace as body

    raise typer.Exit(body.run(upstream, configs, work, out, tuple(files or ()), share, minutes))
