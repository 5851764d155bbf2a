"""`HollowNodes`: tens of thousands of simulated nodes in one object, for simulations and scale tests.

They register, renew leases and simulate their pods: a bound pod is Running at once and ends when its plan
(`strato.node.hollow.runplan`) says so. One pod informer, one heap of timers and one status writer serve all nodes.
The same code runs under the virtual clock and against a real cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import random
from collections.abc import Mapping, Sequence

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.api.quantity import milli
from strato.client.cluster import Cluster
from strato.client.events import WARNING, EventRecorder
from strato.client.informer import Change, Informer, Informers
from strato.clock import Clock
from strato.errors import ApiError
from strato.node.heartbeats import Heartbeats
from strato.node.hollow.admission import HollowAdmission, in_order
from strato.node.hollow.backlog import Backlog
from strato.node.hollow.behaviour import HollowBehaviour
from strato.node.hollow.cpu import HollowCpu
from strato.node.hollow.failures import FAILURE, NodeFailures
from strato.node.hollow.heldpod import FINAL
from strato.node.hollow.images import ImagePulls
from strato.node.hollow.offers import CAPACITY, HollowOffer
from strato.node.hollow.pods import HollowPods
from strato.node.hollow.staged import StagedLives, register_bare
from strato.node.nodesync import NodeSync
from strato.node.registration import NodeFacts, is_registered, register_node
from strato.node.shapes import GPU, RACK, REGION, ZONE
from strato.node.timers import Timers

_FIRST_HOST = int(ipaddress.IPv4Address("172.16.0.1"))
_OF_SHAPES = (ZONE, REGION, RACK, GPU)
"""Labels and resources to remove that a node of the same name may have from an earlier start with other shapes."""
_RETRY_SECONDS = 1.0
_AT_ONCE = 64
"""Most registrations in flight."""
_WORTH_A_LIST = 64
"""From this number of nodes on, one list finds those of an earlier start."""

_log = logging.getLogger(__name__)


class HollowNodes:
    """A number of hollow nodes in one object.

    Args:
        informers: Shared informers; None makes and runs its own.
        rng: Generates the seed of node failures, and numbers for informers and stages.
        nodes: Name → offer of that node.
        max_lease_rate: Lease renewals per second of all nodes together; 0 writes each lease once (`Heartbeats`).
        cpu: Shares the nodes' CPU among pods with a demand; its maker runs it. None makes and runs its own.
        behaviour: Settings of the nodes' and their pods' behaviour.
    """

    def __init__(
        self,
        cluster: Cluster,
        informers: Informers | None,
        clock: Clock,
        rng: random.Random,
        *,
        nodes: Mapping[str, HollowOffer],
        max_lease_rate: float = 100.0,
        cpu: HollowCpu | None = None,
        behaviour: HollowBehaviour | None = None,
    ) -> None:
        self._cluster = cluster
        # An informer of our own can select bound pods only; a shared one has all pods.
        self._own_informer = informers is None
        self._informer: Informer[Pod] = (
            Informer(cluster, Pod, clock, rng, field_selector="spec.nodeName!=")
            if informers is None
            else informers.informer(Pod)
        )
        self._recorder = EventRecorder(cluster, clock, "kubelet")
        self._over: asyncio.Queue[str] = asyncio.Queue()
        self._node_informer = Informer(cluster, Node, clock, rng) if informers is None else informers.informer(Node)
        self._clock = clock
        self._behaviour = behaviour if behaviour is not None else HollowBehaviour()
        self._facts = {name: facts_of(name, index, offer) for index, (name, offer) in enumerate(nodes.items())}
        self._uids: dict[str, str] = {}
        self._stopped: set[str] = set()
        self._leaseless: set[str] = set()
        self._timers = Timers(clock)
        self._own_cpu = HollowCpu(clock) if cpu is None else None
        shared = cpu if cpu is not None else self._own_cpu
        assert shared is not None
        for facts in self._facts.values():
            shared.add_node(facts.name, milli(facts.capacity["cpu"]) / 1000)
        admission = HollowAdmission(self._facts, lambda name: self._node_informer.get(("", name)))
        self._pods = HollowPods(cluster, clock, self._timers, shared, admission, ImagePulls(self._behaviour.pulls))
        self._has_listed = False
        self._backlog = Backlog(self._informer, clock, self._observe_all)
        self._staged = (
            StagedLives(cluster, clock, rng, self._behaviour, self._facts, self._stopped.__contains__)
            if self._behaviour.stages_pods or self._behaviour.stages_nodes
            else None
        )
        self._heartbeats = Heartbeats(
            cluster,
            clock,
            self._uids,
            is_stopped=lambda name: name in self._stopped or name in self._leaseless,
            max_rate=max_lease_rate,
            expected=len(nodes),
        )
        self._sync = NodeSync(
            cluster,
            self._node_informer,
            clock,
            self._facts,
            self._uids,
            restored=self._restored,
            is_stopped=self._stopped.__contains__,
        )
        self.failures = NodeFailures(
            clock,
            self._timers,
            self,
            offers=nodes,
            seed=rng.getrandbits(64),
            on_over=self._over.put_nowait,
            on_unreadable=lambda node, problem: self._recorder.event(node, WARNING, "UnreadableAnnotation", problem),
        )
        self.registered = asyncio.Event()
        """Set when every node is in the API; their leases are written afterwards, as by a kubelet."""

    @property
    def names(self) -> list[str]:
        """The nodes' names in order."""
        return list(self._facts)

    @property
    def pod_count(self) -> int:
        """How many unfinished pods the nodes have taken up."""
        return len(self._pods)

    async def run(self) -> None:
        """Register the nodes and serve their pods until cancelled."""
        await self._register()
        if not self._behaviour.stages_pods:
            if self._reads_nodes:  # pods are admitted by the Node objects' allocatable amounts, labels and taints
                self._node_informer.start()
                await self._node_informer.wait_synced()
            self._informer.add_handler(self._on_change, among=self._relevant)
            self._informer.start()
        try:
            async with asyncio.TaskGroup() as group:
                if self._behaviour.failures:
                    self._node_informer.add_handler(self._on_node)
                    self._node_informer.start()
                    self.failures.begin()
                    group.create_task(self._end_annotations())
                group.create_task(self._timers.run())
                group.create_task(self._backlog.run())
                if self._own_cpu is not None:
                    group.create_task(self._own_cpu.run())
                group.create_task(self._pods.writer.run())
                group.create_task(self._heartbeats.run())
                if self._staged is not None:
                    group.create_task(self._staged.run())
                if not self._behaviour.stages_nodes:
                    group.create_task(self._sync.run())
        finally:
            if self._own_informer:
                await self._informer.stop()
                await self._node_informer.stop()

    def stop_node(self, name: str) -> None:
        """Stop a node as if its machine lost power: no lease and no pod statuses until `start_node`.

        Raises:
            KeyError: No such node.
        """
        if name not in self._facts:
            raise KeyError(name)
        self._stopped.add(name)
        self._backlog.drop(name)
        self._pods.forget_node(name)
        self._heartbeats.note_change(name)

    def start_node(self, name: str, *, is_rebooted: bool = False) -> None:
        """Start a stopped node again; the pods bound to it run on, unless their containers were lost in a reboot."""
        self._stopped.discard(name)
        self._heartbeats.note_change(name)
        if self._staged is not None:
            self._staged.resume()
        if not self._behaviour.stages_pods:
            for pod in in_order(pod for pod in self._informer.list() if pod.spec.node_name == name):
                self._pods.observe(pod, self._facts[name].address, is_lost=is_rebooted)
            self._pods.report_node(name, only_ended=True)
        if not self._behaviour.stages_nodes:
            self._sync.resume(name)

    def set_slowness(self, name: str, factor: float) -> None:
        """Set the factor by which everything that begins on a node from now on takes longer; 1 is normal."""
        self._pods.set_slowness(name, factor)

    def hold_lease(self, name: str, *, is_held: bool) -> None:
        """Stop renewing a node's lease while everything else goes on, or renew it again."""
        (self._leaseless.add if is_held else self._leaseless.discard)(name)
        self._heartbeats.note_change(name)

    @property
    def _reads_nodes(self) -> bool:
        return self._behaviour.failures or not self._behaviour.stages_nodes

    def _relevant(self, changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
        """Return the changes of pods that are new on our nodes, have ended there, or were deleted.

        The pods of the informer's first list, and those of nodes that have not taken these up, go to the backlog. The
        resources of ended pods are taken back here, before new pods of the same batch are admitted, because the changes
        of a list have no order.
        """
        facts, backlog, concerns, give_back = self._facts, self._backlog, self._pods.concerns, self._pods.give_back
        if not self._has_listed:
            self._has_listed = True
            pods = [change.new for change in changes if change.new is not None and change.old is None]
            if len(pods) == len(changes):  # all changes are additions: else this is no first list
                backlog.fill(pod for pod in pods if pod.spec.node_name in facts)
                return ()
        found = []
        for change in changes:
            old, pod = change
            if pod is None:
                if old is not None:
                    give_back(old.metadata.uid)
            elif pod.spec.node_name not in facts:
                continue
            elif pod.spec.node_name in backlog:
                if old is None or old.spec.node_name != pod.spec.node_name:
                    backlog.add(pod)
                continue
            elif not concerns(pod):
                continue
            elif pod.status.phase in FINAL:
                give_back(pod.metadata.uid)
            found.append(change)
        return found

    def _on_change(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None:
            if change.old is not None:
                self._pods.forget(change.old.metadata.uid)
            return
        facts = self._facts.get(pod.spec.node_name)
        if facts is not None and facts.name not in self._stopped:
            self._pods.observe(pod, facts.address)

    def _observe_all(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self._on_change(Change(None, pod))

    def _restored(self, node: str) -> None:
        """Write the statuses of all pods of a node that was registered again."""
        self._backlog.take_up(node)
        self._pods.report_node(node)

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is not None:
            self.failures.observe(change.new)

    async def _end_annotations(self) -> None:
        """Remove the annotation of nodes whose failure has ended, until cancelled."""
        while True:
            name = await self._over.get()
            body = {"metadata": {"annotations": {FAILURE: None}}}
            with contextlib.suppress(ApiError):  # harmless if it stays: the failure has ended and is not repeated
                await self._cluster.patch(catalog.NODE, name, "", body)

    async def _register(self) -> None:
        """Create all nodes, a few at a time; retries those that the API refuses.

        Nodes of an earlier start that match their facts are not written; `NodeSync` corrects other differences later.
        """
        await self._find_registered()
        waiting = iter([facts for facts in self._facts.values() if facts.name not in self._uids])

        async def work() -> None:
            for facts in waiting:  # the workers share one iterator, so that each node is registered once
                await self._register_one(facts)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(self._facts))):
                group.create_task(work())
        self.registered.set()

    async def _find_registered(self) -> None:
        """Find the nodes that are registered already: one list replaces four requests for each node."""
        if len(self._facts) < _WORTH_A_LIST or self._behaviour.stages_nodes:
            return
        try:
            page = await self._cluster.list(Node)
        except ApiError as error:
            _log.warning("nodes cannot be listed, and are registered one by one: %s", error)
            return
        for node in page.items:
            facts = self._facts.get(node.metadata.name)
            if facts is not None and is_registered(facts, node):
                self._uids[facts.name] = node.metadata.uid

    async def _register_one(self, facts: NodeFacts) -> None:
        while True:
            try:
                register = register_bare if self._behaviour.stages_nodes else register_node
                self._uids[facts.name] = await register(self._cluster, facts, self._clock.now())
            except ApiError as err:
                _log.warning("registering a node failed and is tried again: node=%s error=%s", facts.name, err)
                await self._clock.sleep(_RETRY_SECONDS)
            else:
                return


def facts_of(name: str, index: int, offer: HollowOffer) -> NodeFacts:
    """Return the facts with which a hollow node registers; ``index`` is its number within its `HollowNodes`."""
    labels = {"node.kubernetes.io/instance-type": "hollow", **offer.labels}
    return NodeFacts(
        name=name,
        address=str(ipaddress.IPv4Address(_FIRST_HOST + index)),
        capacity={**CAPACITY, **offer.capacity},
        cpu_overcommit_factor=offer.cpu_overcommit_factor,
        labels=labels,
        taints=offer.taints,
        outdated=[key for key in _OF_SHAPES if key not in labels and key not in offer.capacity],
        message="hollow node is posting ready status",
    )
