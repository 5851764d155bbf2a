"""A small world for controllers: the real server in memory, and stand-ins for the scheduler and the kubelets.

The stand-ins use nothing but the API. ``Kubelet`` ends pods as their annotations say: ``test/exit`` (code, default 0)
after ``test/seconds`` (default: runs for ever).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, TypeVar
from unittest import mock

from strato.admission import Chain, ChainOptions
from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.api.wire import Request, Response, User
from strato.client.calls import WireCluster
from strato.client.cluster import Binding, Cluster, PatchType
from strato.client.informer import Change, Informers
from strato.client.local import LocalCluster
from strato.clock import Clock, VirtualClock, format_time, run_virtual
from strato.controllers import EMBEDDED, ControllerManager, ControllerSettings
from strato.controllers.kube.daemonsets import node_of
from strato.errors import NotFound, StratoError
from strato.metrics import Registry
from strato.server import strategies
from strato.server.embedded import in_memory_server
from strato.testing.faults import Faults, FaultyCluster

T = TypeVar("T")
ADMIN = User("admin", ("system:masters",))


class World:
    """Everything of one test."""

    faults: Faults | None = None
    """How the API server treats the controllers; set for a while by `on_server`."""

    def __init__(
        self,
        clock: Clock,
        *,
        enabled: tuple[str, ...] = EMBEDDED,
        admit: bool = True,
        admission: ChainOptions | None = None,
        settings: ControllerSettings | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Registry()
        self.clock = clock
        self.server = in_memory_server(clock, Random(1), chain=Chain(admission or ChainOptions()))
        self.cluster: Cluster = LocalCluster(self.server, ADMIN)
        self.enabled = enabled
        self.admit = admit
        self._tasks: list[asyncio.Task[None]] = []
        self._informers: list[Informers] = []
        self.manager: ControllerManager | None = None
        self._manager_task: asyncio.Task[None] | None = None
        self._manager_informers: Informers | None = None

    async def start(self, cluster: Cluster | None = None) -> None:
        if cluster is None and self.faults is not None:
            cluster = FaultyCluster(self.server, ADMIN, self.clock, Random(5), faults=self.faults)
        for name in ("root", "default"):
            with suppress(StratoError):
                await self.cluster.create(
                    catalog.QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1}} | _type(catalog.QUEUE)
                )
        await self.cluster.patch(catalog.QUEUE, "default", "", {"status": {"state": "Open"}}, subresource="status")
        informers = Informers(self.cluster, self.clock, Random(2))
        self._informers.append(informers)
        if self.admit:
            Scheduler(self, informers)
        Kubelet(self, informers)
        await informers.wait_synced()
        await self.start_controllers(cluster)

    async def start_controllers(self, cluster: Cluster | None = None) -> None:
        cluster = cluster if cluster is not None else self.cluster
        informers = Informers(cluster, self.clock, Random(3))
        self._manager_informers = informers
        self.manager = ControllerManager(
            cluster,
            informers,
            self.clock,
            Random(4),
            enabled=self.enabled,
            metrics=self.metrics,
            settings=self.settings,
        )
        self._manager_task = asyncio.create_task(self.manager.run())

    async def stop_controllers(self) -> None:
        assert self._manager_task is not None
        assert self._manager_informers is not None
        self._manager_task.cancel()
        await asyncio.wait((self._manager_task,))
        await self._manager_informers.stop()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.append(task)

    async def stop(self) -> None:
        await self.stop_controllers()
        for informers in self._informers:
            await informers.stop()
        for task in self._tasks:
            task.cancel()

    # Conveniences

    async def job(self, name: str) -> Job:
        return await self.cluster.get(Job, name, "default")

    async def pods(self) -> dict[str, Pod]:
        page = await self.cluster.list(Pod, "default")
        return {pod.metadata.name: pod for pod in page.items}

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 600.0) -> None:
        if self.faults is not None:
            seconds *= 4
        for _ in range(int(seconds / 0.25)):
            if await condition():
                return
            await self.clock.sleep(0.25)
        raise AssertionError("it did not happen in time")

    async def until_phase(self, name: str, *phases: str, seconds: float = 600.0) -> Job:
        seen = ""

        async def reached() -> bool:
            nonlocal seen
            try:
                seen = (await self.job(name)).status.state.phase
            except NotFound:
                seen = "not there"
            return seen in phases

        try:
            await self.until(reached, seconds)
        except AssertionError:
            raise AssertionError(f"job {name} is {seen}, not {phases}") from None
        return await self.job(name)

    async def settle(self, seconds: float = 5.0) -> None:
        await self.clock.sleep(seconds if self.faults is None else seconds + 150.0)

    async def command(self, action: str, job: Job) -> None:
        body = {
            "metadata": {"generateName": "cmd-", "namespace": "default"},
            "action": action,
            "target": {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": job.metadata.name,
                "uid": job.metadata.uid,
            },
        }
        await self.cluster.create(catalog.COMMAND, body | _type(catalog.COMMAND), "default")


class MeddlingCluster(LocalCluster):
    """What its `exchange` does to requests happens to those that are sent together as well."""

    exchange_all = WireCluster.exchange_all


class DyingCluster(MeddlingCluster):
    """Sends a number of writes, the last without telling its answer, and then hangs: a process that was killed."""

    def __init__(self, world: World, writes: int) -> None:
        super().__init__(world.server, ADMIN)
        self._left = writes
        self.dead = asyncio.Event()

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        if request.method != "GET" and "/events" not in request.path:
            self._left -= 1
            if self._left == 0:
                await super().exchange(request, stream=stream)
            if self._left <= 0:
                self.dead.set()
                await asyncio.Event().wait()
        return await super().exchange(request, stream=stream)


class Scheduler:
    """Admits every group at once and binds every pod to the node its affinity names, else to ``n``."""

    def __init__(self, world: World, informers: Informers) -> None:
        self._world = world
        informers.informer(PodGroup).add_handler(self._on_group)
        informers.informer(Pod).add_handler(self._on_pod)

    def _on_group(self, change: Change[PodGroup]) -> None:
        if change.new is not None and change.new.status.phase in ("", "Pending"):
            self._world.spawn(self._admit(change.new))

    async def _admit(self, group: PodGroup) -> None:
        with suppress(StratoError):
            await self._world.cluster.patch(
                PodGroup, group.metadata.name, group.metadata.namespace, {"status": {"phase": "Inqueue"}}
            )

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new
        if (
            pod is not None
            and change.old is None
            and not pod.spec.node_name
            and not pod.metadata.annotation("test/unbound")
        ):
            self._world.spawn(self._bind(pod))

    async def _bind(self, pod: Pod) -> None:
        binding = Binding(pod.metadata.namespace, pod.metadata.name, node_of(pod) or "n")
        await self._world.cluster.bind_all([binding])  # what it refuses is refused


class Kubelet:
    """Runs every bound pod."""

    def __init__(self, world: World, informers: Informers) -> None:
        self._world = world
        informers.informer(Pod).add_handler(self._on_pod)

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None or not pod.spec.node_name:
            return
        was_bound = change.old is not None and change.old.spec.node_name
        if pod.metadata.deletion_timestamp is not None:
            if change.old is None or change.old.metadata.deletion_timestamp is None:
                self._world.spawn(self._end(pod))
        elif not was_bound and pod.status.phase in ("", "Pending"):
            self._world.spawn(self._run(pod))

    async def _run(self, pod: Pod) -> None:
        await self._status(pod, "Running")
        seconds = pod.metadata.annotation("test/seconds")
        if seconds:
            await self._world.clock.sleep(float(seconds))
            code = int(pod.metadata.annotation("test/exit", "0"))
            await self._status(pod, "Failed" if code else "Succeeded", code)

    async def _status(self, pod: Pod, phase: str, code: int = 0) -> None:
        ended = phase != "Running"
        state = {"terminated": {"exitCode": code}} if ended else {"running": {}}
        status = {
            "phase": phase,
            "podIP": "10.0.0.1",
            "startTime": pod.status.start_time or format_time(self._world.clock.now()),
            "containerStatuses": [
                {"name": c.name, "image": c.image, "imageID": "", "restartCount": 0, "ready": not ended, "state": state}
                for c in pod.spec.containers
            ],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False" if ended else "True",
                    "lastTransitionTime": format_time(self._world.clock.now()),
                }
            ],
        }
        with suppress(StratoError):
            await self._world.cluster.patch(
                Pod,
                pod.metadata.name,
                pod.metadata.namespace,
                {"metadata": {"uid": pod.metadata.uid}, "status": status},
                patch_type=PatchType.MERGE,
                subresource="status",
            )

    async def _end(self, pod: Pod) -> None:
        if pod.is_awaited:
            await self._status(pod, "Failed", 143)
        with suppress(NotFound, StratoError):
            await self._world.cluster.delete(
                Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_period_seconds=0
            )


@contextmanager
def on_server(faults: Faults) -> Iterator[None]:
    """Let the API server misbehave towards controllers; whoever waits for them waits longer."""
    with mock.patch.object(World, "faults", faults):
        yield


@contextmanager
def born_without_status(wanted: bool = True) -> Iterator[None]:
    """As on a real API server, which knows nothing of Volcano Jobs: their first status is the controller's to write."""
    born = strategies._CUSTOM if wanted else strategies._CUSTOM_JOB
    with mock.patch.object(strategies, "_CUSTOM_JOB", born):
        yield


def play(scenario: Callable[[World], Awaitable[T]], **options: Any) -> T:
    """Run a scenario in virtual time."""
    clock = VirtualClock()

    async def main() -> T:
        world = World(clock, **options)
        await world.start()
        try:
            return await scenario(world)
        finally:
            await world.stop()

    return run_virtual(clock, main())


def _type(kind: Any) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.name}


def task(name: str = "w", replicas: int = 2, **more: Any) -> dict[str, Any]:
    """A task whose pods run for ever, or as ``seconds`` and ``code`` say."""
    annotations = {}
    if "seconds" in more:
        annotations["test/seconds"] = str(more.pop("seconds"))
    if "code" in more:
        annotations["test/exit"] = str(more.pop("code"))
    return {
        "name": name,
        "replicas": replicas,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            },
        },
        **more,
    }


def vcjob(name: str = "j", *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Volcano Job in the default queue."""
    return {
        **_type(catalog.VCJOB),
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "volcano", "queue": "default", "tasks": list(tasks or (task(),)), **spec},
    }
