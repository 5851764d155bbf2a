"""MPI jobs with kubectl, the same manifests in both worlds; examples/mpijob shows a real mpirun."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]


def replica(count: int, seconds: int, image: str = "busybox", **container: Any) -> dict[str, Any]:
    body = {
        "name": "mpi",
        "image": image,
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        **container,
    }
    spec = {"containers": [body], "terminationGracePeriodSeconds": 1}  # a `sleep` that is process 1 ignores SIGTERM
    return {"replicas": count, "template": {"spec": spec}}


def mpijob(namespace: str, version: str, launcher: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "m", "namespace": namespace},
        "spec": {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": replica(2, 600)}, **spec},
    }


def holds(world: World, namespace: str, wanted: str) -> bool:
    status = world.get("mpijob", "m", "-n", namespace).get("status") or {}
    return any(one["type"] == wanted and one["status"] == "True" for one in status.get("conditions", ()))


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_an_mpi_job_runs_as_a_gang_and_ends_with_its_launcher(world: World, namespace: str, version: str) -> None:
    world.apply(mpijob(namespace, version, replica(1, 2), runPolicy={"cleanPodPolicy": "All"}))
    eventually(lambda: holds(world, namespace, "Succeeded"), what="the job succeeded")
    eventually(
        lambda: not [one for one in world.items("pods", "-n", namespace) if "worker" in one["metadata"]["name"]],
        what="its workers went",
    )
    hosts = world.get("configmap", "m-config", "-n", namespace)["data"]["hostfile"].splitlines()
    assert [host.split()[0].split(".")[0] for host in hosts] == ["m-worker-0", "m-worker-1"]
    assert not world.items("podgroups", "-n", namespace)
    world.kubectl("delete", "mpijob", "m", "-n", namespace)
    eventually(lambda: world.get("configmap", "m-config", "-n", namespace) is None, what="what it had went with it")


def test_a_suspended_mpi_job_keeps_its_launcher_waiting(world: World, namespace: str) -> None:
    world.apply(mpijob(namespace, "v2beta1", replica(1, 600), runPolicy={"suspend": True}))
    eventually(lambda: holds(world, namespace, "Suspended"), what="the job is suspended")
    eventually(
        lambda: (world.get("job", "m-launcher", "-n", namespace) or {}).get("spec", {}).get("suspend"),
        what="its launcher was made suspended",
    )
    assert not world.items("pods", "-n", namespace)
    for suspend, condition, count in ((False, "Running", 3), (True, "Suspended", 0), (False, "Running", 3)):
        turn(world, namespace, suspend, condition, count)


def turn(world: World, namespace: str, suspend: bool, condition: str, count: int) -> None:
    """Suspend or resume the job and wait for what comes of it."""
    patch = f'{{"spec":{{"runPolicy":{{"suspend":{str(suspend).lower()}}}}}}}'
    world.kubectl("patch", "mpijob", "m", "-n", namespace, "--type=merge", "-p", patch)
    eventually(lambda: holds(world, namespace, condition), what=condition)
    eventually(lambda: len(world.items("pods", "-n", namespace)) == count, what=f"there are {count} pods")


def test_an_mpi_job_that_makes_no_sense_is_refused_with_the_place(world: World, namespace: str) -> None:
    job = mpijob(namespace, "v2beta1", replica(2, 1))
    with pytest.raises(Exception, match=r"spec.mpiReplicaSpecs\[Launcher\].replicas.*must be 1"):
        world.apply(job)
