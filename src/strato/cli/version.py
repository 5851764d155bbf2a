"""``strato version``."""

from __future__ import annotations

import platform

import click

from strato import __version__
from strato.cli.output import output_option, text_of


@click.command()
@output_option
def version(output: str) -> None:
    """Print the version."""
    facts = {
        "API Version": "v1alpha1",
        "Version": __version__,
        "Python Version": platform.python_version(),
        "OS/Arch": f"{platform.system().lower()}/{platform.machine()}",
    }
    if output == "table":
        click.echo("\n".join(f"{name}: {value}" for name, value in facts.items()))
    else:
        click.echo(text_of(facts, output))
