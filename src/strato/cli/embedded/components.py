"""Controllers, scheduler and nodes of the embedded cluster: the same beside the API server and in another process."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from strato.api.wire import User
from strato.cli.embedded.options import EmbeddedOptions, Part
from strato.cli.home import node_name
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.controllers import EMBEDDED, ControllerManager
from strato.metrics import Registry
from strato.server.auth import bootstrap

if TYPE_CHECKING:
    from strato.node.sandbox.node import SandboxNode
    from strato.scheduler import Scheduler

SCHEDULERS = ("volcano", "default-scheduler", "poseidon")
OURS = "strato.dev/started-by-up"
"""Label of the nodes that come and go with the cluster."""

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Components:
    """Everything that runs beside the server; nothing has started."""

    informers: Informers
    """Shared by all components, so that an event is decoded once; stopped after them."""
    members: Sequence[Part]
    milestones: Sequence[asyncio.Event]
    node: SandboxNode | None

    async def ready(self) -> dict[str, Any] | None:
        """Wait until every node is there and the scheduler decides; return what this machine's node says of itself."""
        for event in self.milestones:
            await event.wait()
        return dataclasses.asdict(self.node.summary()) if self.node is not None else None


def build(
    options: EmbeddedOptions,
    client: Callable[[User], Cluster],
    clock: Clock,
    random: Random,
    metrics: Registry,
) -> Components:
    """Build the components.

    Raises:
        StratoError: The scheduler's configuration cannot be used.
    """
    from strato.scheduler import Scheduler
    from strato.scheduler.cache.audit import AUDIT_SECONDS
    from strato.scheduler.config import embedded_config
    from strato.scheduler.optimal.loading import load
    from strato.scheduler.options import SchedulerOptions

    informers = Informers(client(bootstrap.ADMIN), clock, random)
    scheduler = Scheduler(
        client(bootstrap.SCHEDULER),
        informers,
        clock,
        random,
        config=Path(options.scheduler_config) if options.scheduler_config else embedded_config(),
        options=SchedulerOptions(names=SCHEDULERS, audit_seconds=AUDIT_SECONDS),
        metrics=metrics,
        load_flow=partial(asyncio.to_thread, load),
    )
    manager = ControllerManager(
        client(bootstrap.CONTROLLERS), informers, clock, random, enabled=EMBEDDED, metrics=metrics
    )
    members: list[Part] = [("controllers", manager.run)]
    milestones: list[asyncio.Event] = []
    names: list[str] = []
    if options.hollow_nodes:
        from strato.node.hollow import HollowNodes

        hollow = HollowNodes(
            client(bootstrap.HOLLOW_NODES),
            informers,
            clock,
            random,
            count=options.hollow_nodes,
            cpu=options.hollow_cpu,
            memory=options.hollow_memory,
            labels={OURS: ""},
        )
        names.extend(hollow.names)
        members.append(("hollow nodes", hollow.run))
        milestones.append(hollow.registered)
    node = None
    if options.sandbox:
        name = node_name()
        node = _sandbox_node(options, name, client(bootstrap.node(name)), informers, clock, random)
    if node is not None:
        names.append(node.name)
        members.append(("sandbox node", node.run))
        milestones.append(node.registered)
    members.append(("scheduler", partial(_schedule, scheduler, client(bootstrap.ADMIN), names)))
    milestones.append(scheduler.ready)
    return Components(informers, members, milestones, node)


def _sandbox_node(
    options: EmbeddedOptions, name: str, cluster: Cluster, informers: Informers, clock: Clock, random: Random
) -> SandboxNode:
    from strato.node.sandbox.gpupool import Offer
    from strato.node.sandbox.node import SandboxNode

    return SandboxNode(
        cluster,
        clock,
        random,
        name=name,
        data_dir=options.home.node,
        hidden=[options.home.path, options.data_dir],
        informers=informers,
        cpus=options.sandbox_cpus,
        memory=options.sandbox_memory,
        strict_images=options.strict_images,
        own_network=options.pod_network != "host",
        egress=options.pod_network == "nat",
        own_users=options.pod_users == "own",
        gpus=Offer(options.gpus),
        labels={OURS: ""},
    )


async def _schedule(scheduler: Scheduler, cluster: Cluster, nodes: Collection[str]) -> None:
    """Load the kernels while other components wait for disks and processes, then schedule on these nodes."""
    from strato.node.registration import forget_nodes
    from strato.scheduler.placement.placer import warm_up

    await asyncio.to_thread(warm_up)
    gone = await forget_nodes(cluster, OURS, nodes)
    if gone:
        _log.info("nodes of an earlier start are removed: count=%d first=%s", len(gone), gone[0])
    await scheduler.run()
