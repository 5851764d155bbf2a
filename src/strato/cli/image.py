"""``strato image``: the local store of root file systems that pods run on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strato.api import quantity
from strato.cli.connect import home_of
from strato.cli.imageoptions import ImageOptions, registry_options
from strato.cli.inputs import INPUT_FILE, seekable
from strato.cli.output import NOTHING_FOUND, fitted_table
from strato.errors import UsageError
from strato.units import human_bytes

if TYPE_CHECKING:
    from strato.node.images.store import ImageStore

_SHOWN_DIGITS = 12
_DAY_SECONDS = 86400.0

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def image() -> None:
    """Pull, import, build, list and remove images of this machine's node."""


class _SizeType(click.ParamType[int]):
    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        try:
            return quantity.value(value)
        except quantity.InvalidQuantity as err:
            self.fail(f"{value!r}: {err}", param, ctx)


def _max_size(command: F) -> F:
    text = "Refuse an image that is larger, unpacked."
    return click.option("--max-size", default="32Gi", type=_SizeType(), show_default=True, help=text)(command)


def _store(ctx: click.Context) -> ImageStore:
    from strato.node.images.store import ImageStore

    return ImageStore(home_of(ctx).node)


@image.command(name="import")
@click.argument("name")
@click.argument("source", type=INPUT_FILE)
@_max_size
@click.pass_context
def import_image(ctx: click.Context, name: str, source: Path, max_size: int) -> None:
    """Import SOURCE under NAME: a root file system, an OCI image or what 'docker save' wrote; folder or tar."""
    if not source.exists():
        raise UsageError(f"{source} is not there: name a directory or a tar file")
    with seekable(source) as path:
        _store(ctx).import_image(name, path, max_size)
    click.echo(f"imported {name}")


@image.command()
@click.argument("name")
@registry_options
@_max_size
@click.pass_context
def pull(ctx: click.Context, name: str, images: ImageOptions, max_size: int) -> None:
    """Pull the image NAME from its registry, with the credentials of ~/.docker/config.json."""
    from strato.node.images.credentials import docker_credentials
    from strato.node.images.puller import ImagePuller
    from strato.node.images.references import parse_reference
    from strato.node.images.store import check_free

    check_free(name)
    reference, store = parse_reference(name), _store(ctx)

    async def main() -> str:
        credentials = await docker_credentials(reference, os.environ)
        with _progress() as progress:
            puller = ImagePuller(store, images.registries(), max_size)
            return (await puller.pull(reference, credentials, progress)).repo_digest

    click.echo(f"pulled {asyncio.run(main())}")


@image.command(name="list")
@click.pass_context
def list_images(ctx: click.Context) -> None:
    """List the images pods can use."""
    images = _store(ctx).list()
    if not images:
        click.echo(NOTHING_FOUND)
        return
    rows = [
        (found.name, _shortened(found.id), human_bytes(found.size_bytes), found.repo_digest or "imported")
        if not found.is_host
        else (found.name, "-", "-", "this machine's own root, read-only")
        for found in images
    ]
    click.echo(fitted_table(("Name", "Id", "Size", "From"), rows))


def _shortened(digest: str) -> str:
    return digest.removeprefix("sha256:")[:_SHOWN_DIGITS]


@image.command()
@click.argument("names", nargs=-1, required=True)
@click.pass_context
def rm(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Remove the images NAMES; files that containers run on go when they have ended."""
    for name in names:
        _store(ctx).remove(name)
        click.echo(f"removed {name}")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield what shows how much of an image has come or gone: on a terminal one line, else one for each part."""
    done: dict[str, tuple[int, int]] = {}

    def report(digest: str, size: int, total: int) -> None:
        done[digest] = size, total
        if sys.stderr.isatty():
            sizes = [sum(column) for column in zip(*done.values(), strict=True)]
            click.echo(f"\r\x1b[K{human_bytes(sizes[0])} of {human_bytes(sizes[1])}", nl=False, err=True)
        elif size == total:
            click.echo(f"{_shortened(digest)}: {human_bytes(total)}", err=True)

    try:
        yield report
    finally:
        if done and sys.stderr.isatty():
            click.echo(err=True)
