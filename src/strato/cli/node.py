"""``strato node``: let hollow nodes fail, and end that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from strato.cli.connect import with_cluster
from strato.cli.verbs import VerbGroup
from strato.errors import StateError, UsageError

if TYPE_CHECKING:
    from strato.client.http import HttpCluster


class FailureType(click.ParamType[str]):
    """What is wrong with a node, as its annotation has it: ``dead for=10m``."""

    name = "failure"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text when it can be read."""
        from strato.node.hollow.failures import BadFailure, parse_failure

        try:
            parse_failure(value)
        except BadFailure as error:
            self.fail(str(error), param, ctx)
        return value


@click.group(cls=VerbGroup)
def node() -> None:
    """Let hollow nodes fail, and end that."""


_chosen = (
    click.argument("names", nargs=-1, metavar="[NODE]..."),
    click.option("-l", "--selector", default="", metavar="LABELS", help="All nodes with these labels."),
    click.option("--zone", default="", help="All nodes of a zone."),
    click.option("--rack", default="", help="All nodes of a rack."),
)


def _choice(command: Any) -> Any:
    for decorator in reversed(_chosen):
        command = decorator(command)
    return command


@node.command()
@_choice
@click.option(
    "--how",
    default="dead",
    show_default=True,
    type=FailureType(),
    help="dead, unreachable, no-lease, 'slow factor=3' or 'flapping up=5m down=1m'; for=10m ends each by itself.",
)
@click.pass_context
def fail(ctx: click.Context, names: Sequence[str], selector: str, zone: str, rack: str, how: str) -> None:
    """Let hollow nodes fail: those named, or all of a zone, rack or selector at once.

    The nodes see to it themselves, wherever they run; what the cluster makes of it is the controllers' work.
    """
    changed = with_cluster(ctx, lambda cluster: _annotate(cluster, names, _selector(selector, zone, rack), how))
    click.echo(f"nodes that fail ({how}): {changed}")


@node.command()
@_choice
@click.option("--all", "everything", is_flag=True, help="Of all nodes.")
@click.pass_context
def recover(ctx: click.Context, names: Sequence[str], selector: str, zone: str, rack: str, everything: bool) -> None:
    """End failures of hollow nodes that an annotation brought about."""
    chosen = _selector(selector, zone, rack)
    if everything and (names or chosen):
        raise UsageError("--all goes with no nodes and no other choice of them")
    changed = with_cluster(ctx, lambda cluster: _annotate(cluster, names, chosen, None, everything=everything))
    click.echo(f"nodes that recover: {changed}")


def _selector(labels: str, zone: str, rack: str) -> str:
    from strato.node.shapes import RACK, ZONE

    parts = [labels, f"{ZONE}={zone}" if zone else "", f"{RACK}={rack}" if rack else ""]
    return ",".join(part for part in parts if part)


async def _annotate(
    cluster: HttpCluster, names: Sequence[str], selector: str, how: str | None, *, everything: bool = False
) -> int:
    """Set the failure annotation of the chosen hollow nodes, or remove it; return how many were changed."""
    from strato.api import catalog
    from strato.client.cluster import Patch
    from strato.client.codec import encode
    from strato.node.hollow.failures import FAILURE

    if bool(names) is bool(selector) and not everything:
        raise UsageError("name nodes, or choose them by --zone, --rack or --selector")
    page = await cluster.list(catalog.NODE, label_selector=selector)
    found = {one["metadata"]["name"]: one["metadata"].get("annotations") or {} for one in page.items}
    missing = sorted(set(names) - found.keys())
    if missing:
        raise StateError(f"no such nodes: {', '.join(missing[:10])}")
    wanted = names or [name for name, annotations in found.items() if how is not None or FAILURE in annotations]
    if not wanted and not everything:
        raise StateError(f"no nodes {'to recover ' if how is None else ''}have the labels {selector}")
    body = encode({"metadata": {"annotations": {FAILURE: how}}})
    errors = await cluster.patch_all(catalog.NODE, [Patch("", name, body) for name in wanted])
    for error in errors:
        if error is not None:
            raise error
    return len(wanted)
