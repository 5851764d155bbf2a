"""The scheduler against an embedded server: informers in, binds, statuses and events out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.api.wire import User
from strato.client.cluster import Binding, Patch
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, NotFound, StratoError, Unavailable
from strato.scheduler import Scheduler
from strato.scheduler.config import parse_config
from strato.server.embedded import in_memory_server
from tests.scheduler import parts, worlds
from tests.scheduler.fabrics import TOPOLOGY, fabric, gang

Json = dict[str, Any]
Test = Callable[..., Coroutine[Any, Any, None]]


KINDS = {
    "HyperNode": catalog.HYPERNODE,
    "Node": catalog.NODE,
    "Pod": catalog.POD,
    "PodGroup": catalog.PODGROUP,
    "Queue": catalog.QUEUE,
}


def manifest(obj: Json) -> Json:
    kind = KINDS[obj["kind"]]
    made = {"apiVersion": kind.api_version, **obj}
    made["metadata"] = {k: v for k, v in obj["metadata"].items() if k != "uid"}
    if obj["kind"] == "Pod":
        for container in made["spec"]["containers"]:
            container["image"] = "img"
    return made


async def create(cluster: LocalCluster, *objects: Json) -> None:
    for obj in objects:
        kind = KINDS[obj["kind"]]
        body = manifest(obj)
        namespace = obj["metadata"].get("namespace", "")
        await cluster.create(kind, body, namespace)
        if obj["kind"] == "Node":
            await cluster.patch(kind, obj["metadata"]["name"], "", {"status": obj["status"]}, subresource="status")


class Fragile(LocalCluster):
    """Fails the next binds as told, and lets patches of PodGroups take their time."""

    failing: int = 0
    group_seconds: float = 0.0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.group_patches: list[Patch] = []
        self.group_calls = 0
        self.groups_away: set[str] = set()

    async def bind_all(self, bindings: Sequence[Binding]) -> Sequence[ApiError | None]:
        answers: list[ApiError | None] = []
        for binding in bindings:
            if self.failing:
                self.failing -= 1
                answers.append(Unavailable("the server is away"))
            else:
                answers += await super().bind_all([binding])
        return answers

    async def patch_all(self, kind: Any, patches: Sequence[Patch], **more: Any) -> Sequence[ApiError | None]:
        if kind is not catalog.PODGROUP:
            return await super().patch_all(kind, patches, **more)
        self.group_calls += 1
        answers: list[ApiError | None] = []
        for patch in patches:
            self.group_patches.append(patch)
            await asyncio.sleep(self.group_seconds)
            if patch.name in self.groups_away:
                self.groups_away.remove(patch.name)
                answers.append(Unavailable("the server is away"))
            else:
                answers += await super().patch_all(kind, [patch], **more)
        return answers


@asynccontextmanager
async def running(clock: VirtualClock, **options: Any) -> AsyncIterator[tuple[Fragile, Scheduler]]:
    server = in_memory_server(clock)
    cluster = Fragile(server, User("admin", groups=("system:masters",)))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    await cluster.create(catalog.NAMESPACE, namespace)
    informers = Informers(cluster, clock, Random(1))
    scheduler = parts.scheduler(cluster, informers, clock, **options)
    task = asyncio.get_running_loop().create_task(scheduler.run())
    try:
        await asyncio.wait_for(scheduler.ready.wait(), 60)
        await clock.sleep(1.0)
        queue = options.get("default_queue", "default")
        await cluster.patch(catalog.QUEUE, queue, "", {"status": {"state": "Open"}}, subresource="status")
        yield cluster, scheduler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await informers.stop()


def virtually(test: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()
    run_virtual(clock, test(clock))


def phase_in(patch: Patch) -> str:
    assert isinstance(patch.body, dict)
    phase: str = patch.body["status"]["phase"]
    return phase


async def nodes_of(cluster: LocalCluster) -> dict[str, str]:
    page = await cluster.list(Pod)
    return {pod.metadata.name: pod.spec.node_name for pod in page.items}


@pytest.mark.parametrize("ticks", range(4))
def test_scheduler_that_is_stopped_in_the_moment_it_wakes_stops(ticks: int) -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (_, scheduler):
            await clock.sleep(10)
            scheduler.wake()  # nothing to place: the status can wait a moment
            await clock.sleep(0.001)
            scheduler.world.schedulable_generation += 1
            scheduler.wake()
            for _ in range(ticks):
                await clock.sleep(0)

    virtually(story)


def test_gang_is_bound_and_told() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1"), worlds.group("train", 2, phase="Pending"))
            await clock.sleep(0.5)
            group = await cluster.get(PodGroup, "train", "ns")
            assert group.status.phase == "Inqueue"
            await create(cluster, worlds.pod("a", "train"), worlds.pod("b", "train"))
            await clock.sleep(1.0)
            assert await nodes_of(cluster) == {"a": "n1", "b": "n1"}
            await clock.sleep(3.0)
            group = await cluster.get(PodGroup, "train", "ns")
            assert group.status.phase == "Running"
            assert [c.type for c in group.status.conditions] == ["Scheduled"]
            queue = await cluster.get(Queue, "default")
            assert queue.status.allocated["cpu"] == "2"
            events = (await cluster.list(catalog.EVENT, "ns")).items
            assert {(e["reason"], e["message"]) for e in events} >= {
                ("Scheduled", "Successfully assigned ns/a to n1"),
                ("Scheduled", "pod group is ready"),
            }

    virtually(story)


@pytest.mark.parametrize("actions", ["enqueue, allocate", "enqueue, flow"], ids=["pods ask for it", "configured"])
def test_flow_places_as_soon_as_its_kernels_are_loaded(actions: str) -> None:
    async def story(clock: VirtualClock) -> None:
        loads: list[float] = []

        async def load() -> None:
            loads.append(clock.now())
            await clock.sleep(30)

        config = parse_config(f'actions: "{actions}"\ntiers:\n- plugins: [{{name: predicates}}]\n')
        async with running(clock, config=config, load_flow=load) as (cluster, _):
            await create(cluster, worlds.node("n1", cpu="8"), worlds.pod("first", scheduler="poseidon"))
            await clock.sleep(5)
            assert await nodes_of(cluster) == {"first": "n1"}
            await clock.sleep(30)
            await create(cluster, worlds.pod("second", scheduler="poseidon"))
            await clock.sleep(5)
            told = {e["message"] for e in (await cluster.list(catalog.EVENT, "ns")).items if e["reason"] == "Scheduled"}
            by_flow = {text.split()[2] for text in told if "flow: place" in text}
            assert by_flow == ({"ns/second"} if "allocate" in actions else {"ns/first", "ns/second"})
            assert len(loads) == 1

    virtually(story)


def test_kernels_that_cannot_be_loaded_are_done_without() -> None:
    async def story(clock: VirtualClock) -> None:
        async def load() -> None:
            raise OSError("the disk is full")

        async with running(clock, load_flow=load) as (cluster, _):
            await create(cluster, worlds.node("n1"), worlds.pod("first", scheduler="poseidon"))
            await clock.sleep(5)
            await create(cluster, worlds.pod("second", scheduler="poseidon"))
            await clock.sleep(5)
            assert await nodes_of(cluster) == {"first": "n1", "second": "n1"}

    virtually(story)


def test_gang_stays_in_its_domain_and_the_group_says_which() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock, config=parse_config(TOPOLOGY)) as (cluster, scheduler):
            await create(cluster, *fabric((2, 2, 1)), *gang("train", 6, 6, 1))
            await clock.sleep(2.0)
            leaves = {node[:4] for node in (await nodes_of(cluster)).values()}
            assert len(leaves) == 1
            group = await cluster.get(PodGroup, "train", "ns")
            assert {group.metadata.annotation("volcano.sh/job-allocated-hypernode")} == leaves
            await create(cluster, *gang("large", 9, 9, 1))
            await clock.sleep(2.0)
            found = scheduler.diagnosis("ns/large")
            assert found is not None
            assert "no HyperNode up to tier 1 holds the job" in found.summary

    virtually(story)


def test_gang_that_does_not_fit_is_explained_and_later_placed() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, scheduler):
            await create(cluster, worlds.node("n1", cpu="1"), worlds.group("train", 2))
            await create(cluster, worlds.pod("a", "train"), worlds.pod("b", "train"))
            await clock.sleep(2.0)
            assert await nodes_of(cluster) == {"a": "", "b": ""}
            found_on = [pod.status.condition("PodScheduled") for pod in (await cluster.list(Pod)).items]
            told = {c.reason: c.message for c in found_on if c is not None}
            assert "queue default has no share left" in told["Unschedulable"]
            assert "can possibly be assigned to n1, once minAvailable is satisfied" in told["Schedulable"]
            group = await cluster.get(PodGroup, "train", "ns")
            found = {c.type: c for c in group.status.conditions}
            assert found["Unschedulable"].reason == "NotEnoughResources"
            diagnosis = scheduler.diagnosis("ns/train")
            assert diagnosis is not None
            # they are equal: the uids that the server drew say which is asked first
            assert diagnosis.summary in {f"queue default has no share left for ns/{name}" for name in "ab"}
            await create(cluster, worlds.node("n2", cpu="1"))
            await clock.sleep(0.5)
            assert sorted((await nodes_of(cluster)).values()) == ["n1", "n2"]

    virtually(story)


def test_gang_is_told_that_pods_are_missing_once_no_more_come() -> None:
    """While they come, pods of the gang are left alone, and a pod that can be placed does not wait for them."""

    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1"), worlds.group("train", 20), worlds.group("single", 1))
            for number in range(10):
                await create(cluster, worlds.pod(f"p{number}", "train"))
                await clock.sleep(0.3)
            assert await told(cluster) == {}
            assert [c.type for c in (await cluster.get(PodGroup, "train", "ns")).status.conditions] == []
            await create(cluster, worlds.pod("now", "single"))
            await clock.sleep(0.02)
            assert (await nodes_of(cluster))["now"] == "n1"
            await clock.sleep(2.0)
            assert set((await told(cluster)).values()) == {"Unschedulable"}
            assert len(await told(cluster)) == 10
            (condition,) = (await cluster.get(PodGroup, "train", "ns")).status.conditions
            assert "10 Pending, 20 minAvailable" in condition.message
            await create(cluster, worlds.node("n2", cpu="32", memory="64Gi"))
            await create(cluster, *(worlds.pod(f"p{number}", "train") for number in range(10, 20)))
            await clock.sleep(0.1)
            assert all((await nodes_of(cluster)).values())

    virtually(story)


def test_status_of_a_group_is_sent_once_however_long_a_busy_server_takes() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            cluster.group_seconds = 5.0
            await create(cluster, worlds.group("big", 1), worlds.pod("a", "big", cpu="100"))
            for number in range(8):  # each has the pod tried again
                await create(cluster, worlds.node(f"n{number}"))
                await clock.sleep(0.5)
            phases = [phase_in(patch) for patch in cluster.group_patches]
            assert phases.count("Inqueue") == 1
            await clock.sleep(20.0)
            assert (await cluster.get(PodGroup, "big", "ns")).status.phase == "Inqueue"
            cluster.group_patches.clear()
            await cluster.patch(catalog.PODGROUP, "big", "ns", {"status": {"phase": "Pending"}})
            await clock.sleep(20.0)
            assert (await cluster.get(PodGroup, "big", "ns")).status.phase == "Inqueue", (
                "what others undo is sent again"
            )

    virtually(story)


def test_pod_made_anew_under_its_name_is_told_the_same_words_again() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1"), worlds.group("big", 1), worlds.pod("a", "big", cpu="100"))
            await clock.sleep(1.0)
            assert await told(cluster) == {"a": "Unschedulable"}
            await cluster.delete(catalog.POD, "a", "ns")
            await create(cluster, worlds.pod("a", "big", cpu="100"))
            assert await told(cluster) == {}
            await clock.sleep(1.0)
            assert await told(cluster) == {"a": "Unschedulable"}

    virtually(story)


async def told(cluster: LocalCluster) -> dict[str, str]:
    """Return by pod the reason it was given for waiting."""
    found = {pod.metadata.name: pod.status.condition("PodScheduled") for pod in (await cluster.list(Pod)).items}
    return {name: c.reason for name, c in found.items() if c is not None and c.status == "False"}


def test_pod_without_group_of_the_default_scheduler_is_served() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1"))
            await create(
                cluster, worlds.pod("plain", scheduler="default-scheduler"), worlds.pod("other", scheduler="x")
            )
            await clock.sleep(0.2)
            assert await nodes_of(cluster) == {"plain": "n1", "other": ""}

    virtually(story)


def test_failed_binds_are_tried_again_and_then_decided_again() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1"))
            cluster.failing = 7  # five attempts of the first bind, two of the next
            await create(cluster, worlds.pod("plain", scheduler="default-scheduler"))
            await clock.sleep(10.0)
            assert await nodes_of(cluster) == {"plain": "n1"}

    virtually(story)


def test_queues_are_made_at_start() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock, default_queue="batch") as (cluster, _):
            page = await cluster.list(Queue)
            assert {q.metadata.name: q.spec.reclaimable for q in page.items} == {"root": False, "batch": True}

    virtually(story)


def test_configuration_is_reloaded_and_bad_ones_are_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(clock: VirtualClock) -> None:
        path = tmp_path / "scheduler.conf"
        path.write_text('actions: "enqueue, allocate"\n')
        async with running(clock, config=path) as (_, scheduler):
            assert scheduler.config.actions == ("enqueue", "allocate")
            path.write_text('actions: "enqueue, alocate"\n')
            await clock.sleep(2.5)
            assert scheduler.config.actions == ("enqueue", "allocate")
            assert "did you mean 'allocate'" in caplog.text
            assert not scheduler.reconfigured.is_set()
            path.write_text('actions: "enqueue, allocate, backfill"\n')
            await clock.sleep(2.5)
            assert scheduler.config.actions == ("enqueue", "allocate", "backfill")
            assert scheduler.reconfigured.is_set()

    virtually(story)


@pytest.mark.parametrize("late", [0.05, 5.0], ids=["pods that run soon", "pods that take their time to run"])
def test_group_is_written_once_when_admitted_and_once_when_it_runs(late: float) -> None:
    """A group whose pods run soon after they are bound is called Running with its counters, not before them."""

    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1"), worlds.group("train", 2, phase="Pending"))
            await clock.sleep(0.5)
            await create(cluster, worlds.pod("a", "train"), worlds.pod("b", "train"))
            seen: list[tuple[str, int]] = []
            start = (await cluster.get(PodGroup, "train", "ns")).metadata.resource_version
            watch = asyncio.get_running_loop().create_task(follow(cluster, start, seen))
            await clock.sleep(late)
            for name in ("a", "b"):
                await cluster.patch(Pod, name, "ns", {"status": {"phase": "Running"}}, subresource="status")
            await clock.sleep(5.0)
            watch.cancel()
            assert seen == ([("Running", 2)] if late < 0.2 else [("Running", 0), ("Running", 2)])

    virtually(story)


def test_counters_of_a_gang_whose_pods_start_one_by_one_are_written_every_few_seconds() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            pods = [f"p{number}" for number in range(20)]
            await create(cluster, worlds.node("n1", cpu="32", memory="64Gi"), worlds.group("train", 20))
            await create(cluster, *(worlds.pod(name, "train") for name in pods))
            await clock.sleep(1.0)
            seen: list[tuple[str, int]] = []
            start = (await cluster.get(PodGroup, "train", "ns")).metadata.resource_version
            watch = asyncio.get_running_loop().create_task(follow(cluster, start, seen))
            for name in pods:
                await cluster.patch(Pod, name, "ns", {"status": {"phase": "Running"}}, subresource="status")
                await clock.sleep(0.5)
            await clock.sleep(5.0)
            watch.cancel()
            assert len(seen) <= 5
            assert seen[-1] == ("Running", 20)

    virtually(story)


def test_groups_that_run_are_told_so_when_a_burst_is_over() -> None:
    """While jobs come, groups are admitted and pods bound; that they run is said later, once for each and together."""

    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1", cpu="110", memory="640Gi"))
            names = [f"j{number:02}" for number in range(96)]
            for at in range(0, 96, 8):  # eight jobs in each tenth of a second, whose pods run a moment later
                some = names[at : at + 8]
                await create(cluster, *(worlds.group(name, 1, phase="Pending") for name in some))
                await create(cluster, *(worlds.pod(name, name) for name in some))
                await clock.sleep(0.05)
                for name in some:
                    await cluster.patch(Pod, name, "ns", {"status": {"phase": "Running"}}, subresource="status")
                await clock.sleep(0.05)
            assert all((await nodes_of(cluster)).values())
            phases = [phase_in(patch) for patch in cluster.group_patches]
            assert phases.count("Inqueue") == 96
            assert phases.count("Running") < 48, "only those before it was a burst"
            calls = cluster.group_calls
            await clock.sleep(1.0)
            assert [phase_in(patch) for patch in cluster.group_patches].count("Running") == 96
            assert cluster.group_calls - calls <= 3
            groups = (await cluster.list(PodGroup, "ns")).items
            assert {(group.status.phase, group.status.running) for group in groups} == {("Running", 1)}

    virtually(story)


def test_group_status_that_is_not_taken_by_a_busy_server_is_sent_again() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            cluster.groups_away = {"b"}
            await create(cluster, *(worlds.group(name, 1, phase="Pending") for name in "abc"))
            await clock.sleep(2.0)
            groups = (await cluster.list(PodGroup, "ns")).items
            assert {group.status.phase for group in groups} == {"Inqueue"}
            assert sorted(patch.name for patch in cluster.group_patches) == ["a", "b", "b", "c"]

    virtually(story)


async def follow(cluster: LocalCluster, start: str, seen: list[tuple[str, int]]) -> None:
    async for events in cluster.watch(PodGroup, "ns", resource_version=start):
        seen.extend((event.object.status.phase, event.object.status.running) for event in events)


def test_quiet_cluster_writes_nothing() -> None:
    async def story(clock: VirtualClock) -> None:
        async with running(clock) as (cluster, _):
            await create(cluster, worlds.node("n1"), worlds.group("train", 1), worlds.pod("a", "train"))
            await create(cluster, worlds.group("big", 1), worlds.pod("b", "big", cpu="100"))
            await clock.sleep(20.0)
            before = (await cluster.list(Pod)).resource_version
            await clock.sleep(60.0)
            assert (await cluster.list(Pod)).resource_version == before

    virtually(story)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        pytest.param(NotFound("no such resource"), "no such resource; are the CRDs installed[?]", id="no definitions"),
        pytest.param(
            Unavailable("the disk is full"), "in 60 attempts: the disk is full$", id="a server that cannot write"
        ),
    ],
)
def test_it_gives_up_on_its_queues_with_the_reason(refusal: ApiError, words: str) -> None:
    class Refusing(LocalCluster):
        async def create(self, *args: Any, **more: Any) -> Any:
            raise refusal

    async def story(clock: VirtualClock) -> None:
        cluster = Refusing(in_memory_server(clock), User("admin", groups=("system:masters",)))
        informers = Informers(cluster, clock, Random(1))
        with pytest.raises(StratoError, match=words):
            await Scheduler(cluster, informers, clock, Random(1)).run()
        await informers.stop()

    virtually(story)
