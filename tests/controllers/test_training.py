"""Training jobs on a real API server in memory: life, restarts, suspension, clean-up, a killed controller."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Event, Pod, Service
from strato.api.kubeflow import TFJob, TrainingJob
from strato.api.volcano.scheduling import PodGroup
from strato.api.wire import Request, Response
from strato.clock import VirtualClock, run_virtual
from strato.controllers.context import ControllerSettings
from strato.controllers.kube.garbage import GarbageCollector
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.trainingoptions import PodOptions
from strato.errors import ApiError, NotFound
from tests.controllers.world import ADMIN, DyingCluster, MeddlingCluster, World, play

ENABLED = (*(adapter.framework.controller for adapter in ADAPTERS.values()), "queue-controller", GarbageCollector.name)


def role(replicas: int | None = 1, *, seconds: float | None = None, code: int = 0, **more: Any) -> dict[str, Any]:
    """Pods that run for ever, or end after so many seconds with a code."""
    annotations = {} if seconds is None else {"test/seconds": str(seconds), "test/exit": str(code)}
    container = {"name": "tensorflow", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    return {**({} if replicas is None else {"replicas": replicas}), "template": template, **more}


def tfjob(name: str = "j", *, policy: dict[str, Any] | None = None, **roles: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runPolicy": policy or {}, "tfReplicaSpecs": roles},
    }


def state(job: TrainingJob) -> str:
    """The type of the last condition that holds."""
    return next((one.type for one in reversed(job.status.conditions) if one.status == "True"), "")


async def get(world: World, name: str = "j") -> TFJob:
    return await world.cluster.get(TFJob, name, "default")


async def create(world: World, job: dict[str, Any]) -> None:
    await world.cluster.create(catalog.TFJOB, job, "default")


async def until(world: World, wanted: str, name: str = "j") -> TFJob:
    async def reached() -> bool:
        return state(await get(world, name)) == wanted

    await world.until(reached, 120)
    return await get(world, name)


async def services(world: World) -> set[str]:
    return {one.metadata.name for one in (await world.cluster.list(Service, "default")).items}


async def reasons(world: World) -> list[str]:
    return [event.reason for event in (await world.cluster.list(Event, "default")).items]


def test_job_runs_and_succeeds_with_its_chief() -> None:
    async def scenario(world: World) -> None:
        policy = {"schedulingPolicy": {"queue": "default", "priorityClass": "high", "minAvailable": 2}}
        await world.cluster.create(
            catalog.PRIORITYCLASS,
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9},
        )
        await create(world, tfjob(policy=policy, Chief=role(seconds=20), PS=role(), Worker=role(2), Evaluator=role()))
        job = await until(world, "Running")
        pods = await world.pods()
        assert set(pods) == {"j-chief-0", "j-ps-0", "j-worker-0", "j-worker-1", "j-evaluator-0"}
        assert await services(world) >= set(pods)
        group = await world.cluster.get(PodGroup, "j", "default")
        spec = group.spec
        assert (spec.min_member, spec.queue, spec.priority_class_name) == (2, "default", "high")
        assert dict(spec.min_resources or {}) == {"cpu": "2"}
        environment = {one.name: one.value for one in pods["j-worker-1"].spec.containers[0].env}
        config = msgspec.json.decode(environment["TF_CONFIG"])
        assert config["task"] == {"type": "worker", "index": 1}
        assert config["cluster"]["ps"] == ["j-ps-0.default.svc:2222"]
        assert pods["j-chief-0"].metadata.label("training.kubeflow.org/job-role") == "master"
        job = await until(world, "Succeeded")
        assert [one.type for one in job.status.conditions] == ["Created", "Running", "Succeeded"]
        assert job.status.completion_time
        await world.settle()
        job = await get(world)
        assert {name: one.succeeded for name, one in job.status.replica_statuses.items()} == {
            "Chief": 1,
            "Evaluator": 1,
            "PS": 1,
            "Worker": 2,
        }
        assert set(await world.pods()) == set(pods)  # cleanPodPolicy None
        with pytest.raises(NotFound):
            await world.cluster.get(PodGroup, "j", "default")

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("policy", ["", "Always", "Never"])
def test_a_restart_policy_of_a_template_is_overwritten_and_that_is_reported(policy: str) -> None:
    async def scenario(world: World) -> None:
        worker = role(1, restartPolicy="OnFailure")
        if policy:
            worker["template"]["spec"]["restartPolicy"] = policy
        await create(world, tfjob(Worker=worker))
        await world.settle()
        made = await world.cluster.get(Pod, "j-worker-0", "default")
        assert made.spec.restart_policy == "OnFailure"
        assert ("SetPodTemplateRestartPolicy" in await reasons(world)) is bool(policy)

    play(scenario, enabled=ENABLED)


def test_pods_wait_for_the_group() -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob(Worker=role(2)))
        await world.settle()
        assert not await world.pods()
        assert (await get(world)).status.last_reconcile_time
        assert "WaitingForPodGroup" in await reasons(world)
        await world.cluster.patch(PodGroup, "j", "default", {"status": {"phase": "Inqueue"}})
        await world.settle()
        assert len(await world.pods()) == 2

    play(scenario, enabled=ENABLED, admit=False)


@pytest.mark.parametrize("enforced", [True, False])
def test_a_job_that_is_not_admitted_in_time_fails_where_that_is_asked_for(enforced: bool) -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob(policy={"schedulingPolicy": {"scheduleTimeoutSeconds": 30}}, Worker=role(2)))
        await world.clock.sleep(29)
        assert state(await get(world)) == "Created"
        await world.clock.sleep(10)
        await world.settle()
        job = await get(world)
        if not enforced:
            assert state(job) == "Created"
            return
        assert state(job) == "Failed"
        assert job.status.conditions[-1].message.endswith("spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds")
        with pytest.raises(NotFound):
            await world.cluster.get(PodGroup, "j", "default")

    settings = ControllerSettings(training=PodOptions(enforces_schedule_timeout=enforced))
    play(scenario, enabled=ENABLED, admit=False, settings=settings)


def test_each_job_is_counted_once_for_what_became_of_it() -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob("good", Chief=role(seconds=5), Worker=role()))
        await create(world, tfjob("bad", Worker=role(seconds=3, code=137, restartPolicy="ExitCode"), PS=role()))
        await until(world, "Succeeded", "good")
        await until(world, "Running", "bad")
        await world.clock.sleep(20)
        await world.cluster.patch(TFJob, "bad", "default", {"spec": {"runPolicy": {"activeDeadlineSeconds": 1}}})
        await until(world, "Failed", "bad")
        await world.cluster.delete(catalog.TFJOB, "good", "default")
        await world.settle()
        text = world.metrics.render().decode()

        def count(what: str) -> float:
            name = f'training_operator_jobs_{what}_total{{framework="tensorflow",job_namespace="default"}} '
            return float(next(line for line in text.splitlines() if line.startswith(name)).removeprefix(name))

        assert [count(what) for what in ("created", "successful", "failed", "deleted")] == [2, 1, 1, 1]
        assert count("restarted") >= 1

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [pytest.param(137, "restarts", id="a signal is retried"), pytest.param(1, "Failed", id="its own code is final")],
)
def test_exit_code_policy(code: int, wanted: str) -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob(Chief=role(), Worker=role(seconds=3, code=code, restartPolicy="ExitCode")))
        if wanted == "Failed":
            job = await until(world, "Failed")
            assert job.status.completion_time
            return
        first = (await until(world, "Running")).metadata.uid
        uid = (await world.pods())["j-worker-0"].metadata.uid

        async def replaced() -> bool:
            pod = (await world.pods()).get("j-worker-0")
            return pod is not None and pod.metadata.uid != uid

        await world.until(replaced, 60)
        assert (await get(world)).metadata.uid == first
        assert "TFJobRestarting" in await reasons(world)

    play(scenario, enabled=ENABLED)


def test_replaced_pods_count_for_the_back_off_limit() -> None:
    async def scenario(world: World) -> None:
        policy = {"backoffLimit": 3, "cleanPodPolicy": "All"}
        await create(
            world, tfjob(policy=policy, Chief=role(), Worker=role(seconds=2, code=137, restartPolicy="ExitCode"))
        )
        job = await until(world, "Failed")
        assert "backoff limit" in job.status.conditions[-1].message
        assert job.status.replaced_pods is not None
        assert job.status.replaced_pods.count == 3
        await world.settle()
        assert not await world.pods()
        assert not {name for name in await services(world) if name.startswith("j-")}

    play(scenario, enabled=ENABLED)


def test_deadline_is_kept_without_any_other_event() -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob(policy={"activeDeadlineSeconds": 30, "cleanPodPolicy": "Running"}, Worker=role()))
        await until(world, "Running")
        job = await until(world, "Failed")
        assert "longer than specified deadline" in job.status.conditions[-1].message
        await world.settle()
        assert not await world.pods()

    play(scenario, enabled=ENABLED)


def test_finished_job_goes_when_its_time_has_come() -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob(policy={"ttlSecondsAfterFinished": 20}, Worker=role(seconds=2)))
        await until(world, "Succeeded")

        async def gone() -> bool:
            try:
                await get(world)
            except NotFound:
                return not await world.pods()
            return False

        await world.until(gone, 60)

    play(scenario, enabled=ENABLED)


def test_suspended_job_has_nothing_and_runs_again() -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob(Worker=role(2)))
        job = await until(world, "Running")
        await world.cluster.patch(catalog.TFJOB, "j", "default", {"spec": {"runPolicy": {"suspend": True}}})
        await until(world, "Suspended")
        await world.settle()
        assert not await world.pods()
        with pytest.raises(NotFound):
            await world.cluster.get(PodGroup, "j", "default")
        await world.cluster.patch(catalog.TFJOB, "j", "default", {"spec": {"runPolicy": {"suspend": False}}})
        again = await until(world, "Running")
        assert (again.status.start_time or "") > (job.status.start_time or "")
        assert {"TFJobSuspended", "TFJobResumed"} <= set(await reasons(world))

    play(scenario, enabled=ENABLED)


def test_succeeded_worker_is_not_run_again_when_its_pod_goes() -> None:
    async def scenario(world: World) -> None:
        job = tfjob(Worker=role(2))
        job["spec"]["successPolicy"] = "AllWorkers"
        await create(world, job)
        await until(world, "Running")
        pod = (await world.pods())["j-worker-0"]
        await world.cluster.patch(
            Pod, pod.metadata.name, "default", {"status": {"phase": "Succeeded"}}, subresource="status"
        )
        await world.settle()
        await world.cluster.delete(Pod, pod.metadata.name, "default", grace_period_seconds=0)
        await world.settle()
        assert set(await world.pods()) == {"j-worker-1"}
        assert (await get(world)).status.replica_statuses["Worker"].succeeded == 1
        await world.cluster.delete(Pod, "j-worker-1", "default", grace_period_seconds=0)
        await world.settle()
        group = (await world.cluster.get(PodGroup, "j", "default")).spec  # one that still waits for two never starts
        assert (group.min_member, dict(group.min_resources or {})) == (1, {"cpu": "1"})

    play(scenario, enabled=ENABLED)


def test_scaled_job_makes_and_deletes_pods() -> None:
    async def scenario(world: World) -> None:
        container = {"name": "pytorch", "image": "i"}
        worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
        await world.cluster.create(
            catalog.PYTORCHJOB,
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "PyTorchJob",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {
                    "elasticPolicy": {"minReplicas": 1, "maxReplicas": 3},
                    "pytorchReplicaSpecs": {"Worker": worker},
                },
            },
            "default",
        )

        async def there(count: int) -> bool:
            names = {name for name in await world.pods() if name.startswith("p-worker-")}
            group = await world.cluster.get(PodGroup, "p", "default")
            return len(names) == count and group.spec.min_member == 1  # it runs with its fewest

        await world.settle()
        for count in (3, 2):
            await world.cluster.patch(
                catalog.PYTORCHJOB, "p", "default", {"spec": {"replicas": count}}, subresource="scale"
            )
            await world.until(lambda count=count: there(count), 60)  # type: ignore[misc] # a bound loop variable
        assert {"p-worker-0", "p-worker-1"} <= await services(world)
        assert "p-worker-2" not in await services(world)

    play(scenario, enabled=ENABLED)


def test_a_role_that_goes_while_pods_are_made_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Changing(MeddlingCluster):
        """Takes a role out of the job just before the controller reads the templates."""

        async def exchange(self, request: Request, *, stream: bool = False) -> Response:
            if request.method == "GET" and request.path.endswith("/tfjobs/j"):
                await self.patch(catalog.TFJOB, "j", "default", {"spec": {"tfReplicaSpecs": {"PS": None}}})
            return await super().exchange(request, stream=stream)

    async def scenario(world: World) -> None:
        await world.stop_controllers()
        await create(world, tfjob(PS=role(), Worker=role(2)))
        await world.start_controllers(Changing(world.server, ADMIN))
        await until(world, "Running")
        assert set(await world.pods()) == {"j-worker-0", "j-worker-1"}
        assert not [record.getMessage() for record in caplog.records if record.exc_info], "an error of ours"

    play(scenario, enabled=ENABLED)


class CountingCluster(MeddlingCluster):
    """Counts writes."""

    writes = 0

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        self.writes += request.method != "GET"
        return await super().exchange(request, stream=stream)


def test_unchanged_job_costs_no_write() -> None:
    async def scenario(world: World) -> None:
        await create(world, tfjob(Chief=role(), Worker=role(2)))
        await until(world, "Running")
        await world.settle()
        await world.stop_controllers()
        counting = CountingCluster(world.server, ADMIN)
        await world.start_controllers(counting)
        await world.settle(60)
        assert counting.writes == 0

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(tfjob(Chief=role(seconds=4), PS=role(), Worker=role(2)), id="succeeds"),
        pytest.param(
            tfjob(
                policy={"backoffLimit": 2, "cleanPodPolicy": "All"},
                Chief=role(),
                Worker=role(seconds=2, code=137, restartPolicy="ExitCode"),
            ),
            id="restarts until it fails",
        ),
    ],
)
def test_killed_controller_is_continued(job: dict[str, Any]) -> None:
    """Killed after any write, it is followed by one that brings the job to the same end."""

    async def ending(world: World) -> tuple[Any, ...]:
        async def over() -> bool:
            return state(await get(world)) in ("Succeeded", "Failed")

        await world.until(over, 300)
        await world.settle(20)
        found = await get(world)
        replaced = found.status.replaced_pods
        return (
            [one.type for one in found.status.conditions if one.status == "True"],
            sorted(await world.pods()),
            replaced.count if replaced is not None else 0,
        )

    async def uninterrupted(world: World) -> tuple[Any, ...]:
        await create(world, job)
        return await ending(world)

    wanted = play(uninterrupted, enabled=ENABLED)

    def killed_after(writes: int) -> tuple[Any, bool]:
        clock = VirtualClock()

        async def main() -> tuple[Any, bool]:
            world = World(clock, enabled=ENABLED)
            dying = DyingCluster(world, writes)
            await world.start(dying)
            try:
                await create(world, job)
                waiting = asyncio.ensure_future(dying.dead.wait())
                done = asyncio.ensure_future(clock.sleep(60))
                await asyncio.wait((waiting, done), return_when=asyncio.FIRST_COMPLETED)
                died = dying.dead.is_set()
                waiting.cancel()
                done.cancel()
                if died:
                    await world.stop_controllers()
                    await world.start_controllers()
                return await ending(world), died
            finally:
                await world.stop()

        return run_virtual(clock, main())

    writes = 0
    while True:
        writes += 1
        found, died = killed_after(writes)
        assert found == wanted, f"after write {writes}"
        if not died:
            break
    assert writes > 10


@pytest.mark.parametrize(
    ("job", "text"),
    [
        pytest.param(tfjob(Chief=role(), Master=role()), "more than 1 Chief or Master", id="two leaders"),
        pytest.param(tfjob(Worker=role(0)), "must be at least 1", id="no workers"),
        pytest.param(tfjob(Boss=role()), "spec.tfReplicaSpecs[Boss]: Unsupported value", id="unknown role"),
        pytest.param(tfjob(Worker=role(restartPolicy="Sometimes")), "Sometimes", id="unknown restart policy"),
        pytest.param(tfjob(policy={"cleanPodPolicy": "Some"}, Worker=role()), "Some", id="unknown clean-up policy"),
        pytest.param(tfjob("x" * 60, Worker=role()), "longer than 63 characters", id="too long a name"),
        pytest.param(
            tfjob(policy={"schedulingPolicy": {"queue": "nowhere"}}, Worker=role()), "nowhere", id="no such queue"
        ),
        pytest.param(tfjob(Worker=role(-1)), "greater than or equal to 0", id="a negative number"),
    ],
)
def test_bad_job_is_refused_with_the_place(job: dict[str, Any], text: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(ApiError) as error:
            await create(world, job)
        assert text in str(error.value)

    play(scenario, enabled=())
