"""``strato crds``: the custom resource definitions, to apply to a real cluster."""

from __future__ import annotations

import click
import yaml


@click.command()
def crds() -> None:
    """Print the manifests of all our kinds: strato crds | kubectl apply -f -."""
    from strato.api.crds import manifests

    click.echo(yaml.safe_dump_all(manifests(), sort_keys=False), nl=False)
