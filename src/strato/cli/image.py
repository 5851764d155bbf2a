"""``strato image``: the local store of root file systems that pods run on."""

from __future__ import annotations

from pathlib import Path

import click

from strato.api import quantity
from strato.cli.connect import home_of
from strato.cli.inputs import INPUT_FILE, seekable
from strato.cli.output import NOTHING_FOUND, fitted_table
from strato.errors import UsageError


@click.group()
def image() -> None:
    """Import, list and remove local images."""


@image.command(name="import")
@click.argument("name")
@click.argument("source", type=INPUT_FILE)
@click.option("--max-size", default="32Gi", show_default=True, help="Refuse an image that is larger, unpacked.")
@click.pass_context
def import_image(ctx: click.Context, name: str, source: Path, max_size: str) -> None:
    """Import SOURCE under NAME: a root file system or an OCI image layout, as a directory or a tar file (or - )."""
    from strato.node.images import ImageStore

    try:
        max_bytes = quantity.value(max_size)
    except quantity.InvalidQuantity as err:
        raise click.BadParameter(f"{max_size!r}: {err}", param_hint="--max-size") from err
    if not source.exists():
        raise UsageError(f"{source} is not there: name a directory or a tar file")
    with seekable(source) as path:
        ImageStore(home_of(ctx).node).import_image(name, path, max_bytes)
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
