"""Options on the results of an experiment, and its run; shared by ``sim run`` and ``sim sweep``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from strato.cli.optiongroups import option_group
from strato.cli.outputs import OUTPUT_FILE, OutputFile
from strato.errors import StateError, UsageError

if TYPE_CHECKING:
    from strato.sim.experiments.plan import Experiment
    from strato.sim.experiments.pool import EndedRuns
    from strato.sim.experiments.results import Results
    from strato.sim.experiments.tally import ProgressTally
    from strato.sim.pictures.digest import RunDigest


class ExperimentOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """Where the results of an experiment are written, and by how many processes they are computed."""

    cores: int | None
    folder: Path | None
    resume: bool
    json_file: OutputFile | None
    html: OutputFile | None
    plots: Path | None
    parquet: Path | None
    output: str

    @property
    def processes(self) -> int:
        """Return how many runs execute at once."""
        return self.cores or os.cpu_count() or 1

    def within(self, folder: str) -> ExperimentOutputs:
        """Return a copy with the folder that the experiment's file names, if the command line names none."""
        return self if self.folder is not None or not folder else msgspec.structs.replace(self, folder=Path(folder))

    def check(self) -> None:
        """Check, before any work, that the wanted outputs can be written.

        Raises:
            UsageError: A library or a folder is missing.
        """
        if self.resume and self.folder is None:
            raise UsageError("--resume needs --out: the folder in which the runs that ended are kept")
        if self.html is not None or self.plots is not None or self.folder is not None:
            from strato.sim.pictures.canvas import check_matplotlib

            check_matplotlib()
        if self.parquet is not None or self.folder is not None:
            from strato.sim.results.parquet import check_pyarrow

            check_pyarrow()


_OPTIONS = [
    click.option(
        "--cores",
        "--processes",
        "cores",
        type=click.IntRange(1),
        help="How many runs go on at once; as many as there are CPUs.",
    ),
    click.option(
        "--out",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        help="A folder for all results: results.json, report.html, Parquet, and each run as it ends.",
    ),
    click.option(
        "--resume", is_flag=True, help="With --out: runs that ended before and are the same are not run again."
    ),
    click.option(
        "--json", "json_file", type=OUTPUT_FILE, default=None, help="Write the results here; - is standard output."
    ),
    click.option(
        "--html", type=OUTPUT_FILE, default=None, help="Write the report as one page that needs nothing else."
    ),
    click.option(
        "--plots", type=click.Path(file_okay=False, path_type=Path), help="A folder for each picture as SVG and PNG."
    ),
    click.option(
        "--parquet", type=click.Path(file_okay=False, path_type=Path), help="A folder for runs, jobs and intervals."
    ),
    click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True),
]
output_options = option_group("outputs", ExperimentOutputs, _OPTIONS)


def run_and_write(
    experiment: Experiment,
    outputs: ExperimentOutputs,
    show: Callable[[ProgressTally], None] | None,
    run: Callable[[Experiment, Path], EndedRuns] | None = None,
) -> Results:
    """Run an experiment and write its results; exit 130 after an interruption, 1 where a run failed.

    Args:
        experiment: The experiment to run.
        outputs: Where results go.
        show: Called with the progress.
        run: Runs the experiment elsewhere than in processes of this machine (Dask).
    """
    from strato.sim.experiments.pool import run_all

    outputs = outputs.within(experiment.output)
    outputs.check()
    with ExitStack() as stack:
        if outputs.folder is None:
            runs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="strato-runs-")))
        else:
            runs = outputs.folder / "runs"
        if run is not None:
            outcome = run(experiment, runs)
        else:
            outcome = run_all(experiment, runs, cores=outputs.processes, resume=outputs.resume, show=show)
        results, digests = _summed(experiment, outcome, outputs)
    unwritten = _write(results, digests, outputs) if results.runs else []
    for problem in unwritten:
        click.echo(f"error: {problem}", err=True)
    for label, why in outcome.failures.items():
        click.echo(f"failed: {label}: {why}", err=True)
    if outcome.was_interrupted:
        click.echo(f"interrupted: {len(outcome.finished)} of {outcome.total} runs had ended", err=True)
        raise SystemExit(130)
    if outcome.failures or unwritten:
        raise SystemExit(1)
    return results


def _summed(experiment: Experiment, outcome: EndedRuns, outputs: ExperimentOutputs) -> tuple[Results, list[RunDigest]]:
    from strato.sim.experiments.results import results_of, row_of
    from strato.sim.results.parquet import ParquetFiles

    folder = outputs.parquet or outputs.folder
    if folder is None or not outcome.finished:
        return results_of(experiment, outcome)
    with ParquetFiles(folder) as files:
        return results_of(experiment, outcome, lambda run, record: files.add(*row_of(run), record))


def _write(results: Results, digests: list[RunDigest], outputs: ExperimentOutputs) -> list[StateError]:
    """Write and print results; return the errors of outputs that could not be written, after writing all others."""
    from strato.sim.experiments.results import sweep_table

    single = results.runs[0].report if results.runs_planned == 1 else None
    data = results.to_json() if single is None else single.to_json()
    files = [outputs.json_file, None if outputs.folder is None else OutputFile(outputs.folder / "results.json")]
    html = outputs.html or (None if outputs.folder is None else OutputFile(outputs.folder / "report.html"))
    steps = [partial(file.write, data) for file in files if file is not None]
    if html is not None or outputs.plots is not None:
        steps.append(partial(_draw, results, digests, html, outputs.plots))
    problems = []
    for step in steps:
        try:
            step()
        except StateError as error:
            problems.append(error)
    if all(one is None or one.path is not None for one in (outputs.json_file, outputs.html)):
        is_sweep = any(run.parameters for run in results.runs)
        table = sweep_table(results) if is_sweep else results.to_table()
        click.echo(data if outputs.output == "json" else table, nl=False)
    return problems


def _draw(results: Results, digests: list[RunDigest], html: OutputFile | None, plots: Path | None) -> None:
    from strato.sim.experiments.page import page_of
    from strato.sim.pictures.all import pictures_of, write_pictures
    from strato.sim.pictures.sweeping import GridPoint, sweep_pictures

    swept = [GridPoint(one.policy, one.parameters, one.metrics) for one in results.summaries if one.parameters]
    pictures = [*sweep_pictures(swept), *pictures_of(digests)]
    if html is not None:
        html.write(page_of(results, pictures).encode())
    if plots is not None:
        write_pictures(pictures, plots)
