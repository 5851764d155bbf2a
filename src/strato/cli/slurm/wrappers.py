"""``strato slurm install``: commands of Slurm's names, so that scripts run unchanged."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from strato.errors import UsageError, one_line

NAMES: Final = ("sbatch", "squeue", "scancel", "sinfo", "srun", "salloc", "scontrol", "sacct")
_MARK: Final = "# written by 'strato slurm install'"


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Also over commands that are not ours.")
def install(folder: Path, force: bool) -> None:
    """Write sbatch, squeue and the others into DIR, as scripts that run this command."""
    program = shutil.which("strato", path=str(Path(sys.executable).parent)) or shutil.which("strato") or "strato"
    targets = {name: folder / name for name in NAMES}
    others = [str(path) for path in targets.values() if path.exists() and not force and not _is_ours(path)]
    if others:
        raise UsageError(f"{', '.join(others)}: there already, and not written by this command; --force replaces them")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in targets.items():
            path.write_text(f'#!/bin/sh\n{_MARK}\nexec {shlex.quote(program)} slurm {name} "$@"\n')
            path.chmod(0o755)
    except OSError as error:
        raise UsageError(one_line(error)) from error
    click.echo(f"{folder}: {', '.join(NAMES)}")


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK.encode() in file.read(200)
    except OSError:
        return False
