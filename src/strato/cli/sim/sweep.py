"""``strato sim sweep``: an experiment at every point of a grid of parameters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.inputs import INPUT_FILE
from strato.cli.sim.experimentoutputs import ExperimentOutputs, output_options, run_and_write
from strato.cli.sim.progress import ProgressLine
from strato.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from strato.sim.experiments.plan import Experiment
    from strato.sim.experiments.pool import EndedRuns
    from strato.sim.experiments.sweep import Parameter


@click.command()
@click.argument("experiment", type=INPUT_FILE)
@click.option(
    "--over",
    multiple=True,
    required=True,
    metavar="NAME=VALUE,…",
    help="What is varied: nodes.count, nodes.cpu, workload.KEY, queues.NAME.FIELD, policy.arguments.PLUGIN.KEY, limit, "
    "hours. Repeat it for a grid.",
)
@click.option("--dask", default="", metavar="ADDRESS", help="Run on the workers of this Dask cluster: tcp://HOST:8786.")
@output_options
def sweep(experiment: Path, over: tuple[str, ...], dask: str, outputs: ExperimentOutputs) -> None:
    """Run EXPERIMENT (YAML) at every point of a grid, and print a table; --html adds curves or heat maps."""
    from strato.sim.experiments.file import read_document
    from strato.sim.experiments.sweep import sweep as points

    plan = points(read_document(experiment), str(experiment), experiment.parent, _parameters(over))
    show = ProgressLine().show_runs if sys.stderr.isatty() else None

    def on_dask(plan: Experiment, folder: Path) -> EndedRuns:
        from strato.sim.experiments.dask import run_on_dask

        return run_on_dask(plan, folder, dask, resume=outputs.resume, show=show)

    run_and_write(plan, outputs, show, on_dask if dask else None)


def _parameters(texts: tuple[str, ...]) -> list[Parameter]:
    from strato.sim.experiments.sweep import parse_parameter

    found: list[Parameter] = []
    problems: list[Problem] = []
    for text in texts:
        try:
            found.append(parse_parameter(text))
        except InvalidInput as error:
            problems += error.problems
    names = [parameter.name for parameter in found]
    problems += [
        Problem(f"--over {name}", "is given twice") for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if problems:
        raise InvalidInput("the sweep", problems)
    return found
