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

from strato.cli.connect import home_of
from strato.cli.imageoptions import ImageOptions, registry_options
from strato.cli.inputs import INPUT_FILE, seekable
from strato.cli.output import NOTHING_FOUND, fitted_table
from strato.cli.quantities import BYTES
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


def _max_size(command: F) -> F:
    text = "Refuse an image that is larger, unpacked."
    return click.option("--max-size", default="32Gi", type=BYTES, show_default=True, help=text)(command)


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


@image.command()
@click.argument("name")
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="Write an OCI archive there in place of importing it.")
@click.option("--at", default="/", show_default=True, metavar="PATH", help="Where SOURCE is in the image.")
@click.option("--python", is_flag=True, help="SOURCE is a virtual environment; add its Python and their libraries.")
@click.option("--entrypoint", multiple=True, metavar="WORD", help="A word of the program that containers run.")
@click.option("--cmd", multiple=True, metavar="WORD", help="A word of its arguments, or of the command without one.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of containers.")
@click.option("--label", multiple=True, metavar="NAME=VALUE", help="A label of the image.")
@click.option("--user", default="", metavar="USER[:GROUP]", help="Who containers run as.")
@click.option("--workdir", default="", metavar="PATH", help="Where they start.")
@click.pass_context
def build(
    ctx: click.Context, /, name: str, source: Path, output: Path | None, at: str, python: bool, **config: Any
) -> None:
    """Build the image NAME of the folder SOURCE, for this node or, with --output, for any registry and runtime."""
    from dataclasses import replace

    from strato.node.images.build import Recipe, build, pack, python_environment
    from strato.node.images.references import parse_reference
    from strato.node.images.store import check_free

    check_free(name)
    store, reference = _store(ctx), parse_reference(name)
    recipe = python_environment(str(source)) if python else Recipe([(str(source), at)])
    chosen = {
        "Entrypoint": [*config["entrypoint"]],
        "Cmd": [*config["cmd"]] or ([] if config["entrypoint"] else recipe.config.get("Cmd")),
        "Env": [*recipe.config.get("Env", ()), *config["env"]],
        "Labels": dict(label.partition("=")[::2] for label in config["label"]),
        "User": config["user"],
        "WorkingDir": config["workdir"],
    }
    modified = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
    recipe = replace(recipe, config={key: value for key, value in chosen.items() if value}, modified=modified)
    with store.scratch() as directory:
        layout = os.path.join(directory, "layout")
        digest = build(recipe, reference, layout)
        if output is None:
            store.import_image(name, layout)
        else:
            pack(layout, str(output))
    click.echo(f"built {name} {digest}" + (f" in {output}" if output is not None else ""))


@image.command()
@click.argument("name")
@click.argument("source", type=INPUT_FILE)
@registry_options
@click.pass_context
def push(ctx: click.Context, name: str, source: Path, images: ImageOptions) -> None:
    """Push SOURCE, what 'build --output' or 'docker save' wrote, to the registry and under the name of NAME."""
    from strato.node.images.archives import source_of
    from strato.node.images.credentials import docker_credentials
    from strato.node.images.layers import unpack
    from strato.node.images.puller import push
    from strato.node.images.references import parse_reference
    from strato.node.images.rootwriter import BadImage, Budget

    reference = parse_reference(name)
    with _store(ctx).scratch() as scratch, seekable(source) as path:
        directory = str(path)
        try:
            if path.is_file():
                directory = os.path.join(scratch, "image")
                with path.open("rb") as file:
                    unpack(file, directory, Budget())
            found = source_of(directory)
            if found is None:
                raise UsageError(
                    f"{source} is no image in parts; 'strato image build NAME {source} --output FILE' makes one"
                )

            async def main() -> str:
                credentials = await docker_credentials(reference, os.environ)
                with _progress() as progress:
                    return await push(reference, found, credentials, images.registries(), progress)

            click.echo(f"pushed {reference.name}@{asyncio.run(main())}")
        except BadImage as err:
            raise UsageError(f"{source}: {err}") from err


@image.command()
@click.argument("name")
@click.pass_context
def inspect(ctx: click.Context, name: str) -> None:
    """Print what the image NAME says of itself, as JSON."""
    import msgspec

    from strato.node.images.store import NoImage

    found = _store(ctx).find(name)
    if found is None:
        raise NoImage(f"image {name!r} is not in the store; `strato image list` shows what is")
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())


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


@image.command()
@click.option(
    "--all", "imported", is_flag=True, help="Those too that were imported or built, and are not to be had again."
)
@click.pass_context
def prune(ctx: click.Context, imported: bool) -> None:
    """Remove the images that no container runs on and that a registry has."""
    gone = _store(ctx).prune(imported=imported)
    for one in gone:
        click.echo(f"removed {one.name}")
    if not gone:
        click.echo("nothing to remove")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback that prints how much of an image is transferred: on a terminal one line, else one per layer."""
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
