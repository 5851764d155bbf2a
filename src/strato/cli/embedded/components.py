"""Controllers, scheduler and nodes of the embedded cluster: the same beside the API server and in another process."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from strato.api.wire import User
from strato.cli.embedded.options import EmbeddedOptions, Ending, Part
from strato.cli.history import history_member
from strato.cli.hollowoptions import overcommitted
from strato.cli.home import node_names
from strato.cli.publishedconfig import publishing_configuration
from strato.cli.recordoptions import recorded, recorder_of
from strato.cli.servicenetwork import ANY_HOST, api_address
from strato.cli.startpredictions import predicting
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.controllers import EMBEDDED, ControllerManager, ControllerSettings, controllers_of
from strato.controllers.localvolumes import LocalVolumes
from strato.controllers.trainingoptions import PodOptions
from strato.metrics import Registry
from strato.seeding import child
from strato.server import bootstrap

if TYPE_CHECKING:
    from strato.cli.mesosoptions import MesosOptions
    from strato.interop.mesos.cluster.run import MesosMaster
    from strato.node.sandbox.node import SandboxNode
    from strato.scheduler import Scheduler

SCHEDULERS = ("volcano", "default-scheduler", "poseidon", "agent-scheduler")
_BRING_KUBECTL: Final = (
    'printf "#!/bin/sh\\nexec {python} -m strato \\"\\$@\\"\\n" >"$TARGET_DIR/kubectl" && '
    'chmod 755 "$TARGET_DIR/kubectl" && grep -v -e "-launcher " /etc/mpi/hostfile | cut -d" " -f1 | '
    'while read -r pod; do until "$TARGET_DIR/kubectl" exec "$pod" -- true; do sleep 0.5; done; done'
)
"""Init command of an MPIJob v1's launcher: makes a kubectl that runs strato, waits until it reaches all workers."""
OURS = "strato.dev/started-by-up"
"""Label of the nodes that ``strato up`` creates; nodes with it that the next start lacks are deleted."""

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Components:
    """The components that run beside the API server, built and not yet started."""

    informers: Informers
    """Shared by all components, so that an event is decoded once; the caller stops them after the components."""
    members: Sequence[Part]
    milestones: Sequence[asyncio.Event]
    machine: LocalNodes | None

    def ended(self) -> int:
        """Return how many pods ended because the cluster was stopped."""
        return self.machine.ended if self.machine is not None else 0

    async def ready(self) -> dict[str, Any] | None:
        """Wait until every node is registered and the scheduler runs; return the summary of this machine's node."""
        for event in self.milestones:
            await event.wait()
        return dataclasses.asdict(self.machine.nodes[0].summary()) if self.machine is not None else None


class LocalNodes:
    """Runs this machine's nodes; when the cluster is stopped, it ends the pods before the nodes."""

    def __init__(self, nodes: Sequence[SandboxNode], ending: Ending) -> None:
        self.nodes = nodes
        """The first one sets up networks and control groups for all."""
        self._ending = ending
        self.ended = 0

    async def run(self) -> None:
        """Run the nodes until cancelled."""
        running = [asyncio.ensure_future(node.run()) for node in self.nodes]
        all_of_them = asyncio.gather(*running)
        try:
            await asyncio.shield(all_of_them)
        except asyncio.CancelledError:
            stop = self._ending()
            if stop is not None and not stop.keep_pods:
                self.ended = sum(await asyncio.gather(*(node.shut_down(stop.grace_seconds) for node in self.nodes)))
            raise
        finally:
            for one in reversed(running):
                one.cancel()
                await asyncio.gather(one, return_exceptions=True)
            await asyncio.gather(all_of_them, return_exceptions=True)


def build(
    options: EmbeddedOptions,
    client: Callable[[User], Cluster],
    clock: Clock,
    random: Random,
    metrics: Registry,
    ending: Ending,
) -> Components:
    """Build the components.

    Raises:
        StratoError: The scheduler's configuration cannot be used.
    """
    from strato.node.images.store import HOST_IMAGE
    from strato.scheduler import Scheduler
    from strato.scheduler.cache.audit import AUDIT_SECONDS
    from strato.scheduler.cache.journal import NO_JOURNAL
    from strato.scheduler.config import embedded_config
    from strato.scheduler.optimal.loading import load
    from strato.scheduler.options import SchedulerOptions
    from strato.scheduler.shadow.service import ShadowOptions

    off = options.training.off
    informers = Informers(client(bootstrap.ADMIN), clock, random, absent=off)
    recorder = recorder_of(options.record, clock)
    scheduler = Scheduler(
        client(bootstrap.SCHEDULER),
        informers,
        clock,
        child(random),
        config=Path(options.scheduler_config) if options.scheduler_config else embedded_config(),
        options=SchedulerOptions(
            names=SCHEDULERS,
            shard_mode=options.shard_mode,
            shadow=ShadowOptions(config=Path(options.shadow)) if options.shadow else None,
            audit_seconds=AUDIT_SECONDS,
            journal=recorder or NO_JOURNAL,
        ),
        metrics=metrics,
        load_flow=partial(asyncio.to_thread, load),
    )
    enabled = EMBEDDED if options.shard_mode == "none" else (*EMBEDDED, "sharding-controller")
    manager = ControllerManager(
        client(bootstrap.CONTROLLERS),
        informers,
        clock,
        random,
        enabled=controllers_of(enabled, off),
        metrics=metrics,
        settings=ControllerSettings(
            local_volumes=_local_volumes(options),
            signing_folder=options.home.pki,
            smtp_server=options.mail.smtp_server,
            mail_from=options.mail.mail_from,
            recommender_names=("strato", "default"),
            flow_probe_image=HOST_IMAGE,
            training=options.training.over(
                PodOptions(
                    init_image=HOST_IMAGE,
                    init_lookup="getent hosts",
                    kubectl_image=HOST_IMAGE,
                    kubectl_command=("sh", "-c", _BRING_KUBECTL.format(python=sys.executable)),
                )
            ),
        ),
    )
    members: list[Part] = [("controllers", manager.run)]
    milestones: list[asyncio.Event] = []
    names: list[str] = []
    shapes = options.hollow.shapes()
    if shapes:
        from strato.node.hollow import HollowNodes, offers

        # a user's stages may patch any field of a pod
        identity = bootstrap.ADMIN if options.hollow.stages else bootstrap.HOLLOW_NODES
        hollow = HollowNodes(
            client(identity),
            informers,
            clock,
            random,
            nodes=offers(
                (f"hollow-{number}" for number in count()),
                overcommitted(shapes, options.cpu_overcommit_factor),
                {OURS: ""},
            ),
            behaviour=options.hollow.behaviour(),
        )
        names.extend(hollow.names)
        members.append(("hollow nodes", hollow.run))
        milestones.append(hollow.registered)
    machine = None
    if options.sandbox:
        sandbox_names = node_names(options.sandbox_nodes)
        nodes = _sandbox_nodes(options, sandbox_names, client, informers, clock, random)
        machine = LocalNodes(nodes, ending)
        names.extend(sandbox_names)
        members.append(("sandbox node", machine.run))
        milestones.extend(node.registered for node in nodes)
        if options.agent:
            cluster = client(bootstrap.ADMIN)
            members.append(("agent", _agent(options, sandbox_names[0], cluster, informers, clock, random, metrics)))
    if options.records_history:
        recording = history_member(options.home.history, client(bootstrap.CONTROLLERS), informers, clock, metrics)
        members.append(("history", recording))
    if options.mesos is not None:
        master = _mesos_master(options.mesos, client(bootstrap.ADMIN), informers, clock, random)
        members.append(("Mesos master", master.run))
        milestones.append(master.serves)
    schedule = partial(_schedule, scheduler, client(bootstrap.ADMIN), clock, names)
    members.append(("scheduler", recorded(recorder, schedule)))
    publishing = publishing_configuration(scheduler, client(bootstrap.SCHEDULER), informers, clock)
    members.append(("published configuration", publishing))
    if options.predict_starts:
        known = options.home.history if options.records_history else None
        predictions = predicting(scheduler, client(bootstrap.SCHEDULER), informers, clock, metrics, known)
        members.append(("predicted starts", predictions))
    milestones.append(scheduler.ready)
    return Components(informers, members, milestones, machine)


def _local_volumes(options: EmbeddedOptions) -> LocalVolumes | None:
    """Return the provisioner of volumes for claims; None without a sandbox node, as hollow nodes mount none."""
    if not options.sandbox:
        return None
    from strato.node.removal import remove_tree

    return LocalVolumes(str(options.home.volumes), remove_tree)


def _sandbox_nodes(
    options: EmbeddedOptions,
    names: Sequence[str],
    client: Callable[[User], Cluster],
    informers: Informers,
    clock: Clock,
    random: Random,
) -> Sequence[SandboxNode]:
    from strato.node.sandbox.gpupool import GpuOffer
    from strato.node.sandbox.node import SandboxNode
    from strato.node.sandbox.settings import ClusterServices, NodeOffer, PodIsolation, PodNetwork

    offer = NodeOffer(
        name=names[0],
        cpus=options.sandbox_cpus,
        memory=options.sandbox_memory,
        cpu_overcommit_factor=options.cpu_overcommit_factor,
        gpus=GpuOffer(options.gpus),
        labels={OURS: ""},
        share=len(names),
    )
    first = SandboxNode(
        client(bootstrap.node(offer.name)),
        clock,
        random,
        informers,
        data_dir=options.home.node,
        offer=offer,
        isolation=PodIsolation(
            network=PodNetwork(options.pod_network),
            own_users=options.pod_users == "own",
            images=options.images.policy(),
            services=ClusterServices(
                api=partial(api_address, options.home.kubeconfig), is_open=options.host in ANY_HOST
            ),
            hidden=[options.home.path, options.data_dir],
        ),
    )
    others = [dataclasses.replace(offer, name=name, gpus=GpuOffer.NONE) for name in names[1:]]
    return [first, *(first.neighbour(client(bootstrap.node(other.name)), other) for other in others)]


def _mesos_master(
    chosen: MesosOptions, cluster: Cluster, informers: Informers, clock: Clock, random: Random
) -> MesosMaster:
    from strato.interop.mesos.cluster.run import MesosMaster

    return MesosMaster(cluster, informers, clock, random, settings=chosen.settings(), options=chosen.options())


def _agent(
    options: EmbeddedOptions,
    node: str,
    cluster: Cluster,
    informers: Informers,
    clock: Clock,
    random: Random,
    metrics: Registry,
) -> Callable[[], Awaitable[None]]:
    """Return what runs the node's agent while it holds its lease; after losing it, it competes for it again."""
    from strato.agent.agent import NAMESPACE, Agent, AgentOptions, lease_of
    from strato.agent.sampling.layouts import SandboxLayout
    from strato.agent.volcano.colocation import ColocationOptions
    from strato.agent.volcano.config import Feature
    from strato.client.leases import LeaderElector, LeadershipLost
    from strato.node.sandbox.paths import NodePaths

    layout = SandboxLayout(NodePaths(str(options.home.node)).cgroups)
    settings = AgentOptions(
        node=node,
        namespace=NAMESPACE,
        cpus=float(os.cpu_count() or 1),
        colocation=ColocationOptions(features=frozenset(Feature)),  # the colocation ConfigMap alone switches them
    )
    agent = Agent(cluster, informers, clock, random, layout, settings, metrics)

    async def run() -> None:
        while True:
            identity = f"{node}_{os.getpid()}"
            elector = LeaderElector(cluster, clock, random, name=lease_of(node), namespace=NAMESPACE, identity=identity)
            try:
                await elector.run(agent.run)
            except LeadershipLost as error:
                _log.warning("%s", error)

    return run


async def _schedule(scheduler: Scheduler, cluster: Cluster, clock: Clock, nodes: Collection[str]) -> None:
    """Load the kernels in a thread while other components start, remove nodes of earlier starts, then schedule.

    A machine's first start compiles the kernels, maybe for minutes, and users can submit jobs meanwhile; therefore the
    queues are created first.
    """
    from strato.node.registration import forget_nodes
    from strato.scheduler.binding.startup import ensure_queues
    from strato.scheduler.options import SchedulerOptions
    from strato.scheduler.placement.placer import warm_up

    await ensure_queues(cluster, clock, SchedulerOptions().default_queue)
    await asyncio.to_thread(warm_up)
    gone = await forget_nodes(cluster, OURS, nodes)
    if gone:
        _log.info("nodes of an earlier start are removed: count=%d first=%s", len(gone), gone[0])
    await scheduler.run()
