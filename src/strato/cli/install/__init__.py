"""``strato install``: put scheduler, controllers, webhook, their roles and our kinds onto a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strato.cli.inputs import LABEL, read_text
from strato.errors import StratoError, UsageError

if TYPE_CHECKING:
    from strato.client.cluster import Cluster

COMPONENTS = ("namespace", "crds", "rbac", "admission", "scheduler", "controllers", "agent", "mesos", "monitoring")
FIELD_MANAGER = "strato-install"
_RUNS_AGAIN = frozenset(("DaemonSet", "Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"))
"""Kinds of an installation that would run a second set of components beside those of the embedded cluster."""


class InstallFailed(StratoError):
    """Some objects could not be applied; all of them are listed."""


@click.command()
@click.option("--dry-run", is_flag=True, help="Print the manifests and apply nothing.")
@click.option(
    "-n", "--namespace", default="volcano-system", show_default=True, type=LABEL, help="Namespace of the components."
)
@click.option("--only", multiple=True, type=click.Choice(COMPONENTS), help="Only these parts; may be repeated.")
@click.option(
    "-f", "--values", "files", multiple=True, type=click.Path(path_type=Path), help="Values, as for the chart."
)
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="One value: custom.scheduler_replicas=2")
@click.option("--chart", type=click.Path(path_type=Path), default=None, help="Write the Helm chart here instead.")
@click.pass_context
def install(
    ctx: click.Context,
    dry_run: bool,
    namespace: str,
    only: tuple[str, ...],
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    chart: Path | None,
) -> None:
    """Install on the cluster: server-side apply, so it upgrades too.

    The values are those of the Helm chart in deploy/; a chart of this version is written by --chart DIR.
    """
    from strato.scheduler.config import DEFAULT_TEXT

    if chart is not None:
        from strato.cli.install.chart import write_chart

        for path in write_chart(chart, DEFAULT_TEXT):
            click.echo(path)
        return
    bodies = _bodies(namespace, files, settings, only or COMPONENTS, DEFAULT_TEXT)
    if dry_run:
        import yaml

        click.echo(yaml.safe_dump_all(bodies, sort_keys=False, allow_unicode=True), nl=False)
        return
    from strato.cli.connect import with_cluster

    with_cluster(ctx, lambda cluster: _apply(cluster, bodies))


def _bodies(
    namespace: str, files: tuple[Path, ...], settings: tuple[str, ...], parts: tuple[str, ...], default_config: str
) -> list[dict[str, Any]]:
    from strato.cli.install.manifests import chosen, resources
    from strato.cli.install.values import Chosen

    texts = [(str(path), read_text(path)) for path in files]
    values = Chosen(namespace, texts, settings)
    for path, why in values.notes.items():
        click.echo(f"note: {path} has no effect: {why}", err=True)
    config = values("custom.scheduler_config_override") or default_config
    if not values("custom.scheduler_config_override"):
        _check_plain_file(values("basic.scheduler_config_file"))
    return chosen(resources(values, config), values, parts)


def _check_plain_file(name: str) -> None:
    from strato.cli.install.values import DEFAULTS

    if name != DEFAULTS["basic"]["scheduler_config_file"]:
        raise UsageError(
            f"basic.scheduler_config_file {name!r} names a file of the chart; "
            "here give the text as custom.scheduler_config_override"
        )


async def _apply(cluster: Cluster, bodies: list[dict[str, Any]]) -> None:
    from strato.api import catalog
    from strato.client.cluster import PatchType
    from strato.errors import ApiError, NotFound

    bodies = await _fitting(cluster, bodies)
    problems = []
    for body in bodies:
        metadata = body["metadata"]
        place = f"{body['kind'].lower()}/{metadata['name']}"
        kind = catalog.find_named(body["apiVersion"], body["kind"]) or _foreign(body)
        try:
            await cluster.patch(
                kind,
                metadata["name"],
                metadata.get("namespace", ""),
                body,
                patch_type=PatchType.APPLY,
                field_manager=FIELD_MANAGER,
            )
        except NotFound as error:
            problems.append(f"{place}: {error}; is its definition installed?")
        except ApiError as error:
            problems.append(f"{place}: {error}")
        else:
            click.echo(f"{place} applied")
    if problems:
        raise InstallFailed(f"{len(problems)} of {len(bodies)} objects were not applied:\n  " + "\n  ".join(problems))


async def _fitting(cluster: Cluster, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the objects in a form that the cluster's version accepts.

    Raises:
        UsageError: The cluster is the embedded one. Its scheduler takes no lease, so an installed one would run at the
            same time. Nor could the cluster start again: the webhook's pods wait for its scheduler, which first creates
            its queues, and that calls the webhook.
    """
    import msgspec

    from strato.api.crds.rules import MINOR_VERSION, for_older

    version = msgspec.json.decode(await cluster.raw("GET", "/version"))
    running = sorted({body["kind"] for body in bodies} & _RUNS_AGAIN)
    if "+strato" in str(version.get("gitVersion")) and running:
        raise UsageError(
            "the cluster is strato's own, whose scheduler, controllers and admission run already: a second set "
            f"({', '.join(running)}) would work against them; nothing was applied; definitions alone: --only crds"
        )
    minor = "".join(c for c in str(version.get("minor", "")) if c.isdigit())  # some providers report 29+
    if version.get("major") != "1" or not minor or int(minor) >= MINOR_VERSION:
        return bodies
    click.echo(f"Kubernetes 1.{minor}: definitions go without rules in CEL, which need 1.{MINOR_VERSION}")
    return [for_older(body) if body["kind"] == "CustomResourceDefinition" else body for body in bodies]


def _foreign(body: dict[str, Any]) -> Any:
    """Return a kind, derived from an object, that the catalogue lacks (such as PodMonitor)."""
    from strato.api.kinds import Kind
    from strato.api.meta import Object

    group, _, version = body["apiVersion"].rpartition("/")
    return Kind(group, version, body["kind"], body["kind"].lower() + "s", singular=body["kind"].lower(), view=Object)
