"""``strato crds``: the custom resource definitions, to apply to a real cluster."""

from __future__ import annotations

import click
import yaml

from strato.cli.training import kinds_option


@click.command()
@click.option("--without-rules", is_flag=True, help="Leave out the rules in CEL: for Kubernetes before 1.30.")
@kinds_option
def crds(without_rules: bool, kinds: str) -> None:
    """Print the manifests of all our kinds: strato crds | kubectl apply -f -."""
    from strato.api.crds import manifests, rules
    from strato.api.trainingkinds import kinds_off

    shown = [rules.for_older(manifest) if without_rules else manifest for manifest in manifests(kinds_off(kinds))]
    click.echo(yaml.safe_dump_all(shown, sort_keys=False), nl=False)
