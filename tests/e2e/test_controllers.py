"""Claims, rollouts and custom owners as people meet them with kubectl, in both worlds where both can."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.test_workloads import apply
from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


def claim(name: str, size: str = "1Gi", **spec: Any) -> Json:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}


def phase(world: World, namespace: str, name: str) -> str:
    return str(world.get("pvc", name, "-n", namespace)["status"].get("phase"))


@pytest.mark.embedded
def test_a_claim_is_bound_grows_and_takes_its_volume_along(world: World, namespace: str) -> None:
    """Snakemake and Nextflow ask for a claim and nothing else."""
    apply(world, namespace, claim("work"))
    eventually(lambda: phase(world, namespace, "work") == "Bound", what="the claim is bound")
    bound = world.get("pvc", "work", "-n", namespace)
    assert (bound["spec"]["storageClassName"], bound["status"]["capacity"]) == ("standard", {"storage": "1Gi"})
    apply(world, namespace, claim("work", "2Gi"))
    eventually(
        lambda: world.get("pvc", "work", "-n", namespace)["status"]["capacity"] == {"storage": "2Gi"}, what="it grew"
    )
    world.kubectl("delete", "pvc", "work", "-n", namespace)
    name = bound["spec"]["volumeName"]
    eventually(lambda: name not in [one["metadata"]["name"] for one in world.items("pv")], what="the volume is gone")


def test_a_claim_takes_the_volume_that_its_selector_names(world: World, namespace: str) -> None:
    for label in ("one", "two"):
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/tmp/{namespace}"},
            "storageClassName": "",
        }
        meta = {"name": f"{namespace}-{label}", "labels": {"pick": f"{namespace}-{label}"}}
        world.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec})
    wanted = {"matchLabels": {"pick": f"{namespace}-two"}}
    apply(world, namespace, claim("c", storageClassName="", selector=wanted))
    eventually(lambda: phase(world, namespace, "c") == "Bound", what="the claim is bound")
    assert world.get("pvc", "c", "-n", namespace)["spec"]["volumeName"] == f"{namespace}-two"
    world.kubectl("delete", "pvc", "c", "-n", namespace)
    eventually(
        lambda: world.get("pv", f"{namespace}-two")["status"]["phase"] == "Released", what="the volume is released"
    )
    world.kubectl("delete", "pv", f"{namespace}-one", f"{namespace}-two")


def test_a_deployment_is_undone_and_its_pods_survive_it_as_orphans(world: World, namespace: str) -> None:
    def deployment(image: str) -> Json:
        container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "10m"}}}
        template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}

    def revision() -> str:
        found = world.get("deployment", "d", "-n", namespace)["metadata"].get("annotations") or {}
        return str(found.get("deployment.kubernetes.io/revision"))

    for number, image in enumerate(("one", "two"), 1):
        apply(world, namespace, deployment(image))
        eventually(lambda number=number: revision() == str(number), what=f"revision {number} is there")
    world.kubectl("rollout", "undo", "deployment/d", "-n", namespace)
    eventually(lambda: revision() == "3", what="the first template is the newest")
    sets = world.items("replicasets", "-n", namespace)
    assert len(sets) == 2
    world.kubectl("delete", "deployment", "d", "-n", namespace, "--cascade=orphan")
    apply(world, namespace, deployment("one"))
    eventually(
        lambda: all(one["metadata"].get("ownerReferences") for one in world.items("replicasets", "-n", namespace)),
        what="its successor adopts them",
    )
    assert {one["metadata"]["uid"] for one in world.items("replicasets", "-n", namespace)} == {
        one["metadata"]["uid"] for one in sets
    }
