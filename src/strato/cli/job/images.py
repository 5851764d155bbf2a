"""Warn, when a job is created, about images that the embedded cluster of this machine replaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from strato.cli.connect import home_of, kubeconfig_paths
from strato.cli.home import Home
from strato.client.cluster import Json

IMAGE_HELP: Final = "Image of the container. [default: strato/host where pods run on this machine, else busybox]"
_ELSEWHERE: Final = "busybox"


def default_image(ctx: click.Context) -> str:
    """Return the image of a job that names none: this machine's own root if pods run here, else busybox."""
    if _home_of_pods(ctx) is None:
        return _ELSEWHERE
    from strato.node.images.store import HOST_IMAGE

    return HOST_IMAGE


def _home_of_pods(ctx: click.Context) -> Home | None:
    """Return the directory of the cluster that a command is for, if its pods run on this machine."""
    home = home_of(ctx)
    runs_here = home.owner() is not None and home.ready().get("node") and kubeconfig_paths(ctx) == [home.kubeconfig]
    return home if runs_here else None


def warn_about_images(ctx: click.Context, job: Json) -> None:
    """Print which containers will not run on their image; only for a cluster whose pods run on this machine."""
    home = _home_of_pods(ctx)
    owner = home.owner() if home is not None else None
    if home is None or owner is None or (owner.options.get("images") or {}).get("strict_images"):
        return
    from strato.node.images.store import ImageStore

    store = ImageStore(home.node)
    for image in dict.fromkeys(_images_with_commands(job)):
        if store.find(image) is None:
            click.echo(
                f"warning: image {image!r} is not in the local store: its containers run on this machine's own root "
                f"(strato/host, read-only) if it has their command; 'strato image pull {image}' fetches it, "
                "'strato up --strict-images' does so for all",
                err=True,
            )


def _images_with_commands(job: Json) -> Iterator[str]:
    """Yield the image of each container with a command; images of containers without one are always pulled."""
    for task in (job.get("spec") or {}).get("tasks") or ():
        spec = (task.get("template") or {}).get("spec") or {}
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            if container.get("image") and (container.get("command") or container.get("args")):
                yield str(container["image"])
