"""TrainJobs on a real API server in memory: what they make of their runtimes, how they start, end, wait and go on."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from strato.admission import ChainOptions, trainjobs
from strato.admission.chain import ALL_WEBHOOKS
from strato.api import catalog
from strato.api.batch import Job
from strato.api.core import ConfigMap, Event, Pod, Secret, Service
from strato.api.meta import Json
from strato.api.trainer import CONTROLLER, STEP_LABEL, TrainJob
from strato.api.volcano.scheduling import PodGroup
from strato.controllers.kube.garbage import GarbageCollector
from strato.controllers.training.trainer.controller import TrainJobController
from strato.errors import Invalid, NotFound
from tests.controllers.world import DyingCluster, World, play

ENABLED = (TrainJobController.name, "kube-job-controller", "queue-controller", GarbageCollector.name)


def step(name: str = "node", *, seconds: float | None = 20, code: int = 0, part: str = "trainer", **more: Any) -> Json:
    annotations = {} if seconds is None else {"test/seconds": str(seconds), "test/exit": str(code)}
    asked = {"requests": {"cpu": "2", "memory": "1Gi"}}
    container = {"name": "node" if part == "trainer" else name, "image": "i", "resources": asked}
    pods = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    labels = {STEP_LABEL: part} if part else {}
    spec = {"backoffLimit": 0, "template": pods}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": spec}, **more}


def runtime(*steps: Json, policy: Json | None = None, group: Json | None = None, **more: Any) -> Json:
    spec: Json = {"template": {"spec": {"replicatedJobs": list(steps) or [step()], **more}}}
    spec["mlPolicy"] = {"numNodes": 2, "torch": {}} if policy is None else policy
    if group is not None:
        spec["podGroupPolicy"] = group
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "r"},
        "spec": spec,
    }


def train_job(**spec: Any) -> Json:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "r"}, **spec},
    }


async def submit(world: World, of: Json | None = None, **spec: Any) -> None:
    await world.cluster.create(catalog.CLUSTERTRAININGRUNTIME, of or runtime())
    await world.cluster.create(catalog.TRAINJOB, train_job(**spec), "default")


async def get(world: World) -> TrainJob:
    return await world.cluster.get(TrainJob, "t", "default")


def holding(job: TrainJob) -> dict[str, str]:
    return {one.type: one.reason for one in job.status.conditions if one.status == "True"}


async def until(world: World, wanted: str, seconds: float = 240) -> TrainJob:
    async def reached() -> bool:
        return wanted in holding(await get(world))

    await world.until(reached, seconds)
    return await get(world)


async def until_active(world: World, name: str = "node") -> None:
    async def reached() -> bool:
        return any(one.name == name and one.ready for one in (await get(world)).status.jobs_status)

    await world.until(reached, 120)


async def jobs(world: World) -> dict[str, Job]:
    page = await world.cluster.list(Job, "default")
    return {one.metadata.name: one for one in page.items}


def variables(pod: Pod, container: str = "node") -> dict[str, str]:
    (found,) = (one for one in pod.spec.containers if one.name == container)
    return {one.name: one.value for one in found.env}


def test_nodes_find_each_other_and_the_job_is_complete_with_them() -> None:
    async def scenario(world: World) -> None:
        await submit(world, trainer={"command": ["torchrun", "x.py"], "env": [{"name": "A", "value": "1"}]})
        await until_active(world)
        pods = sorted((await world.pods()).values(), key=lambda one: one.metadata.name)
        assert [(one.spec.hostname, one.spec.subdomain) for one in pods] == [("t-node-0-0", "t"), ("t-node-0-1", "t")]
        assert pods[0].metadata.labels is not None
        expected = {
            "jobset.sigs.k8s.io/jobset-name": "t",
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "jobset.sigs.k8s.io/job-index": "0",
            "batch.kubernetes.io/job-completion-index": "0",
        }
        assert expected.items() <= pods[0].metadata.labels.items()
        told = variables(pods[1])
        assert told | {"PET_NODE_RANK": "", "JOB_COMPLETION_INDEX": "1"} == told | {
            "A": "1",
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "2",
            "PET_NODE_RANK": "",
            "PET_MASTER_ADDR": "t-node-0-0.t",
            "PET_MASTER_PORT": "29500",
            "JOB_COMPLETION_INDEX": "1",
        }
        (container,) = (await world.cluster.get(catalog.POD, pods[0].metadata.name, "default"))["spec"]["containers"]
        assert [port["containerPort"] for port in container["ports"]] == [29500]
        service = await world.cluster.get(Service, "t", "default")
        assert (service.spec.cluster_ip, service.spec.publish_not_ready_addresses) == ("None", True)
        assert service.spec.selector == {"jobset.sigs.k8s.io/jobset-name": "t"}
        job = await until(world, "Complete")
        assert holding(job) == {"Complete": "AllJobsCompleted"}
        (one,) = job.status.jobs_status
        assert (one.name, one.succeeded, one.failed, one.active, one.suspended) == ("node", 1, 0, 0, 0)

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        ("1", ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
        ("2", ["--rdzv_endpoint=t-node-0-0.t:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full"]),
    ],
)
def test_torchtune_runs_the_recipe_of_its_model_and_devices(gpus: str, told: list[str]) -> None:
    async def scenario(world: World) -> None:
        one = step()
        (container,) = one["template"]["spec"]["template"]["spec"]["containers"]
        container["command"] = ["tune", "run", "output_dir=/workspace/output", "batch_size=9"]
        of = runtime(one, policy={"numNodes": 1, "torch": {}})
        of["metadata"]["name"] = "torchtune-llama3.2-1b"
        own = {"command": ["tune", "run"], "args": ["batch_size=4"]}
        own["resourcesPerNode"] = {"limits": {"nvidia.com/gpu": gpus}}
        await submit(world, of, runtimeRef={"name": "torchtune-llama3.2-1b"}, trainer=own)
        await world.settle()
        (made,) = (await jobs(world)).values()
        (node,) = made.spec.template.spec.containers
        assert list(node.command) == ["tune", "run", *told, "output_dir=/workspace/output"]
        assert list(node.args) == ["batch_size=4"]
        names = {one.name for one in node.env}
        assert {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"} <= names
        assert not names & {"PET_MASTER_ADDR", "PET_MASTER_PORT"}

    play(scenario, enabled=ENABLED)


def test_what_the_training_says_of_itself_is_kept() -> None:
    async def scenario(world: World) -> None:
        await submit(world)
        await until_active(world)
        told = {"progressPercentage": 40, "lastUpdatedTime": "2026-01-01T00:00:00Z"}
        await world.cluster.patch(
            catalog.TRAINJOB, "t", "default", {"status": {"trainerStatus": told}}, subresource="status"
        )
        job = await until(world, "Complete")
        assert job.status.trainer_status == told

    play(scenario, enabled=ENABLED)


def test_a_step_waits_for_those_it_depends_on() -> None:
    async def scenario(world: World) -> None:
        data = step("dataset-initializer", part="dataset-initializer", seconds=5)
        (fetching,) = data["template"]["spec"]["template"]["spec"]["containers"]
        fetching["volumeMounts"] = [{"name": "initializer", "mountPath": "/workspace"}]
        data["template"]["spec"]["template"]["spec"]["volumes"] = [{"name": "initializer", "emptyDir": {}}]
        node = step(dependsOn=[{"name": "dataset-initializer", "status": "Complete"}])
        given = {"storageUri": "s3://b/p", "env": [{"name": "K", "value": "v"}], "secretRef": {"name": "s"}}
        await submit(world, runtime(data, node), initializer={"dataset": given})
        await until_active(world, "dataset-initializer")
        assert {name: one.spec.suspend for name, one in (await jobs(world)).items()} == {
            "t-dataset-initializer-0": False,
            "t-node-0": True,
        }
        (pod,) = (await world.pods()).values()
        assert variables(pod, "dataset-initializer") | {"JOB_COMPLETION_INDEX": "0"} == {
            "STORAGE_URI": "s3://b/p",
            "K": "v",
            "JOB_COMPLETION_INDEX": "0",
        }
        assert [one.suspended for one in (await get(world)).status.jobs_status] == [0, 0]
        job = await until(world, "Complete")
        assert [(one.name, one.succeeded) for one in job.status.jobs_status] == [
            ("dataset-initializer", 1),
            ("node", 1),
        ]

    play(scenario, enabled=ENABLED)


def test_a_suspended_job_has_no_pods_and_goes_on_with_its_patches() -> None:
    async def scenario(world: World) -> None:
        await submit(world, runtime(step(seconds=None), group={"volcano": {}}), suspend=True)
        await until(world, "Suspended")
        await world.settle()
        assert not await world.pods()
        assert [one.suspended for one in (await get(world)).status.jobs_status] == [1]
        patch = {"nodeSelector": {"pool": "a"}}
        listed = [{"name": "node", "template": {"spec": {"template": {"spec": patch}}}}]
        change = {
            "manager": "kueue.x-k8s.io/manager",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": listed}}},
        }
        spec: Json = {"suspend": False, "runtimePatches": [change]}
        await world.cluster.patch(catalog.TRAINJOB, "t", "default", {"spec": spec})
        await until_active(world)
        assert {one.spec.node_selector["pool"] for one in (await world.pods()).values()} == {"a"}
        assert (await world.cluster.get(PodGroup, "t", "default")).spec.min_member == 2
        assert {one.type: (one.status, one.reason) for one in (await get(world)).status.conditions} == {
            "Suspended": ("False", "Resumed")
        }
        await world.cluster.patch(catalog.TRAINJOB, "t", "default", {"spec": {"suspend": True}})
        await until(world, "Suspended")
        await world.settle()
        assert not await world.pods()
        with pytest.raises(NotFound):
            await world.cluster.get(PodGroup, "t", "default")

    play(scenario, enabled=ENABLED)


def test_a_job_ends_at_its_deadline_counted_from_its_resumption() -> None:
    async def scenario(world: World) -> None:
        await submit(world, runtime(step(seconds=None)), activeDeadlineSeconds=30, suspend=True)
        await until(world, "Suspended")
        await world.clock.sleep(60)
        await world.cluster.patch(catalog.TRAINJOB, "t", "default", {"spec": {"suspend": False}})
        await until_active(world)
        assert "Failed" not in holding(await get(world))
        job = await until(world, "Failed")
        assert holding(job)["Failed"] == "DeadlineExceeded"

        async def gone() -> bool:
            return not await world.pods()

        await world.until(gone, 60)

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("policy", "attempts", "reason"),
    [
        pytest.param({}, 1, "FailedJobs", id="no policy"),
        pytest.param({"maxRestarts": 2}, 3, "ReachedMaxRestarts", id="bounded"),
        pytest.param(
            {"maxRestarts": 2, "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}]},
            1,
            "FailedJobs",
            id="a rule",
        ),
        pytest.param(
            {"maxRestarts": 1, "rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["other"]}]},
            2,
            "ReachedMaxRestarts",
            id="a rule of other jobs",
        ),
    ],
)
def test_all_jobs_begin_anew_when_one_fails(policy: Json, attempts: int, reason: str) -> None:
    async def scenario(world: World) -> None:
        good, bad = step("good", seconds=None, part=""), step(seconds=3, code=1)
        await submit(world, runtime(good, bad, **({"failurePolicy": policy} if policy else {})))
        job = await until(world, "Failed")
        assert holding(job)["Failed"] == reason
        seen = {
            (one.metadata.labels or {})["jobset.sigs.k8s.io/restart-attempt"] for one in (await jobs(world)).values()
        }
        assert seen == {str(attempts - 1)}
        await world.settle()
        assert list(await jobs(world)) == ["t-node-0"], "what still ran has gone, what failed stays for its logs"
        events = (await world.cluster.list(Event, "default")).items
        assert sum(one.count or 1 for one in events if one.reason == "Restarting") == attempts - 1

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(("code", "end"), [(0, "Complete"), (1, "Failed")])
def test_jobs_go_when_the_time_of_their_runtime_is_over(code: int, end: str) -> None:
    async def scenario(world: World) -> None:
        await submit(world, runtime(step(code=code), ttlSecondsAfterFinished=100))
        over = await until(world, end)
        await world.settle(60)
        assert set(await jobs(world)) == {"t-node-0"}
        await world.settle(120)
        assert not await jobs(world)
        assert not await world.pods()
        kept = await get(world)
        assert holding(kept) == holding(over)
        assert [(one.name, one.active) for one in kept.status.jobs_status] == [("node", 0)]

    play(scenario, enabled=ENABLED)


def test_a_job_may_succeed_with_some_of_its_steps() -> None:
    async def scenario(world: World) -> None:
        server = step("server", seconds=None, part="")
        await submit(
            world, runtime(server, step(), successPolicy={"operator": "All", "targetReplicatedJobs": ["node"]})
        )
        job = await until(world, "Complete")
        assert [(one.active, one.ready, one.succeeded) for one in job.status.jobs_status] == [(0, 0, 0), (0, 0, 1)]
        await world.settle()
        assert list(await jobs(world)) == ["t-node-0"]

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("of", "spec", "words"),
    [
        pytest.param(runtime(), {"runtimeRef": {"name": "x"}}, "there is no ClusterTrainingRuntime x", id="none"),
        pytest.param(runtime(), {"runtimeRef": {"name": "r", "kind": "Other"}}, "unsupported runtime", id="kind"),
        pytest.param(runtime(step(dependsOn=[{"name": "node"}])), {}, "wait for each other in a circle", id="a circle"),
        pytest.param(runtime(step(dependsOn=[{"name": "y"}])), {}, "waits for 'y'", id="no such step"),
        pytest.param(runtime(step(part="", replicas=1_001)), {}, "1001 Jobs of", id="too many Jobs"),
        pytest.param(runtime(), {"trainer": {"numNodes": 2_000_000_000}}, "2000000000 pods", id="too many pods"),
        pytest.param(runtime(step(part="", replicas=-1)), {}, "fewer than 0", id="fewer than none"),
        pytest.param(runtime(policy={"flux": {}}), {}, "mlPolicy.flux is not run here", id="flux"),
        pytest.param(
            runtime({"name": "node", "template": {"spec": {"template": 5}}}), {}, "Expected `object`", id="shape"
        ),
    ],
)
def test_a_runtime_that_cannot_be_run_fails_the_job(of: Json, spec: Json, words: str) -> None:
    async def scenario(world: World) -> None:
        await submit(world, of, **spec)
        job = await until(world, "Failed")
        (failed,) = (one for one in job.status.conditions if one.type == "Failed")
        assert failed.reason == "TrainingRuntimeNotSupported"
        assert words in failed.message

    unchecked = ChainOptions(enabled=frozenset(ALL_WEBHOOKS) - trainjobs.SERVICES.keys())
    play(scenario, enabled=ENABLED, admission=unchecked)


def test_a_job_keeps_the_runtime_that_it_began_with() -> None:
    async def scenario(world: World) -> None:
        data = step("data", part="", seconds=10)
        await submit(world, runtime(data, step(dependsOn=[{"name": "data", "status": "Complete"}])))
        await until_active(world, "data")
        assert "runtime" in (await world.cluster.get(ConfigMap, "t-runtime-snapshot", "default")).data
        await world.cluster.delete(catalog.CLUSTERTRAININGRUNTIME, "r")
        await world.stop_controllers()
        await world.start_controllers()
        await until(world, "Complete")

    play(scenario, enabled=ENABLED)


def test_a_job_of_the_same_name_follows_at_once() -> None:
    """What the one before it leaves is collected a little later, and is nothing that it fails of."""

    async def scenario(world: World) -> None:
        await submit(world, runtime(step(seconds=None), group={"volcano": {}}))
        await until_active(world)
        await world.cluster.delete(catalog.TRAINJOB, "t", "default", propagation="Background")
        of = runtime(step(), group={"volcano": {}})
        await world.cluster.patch(catalog.CLUSTERTRAININGRUNTIME, "r", "", {"spec": of["spec"]})
        await world.cluster.create(catalog.TRAINJOB, train_job(), "default")
        await until(world, "Complete")

    play(scenario, enabled=ENABLED)


def test_the_gang_is_of_the_pods_that_begin_together() -> None:
    async def scenario(world: World) -> None:
        data = step("dataset-initializer", part="dataset-initializer", seconds=1)
        node = step("node", part="", seconds=None, dependsOn=[{"name": "dataset-initializer"}])
        launcher = step("launcher", dependsOn=[{"name": "node", "status": "Ready"}])
        of = runtime(data, node, launcher, policy={"numNodes": 3, "mpi": {"numProcPerNode": 2}}, group={"volcano": {}})
        of["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": "q"}}
        of["spec"]["template"]["spec"]["successPolicy"] = {"targetReplicatedJobs": ["launcher"]}
        await submit(world, of)

        async def refused() -> bool:
            events = (await world.cluster.list(Event, "default")).items
            return any(one.reason == "TrainJobResourcesCreationFailed" for one in events)

        await world.until(refused, 60)
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
        await world.cluster.create(catalog.QUEUE, queue)
        await world.cluster.patch(catalog.QUEUE, "q", "", {"status": {"state": "Open"}}, subresource="status")

        async def launched() -> bool:
            return any(name.startswith("t-launcher") for name in await world.pods())

        await world.until(launched, 120)
        group = await world.cluster.get(PodGroup, "t", "default")
        assert (group.spec.min_member, group.spec.queue) == (3, "q")
        assert group.spec.min_resources == {"cpu": "8", "memory": "4Gi"}
        pods = await world.pods()
        members = {
            name.rpartition("-")[0]
            for name, pod in pods.items()
            if pod.metadata.annotation("scheduling.k8s.io/group-name")
        }
        assert members == {"t-node-0-0", "t-node-0-1", "t-node-0-2", "t-launcher-0-0"}
        hosts = (await world.cluster.get(ConfigMap, "t-mpi-hostfile", "default")).data["hostfile"]
        assert hosts == "".join(f"t-node-0-{index}.t slots=2\n" for index in range(3))
        secret = await world.cluster.get(Secret, "t-mpi-ssh-auth", "default")
        assert base64.b64decode(secret.data["ssh-publickey"]).startswith(b"ecdsa-sha2-nistp521 ")
        (launcher_pod,) = (pod for name, pod in pods.items() if name.startswith("t-launcher"))
        assert variables(launcher_pod)["OMPI_MCA_orte_set_default_slots"] == "2"
        mounts = {one.mount_path for one in launcher_pod.spec.containers[0].volume_mounts}
        assert {"/root/.ssh", "/etc/mpi"} <= mounts
        await until(world, "Complete")
        await world.settle()
        with pytest.raises(NotFound):
            await world.cluster.get(PodGroup, "t", "default")

    play(scenario, enabled=ENABLED)


def test_jobs_of_other_managers_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        await submit(world, managedBy="kueue.x-k8s.io/multikueue")
        await world.settle()
        assert not await jobs(world)
        assert not (await get(world)).status.conditions

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trainer": {"numNodes": 3}}, "field is immutable"),
        ({"runtimeRef": {"name": "other"}}, "field is immutable"),
        ({"managedBy": "somebody"}, "ManagedBy must be"),
        ({"trainer": {"numProcPerNode": 0}}, "greater than or equal to 1"),
    ],
)
def test_what_may_not_change_is_refused(change: Json, words: str) -> None:
    async def scenario(world: World) -> None:
        await submit(world, trainer={"numNodes": 1}, managedBy=CONTROLLER)
        with pytest.raises(Invalid, match=words):
            await world.cluster.patch(catalog.TRAINJOB, "t", "default", {"spec": change})

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize("writes", range(1, 14))
def test_a_controller_that_dies_between_two_writes_is_followed_by_one_that_goes_on(writes: int) -> None:
    async def scenario(world: World) -> None:
        await world.stop_controllers()
        dying = DyingCluster(world, writes)
        await world.start_controllers(dying)
        failing = step(seconds=5, code=1)
        await submit(world, runtime(failing, group={"volcano": {}}, failurePolicy={"maxRestarts": 1}))
        await world.clock.sleep(15)
        await world.stop_controllers()
        await world.start_controllers()
        job = await until(world, "Failed")
        assert holding(job)["Failed"] == "ReachedMaxRestarts"
        (one,) = (await jobs(world)).values()
        assert (one.metadata.labels or {})["jobset.sigs.k8s.io/restart-attempt"] == "1"

    play(scenario, enabled=ENABLED)


def test_an_unchanged_job_is_not_written() -> None:
    async def scenario(world: World) -> None:
        await submit(world, runtime(step(seconds=None)))
        await until_active(world)
        await world.settle()
        before = (await get(world)).metadata.resource_version
        await world.clock.sleep(600)
        assert (await get(world)).metadata.resource_version == before

    play(scenario, enabled=ENABLED)
