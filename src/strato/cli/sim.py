"""``strato sim``: traces through the real server, controllers and scheduler in virtual time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.inputs import INPUT_FILE
from strato.cli.outputs import OUTPUT_FILE, OutputFile
from strato.clock import SystemClock
from strato.errors import UsageError, nearest
from strato.units import human_duration

if TYPE_CHECKING:
    from strato.sim.comparison import Comparison, Policy
    from strato.sim.report import Report
    from strato.sim.run import Progress
    from strato.sim.utilisation.run import Progress as ExperimentProgress

_REDRAW_SECONDS = 0.2


@click.group()
def sim() -> None:
    """Simulate."""


@sim.command()
@click.argument("trace", type=INPUT_FILE)
@click.option(
    "--nodes", default="100x32cpu,256Gi", show_default=True, help="Shapes: COUNTxCPUcpu,MEMORY[,Ngpu][,overcommit=F]+…"
)
@click.option("--config", type=INPUT_FILE, default=None, help="The scheduler's configuration file.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Compare configuration files: repeat it, and the trace is run under each, side by side.",
)
@click.option(
    "--processes", type=click.IntRange(1), help="With --policy: how many run at once; as many as there are CPUs."
)
@click.option("--queues", type=INPUT_FILE, default=None, help="YAML file with Queue manifests.")
@click.option("--queue-by", type=click.Choice(["queue", "user", "group"]), default=None, help="Queues of an SWF log.")
@click.option("--limit", default=0, type=click.IntRange(0), help="Only the first so many jobs; 0 is all.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same bytes.")
@click.option(
    "--json", "json_file", type=OUTPUT_FILE, default=None, help="Write the report here too; - is standard output."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def run(
    trace: Path,
    nodes: str,
    config: Path | None,
    policies: tuple[str, ...],
    processes: int | None,
    queues: Path | None,
    queue_by: str | None,
    limit: int,
    seed: int,
    json_file: OutputFile | None,
    output: str,
) -> None:
    """Run TRACE (CSV or Standard Workload Format, may be gzipped; - is standard input), print waits, use, makespan."""
    from strato.sim.run import SimulationOptions, simulate

    if policies and config is not None:
        raise UsageError("--config and --policy: name each configuration to compare by a --policy of its own")
    options = SimulationOptions(
        trace=trace,
        nodes=nodes,
        config=config,
        queues=queues,
        queue_by=queue_by or "",
        limit=limit,
        seed=seed,
        progress=_Line().show if sys.stderr.isatty() else None,
    )
    if not policies:
        _print(simulate(options), json_file, output)
        return
    from strato.sim.comparison import compare

    show = _Line().show_policy if sys.stderr.isatty() else None
    read = [_policy(text) for text in policies]
    comparison, is_complete = compare(options, read, processes=processes or os.cpu_count() or 1, progress=show)
    _print(comparison, json_file, output)
    if not is_complete:
        click.echo(f"interrupted: {len(comparison.policies)} of {len(policies)} policies had ended", err=True)
        raise SystemExit(130)


def _policy(text: str) -> Policy:
    """Read ``[NAME=]FILE``; without a name it is called as its file.

    Raises:
        UsageError: It names no file, or one that is not there.
    """
    from strato.sim.comparison import Policy

    name, equals, file = text.rpartition("=")
    path = Path(file)
    if not file or (equals and not name):
        raise UsageError(f"--policy {text!r}: expected NAME=FILE or FILE")
    if not path.is_file():
        raise UsageError(f"--policy {text!r}: there is no file {file}")
    return Policy(name or path.stem, path)


def _print(report: Report | Comparison, json_file: OutputFile | None, output: str) -> None:
    if json_file is not None:
        json_file.write(report.to_json())
    if json_file is None or json_file.path is not None:  # else that is what standard output is for
        click.echo(report.to_json() if output == "json" else report.to_table(), nl=output != "json")


@sim.command()
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
        progress=_Line().show_experiment if sys.stderr.isatty() else None,
    )
    if json_file is not None:
        json_file.write(report.to_json())
    if json_file is None or json_file.path is not None:  # else that is what standard output is for
        click.echo(report.to_json() if output == "json" else report.to_table(), nl=False)


class _Line:
    """One line on standard error that shows how far the simulation is."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._drawn_at = 0.0

    def show(self, progress: Progress) -> None:
        text = (
            f"{human_duration(progress.virtual_seconds)} simulated, "
            f"{progress.finished} of {progress.total} jobs ended, {progress.running_pods} pods run"
        )
        self._draw(text, is_done=progress.finished == progress.total)

    def show_policy(self, name: str, progress: Progress) -> None:
        is_done = progress.finished == progress.total
        self._draw(f"{name}: {progress.finished} of {progress.total} jobs ended", is_done=is_done)

    def show_experiment(self, progress: ExperimentProgress) -> None:
        hours, total = progress.virtual_seconds / 3600, progress.total_seconds / 3600
        is_done = total - hours < 1 / 12
        self._draw(f"{progress.variant}: {hours:.1f} of {total:.1f} hours simulated", is_done=is_done)

    def _draw(self, text: str, *, is_done: bool) -> None:
        now = self._clock.monotonic()
        if now - self._drawn_at < _REDRAW_SECONDS and not is_done:
            return
        self._drawn_at = now
        click.echo(f"\r\033[K{text}" + ("\n" if is_done else ""), err=True, nl=False)
