"""``strato run node``: hollow nodes as a process of their own."""

from __future__ import annotations

import click

from strato.cli.connect import connect
from strato.cli.goflags import GoCommand
from strato.cli.quantities import QUANTITY
from strato.cli.run.common import Common, Member, component_options, serve
from strato.cli.serving import make_random, run_loop
from strato.clock import SystemClock
from strato.metrics import Registry


@click.command(cls=GoCommand)
@component_options(metrics_address=":8083")
@click.option("--hollow-nodes", default=1, show_default=True, type=click.IntRange(1), help="How many nodes to pretend.")
@click.option("--prefix", default="hollow", show_default=True, help="Nodes are called PREFIX-0, PREFIX-1, …")
@click.option("--cpu", default="32", show_default=True, type=QUANTITY, help="Cpus of each.")
@click.option("--memory", default="256Gi", show_default=True, type=QUANTITY, help="Memory of each.")
@click.pass_context
def node(ctx: click.Context, common: Common, hollow_nodes: int, prefix: str, cpu: str, memory: str) -> None:
    """Run hollow nodes: they pretend to run what is bound to them."""

    async def main() -> None:
        from strato.node.hollow import HollowNodes

        clock, random = SystemClock(), make_random()
        cluster = connect(ctx)
        part = HollowNodes(cluster, None, clock, random, count=hollow_nodes, name_prefix=prefix, cpu=cpu, memory=memory)
        # no lease: every process has nodes of its own
        await serve(cluster, random, common, [Member(name="nodes", work=part.run)], Registry())

    run_loop(main)
