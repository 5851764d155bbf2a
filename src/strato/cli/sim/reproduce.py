"""``strato sim reproduce``: tables of papers, computed anew and compared with what was published."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from strato.cli.inputs import FOLDER
from strato.cli.outputs import OUTPUT_FILE, OutputFile
from strato.cli.sim.progress import ProgressLine
from strato.errors import UsageError

_NAMES = ("fgd", "drf", "easy", "gavel", "quincy")
"""Names of `strato.sim`'s tables, repeated here so that help imports nothing; a test compares them."""


@click.command()
@click.argument("name", type=click.Choice(_NAMES))
@click.option(
    "--data",
    type=FOLDER,
    envvar="STRATO_DATA",
    default="../shared/data",
    show_default=True,
    help="Folder that holds a folder for each data set.",
)
@click.option("--slice", "is_slice", is_flag=True, help="Only a small part, which takes seconds.")
@click.option("--cores", type=click.IntRange(1), help="Processes that run at once; as many as there are CPUs.")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder that keeps each run as it ends.",
)
@click.option("--resume", is_flag=True, help="With --out: runs that ended before and are the same are not run again.")
@click.option(
    "--json", "json_file", type=OUTPUT_FILE, default=None, help="Write the result here too; - is standard output."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def reproduce(
    name: str,
    data: Path,
    is_slice: bool,
    cores: int | None,
    folder: Path | None,
    resume: bool,
    json_file: OutputFile | None,
    output: str,
) -> None:
    """Compute the table of paper NAME anew and print it beside the published one; status 1 when they differ.

    Papers: fgd (GPU fragmentation, ATC'23), drf (dominant resource fairness, NSDI'11), easy (backfilling on two logs),
    gavel (GPUs of different speed, OSDI'20), quincy (data locality by minimum cost, SOSP'09, as Firmament has it).
    """
    if resume and folder is None:
        raise UsageError("--resume needs --out: the folder in which the runs that ended are kept")
    from strato.sim.papers.registry import reproduce as compute
    from strato.sim.papers.work import ReproductionOptions

    line = ProgressLine()

    def show(done: int, total: int) -> None:
        line.show_part(done / total, f"{name}: {done} of {total} runs")

    work = ReproductionOptions(
        data=data,
        is_slice=is_slice,
        cores=cores or os.cpu_count() or 1,
        progress=show if sys.stderr.isatty() else None,
    )
    found = compute(name, work, folder, resume=resume)
    text = json.dumps(found.to_json(), indent=2)
    if json_file is not None:
        json_file.write(f"{text}\n".encode())
    click.echo(text if output == "json" else found.to_text())
    if not found.agrees:
        raise SystemExit(1)
