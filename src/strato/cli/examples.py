"""``strato examples``: copy the documentation's examples into a folder where the user may change them."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from strato.errors import StratoError, UsageError

_NEXT = """
  cd {folder}
  strato schedule -f manifests/ --config scheduler.yaml
  strato sim run trace.swf --nodes 128x1cpu,4Gi"""


def examples_folder() -> Path:
    """Return the folder of the examples: in the installed package, or at the top of a checkout.

    Raises:
        StratoError: The package was built without them.
    """
    import strato

    package = Path(strato.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / "scheduler.yaml").is_file():
            return folder
    raise StratoError(f"the examples are not part of this installation ({package}); they are in the source repository")


@click.command()
@click.argument("folder", default="strato-examples", metavar="[DIR]", type=click.Path(path_type=Path))
def examples(folder: Path) -> None:
    """Write the examples into DIR (strato-examples): manifests, a configuration, traces, jobs to try."""
    source = examples_folder()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already; name another directory, or remove it")
    try:
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    except (OSError, shutil.Error) as error:
        raise UsageError(f"{folder} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    count = sum(path.is_file() for path in folder.rglob("*"))
    click.echo(f"wrote {count} files into {folder}; for example:{_NEXT.format(folder=folder)}")
