"""``strato run node``: hollow nodes, or this machine as a node, as a process of its own."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from strato.cli.connect import connect, home_of
from strato.cli.goflags import GoCommand
from strato.cli.machine import machine_options
from strato.cli.quantities import QUANTITY
from strato.cli.run.common import Common, Member, component_options, serve
from strato.cli.serving import make_random, run_loop
from strato.clock import SystemClock
from strato.errors import UsageError
from strato.metrics import Registry


@click.command(cls=GoCommand)
@component_options(metrics_address=":8083")
@click.option(
    "--hollow-nodes", default=None, type=click.IntRange(0), help="How many nodes to pretend; without --sandbox, 1."
)
@click.option("--prefix", default="hollow", show_default=True, help="Nodes are called PREFIX-0, PREFIX-1, …")
@click.option("--cpu", default="32", show_default=True, type=QUANTITY, help="Cpus of each.")
@click.option("--memory", default="256Gi", show_default=True, type=QUANTITY, help="Memory of each.")
@click.option("--sandbox", is_flag=True, help="This machine is a node: pods run here as sandboxed processes.")
@click.option("--name", default="", help="Of this machine's node, instead of the host name.")
@machine_options
@click.option("--data-dir", default=None, type=click.Path(path_type=Path), help="Pods, instead of HOME/node.")
@click.pass_context
def node(
    ctx: click.Context,
    common: Common,
    hollow_nodes: int | None,
    prefix: str,
    cpu: str,
    memory: str,
    sandbox: bool,
    name: str,
    cpus: str,
    node_memory: str,
    strict_images: bool,
    pod_network: str,
    data_dir: Path | None,
) -> None:
    """Run nodes: hollow ones, which pretend to run what is bound to them, or this machine.

    Containers of this machine outlive the process, and the next one on the same directory takes them over;
    'strato down' with the same --home ends them.
    """
    count = hollow_nodes if hollow_nodes is not None else int(not sandbox)
    if not sandbox and count == 0:
        raise UsageError("no nodes: give --sandbox or --hollow-nodes N")
    home = home_of(ctx)
    directory = data_dir or home.node
    if sandbox and home.running_pid() is not None and home.ready().get("node") and directory == home.node:
        raise UsageError(f"this machine is a node of the cluster of {home.path} already; name another --data-dir")

    async def main() -> None:
        clock, random = SystemClock(), make_random()
        cluster = connect(ctx)
        members = []  # no lease: every process has nodes of its own
        if count:
            from strato.node.hollow import HollowNodes

            hollow = HollowNodes(cluster, None, clock, random, count=count, name_prefix=prefix, cpu=cpu, memory=memory)
            members.append(Member(name="hollow nodes", work=hollow.run))
        if sandbox:
            from strato.client.informer import Informers
            from strato.node.sandbox.node import SandboxNode

            informers = Informers(cluster, clock, random)  # of all pods: hosts files name the peers on other nodes
            machine = SandboxNode(
                cluster,
                clock,
                random,
                name=name or socket.gethostname().lower(),
                data_dir=directory,
                informers=informers,
                cpus=cpus,
                memory=node_memory,
                strict_images=strict_images,
                own_network=pod_network != "host",
                way_out=pod_network == "nat",
            )

            async def be_a_node() -> None:
                try:
                    await machine.run()
                finally:
                    await informers.stop()

            members.append(Member(name="sandbox node", work=be_a_node))
        await serve(cluster, random, common, members, Registry())

    run_loop(main)
