"""``strato sim traces``: describe files of traces, and convert them to CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.inputs import INPUT_FILE
from strato.cli.outputs import OUTPUT_FILE, OutputFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strato.sim.traces import ReadOptions, Trace
    from strato.sim.traces.input import InputFile


@click.command()
@click.argument("files", nargs=-1, type=INPUT_FILE, metavar="[FILE|FOLDER|MODEL]...")
@click.option("--format", "format_", default="", metavar="NAME", help="Read as this format; recognised by default.")
@click.option("--strict", is_flag=True, help="A line that cannot be read is an error; it is skipped by default.")
@click.option("--queue-by", type=click.Choice(["queue", "user", "group"]), default=None, help="What makes queues.")
@click.option("--limit", default=0, type=click.IntRange(0), help="Only the first so many jobs; 0 is all.")
@click.option("--nodes", default="", help="Shapes to compare the load with; the trace's own machines by default.")
@click.option("--head", default=0, type=click.IntRange(0), help="Print the first so many jobs as CSV instead.")
@click.option("--write", type=OUTPUT_FILE, default=None, help="Write all jobs as CSV here (.gz compresses); - prints.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def traces(
    files: tuple[Path, ...],
    format_: str,
    strict: bool,
    queue_by: str | None,
    limit: int,
    nodes: str,
    head: int,
    write: OutputFile | None,
    output: str,
) -> None:
    """Describe the trace that FILEs are, or list the traces they hold; without any, list the formats known.

    A MODEL makes a trace: lublin:jobs=10000,nodes=128,load=0.9 or fit:FILE,jobs=10000.
    """
    from strato.node.shapes import parse_nodes
    from strato.sim.traces import ReadOptions, read_trace
    from strato.sim.traces.describe import describe, to_json, to_table
    from strato.sim.traces.read import SeveralTraces

    if not files:
        click.echo(_formats())
        return
    shapes = parse_nodes(nodes) if nodes else ()
    options = ReadOptions(queue_by=queue_by or "", limit=limit, strict=strict, format=format_)
    try:
        trace = read_trace(list(files), options=options)
    except SeveralTraces as error:
        if head or write is not None:
            raise
        _list(error.files, options, output)
        return
    if head or write is not None:
        _print_csv(trace, head, write)
        return
    found = describe(trace, " ".join(path.name for path in files), shapes)
    click.echo(to_json(found) if output == "json" else to_table(found), nl=False)


def _formats() -> str:
    from strato.sim.traces.registry import FORMATS

    width = max(map(len, FORMATS))
    return "\n".join(f"{name:<{width}}  {format_.title}" for name, format_ in FORMATS.items())


def _print_csv(trace: Trace, head: int, write: OutputFile | None) -> None:
    """Print or write jobs in Strato's own CSV format."""
    import csv
    import gzip
    import io

    from strato.sim.traces.formats.ours import write_csv

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(write_csv(trace.jobs[:head] if head else trace.jobs))
    if write is None:
        click.echo(text.getvalue(), nl=False)
        return
    data = text.getvalue().encode()
    is_compressed = write.path is not None and write.path.suffix == ".gz"
    write.write(gzip.compress(data, mtime=0) if is_compressed else data)


def _list(files: Sequence[InputFile], options: ReadOptions, output: str) -> None:
    """Print a line for each of several traces."""
    import msgspec

    from strato.errors import UsageError
    from strato.sim.traces import read_trace
    from strato.units import human_duration

    rows: list[dict[str, Any]] = []
    for path in dict.fromkeys(file.path for file in files):
        try:
            trace = read_trace(path, options=options)
        except UsageError as error:
            rows.append({"file": str(path), "problem": str(error).splitlines()[0]})
            continue
        span = trace.jobs[-1].submit_seconds - trace.jobs[0].submit_seconds
        pods = sum(job.replicas for job in trace.jobs)
        found = {"format": trace.format, "jobs": len(trace.jobs), "pods": pods, "skipped": trace.skipped}
        rows.append({"file": str(path), **found, "spanSeconds": span})
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return
    click.echo(f"{'FORMAT':<16} {'JOBS':>10} {'PODS':>10} {'SKIPPED':>8} {'SPAN':>8}  FILE")
    for row in rows:
        if "problem" in row:
            click.echo(f"{'-':<16} {'-':>10} {'-':>10} {'-':>8} {'-':>8}  {row['problem']}")
            continue
        span_text = human_duration(float(row["spanSeconds"]))
        counts = f"{row['jobs']:>10,} {row['pods']:>10,} {row['skipped']:>8,}"
        click.echo(f"{row['format']:<16} {counts} {span_text:>8}  {row['file']}")
