"""A running cluster for a test: server, controllers, scheduler and hollow nodes in this process, on either clock.

    async with Harness(cluster().queue("q"), nodes="2x4cpu,8Gi") as h:
        await h.apply(vcjob("train").task("worker", 2, cpu="1", run_seconds=30))
        await h.eventually(lambda: h.job("train").status.state.phase == "Completed")

`run_in_virtual_time` runs such a test on the virtual clock, where thirty seconds take no real time. Waiting is driven
by watches: a predicate is evaluated again after every change, never after a sleep.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from strato.api.core import Node, Pod
from strato.api.meta import Object
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.api.wire import User
from strato.client.cluster import Cluster, Json
from strato.client.informer import Informer
from strato.clock import Clock, SystemClock, VirtualClock, run_virtual
from strato.controllers.manager import DEFAULT
from strato.errors import AlreadyExists, StratoError
from strato.node.shapes import parse_nodes
from strato.scheduler.config import parse_config
from strato.scheduler.framework.options import Config
from strato.sim.cluster import ClusterOptions, SimulatedCluster
from strato.testing.manifests import kind_of_manifest
from strato.testing.scenes import Scene, create_with_status

V = TypeVar("V", bound=Object)
T = TypeVar("T")

_WATCHED: tuple[type[Object], ...] = (Pod, Node, Job, PodGroup, Queue)


class ConditionTimeout(StratoError, AssertionError):
    """A condition that a test waited for did not occur in time."""


class Harness:
    """A running cluster in this process; an async context manager.

    Args:
        scene: Objects to create before anything runs.
        nodes: Hollow nodes, as `strato.node.shapes.parse_nodes` reads them; empty for none.
        clock: The machine's clock unless given.
        seed: Seed of all random numbers.
        scheduler: Whether the scheduler runs.
        scheduler_config: Its configuration, as text of Volcano's file or decoded.
        controllers: Names of the controllers that run; empty for none.
        max_lease_rate: Lease renewals of all nodes per second; 0 writes leases that never expire.
    """

    def __init__(
        self,
        scene: Scene | None = None,
        *,
        nodes: str = "",
        clock: Clock | None = None,
        seed: int = 0,
        scheduler: bool = True,
        scheduler_config: str | Config | None = None,
        controllers: Sequence[str] = DEFAULT,
        max_lease_rate: float = 0.0,
    ) -> None:
        self._scene = scene if scene is not None else Scene()
        self.clock: Clock = clock if clock is not None else SystemClock()
        config = parse_config(scheduler_config, "test") if isinstance(scheduler_config, str) else scheduler_config
        self.world = SimulatedCluster(
            self.clock,
            Random(seed),
            ClusterOptions(
                nodes=parse_nodes(nodes) if nodes else (),
                scheduler=scheduler,
                scheduler_config=config,
                controllers=tuple(controllers),
                max_lease_rate=max_lease_rate,
            ),
        )
        self._changed = asyncio.Event()

    @property
    def cluster(self) -> Cluster:
        """A client that may do everything."""
        return self.world.admin

    def cluster_as(self, name: str, *groups: str) -> Cluster:
        """Return a client under another identity."""
        return self.world.cluster_as(User(name, groups))

    async def __aenter__(self) -> Self:
        for view in _WATCHED:
            self.informer(view)
        await self.world.prepare()
        await self._scene.create_in(self.cluster)
        try:
            await self.world.start()
        except BaseException:
            await self.world.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.world.stop()

    # Reading

    def informer(self, view: type[V]) -> Informer[V]:
        """Return the shared informer of a view; its changes make waiting predicates be evaluated again."""
        informer = self.world.informers.informer(view)
        informer.add_batch_handler(self._on_changes)
        return informer

    def get(self, view: type[V], name: str, namespace: str = "default") -> V:
        """Return an object from the informer's cache.

        Raises:
            ConditionTimeout: No object has that name (`eventually` treats this as "not yet").
        """
        informer = self.world.informers.informer(view)
        found = informer.get((namespace, name)) or informer.get(("", name))
        if found is None:
            raise ConditionTimeout(f"no {view.__name__} {namespace}/{name}")
        return found

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """Return a pod from the informer's cache."""
        return self.get(Pod, name, namespace)

    def pods(self, namespace: str = "", **labels: str) -> list[Pod]:
        """Return pods by name, of one namespace and with labels (``_`` in a keyword stands for any of ``-./``)."""
        found = [
            pod
            for pod in self.world.informers.informer(Pod).list()
            if namespace in ("", pod.metadata.namespace) and _has_labels(pod, labels)
        ]
        return sorted(found, key=lambda pod: pod.key)

    def job(self, name: str, namespace: str = "default") -> Job:
        """Return a Volcano job from the informer's cache."""
        return self.get(Job, name, namespace)

    def podgroup(self, name: str, namespace: str = "default") -> PodGroup:
        """Return a pod group from the informer's cache."""
        return self.get(PodGroup, name, namespace)

    def queue(self, name: str) -> Queue:
        """Return a queue from the informer's cache."""
        return self.get(Queue, name, "")

    def placement(self) -> dict[str, str]:
        """Return node by pod name, of the pods that are bound."""
        return {pod.metadata.name: pod.spec.node_name for pod in self.pods() if pod.spec.node_name}

    # Changing

    async def apply(self, *manifests: Mapping[str, Any] | Scene) -> None:
        """Create objects; patch existing ones with the manifest (a merge patch)."""
        for manifest in manifests:
            if isinstance(manifest, Scene):
                await manifest.create_in(self.cluster)
            else:
                await self._apply(manifest)

    async def _apply(self, manifest: Mapping[str, Any]) -> Json:
        kind, metadata = kind_of_manifest(manifest), manifest["metadata"]
        try:
            return await self.cluster.create(kind, manifest, metadata.get("namespace", ""))
        except AlreadyExists:
            return await self.cluster.patch(kind, metadata["name"], metadata.get("namespace", ""), manifest)

    async def create(self, manifest: Mapping[str, Any]) -> Json:
        """Create an object with its status, and return it as stored."""
        return await create_with_status(self.cluster, manifest)

    async def delete(self, view: type[Object], name: str, namespace: str = "default") -> None:
        """Delete an object."""
        await self.cluster.delete(view, name, namespace)

    # Waiting

    async def eventually(
        self, predicate: Callable[[], Any | Awaitable[Any]], *, timeout_seconds: float = 30.0, what: str = ""
    ) -> None:
        """Wait until ``predicate`` holds; it is evaluated now and after every change.

        A predicate may be a coroutine function; `ConditionTimeout`, KeyError and IndexError in it mean "not yet".

        Raises:
            ConditionTimeout: It did not hold in time; the message shows the pods.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    self._changed.clear()
                    if await _holds(predicate):
                        return
                    await self.world.guard(self._changed.wait())
        except TimeoutError:
            wanted = what or inspect.getsource(predicate).strip()
            raise ConditionTimeout(f"after {timeout_seconds:g} s still not: {wanted}\n{self.describe()}") from None

    async def settle(self, *, quiet_seconds: float = 0.5, timeout_seconds: float = 60.0) -> None:
        """Wait until nothing has changed for a while.

        Raises:
            ConditionTimeout: Changes did not stop in time.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    self._changed.clear()
                    try:
                        async with asyncio.timeout(quiet_seconds):
                            await self.world.guard(self._changed.wait())
                    except TimeoutError:
                        return
        except TimeoutError:
            raise ConditionTimeout(f"things still change after {timeout_seconds:g} s\n{self.describe()}") from None

    def describe(self) -> str:
        """Return a few lines about pods and groups, for failure messages."""
        lines = [f"  pod {pod.key}: {pod.status.phase} on {pod.spec.node_name or '-'}" for pod in self.pods()[:50]]
        lines += [
            f"  group {group.key}: {group.status.phase}, wants {group.spec.min_member}"
            for group in self.world.informers.informer(PodGroup).list()[:20]
        ]
        return "\n".join(lines) or "  (no pods)"

    def _on_changes(self, changes: object) -> None:
        self._changed.set()


def run_in_virtual_time(
    test: Callable[[Harness], Awaitable[T]],
    scene: Scene | None = None,
    *,
    start: float = 1_700_000_000.0,
    **options: Any,
) -> T:
    """Run a test on a harness in virtual time, where waiting takes no time at all.

    Args:
        test: Called with the running harness.
        scene: Objects to create before anything runs.
        start: The virtual instant at which it begins.
        options: Further arguments of `Harness`.
    """
    clock = VirtualClock(start)

    async def main() -> T:
        async with Harness(scene, clock=clock, **options) as harness:
            return await test(harness)

    return run_virtual(clock, main())


async def _holds(predicate: Callable[[], Any | Awaitable[Any]]) -> bool:
    try:
        outcome = predicate()
        return bool(await outcome) if inspect.isawaitable(outcome) else bool(outcome)
    except (ConditionTimeout, KeyError, IndexError):
        return False


def _has_labels(pod: Pod, labels: Mapping[str, str]) -> bool:
    return all(
        any(_plain(name) == wanted and value == text for name, value in (pod.metadata.labels or {}).items())
        for wanted, text in labels.items()
    )


def _plain(name: str) -> str:
    return name.replace("-", "_").replace(".", "_").replace("/", "_")
