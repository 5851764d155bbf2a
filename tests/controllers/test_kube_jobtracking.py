"""Pods of batch/v1 Jobs are counted exactly once, whoever deletes them and whenever the controller dies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.batch import Job, JobSpec, JobStatus, UncountedTerminatedPods
from strato.api.core import Pod
from strato.api.core.pod import PodStatus
from strato.api.meta import ObjectMeta
from strato.client.cluster import PatchType
from strato.controllers.kube.jobtracking import FINALIZER, carriers, is_tracked, track
from strato.errors import NotFound
from tests.controllers.test_kube_jobs import ENABLED, body, conditions, failing
from tests.controllers.world import DyingCluster, World, play


def pod(uid: str, phase: str = "Running", *, tracked: bool = True) -> Pod:
    finalizers = [FINALIZER] if tracked else None
    return Pod(metadata=ObjectMeta(name=uid, uid=uid, finalizers=finalizers), status=PodStatus(phase=phase))


def listing(
    succeeded: Sequence[str] = (), failed: Sequence[str] = (), counts: tuple[int, int] = (0, 0), **spec: Any
) -> Job:
    listed = UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    status = JobStatus(uncounted_terminated_pods=listed, succeeded=counts[0], failed=counts[1])
    return Job(spec=JobSpec(**spec), status=status)


CASES = [
    pytest.param(listing(), [pod("a")], {}, (0, 0, [], [], []), id="a pod that runs is left alone"),
    pytest.param(listing(), [pod("a", "Succeeded")], {}, (0, 0, ["a"], [], ["a"]), id="an ended one is listed first"),
    pytest.param(listing(succeeded=("a",)), [pod("a", "Succeeded")], {}, (0, 0, ["a"], [], ["a"]), id="and only once"),
    pytest.param(listing(succeeded=("a",), counts=(3, 0)), [], {}, (4, 0, [], [], []), id="then counted"),
    pytest.param(listing(failed=("a",), counts=(0, 1)), [], {}, (0, 2, [], [], []), id="failures too"),
    pytest.param(listing(), [pod("a")], {"terminating": {"a"}}, (0, 0, [], ["a"], ["a"]), id="a deleted one failed"),
    pytest.param(listing(), [pod("a", "Failed")], {"kept": {"a"}}, (0, 0, [], [], []), id="one that is still needed"),
    pytest.param(listing(), [pod("a")], {"ends": True}, (0, 0, [], [], ["a"]), id="a success ends the others"),
    pytest.param(
        listing(), [pod("a")], {"ends": True, "fails": True}, (0, 0, [], ["a"], ["a"]), id="a failure fails the others"
    ),
    pytest.param(
        listing(completion_mode="Indexed", completions=1),
        [pod("a", "Succeeded")],
        {},
        (0, 0, [], [], ["a"]),
        id="indexes need no list",
    ),
]
"""Job, pods with the finalizer, what else is so; counts, lists and who loses the finalizer."""


@pytest.mark.parametrize(("job", "tracked", "more", "want"), CASES)
def test_what_the_next_status_says(job: Job, tracked: list[Pod], more: dict[str, Any], want: tuple[Any, ...]) -> None:
    options: dict[str, Any] = {"terminating": set(), "kept": set(), "ends": False, "fails": False, **more}
    said = track(job, tracked, options.pop("terminating"), options.pop("kept"), **options)
    stripped = [one.metadata.uid for one in said.strip]
    assert (said.succeeded, said.failed, said.listed_succeeded, said.listed_failed, stripped) == want
    assert said.is_settled == (not any(want[2:]))


@given(st.lists(st.sampled_from(["Succeeded", "Failed"]), max_size=40), st.randoms(use_true_random=False))
def test_every_pod_is_counted_once(phases: list[str], random: Any) -> None:
    """Any order in which finalizers go, and statuses that are written twice, lead to the same counts."""
    pods = [pod(str(number), phase) for number, phase in enumerate(phases)]
    job = listing()
    for _ in range(len(pods) + 5):
        said = track(job, pods, (), (), ends=False, fails=False)
        job = listing(said.listed_succeeded, said.listed_failed, (said.succeeded, said.failed))
        if not pods and said.is_settled:
            break
        gone = {one.metadata.uid for one in said.strip if len(pods) < 3 or random.random() < 0.7}
        pods = [one for one in pods if one.metadata.uid not in gone]
    assert (job.status.succeeded, job.status.failed) == (phases.count("Succeeded"), phases.count("Failed"))


def test_one_status_lists_so_many_and_no_more() -> None:
    said = track(listing(), [pod(str(n), "Failed") for n in range(501)], (), (), ends=False, fails=False)
    assert (len(said.listed_failed), len(said.strip)) == (500, 500)


def test_the_last_failure_of_an_index_stays_until_the_next_pod_carries_it_on() -> None:
    spec = JobSpec(completions=2, completion_mode="Indexed", backoff_limit_per_index=3)
    tracked = [failing("a", 1, 0, 0), failing("b", 1, 0, 1), failing("c", 1, 1, 0)]
    assert carriers(spec, tracked, (), {1}) == {"b"}
    assert carriers(spec, tracked, (), {0, 1}) == set()
    assert carriers(JobSpec(), tracked, (), set()) == set()


# Life


async def seen(world: World) -> Job:
    return await world.cluster.get(Job, "j", "default")


def test_a_pod_that_is_deleted_before_it_was_counted_is_counted() -> None:
    """The controller is away while a pod ends and somebody removes it."""

    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(5, completions=2, parallelism=1), "default")
        await world.settle(2)
        await world.stop_controllers()
        await world.clock.sleep(5)
        (name,) = await world.pods()
        await world.cluster.delete(catalog.POD, name, "default", grace_period_seconds=0)
        assert set(await world.pods()) == {name}
        await world.start_controllers()
        await world.settle(10)
        job = await seen(world)
        assert (job.status.succeeded, job.status.failed) == (2, 0)
        assert len(await world.pods()) == 1

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
def test_a_pod_is_counted_where_no_new_one_can_be_made(policy: str) -> None:
    """A namespace that is being deleted takes no pods, and does not go before the old ones have."""

    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.NAMESPACE, {"metadata": {"name": "going"}})
        job = {**body(500, podReplacementPolicy=policy), "metadata": {"name": "j", "namespace": "going"}}
        await world.cluster.create(catalog.JOB, job, "going")
        await world.settle(5)
        assert len((await world.cluster.list(Pod, "going")).items) == 1
        await world.cluster.delete(catalog.NAMESPACE, "going")

        async def is_gone() -> bool:
            return "going" not in {
                one["metadata"]["name"] for one in (await world.cluster.list(catalog.NAMESPACE)).items
            }

        await world.until(is_gone, 300)

    play(scenario, enabled=(*ENABLED, "kube-namespace-controller"))


def test_a_pod_that_was_deleted_before_it_came_to_a_node_is_replaced_once_it_has_failed() -> None:
    """No kubelet says how it ended, and replacements wait for that."""

    async def scenario(world: World) -> None:
        job = body(500, podReplacementPolicy="Failed")
        job["spec"]["template"].setdefault("metadata", {})["annotations"] = {"test/unbound": "yes"}
        await world.cluster.create(catalog.JOB, job, "default")
        await world.settle(2)
        (name,) = await world.pods()
        await world.cluster.delete(catalog.POD, name, "default")
        await world.settle(30)
        (other,) = await world.pods()
        assert other != name
        assert (await seen(world)).status.failed == 1

    play(scenario, enabled=(*ENABLED, "kube-pod-garbage-collector"))


def test_a_pod_of_a_node_that_is_gone_has_failed_by_disruption() -> None:
    async def scenario(world: World) -> None:
        held = {"name": "p", "finalizers": ["example.com/counts"]}
        spec = {"nodeName": "nowhere", "containers": [{"name": "c", "image": "x"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": held, "spec": spec}
        for one in (body, body | {"metadata": {"name": "free"}}):
            await world.cluster.create(catalog.POD, one, "default")
        await world.settle(60)
        pods = await world.pods()
        assert set(pods) == {"p"}
        assert pods["p"].status.phase == "Failed"
        condition = pods["p"].status.condition("DisruptionTarget")
        assert condition is not None
        assert condition.reason == "DeletionByPodGC"

    play(scenario, enabled=("kube-node-lifecycle-controller",))


@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
@pytest.mark.parametrize("writes", range(1, 24, 2))
def test_a_controller_that_dies_counts_no_pod_twice(writes: int, mode: str) -> None:
    """Whatever its last write was, the next one finds the counts right: no pod is made or counted again."""

    async def scenario(world: World) -> None:
        await world.stop_controllers()
        await world.start_controllers(DyingCluster(world, writes))
        await world.cluster.create(catalog.JOB, body(3, completions=4, parallelism=2, completionMode=mode), "default")
        await world.settle(12)
        await world.stop_controllers()
        await world.start_controllers()
        await world.settle(20)
        job = await seen(world)
        assert conditions(job) == {"SuccessCriteriaMet": "True", "Complete": "True"}
        assert (job.status.succeeded, job.status.failed) == (4, 0)
        assert job.status.uncounted_terminated_pods == UncountedTerminatedPods()
        pods = await world.pods()
        assert len(pods) == 4
        assert not any(map(is_tracked, pods.values()))

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("seconds", [pytest.param(None, id="running"), pytest.param(1, id="ended")])
def test_the_pods_of_a_deleted_job_go_with_it(propagation: str, seconds: float | None) -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(seconds, completions=2, parallelism=1), "default")
        await world.settle(3)
        await world.cluster.delete(catalog.JOB, "j", "default", propagation=propagation)
        await world.settle(5)
        with pytest.raises(NotFound):
            await seen(world)
        assert not await world.pods()

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("while_away", [False, True], ids=["at once", "after a restart"])
def test_pods_that_a_job_leaves_behind_lose_the_finalizer(while_away: bool) -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(None, completions=2, parallelism=2), "default")
        await world.settle(3)
        assert all(map(is_tracked, (await world.pods()).values()))
        if while_away:
            await world.stop_controllers()
        await world.cluster.delete(catalog.JOB, "j", "default", propagation="Orphan")
        if while_away:
            await world.start_controllers()
        await world.settle(5)
        pods = await world.pods()
        assert len(pods) == 2
        assert not any(one.metadata.owner_references or one.metadata.finalizers for one in pods.values())

    play(scenario, enabled=ENABLED)


RELEASES = [
    pytest.param({"labels": {"batch.kubernetes.io/controller-uid": None}}, id="its labels match no more"),
    pytest.param({"labels": {"batch.kubernetes.io/controller-uid": None}, "ownerReferences": None}, id="no owner"),
]


@pytest.mark.parametrize("metadata", RELEASES)
def test_a_pod_that_a_job_releases_loses_the_finalizer(metadata: dict[str, Any]) -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(None), "default")
        await world.settle(3)
        (name,) = await world.pods()
        await world.cluster.patch(catalog.POD, name, "default", {"metadata": metadata}, patch_type=PatchType.MERGE)
        await world.settle(5)
        pods = await world.pods()
        released = pods.pop(name)
        assert (released.metadata.owner_references, released.metadata.finalizers) == (None, None)
        assert [is_tracked(one) for one in pods.values()] == [True], "the job makes another one"

    play(scenario, enabled=ENABLED)


def test_pods_that_a_suspension_deletes_do_not_count() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(None, completions=2, parallelism=2), "default")
        await world.settle(3)
        await world.cluster.patch(catalog.JOB, "j", "default", {"spec": {"suspend": True}})
        await world.settle(5)
        assert not await world.pods()
        assert (await seen(world)).status.failed == 0

    play(scenario, enabled=ENABLED)


def test_an_index_keeps_its_failures_when_the_pod_is_deleted_before_the_next_try() -> None:
    async def scenario(world: World) -> None:
        limits = {"completionMode": "Indexed", "backoffLimitPerIndex": 1, "completions": 1}
        await world.cluster.create(catalog.JOB, body(1, 1, **limits), "default")
        await world.settle(3)
        (name,) = await world.pods()
        await world.cluster.delete(catalog.POD, name, "default", grace_period_seconds=0)
        await world.settle(60)
        job = await seen(world)
        assert (job.status.failed, job.status.failed_indexes) == (2, "0")

    play(scenario, enabled=ENABLED)


def test_pods_of_a_controller_that_did_not_track_are_taken_over() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(8, completions=2, parallelism=2), "default")
        await world.settle(3)
        await world.stop_controllers()
        for name in await world.pods():
            await world.cluster.patch(catalog.POD, name, "default", {"metadata": {"finalizers": None}})
        listed = {"status": {"uncountedTerminatedPods": None}}
        await world.cluster.patch(catalog.JOB, "j", "default", listed, subresource="status")
        await world.start_controllers()
        await world.settle(15)
        assert ((await seen(world)).status.succeeded, len(await world.pods())) == (2, 2)

    play(scenario, enabled=ENABLED)
