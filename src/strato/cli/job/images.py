"""What becomes of a job's images on the embedded cluster of this machine, which pulls none; said when it is made."""

from __future__ import annotations

from collections.abc import Iterator

import click

from strato.cli.connect import home_of, kubeconfig_paths
from strato.client.cluster import Json


def warn_about_images(ctx: click.Context, job: Json) -> None:
    """Say which images are not there, when the cluster's pods run on this machine."""
    home = home_of(ctx)
    ready, owner = home.ready(), home.owner()
    if owner is None or not ready.get("node") or kubeconfig_paths(ctx) != [home.kubeconfig]:
        return
    from strato.node.images.store import ImageStore

    strict = bool((owner.options.get("images") or {}).get("strict_images"))
    store = ImageStore(home.node)
    for image, runs in dict(_containers(job)).items():
        if store.find(image) is not None:
            continue
        advice = f"'strato image import {image} DIR|TAR' adds it"
        if strict or not runs:
            why = "" if strict else ", which names no command to run on this machine's own root"
            click.echo(
                f"warning: image {image!r} is not in the local store{why}: its pods do not start; {advice}", err=True
            )
        else:
            click.echo(
                f"warning: image {image!r} is not in the local store: its containers run on this machine's own root "
                f"(strato/host, read-only) if it has their command; {advice}, 'strato up --strict-images' forbids it",
                err=True,
            )


def _containers(job: Json) -> Iterator[tuple[str, bool]]:
    """Yield the image of each container, and whether the container names a command."""
    for task in (job.get("spec") or {}).get("tasks") or ():
        spec = (task.get("template") or {}).get("spec") or {}
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            if container.get("image"):
                yield str(container["image"]), bool(container.get("command") or container.get("args"))
