"""MPI jobs on a real API server in memory: what they make, how they start, end, wait and go on."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key

from strato.api import catalog, kubeflow, mpioperator
from strato.api.batch import Job
from strato.api.core import ConfigMap, Event, Secret
from strato.api.kinds import Kind
from strato.api.meta import Json
from strato.api.volcano.scheduling import PodGroup
from strato.controllers.kube.garbage import GarbageCollector
from strato.controllers.training.adapters import ADAPTERS
from strato.errors import ApiError, NotFound
from tests.controllers.world import World, play

CONTROLLERS = tuple(ADAPTERS[kind].framework.controller for kind in (catalog.MPIJOB, catalog.MPIJOB_V1))
ENABLED = (*CONTROLLERS, "kube-job-controller", "queue-controller", GarbageCollector.name)


def role(replicas: int, *, seconds: float | None = None, code: int = 0, **more: Any) -> Json:
    annotations = {} if seconds is None else {"test/seconds": str(seconds), "test/exit": str(code)}
    container = {"name": "mpi", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    return {"replicas": replicas, "template": template, **more}


def mpijob(kind: Kind = catalog.MPIJOB, *, launcher: Json | None = None, workers: int = 2, **spec: Any) -> Json:
    roles = {"Launcher": launcher or role(1, seconds=20), "Worker": role(workers)}
    return {
        "apiVersion": kind.api_version,
        "kind": "MPIJob",
        "metadata": {"name": "m", "namespace": "default"},
        "spec": {"mpiReplicaSpecs": roles, **spec},
    }


async def get(world: World) -> mpioperator.MPIJob:
    return await world.cluster.get(mpioperator.MPIJob, "m", "default")


def holding(job: kubeflow.TrainingJob) -> list[str]:
    return [one.type for one in job.status.conditions if one.status == "True"]


async def until(world: World, wanted: str) -> mpioperator.MPIJob:
    async def reached() -> bool:
        return wanted in holding(await get(world))

    await world.until(reached, 120)
    return await get(world)


def test_job_runs_ranks_by_ssh_and_succeeds_with_its_launcher() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.MPIJOB, mpijob(slotsPerWorker=2), "default")
        await until(world, "Running")
        pods = await world.pods()
        assert {"m-worker-0", "m-worker-1"} < set(pods)
        worker = pods["m-worker-1"]
        assert worker.metadata.labels == {
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": "m",
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": "1",
        }
        assert (worker.spec.hostname, worker.spec.subdomain) == ("m-worker-1", "m")
        (launcher,) = (pod for name, pod in pods.items() if name.startswith("m-launcher"))
        environment = {one.name: one.value for one in launcher.spec.containers[0].env}
        assert environment["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
        config = await world.cluster.get(ConfigMap, "m-config", "default")
        hosts = [f"m-worker-{index}.m.default.svc" for index in (0, 1)]
        assert config.data["hostfile"] == "".join(f"{host} slots=2\n" for host in hosts)
        assert config.data["discover_hosts.sh"] == "#!/bin/sh\n" + "".join(f"echo {host}\n" for host in hosts)
        secret = await world.cluster.get(Secret, "m-ssh", "default")
        private = load_pem_private_key(base64.b64decode(secret.data["ssh-privatekey"]), None)
        public = load_ssh_public_key(base64.b64decode(secret.data["ssh-publickey"]))
        assert private.public_key() == public
        group = await world.cluster.get(PodGroup, "m", "default")
        assert (group.spec.min_member, dict(group.spec.min_resources or {})) == (3, {"cpu": "3"})
        job = await until(world, "Succeeded")
        assert job.status.completion_time
        assert (await world.cluster.get(Secret, "m-ssh", "default")).data == secret.data

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(("policy", "left"), [("None", 2), ("Running", 0), ("All", 0)])
def test_workers_go_as_the_policy_says(policy: str, left: int) -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.MPIJOB, mpijob(runPolicy={"cleanPodPolicy": policy}), "default")
        await until(world, "Succeeded")
        await world.settle()
        assert sum("worker" in name for name in await world.pods()) == left

    play(scenario, enabled=ENABLED)


def test_jobs_of_v2beta1_are_counted_by_the_names_of_their_operator() -> None:
    async def scenario(world: World) -> None:
        other = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "nobodys"}}
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        await world.cluster.create(catalog.JOB, {**other, "spec": {"template": template}}, "default")
        await world.cluster.create(catalog.MPIJOB, mpijob(launcher=role(1, seconds=5)), "default")
        await until(world, "Running")
        launchers = {line for line in said(world) if line.startswith("mpi_operator_job_info{")}
        assert launchers == {'mpi_operator_job_info{launcher="m-launcher",namespace="default"} 1.0'}
        await until(world, "Succeeded")
        assert {"mpi_operator_jobs_created_total 1.0", "mpi_operator_jobs_successful_total 1.0"} <= said(world)
        assert "mpi_operator_jobs_failed_total 0.0" in said(world)

    def said(world: World) -> set[str]:
        return set(world.metrics.render().decode().splitlines())

    play(scenario, enabled=ENABLED)


def test_launcher_that_fails_too_often_fails_the_job_with_its_reason() -> None:
    async def scenario(world: World) -> None:
        launcher = role(1, seconds=2, code=1, restartPolicy="Never")
        await world.cluster.create(catalog.MPIJOB, mpijob(launcher=launcher, runPolicy={"backoffLimit": 1}), "default")
        job = await until(world, "Failed")
        failed = next(one for one in job.status.conditions if one.type == "Failed")
        assert failed.reason.startswith("BackoffLimitExceeded")
        assert job.status.replica_statuses["Launcher"].failed == 2

    play(scenario, enabled=ENABLED)


def test_launcher_waits_for_its_workers_also_after_a_suspension() -> None:
    async def scenario(world: World) -> None:
        wanted = mpijob(launcherCreationPolicy="WaitForWorkersReady", runPolicy={"suspend": True})
        await world.cluster.create(catalog.MPIJOB, wanted, "default")
        await until(world, "Suspended")
        await world.settle()
        assert not await world.pods()
        assert (await world.cluster.get(Job, "m-launcher", "default")).spec.suspend
        await world.cluster.patch(catalog.MPIJOB, "m", "default", {"spec": {"runPolicy": {"suspend": False}}})
        job = await until(world, "Running")
        assert not (await world.cluster.get(Job, "m-launcher", "default")).spec.suspend
        assert (await world.cluster.get(PodGroup, "m", "default")).spec.min_member == 2
        assert "Suspended" not in holding(job)
        await until(world, "Succeeded")

    play(scenario, enabled=ENABLED)


def test_job_of_v1_executes_in_workers_and_in_nothing_else() -> None:
    async def scenario(world: World) -> None:
        wanted = mpijob(catalog.MPIJOB_V1, mainContainer="mpi", slotsPerWorker=3)
        await world.cluster.create(catalog.MPIJOB_V1, wanted, "default")
        await until(world, "Running")
        pods = await world.pods()
        assert set(pods) == {"m-launcher", "m-worker-0", "m-worker-1"}
        assert pods["m-launcher"].spec.service_account_name == "m-launcher"
        assert [one.name for one in pods["m-launcher"].spec.init_containers] == ["kubectl-delivery"]
        assert "training.kubeflow.org/replica-index" not in (pods["m-launcher"].metadata.labels or {})
        config = await world.cluster.get(ConfigMap, "m-config", "default")
        assert config.data["hostfile"] == "m-worker-0 slots=3\nm-worker-1 slots=3\n"
        assert config.data["discover_hosts.sh"] == "#!/bin/sh\necho m-worker-0:3\necho m-worker-1:3"
        assert "exec ${POD_NAME} --container mpi -- " in config.data["kubexec.sh"]
        granted = await world.cluster.get(catalog.ROLE, "m-launcher", "default")
        assert [rule.get("resourceNames") for rule in granted["rules"]] == [None, ["m-worker-0", "m-worker-1"]]
        await until(world, "Succeeded")

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(("made", "other"), [(catalog.MPIJOB_V1, catalog.MPIJOB), (catalog.MPIJOB, catalog.MPIJOB_V1)])
def test_job_keeps_the_version_it_was_created_in(made: Kind, other: Kind) -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(made, mpijob(made, runPolicy={"suspend": True}), "default")
        shown = await world.cluster.get(other, "m", "default")
        assert shown["apiVersion"] == other.api_version
        change = {"spec": {"runPolicy": {"activeDeadlineSeconds": 5}}}
        if other is catalog.MPIJOB:  # whose defaults would make it one of v2beta1
            with pytest.raises(ApiError, match="keeps the version it was created in"):
                await world.cluster.patch(other, "m", "default", change)
        else:
            changed = await world.cluster.patch(other, "m", "default", change)
            assert changed["spec"]["sshAuthMountPath"] == "/root/.ssh"

    play(scenario, enabled=ENABLED)


def test_objects_of_others_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m-ssh"}, "stringData": {"a": "b"}}
        await world.cluster.create(catalog.SECRET, body, "default")
        await world.cluster.create(catalog.MPIJOB, mpijob(), "default")

        async def reported() -> bool:
            events = (await world.cluster.list(Event, "default")).items
            return any(one.reason == "ErrResourceExists" for one in events)

        await world.until(reported, 60)
        assert not await world.pods()
        with pytest.raises(NotFound):
            await world.cluster.get(Job, "m-launcher", "default")

    play(scenario, enabled=ENABLED)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mpiReplicaSpecs": {"Launcher": role(2)}}, r"mpiReplicaSpecs\[Launcher\].replicas: .*must be 1"),
        ({"mpiReplicaSpecs": {"Worker": role(1)}}, r"mpiReplicaSpecs\[Launcher\]: .*must have Launcher replica spec"),
        (
            {"mpiReplicaSpecs": {"Launcher": role(1), "Worker": role(1, restartPolicy="Always")}},
            r"mpiReplicaSpecs\[Worker\].restartPolicy: .*supported values",
        ),
    ],
)
def test_job_that_makes_no_sense_is_refused_with_the_place(change: Json, said: str) -> None:
    async def scenario(world: World) -> None:
        wanted = mpijob()
        wanted["spec"] |= change
        with pytest.raises(ApiError, match=said):
            await world.cluster.create(catalog.MPIJOB, wanted, "default")

    play(scenario, enabled=ENABLED)
