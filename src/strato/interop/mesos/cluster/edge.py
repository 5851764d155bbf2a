"""`Edge`: watches nodes and pods for the master, and writes the effects in its outbox to the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.api.heldroom import HELD_ROOM
from strato.api.meta import Json
from strato.client.cluster import Cluster, Created, Patch, PatchType
from strato.client.informer import Change, Informers
from strato.client.writequeue import WriteQueue
from strato.clock import Clock
from strato.errors import AlreadyExists, ApiError, NotFound, TooManyRequests, Unavailable
from strato.interop.mesos.cluster.files import SandboxFiles
from strato.interop.mesos.cluster.groups import GroupCreator
from strato.interop.mesos.cluster.keeping import REGISTRY, Keeper
from strato.interop.mesos.cluster.mounts import claims_of
from strato.interop.mesos.cluster.nodes import PodUse, agent_id, facts_of, pod_use, requests_of
from strato.interop.mesos.cluster.pods import MASTER, RECORD, PodSettings, pod_of
from strato.interop.mesos.cluster.pods import facts_of as unit_facts
from strato.interop.mesos.cluster.volumes import Claims, NotBound
from strato.interop.mesos.cluster.writes import LatestWrites
from strato.interop.mesos.master import records
from strato.interop.mesos.master.core import Master
from strato.interop.mesos.master.effects import Kill, PodLaunch
from strato.interop.mesos.master.state import HEARTBEAT_SECONDS
from strato.interop.mesos.master.volumes import volumes_of
from strato.interop.mesos.resourcejson import from_json

_log = logging.getLogger(__name__)
_CREATE_TRIES = 5
_RETRY_SECONDS = 0.2
_KILL_AGAIN_SECONDS = 0.05


class Edge:
    """Connects a leading master with its cluster; one instance for each time it leads."""

    def __init__(
        self, cluster: Cluster, informers: Informers, clock: Clock, master: Master, settings: PodSettings
    ) -> None:
        self._cluster, self._clock, self._master, self._settings = cluster, clock, master, settings
        self._nodes, self._pods = informers.informer(Node), informers.informer(Pod)
        self._others: defaultdict[str, dict[str, PodUse]] = defaultdict(dict)
        """Resources of pods that are not the master's, by node and uid."""
        self._places: dict[str, str] = {}
        """Node of those pods, by uid."""
        self._dirty_nodes: dict[str, None] = {}
        self._agents: dict[str, str] = {}
        """Agent id by node."""
        state = master.state
        self._groups = GroupCreator(
            cluster, settings.master, settings.namespace, lambda role: state.weights.get(role, 1.0)
        )
        self._keeper = Keeper(cluster, state, settings.master, settings.namespace)
        self._kept = LatestWrites(clock, self._keeper.build, self._keeper.send, name="framework", batch=10)
        self._records = LatestWrites(clock, self._record_patch, self._send_pods, name="pod")
        self._holds = LatestWrites(clock, self._hold_patch, self._send_nodes, name="node")
        self._claims = Claims(cluster, clock, settings.master, settings.namespace, state.volumes)
        self.files = SandboxFiles(cluster, settings.namespace, self._claims)
        """Files of the tasks' sandboxes."""
        self._volumes = LatestWrites(clock, self._claims.build, self._claims.send, name="volume", batch=10)
        self._kills: WriteQueue[Kill] = WriteQueue(clock, self._kill, workers=8, name="kills")
        self._forgotten: WriteQueue[str] = WriteQueue(clock, self._forget, workers=4, batch=64, name="forgotten")
        self._queues = self._kept, self._records, self._holds, self._volumes, self._kills, self._forgotten
        self._creating: set[str] = set()
        self._late_records: set[str] = set()
        """Pods whose record changed while the request to create them was under way."""
        self._held: dict[str, str] = {}
        """The annotation last written to each node."""
        self._announcing: set[asyncio.Task[None]] = set()
        self.wake = asyncio.Event()
        """Set when nodes, pods or the outbox have changed, so that `_drive` runs."""

    # -- start ---------------------------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Restore the master's state from ConfigMaps, pods and nodes; after that it can serve."""
        self._nodes.start()
        self._pods.start()
        await self._nodes.wait_synced()
        await self._pods.wait_synced()
        now = self._clock.now()
        kept, registry = await self._keeper.read()
        state = self._master.state
        state.gone_agents.update(registry.gone_agents)
        state.down_machines.extend(registry.down_machines)
        state.conversions.update(
            (agent, (from_json(old), from_json(new))) for agent, (old, new) in registry.conversions.items()
        )
        self._master.operators.restore(registry.weights, registry.quotas, registry.schedule)
        for agent, (_, new) in state.conversions.items():
            state.set_volumes(volumes_of(agent, new))
        for volume in await self._claims.recover():
            self._volumes.put(volume)  # deletes the claim if no agent has the volume any more
        for record in kept:
            self._master.frameworks.restore(records.restored_framework(record), now)
        nobodys = [name for pod in self._pods.list() if self._is_ours(pod) and (name := self._restore(pod)) is not None]
        for pod in self._pods.list():
            self._count(pod)
        self._dirty_nodes.update((node.metadata.name, None) for node in self._nodes.list())
        self._settle_nodes()
        for pod in self._pods.list():
            if self._is_ours(pod):
                self._master.observe(pod.metadata.name, unit_facts(pod), now)
        for node in self._nodes.list():
            self._held[node.metadata.name] = node.metadata.annotation(HELD_ROOM)
            self._holds.put(node.metadata.name)
        self._forgotten.extend(nobodys)
        self._nodes.add_batch_handler(self._on_nodes)
        self._pods.add_batch_handler(self._on_pods)

    def _restore(self, pod: Pod) -> str | None:
        """Restore one of the master's pods; return its name if its framework is gone, so that it is to be deleted."""
        name = pod.metadata.name
        try:
            record = msgspec.json.decode(pod.metadata.annotation(RECORD), type=records.UnitRecord)
        except msgspec.MsgspecError:
            _log.warning("pod %s says nothing of its tasks and is passed over", pod.metadata.key)
            return None
        return None if self._master.restore_unit(name, record) is not None else name

    async def run(self) -> None:
        """Watch and write until cancelled; `recover` must have run before."""
        try:
            async with asyncio.TaskGroup() as group:
                for queue in self._queues:
                    group.create_task(queue.run())
                group.create_task(self._drive())
                group.create_task(self._batches())
                group.create_task(self._heartbeats())
        finally:
            for task in self._announcing:
                task.cancel()

    async def _drive(self) -> None:
        """Hand changed nodes to the master, write its effects, and make offers that changes allow."""
        while True:
            await self.wake.wait()
            self.wake.clear()
            self._settle_nodes()
            await self.flush()
            if self._master.state.allocator.has_pending:
                self._master.allocate(self._clock.now(), batch=False)
                await self.flush()

    async def _batches(self) -> None:
        while True:
            await self._clock.sleep(self._master.state.options.allocation_interval_seconds)
            now = self._clock.now()
            self._settle_nodes()
            self._master.tick(now)
            self._master.allocate(now, batch=True)
            await self.flush()

    async def _heartbeats(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_SECONDS)
            self._master.heartbeat()

    async def release(self) -> None:
        """Remove the annotations that hold offered resources on nodes; for an orderly end, after `run`."""
        for agent in self._master.state.agents.values():
            agent.offers.clear()
        patches = [patch for node, text in list(self._held.items()) if text and (patch := self._hold_patch(node))]
        if patches:
            await self._send_nodes(patches)

    # -- observations --------------------------------------------------------------------------------------------------

    def _is_ours(self, pod: Pod) -> bool:
        return (
            pod.metadata.namespace == self._settings.namespace and pod.metadata.label(MASTER) == self._settings.master
        )

    def _on_nodes(self, changes: Sequence[Change[Node]]) -> None:
        for change in changes:
            self._dirty_nodes[change.key.name] = None
        self.wake.set()

    def _on_pods(self, changes: Sequence[Change[Pod]]) -> None:
        now = self._clock.now()
        for change in changes:
            old, new = change
            if not self._is_ours(change.object):
                if new is not None:
                    self._count(new)
                elif old is not None:
                    self._uncount(old.metadata.uid)
            elif new is not None:
                self._master.observe(new.metadata.name, unit_facts(new), now)
            else:
                self._master.unit_gone(change.key.name, now)
        self.wake.set()

    def _count(self, pod: Pod) -> None:
        """Count the requests of a pod that is not the master's, if it is bound and has not ended."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        if self._is_ours(pod):
            return
        if not node or pod.is_finished:
            self._uncount(uid)
        elif self._places.get(uid) != node:
            self._uncount(uid)
            self._places[uid] = node
            self._others[node][uid] = pod_use(pod)
            self._dirty_nodes[node] = None

    def _uncount(self, uid: str) -> None:
        node = self._places.pop(uid, None)
        if node is not None:
            self._others[node].pop(uid, None)
            self._dirty_nodes[node] = None

    def _settle_nodes(self) -> None:
        """Hand the nodes that have changed to the master."""
        dirty, self._dirty_nodes = self._dirty_nodes, {}
        now = self._clock.now()
        for name in dirty:
            node = self._nodes.get(("", name))
            known = self._agents.get(name)
            if known is not None and (node is None or agent_id(node) != known):
                del self._agents[name]
                self._held.pop(name, None)
                self._master.remove_agent(known, now)
            if node is not None:
                self._agents[name] = agent_id(node)
                agent = self._master.state.agents.get(agent_id(node))
                was_lost = agent is not None and not agent.is_connected
                others = self._others[name].values() if name in self._others else ()
                seen = self._claims.are_seen_on(node)
                self._master.set_agent(facts_of(node, others, self._settings.dimensions, gives_volumes=seen), now)
                if was_lost and node.is_ready:
                    self._look_again(name, now)

    def _look_again(self, node: str, now: float) -> None:
        """Hand the states of a node's pods to the master, which it ignored while the node was unreachable."""
        for pod in self._pods.list():
            if pod.spec.node_name == node and self._is_ours(pod):
                self._master.observe(pod.metadata.name, unit_facts(pod), now)

    # -- writes --------------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write the effects in the master's outbox; return once frameworks, registry and volumes are stored."""
        box = self._master.take_effects()
        if not box:
            return
        for agent in box.held_agents:
            self._hold(agent)
        for unit in box.saved_units:
            self._records.put(unit)
        if box.offered:
            self._announce(box.offered, box.held_agents)
        kept = (*box.saved_frameworks, *box.removed_frameworks, *((REGISTRY,) if box.saved_registry else ()))
        safe = [*map(self._kept.written, kept), *map(self._volumes.written, box.volumes)]
        if box.launches:
            self._creating.update(launch.unit for launch in box.launches)
            await self._create(box.launches)
        self._kills.extend(box.kills)
        self._forgotten.extend(forgotten.unit for forgotten in box.forgotten)
        for future in safe:
            await future
        for framework in box.removed_frameworks:
            await self._groups.remove(framework)
        if self._master.state.outbox:
            self.wake.set()

    def _hold(self, agent_id_: str) -> None:
        agent = self._master.state.agents.get(agent_id_)
        if agent is not None:
            self._holds.put(agent.facts.node)

    def _announce(self, offered: dict[str, list[str]], agents: dict[str, None]) -> None:
        """Send new offers once their resources are held by an annotation of their node."""
        nodes = {agent.facts.node for name in agents if (agent := self._master.state.agents.get(name)) is not None}
        held = [self._holds.written(node) for node in nodes]

        async def announce() -> None:
            await asyncio.gather(*held)
            for framework, offers in offered.items():
                self._master.offers.announce(framework, offers)

        task = asyncio.get_running_loop().create_task(announce())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def _create(self, launches: Sequence[PodLaunch]) -> None:
        state = self._master.state
        bodies = []
        for launch in launches:
            group = await self._groups.ensure(launch.framework_id, launch.role)
            unit, agent = state.units.get(launch.unit), state.agents.get(launch.agent_id)
            if unit is None or agent is None:
                self._creating.discard(launch.unit)
                continue
            try:
                await self._claims.wait_bound(claims_of(launch.resources, launch.agent_id, self._settings.master))
            except NotBound as error:
                self._end_creating(launch.unit)
                self._master.launch_failed(launch.unit, str(error), self._clock.now())
                continue
            record = records.encode(records.unit_record(unit, launch.executor))
            bodies.append((launch.unit, pod_of(launch, agent.facts.node, group, record, self._settings)))
        left = bodies
        for _ in range(_CREATE_TRIES):
            outcomes = await self._cluster.create_all(catalog.POD, [body for _, body in left], self._settings.namespace)
            again = []
            for (name, body), outcome in zip(left, outcomes, strict=True):
                if isinstance(outcome, Created | AlreadyExists):
                    self._master.created(name)
                elif isinstance(outcome, Unavailable | TooManyRequests):
                    again.append((name, body))
                    continue
                else:
                    self._master.launch_failed(name, f"The pod could not be created: {outcome}", self._clock.now())
                self._end_creating(name)
            left = again
            if not left:
                return
            await self._clock.sleep(_RETRY_SECONDS)
        for name, _ in left:
            self._end_creating(name)
            self._master.launch_failed(
                name, "The pod could not be created: the API server does not answer", self._clock.now()
            )

    def _end_creating(self, name: str) -> None:
        self._creating.discard(name)
        if name in self._late_records:
            self._late_records.discard(name)
            self._records.put(name)

    async def _kill(self, kills: Sequence[Kill]) -> None:
        for kill in kills:
            if kill.unit in self._creating:
                self._kills.add_after(kill, _KILL_AGAIN_SECONDS)
                continue
            try:
                await self._cluster.delete(
                    catalog.POD, kill.unit, self._settings.namespace,
                    grace_period_seconds=max(1, round(kill.grace_seconds)),
                )  # fmt: skip
            except NotFound:
                self._master.unit_gone(kill.unit, self._clock.now())
                self.wake.set()
            except ApiError as error:
                _log.info("pod not deleted yet: pod=%s: %s", kill.unit, error)
                self._kills.add_after(kill, 1.0)

    async def _forget(self, names: Sequence[str]) -> None:
        """Remove the pods' finalizers and delete the pods, even those that no watch has delivered yet."""
        namespace = self._settings.namespace
        patches = [Patch(namespace, name, {"metadata": {"finalizers": None}}) for name in names]
        outcomes = await self._cluster.patch_all(catalog.POD, patches)
        await asyncio.gather(*(self._let_go(name, error) for name, error in zip(names, outcomes, strict=True)))

    async def _let_go(self, name: str, error: ApiError | None) -> None:
        """Delete a pod whose finalizer has been removed; retry later if that failed."""
        if isinstance(error, NotFound):
            if name in self._creating:
                self._forgotten.add_after(name, _KILL_AGAIN_SECONDS)
            return
        try:
            if error is not None:
                raise error
            await self._cluster.delete(catalog.POD, name, self._settings.namespace)
        except NotFound:
            return
        except ApiError as refusal:
            _log.info("pod not let go yet: pod=%s: %s", name, refusal)
            self._forgotten.add_after(name, 1.0)

    def _record_patch(self, name: str) -> Patch | None:
        unit = self._master.state.units.get(name)
        if unit is None:
            return None
        if name in self._creating:
            self._late_records.add(name)
            return None
        executor = unit.executor.info if unit.executor is not None else unit.default_executor or unit.old_executor
        record = records.encode(records.unit_record(unit, executor))
        return Patch(self._settings.namespace, name, {"metadata": {"annotations": {RECORD: record}}})

    async def _send_pods(self, patches: Sequence[Patch]) -> Sequence[ApiError | None]:
        return await self._cluster.patch_all(catalog.POD, patches, patch_type=PatchType.MERGE)

    def _hold_patch(self, node: str) -> Patch | None:
        """Return the patch of a node's annotation with the held resources; None if it is current."""
        agent = self._master.state.agents.get(self._agents.get(node, ""))
        requests = {} if agent is None else requests_of(self._master.offers.held(agent), self._settings.dimensions)
        text = msgspec.json.encode(requests).decode() if requests else ""
        if text == self._held.get(node, ""):
            return None
        self._held[node] = text
        annotations: Json = {HELD_ROOM: text or None}
        return Patch("", node, {"metadata": {"annotations": annotations}})

    async def _send_nodes(self, patches: Sequence[Patch]) -> Sequence[ApiError | None]:
        outcomes = await self._cluster.patch_all(catalog.NODE, patches, patch_type=PatchType.MERGE)
        for patch, error in zip(patches, outcomes, strict=True):
            if error is not None:
                self._held.pop(patch.name, None)
                self._held[patch.name] = "?"  # unknown: differs from any text, so that the next write is sent
        return outcomes
