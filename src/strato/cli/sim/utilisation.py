"""``strato sim utilisation``: trainings beside services, with and without overcommit, in virtual time."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from strato.cli.inputs import INPUT_FILE
from strato.cli.outputs import OUTPUT_FILE, OutputFile
from strato.cli.sim.progress import ProgressLine
from strato.errors import UsageError, nearest


@click.command()
@click.argument("experiment", type=INPUT_FILE)
@click.option("--variant", "variants", multiple=True, help="Only this variant; may be repeated. All by default.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same bytes.")
@click.option(
    "--json", "json_file", type=OUTPUT_FILE, default=None, help="Write the report here too; - is standard output."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def utilisation(
    experiment: Path, variants: tuple[str, ...], seed: int, json_file: OutputFile | None, output: str
) -> None:
    """Run EXPERIMENT (YAML): trainings beside services, with and without gangs, overcommit, suppression and burst."""
    from strato.sim.utilisation.options import read_experiment
    from strato.sim.utilisation.run import run_experiment

    read = read_experiment(experiment)
    for name in variants:
        if name not in read.variants:
            raise UsageError(f"{experiment} has no variant {name!r}{nearest(name, read.variants)}")
    report = run_experiment(
        read,
        name=experiment.name,
        variants=variants,
        seed=seed,
        progress=ProgressLine().show_experiment if sys.stderr.isatty() else None,
    )
    if json_file is not None:
        json_file.write(report.to_json())
    if json_file is None or json_file.path is not None:  # otherwise standard output is the JSON's
        click.echo(report.to_json() if output == "json" else report.to_table(), nl=False)
