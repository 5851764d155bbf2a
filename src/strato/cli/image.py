"""``strato image``: the local store of root file systems that pods run on."""

from __future__ import annotations

from pathlib import Path

import click

from strato.cli.connect import home_of
from strato.cli.output import NOTHING_FOUND, fitted_table


@click.group()
def image() -> None:
    """Import, list and remove local images."""


@image.command(name="import")
@click.argument("name")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.pass_context
def import_image(ctx: click.Context, name: str, source: Path) -> None:
    """Import the root file system SOURCE (a directory or a tar file) under NAME."""
    from strato.node.images import ImageStore

    ImageStore(home_of(ctx).node).import_image(name, source)
    click.echo(f"imported {name}")


@image.command(name="list")
@click.pass_context
def list_images(ctx: click.Context) -> None:
    """List the images pods can use."""
    from strato.node.images import ImageStore

    images = ImageStore(home_of(ctx).node).list()
    if not images:
        click.echo(NOTHING_FOUND)
        return
    rows = [(found.name, found.root or "this machine's own root, read-only") for found in images]
    click.echo(fitted_table(("Name", "Root"), rows))


@image.command()
@click.argument("name")
@click.pass_context
def rm(ctx: click.Context, name: str) -> None:
    """Remove the image NAME."""
    from strato.node.images import ImageStore

    ImageStore(home_of(ctx).node).remove(name)
    click.echo(f"removed {name}")
