"""``strato version``."""

from __future__ import annotations

import platform

import click

from strato import __version__


@click.command()
def version() -> None:
    """Print the version (spec volcano-cli A6)."""
    click.echo("API Version: v1alpha1")
    click.echo(f"Version: {__version__}")
    click.echo(f"Python Version: {platform.python_version()}")
    click.echo(f"OS/Arch: {platform.system().lower()}/{platform.machine()}")
