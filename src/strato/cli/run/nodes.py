"""``strato run node``: hollow nodes, or this machine as a node, as a process of its own."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.core import ParameterSource

from strato.api import catalog
from strato.cli.connect import connect, home_of
from strato.cli.goflags import GoCommand
from strato.cli.hollowoptions import HollowOptions, hollow_options, overcommitted
from strato.cli.home import node_name as default_name
from strato.cli.imageoptions import ImageOptions
from strato.cli.inputs import FOLDER
from strato.cli.machine import machine_options
from strato.cli.run.common import Common, RunningComponent, component_options, serve
from strato.cli.serving import make_random, run_loop
from strato.client.cluster import Cluster
from strato.clock import SystemClock
from strato.errors import ApiError, UsageError
from strato.metrics import Registry

if TYPE_CHECKING:
    from strato.cli.run.kubeletport import KubeletPort


@click.command(cls=GoCommand)
@component_options(metrics_address=":8083")
@hollow_options
@click.option("--prefix", default="hollow", show_default=True, help="Nodes are called PREFIX-0, PREFIX-1, …")
@click.option("--sandbox", is_flag=True, help="This machine is a node: pods run here as sandboxed processes.")
@click.option("--name", default="", help="Of this machine's node, instead of the host name.")
@machine_options
@click.option("--data-dir", default=None, type=FOLDER, help="Pods, instead of HOME/node.")
@click.option(
    "--kubelet-port",
    default=0,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Serve this machine's container logs and streams to the API server at this port; 0 does not. "
    "Kubelets have 10250.",
)
@click.option(
    "--client-ca-file",
    default=None,
    type=click.Path(path_type=Path),
    help="Authority of the API server's client certificate; goes with --kubelet-port.",
)
@click.pass_context
def node(
    ctx: click.Context,
    common: Common,
    hollow: HollowOptions,
    prefix: str,
    sandbox: bool,
    name: str,
    cpus: str,
    node_memory: str,
    cpu_overcommit_factor: float,
    images: ImageOptions,
    pod_network: str,
    pod_users: str,
    gpus: str,
    data_dir: Path | None,
    kubelet_port: int,
    client_ca_file: Path | None,
) -> None:
    """Run nodes: hollow ones, which pretend to run what is bound to them, or this machine.

    Containers of this machine outlive the process, and the next one on the same directory takes them over;
    'strato down' with the same --home ends them. With --kubelet-port an API server on another machine reads their logs;
    one of Strato's reaches their processes and ports too.
    """
    is_chosen = ctx.get_parameter_source("hollow_nodes") is not ParameterSource.DEFAULT
    shapes = (hollow if is_chosen or sandbox else msgspec.structs.replace(hollow, nodes="1")).shapes()
    if not sandbox and not shapes:
        raise UsageError("no nodes: give --sandbox or --hollow-nodes N")
    home = home_of(ctx)
    directory = data_dir or home.node
    if sandbox and home.running_pid() is not None and home.ready().get("node") and directory == home.node:
        raise UsageError(f"this machine is a node of the cluster of {home.path} already; name another --data-dir")
    node_name = name or default_name()
    endpoint = _endpoint(sandbox, node_name, directory, kubelet_port, client_ca_file)

    async def main() -> None:
        clock, random = SystemClock(), make_random()
        cluster = connect(ctx)
        members = []  # no leases: every process has its own nodes
        if shapes:
            from strato.node.hollow import HollowNodes, offers

            names = (f"{prefix}-{number}" for number in count())
            offered = offers(names, overcommitted(shapes, cpu_overcommit_factor))
            hollow_nodes = HollowNodes(cluster, None, clock, random, nodes=offered, behaviour=hollow.behaviour())
            members.append(RunningComponent(name="hollow nodes", work=hollow_nodes.run))
        if sandbox:
            from strato.client.informer import Informers
            from strato.node.sandbox.gpupool import GpuOffer
            from strato.node.sandbox.node import SandboxNode
            from strato.node.sandbox.settings import NodeOffer, PodIsolation, PodNetwork

            # informers of all pods, for pods' hosts files name peers on other nodes; a node's identity may list only
            # its own
            informers = Informers(cluster, clock, random) if await _sees_all_pods(cluster) else None
            machine = SandboxNode(
                cluster,
                clock,
                random,
                informers,
                data_dir=directory,
                offer=NodeOffer(
                    name=node_name,
                    cpus=cpus,
                    memory=node_memory,
                    cpu_overcommit_factor=cpu_overcommit_factor,
                    gpus=GpuOffer(gpus),
                    kubelet_port=kubelet_port,
                    annotations=endpoint.annotations(clock) if endpoint is not None else {},
                ),
                isolation=PodIsolation(
                    network=PodNetwork(pod_network),
                    own_users=pod_users == "own",
                    images=images.policy(),
                    hidden=[home.path],
                ),
            )

            async def be_a_node() -> None:
                try:
                    await machine.run()
                finally:
                    if informers is not None:
                        await informers.stop()

            members.append(RunningComponent(name="sandbox node", work=be_a_node))
            if endpoint is not None:
                from strato.api.core import Pod
                from strato.cli.run.kubeletport import NodeEndpoint, serve_node
                from strato.node.sandbox.paths import NodePaths
                from strato.node.sandbox.streams import NodeStreams

                pods = informers.informer(Pod).get if informers is not None else machine.pod
                streams = NodeStreams(NodePaths(str(directory)), clock)
                handler = NodeEndpoint(cluster, node_name, pods, machine.logs, streams)
                members.append(
                    RunningComponent(name="endpoint of this node", work=partial(serve_node, endpoint, handler, clock))
                )
        await serve(cluster, random, common, members, Registry())

    run_loop(main)


async def _sees_all_pods(cluster: Cluster) -> bool:
    """Ask the server whether this process may list the pods of all nodes; assume so if the server cannot tell."""
    question = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    try:
        review = await cluster.create(catalog.SELFSUBJECTACCESSREVIEW, question)
    except ApiError:
        return True
    return bool(review["status"].get("allowed"))


def _endpoint(sandbox: bool, node: str, directory: Path, port: int, client_ca: Path | None) -> KubeletPort | None:
    """Return the endpoint of logs and streams; None without ``--kubelet-port``."""
    if not port and client_ca is None:
        return None
    if not sandbox or not port or client_ca is None:
        raise UsageError(
            "--kubelet-port and --client-ca-file go together, and with --sandbox: "
            "logs and streams are served to those whom that authority vouches for"
        )
    from strato.cli.run.kubeletport import KubeletPort

    endpoint = KubeletPort(node=node, port=port, client_ca=client_ca, directory=directory)
    endpoint.check()
    return endpoint
