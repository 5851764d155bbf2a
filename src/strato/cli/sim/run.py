"""``strato sim run``: traces through the real server, controllers and scheduler in virtual time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strato.cli.inputs import INPUT_FILE
from strato.cli.outputs import OUTPUT_FILE, OutputFile
from strato.cli.sim.progress import ProgressLine
from strato.errors import UsageError

if TYPE_CHECKING:
    from strato.sim.comparison import Comparison, Policy
    from strato.sim.report import Report


@click.command()
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
        progress=ProgressLine().show if sys.stderr.isatty() else None,
    )
    if not policies:
        _print(simulate(options), json_file, output)
        return
    from strato.sim.comparison import compare

    show = ProgressLine().show_policy if sys.stderr.isatty() else None
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
