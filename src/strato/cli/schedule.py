"""``strato schedule``: what the scheduler would decide on manifests or on a cluster's state; nothing is applied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.connect import with_cluster
from strato.cli.inputs import INPUT_FILE
from strato.cli.outputs import OUTPUT_FILE, OutputFile
from strato.cli.statesource import base_of

if TYPE_CHECKING:
    from strato.scheduler.model.plan import Failure


@click.command()
@click.option("-f", "--filename", "paths", multiple=True, metavar="PATH", help="Manifests: file, directory, or - .")
@click.option("--config", type=INPUT_FILE, default=None, help="The scheduler's configuration file.")
@click.option("--cycles", type=click.IntRange(1), default=None, help="How many cycles to run.  [default: 1]")
@click.option("--seed", type=click.IntRange(0), default=None, help="Decides what is left to chance.  [default: 0]")
@click.option(
    "--scheduler-sharding-mode",
    "shard_mode",
    type=click.Choice(["none", "hard", "soft"]),
    default=None,
    help="Whether other nodes than those of the own NodeShard may be used.  [default: none]",
)
@click.option(
    "--scheduler-sharding-name", "shard_name", default=None, help="Name of the own NodeShard.  [default: volcano]"
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--from-cluster", is_flag=True, help="Take the state from the cluster; manifests are added to it.")
@click.option("--save", type=OUTPUT_FILE, default=None, help="Write the state to a file for -f; - is standard output.")
@click.pass_context
def schedule(
    ctx: click.Context,
    paths: tuple[str, ...],
    config: Path | None,
    cycles: int | None,
    seed: int | None,
    shard_mode: str | None,
    shard_name: str | None,
    output: str,
    from_cluster: bool,
    save: OutputFile | None,
) -> None:
    """Run scheduling cycles on the state in files or in a cluster, and print the decisions.

    Bound pods run from the next cycle on, evicted ones are gone; a second passes between two cycles.
    """
    from strato.cli import states
    from strato.cli.decisions import decisions_text
    from strato.errors import UsageError
    from strato.scheduler.dryrun.run import dry_run
    from strato.scheduler.dryrun.states import render

    if not paths and not from_cluster:
        raise UsageError("nothing to schedule on: name manifests with -f PATH, or a cluster with --from-cluster")
    present, served = with_cluster(ctx, states.deciding_state) if from_cluster else ((), None)
    found = states.read(paths, present)
    text = states.config_text(config)
    header = states.header_of(
        found,
        config=text if text is not None else served,
        cycles=cycles,
        seed=seed,
        shard_mode=shard_mode,
        shard_name=shard_name,
        live=from_cluster,
    )
    world, rules = states.prepare(found, header, base_of(config))
    if save is not None:
        save.write(render(found.objects, header))
    for note in states.passed_over(found):
        click.echo(f"note: {note}", err=True)
    failures: list[Failure] = []
    decided = dry_run(world, rules, cycles=header.cycles, seed=header.seed, now=header.now, failures=failures)
    for failure in failures:
        click.echo(f"warning: {failure.plugin} failed in {failure.point}, left out: {failure.error}", err=True)
    click.echo(states.as_json(decided) if output == "json" else decisions_text(decided))
