"""``strato podgroup``: list and show pod groups, the gangs the scheduler admits and places."""

from __future__ import annotations

import click

from strato.api import catalog
from strato.cli.listing import Listing, Moment, listing_options, show_list
from strato.cli.objectnames import object_name
from strato.cli.output import all_namespaces_option
from strato.cli.verbs import VerbGroup
from strato.client.cluster import Json

_namespace = click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")


@click.group(cls=VerbGroup)
def podgroup() -> None:
    """List and show pod groups."""


@podgroup.command(name="list")
@_namespace
@all_namespaces_option("Pod groups of every namespace.")
@click.option("-q", "--queue", default="", help="Only pod groups of this queue.")
@listing_options
@click.pass_context
def list_groups(
    ctx: click.Context, namespace: str, all_namespaces: bool, queue: str, output: str, watching: bool
) -> None:
    """List pod groups."""

    def keep(item: Json) -> bool:
        return not queue or item.get("spec", {}).get("queue", "default") == queue

    scope = "" if all_namespaces else namespace
    show_list(ctx, GROUPS, output, watching=watching, namespace=scope, keep=keep)


@podgroup.command()
@object_name("-N", help="Its name.")
@_namespace
@listing_options
@click.pass_context
def get(ctx: click.Context, name: str, namespace: str, output: str, watching: bool) -> None:
    """Show one pod group."""
    show_list(ctx, GROUPS, output, watching=watching, namespace=namespace, name=name)


def _cells(group: Json, moment: Moment) -> tuple[object, ...]:
    spec, status = group.get("spec", {}), group.get("status", {})
    counters = (status.get(name, 0) for name in ("running", "succeeded", "failed"))
    return (
        group["metadata"]["name"],
        spec.get("queue", "default"),
        status.get("phase", ""),
        moment.age(group),
        spec.get("minMember", 0),
        *counters,
    )


def _wide_cells(group: Json, _: Moment) -> tuple[object, ...]:
    owners = group["metadata"].get("ownerReferences") or ()
    owner = next((f"{one['kind']}/{one['name']}" for one in owners if one.get("controller")), "")
    conditions = (group.get("status") or {}).get("conditions") or ()
    waits = next((one.get("message", "") for one in conditions if one.get("type") == "Unschedulable"), "")
    shown = waits if group.get("status", {}).get("phase") in ("", "Pending", "Inqueue", "Unknown") else ""
    return group.get("spec", {}).get("priorityClassName", ""), owner, " ".join(shown.split())


GROUPS = Listing(
    kind=catalog.PODGROUP,
    headers=("Name", "Queue", "Phase", "Age", "Min", "Running", "Succeeded", "Failed"),
    row=_cells,
    wide_headers=("Priority", "Owner", "Waits"),
    wide_row=_wide_cells,
    phase="Phase",
)
