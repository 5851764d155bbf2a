"""Jobs are worked on many together; each ends where it would have ended alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.wire import Request, Response
from strato.client.cluster import Cluster
from strato.errors import ApiError
from tests.controllers.faults import FaultyCluster
from tests.controllers.world import ADMIN, DyingCluster, MeddlingCluster, World, play, task, vcjob
from tests.profiles import examples

ENABLED = ("job-controller",)


class OneByOne(MeddlingCluster):
    """Gains nothing by sending together, as over a network: every job is worked on alone."""

    at_once = 1


class Lossy(MeddlingCluster):
    """Does every ``every``-th write and loses the answer, or refuses it."""

    def __init__(self, world: World, every: int, *, refuses: bool) -> None:
        super().__init__(world.server, ADMIN)
        self._every, self._refuses, self._writes = every, refuses, 0

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        self._writes += request.method != "GET"
        if request.method != "GET" and self._writes % self._every == 0:
            if not self._refuses:
                await super().exchange(request, stream=stream)
            body = b'{"kind":"Status","status":"Failure","code":503,"reason":"ServiceUnavailable","message":"lost"}'
            return Response(503, body)
        return await super().exchange(request, stream=stream)


TASKS = st.builds(
    lambda name, replicas, more, template: (
        task(name, replicas, **more) | {"template": {**task()["template"], "metadata": template}}
    ),
    st.sampled_from(["", "w", "v"]),
    st.integers(1, 3),
    st.fixed_dictionaries({}, optional={"minAvailable": st.integers(0, 1), "maxRetry": st.just(2)}),
    st.fixed_dictionaries(
        {},
        optional={
            "labels": st.just({"a": "b", "volcano.sh/job-name": "other"}),
            "annotations": st.sampled_from(
                [{"test/unbound": "yes", "c": 'd"é*'}, {"c": "<name>"}, {"c": "<uid> uid"}, {"c": "name"}]
            ),
            "finalizers": st.just(["a/b"]),
        },
    ),
)
JOBS = st.tuples(
    st.lists(TASKS, min_size=1, max_size=2, unique_by=lambda one: one["name"]),
    st.fixed_dictionaries(
        {},
        optional={
            "minAvailable": st.integers(1, 2),
            "schedulerName": st.sampled_from(["", "other"]),
            "priorityClassName": st.just("high"),
            "policies": st.just([{"event": "PodFailed", "action": "AbortJob"}]),
            "plugins": st.just({"env": []}),
            "queue": st.sampled_from(["", "default", "missing"]),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "labels": st.sampled_from([{"l": "m"}, {"volcano.sh/preemptable": "false"}]),
            "annotations": st.sampled_from(
                [{"volcano.sh/preemptable": "true", "volcano.sh/jdb-min-available": "1"}, {"<name>": "<uid>"}]
            ),
        },
    ),
    st.integers(1, 3),
)


PLAIN: Any = ([task("w", 1)], {}, {"labels": {"l": "m"}, "annotations": {"volcano.sh/preemptable": "true"}}, 3)


async def state(world: World) -> dict[str, Any]:
    """Return everything that jobs, groups and pods hold, but for uids, revisions and whole seconds."""
    found = {}
    names = {}
    for kind in (catalog.VCJOB, catalog.PODGROUP, catalog.POD):
        for item in (await world.cluster.list(kind, "default")).items:
            metadata = item["metadata"]
            names[metadata["uid"]] = metadata["name"]
            del metadata["uid"], metadata["resourceVersion"]
            found[f"{kind.plural}/{metadata['name']}"] = item
    text = json.dumps(found, sort_keys=True)
    for uid, name in names.items():
        text = text.replace(uid, f"uid-of-{name}")
    result: dict[str, Any] = json.loads(text)
    return result


def live(jobs: list[Any], cluster: type[MeddlingCluster]) -> dict[str, Any]:
    async def scenario(world: World) -> dict[str, Any]:
        await world.stop_controllers()
        await world.start_controllers(cluster(world.server, ADMIN))
        for number, (tasks, spec, metadata, copies) in enumerate(jobs):
            for copy in range(copies):
                body = vcjob(f"j{number}-{copy}", *tasks, **spec)
                body["metadata"] |= metadata
                with suppress(ApiError):  # not every combination is a job
                    await world.cluster.create(catalog.VCJOB, body, "default")
        await world.settle(30)
        return await state(world)

    return play(scenario, enabled=ENABLED)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(JOBS, min_size=1, max_size=4))
@example([PLAIN, ([task("w", 2), task("v", 1)], {"minAvailable": 2}, {}, 2)])
def test_jobs_together_end_where_each_alone_ends(jobs: list[Any]) -> None:
    assert live(jobs, MeddlingCluster) == live(jobs, OneByOne)


WORDS: Any = task("w", 2) | {"template": {**task()["template"], "metadata": {"annotations": {"a": "<name>-<uid>"}}}}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(([task("w", 2)], {}, {}, 2), id="bodies from a template"),
        pytest.param(([task("w", 2)], {}, {"labels": {"volcano.sh/preemptable": "true"}}, 2), id="labels"),
        pytest.param(([WORDS], {}, {}, 2), id="a spec with the words of the template"),
        pytest.param(([task("w", 1), task("name", 1)], {"minAvailable": 1}, {}, 2), id="several tasks"),
    ],
)
def test_bodies_are_the_same_whoever_else_has_them(job: Any) -> None:
    assert live([job], MeddlingCluster) == live([job], OneByOne)


def test_jobs_run_together_and_alone() -> None:
    found = live([PLAIN], OneByOne)
    assert found == live([PLAIN], MeddlingCluster)
    assert sorted(found) == sorted(
        [f"pods/j0-{n}-w-0" for n in range(3)]
        + [f"jobs/j0-{n}" for n in range(3)]
        + [f"podgroups/j0-{n}-uid-of-j0-{n}" for n in range(3)]
    )
    assert {found[f"jobs/j0-{n}"]["status"]["state"]["phase"] for n in range(3)} == {"Running"}


async def run_all(world: World, count: int) -> None:
    for number in range(count):
        await world.cluster.create(catalog.VCJOB, vcjob(f"j{number}", task(replicas=1)), "default")
    for number in range(count):
        await world.until_phase(f"j{number}", "Running")
    await world.settle(30)


async def check_all(world: World, count: int) -> None:
    assert sorted(await world.pods()) == sorted(f"j{number}-w-0" for number in range(count))
    jobs = [await world.job(f"j{number}") for number in range(count)]
    assert {(job.status.state.phase, job.status.running, job.status.retry_count) for job in jobs} == {("Running", 1, 0)}
    assert len((await world.cluster.list(catalog.PODGROUP, "default")).items) == count


def test_jobs_that_come_together_are_written_together() -> None:
    class Counting(MeddlingCluster):
        async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
            sent[requests[0].path.rpartition("/")[2]].append(len(requests))
            return await super().exchange_all(requests)

    sent: dict[str, list[int]] = defaultdict(list)

    async def scenario(world: World) -> None:
        await world.stop_controllers()
        await world.start_controllers(Counting(world.server, ADMIN))
        await run_all(world, 100)
        await check_all(world, 100)
        for plural in ("podgroups", "pods"):
            assert sum(sent[plural]) == 100
            assert len(sent[plural]) < 50

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("refuses", [True, False], ids=["refused", "done, and the answer lost"])
@pytest.mark.parametrize("every", [2, 3, 7])
def test_a_step_that_fails_costs_nobody_else_anything(every: int, refuses: bool) -> None:
    async def scenario(world: World) -> None:
        await world.stop_controllers()
        await world.start_controllers(Lossy(world, every, refuses=refuses))
        await run_all(world, 20)
        await check_all(world, 20)

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("seed", range(5))
def test_faults_and_restarts_leave_one_pod_for_each_job(seed: int) -> None:
    async def scenario(world: World) -> None:
        await world.stop_controllers()
        faulty: Cluster = FaultyCluster(world, seed, rate=0.3)
        for cluster in (DyingCluster(world, 10 + 7 * seed), DyingCluster(world, 25), faulty):
            await world.start_controllers(cluster)
            if cluster is not faulty:
                for number in range(15):
                    body = vcjob(f"j{number}", task(replicas=1))
                    if f"j{number}" not in {job["metadata"]["name"] for job in await jobs(world)}:
                        await world.cluster.create(catalog.VCJOB, body, "default")
                await world.settle(3)
                await world.stop_controllers()
        await world.settle(300)
        await check_all(world, 15)

    play(scenario, enabled=ENABLED)


async def jobs(world: World) -> Any:
    return (await world.cluster.list(catalog.VCJOB, "default")).items


def test_a_job_that_is_deleted_and_made_again_under_work_gets_its_own_pods() -> None:
    class Slow(MeddlingCluster):
        async def exchange(self, request: Request, *, stream: bool = False) -> Response:
            response = await super().exchange(request, stream=stream)
            if request.method != "GET" and not stream:
                await world_of[0].clock.sleep(0.5)
            return response

    world_of: list[World] = []

    async def scenario(world: World) -> None:
        world_of.append(world)
        await world.stop_controllers()
        await world.start_controllers(Slow(world.server, ADMIN))
        for wait in (0.2, 0.7, 1.2, 1.7):
            await world.cluster.create(catalog.VCJOB, vcjob("j", task(replicas=2)), "default")
            await world.clock.sleep(wait)
            await world.cluster.delete(catalog.VCJOB, "j", "default", propagation="Background")
            await world.clock.sleep(0.1)
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(replicas=2)), "default")
        job = await world.until_phase("j", "Running")
        await world.settle(30)
        owners = {pod.metadata.owner_references[0].uid for pod in (await world.pods()).values()}  # type: ignore[index]  # it is a map
        assert owners == {job.metadata.uid}
        groups = (await world.cluster.list(catalog.PODGROUP, "default")).items
        assert [group["metadata"]["name"] for group in groups] == [f"j-{job.metadata.uid}"]

    play(scenario, enabled=("job-controller", "kube-garbage-collector"))
