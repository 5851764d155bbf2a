"""Claims for volumes and devices, with Kubernetes' own controllers making and binding what the scheduler chose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.own_nodes]

Json = dict[str, Any]
DRIVER = "gpu.example.com"


@pytest.fixture
def kube(world: World) -> World:
    """The real control plane with its nodes; the embedded server neither binds volumes nor makes claims."""
    if not world.is_kubernetes:
        pytest.skip("needs Kubernetes' volume and claim controllers: STRATO_E2E_WORLD=kube")
    eventually(lambda: len(world.items("nodes")) >= 4, what="four nodes are there")
    return world


def obj(kind: str, api: str, name: str, **body: Any) -> Json:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **body}


def pod(name: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "img", "resources": {"requests": {"cpu": "100m"}}}
    return obj("Pod", "v1", name, spec={"schedulerName": "volcano", "containers": [container], **spec})


def node_of(world: World, namespace: str, name: str) -> str:
    found = world.get("pod", name, "-n", namespace)
    return str(found["spec"].get("nodeName") or "")


def test_pods_follow_local_volumes_that_wait_for_them(kube: World, namespace: str) -> None:
    nodes = [node["metadata"]["name"] for node in kube.items("nodes")]
    late, volumes = f"late-{namespace}", [f"{namespace}-{i}" for i in range(2)]
    provisioner = "kubernetes.io/no-provisioner"
    kube.apply(
        obj(
            "StorageClass", "storage.k8s.io/v1", late, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer"
        )
    )
    for name, node in zip(volumes, nodes[1:3], strict=True):
        wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": late,
            "local": {"path": "/data"},
            "nodeAffinity": affinity,
        }
        kube.apply(obj("PersistentVolume", "v1", name, spec=spec))
    try:
        for i in range(2):
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": late,
                "resources": {"requests": {"storage": "1Gi"}},
            }
            claim = obj("PersistentVolumeClaim", "v1", f"data-{i}", spec=spec)
            kube.kubectl("apply", "-n", namespace, "-f", "-", stdin=_text(claim))
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{i}"}}
            kube.kubectl("apply", "-n", namespace, "-f", "-", stdin=_text(pod(f"p{i}", volumes=[volume])))
        eventually(lambda: all(node_of(kube, namespace, f"p{i}") for i in range(2)), what="both pods have nodes")
        assert {node_of(kube, namespace, f"p{i}") for i in range(2)} == set(nodes[1:3])
    finally:
        kube.kubectl("delete", "pod", "p0", "p1", "-n", namespace, "--ignore-not-found")
        kube.kubectl("delete", "pvc", "--all", "-n", namespace)
        kube.kubectl("delete", "pv", *volumes)
        kube.kubectl("delete", "storageclass", late)


def test_pods_get_devices_through_claims_made_from_a_template(kube: World, namespace: str) -> None:
    api = "resource.k8s.io/v1"
    nodes = [node["metadata"]["name"] for node in kube.items("nodes")]
    class_, slice_ = f"gpu-{namespace}", f"slice-{namespace}"
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == 'x'"}}]
    kube.apply(obj("DeviceClass", api, class_, spec={"selectors": selectors}))
    devices = [{"name": f"gpu-{i}", "attributes": {"model": {"string": "x" if i < 2 else "y"}}} for i in range(3)]
    pool = {"name": namespace, "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DRIVER, "nodeName": nodes[2], "pool": pool, "devices": devices}
    kube.apply(obj("ResourceSlice", api, slice_, spec=body))
    try:
        requests = [{"name": "gpu", "exactly": {"deviceClassName": class_}}]
        template = obj("ResourceClaimTemplate", api, "one", spec={"spec": {"devices": {"requests": requests}}})
        kube.kubectl("apply", "-n", namespace, "-f", "-", stdin=_text(template))
        for i in range(3):
            entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
            kube.kubectl("apply", "-n", namespace, "-f", "-", stdin=_text(pod(f"p{i}", resourceClaims=[entry])))
        eventually(
            lambda: sum(bool(node_of(kube, namespace, f"p{i}")) for i in range(3)) == 2,
            what="two of three have devices",
        )

        def told() -> bool:
            waiting = [p for p in kube.items("pods", "-n", namespace) if not p["spec"].get("nodeName")]
            conditions = [c for p in waiting for c in p["status"].get("conditions", ())]
            return len(waiting) == 1 and any("cannot allocate all claims" in c.get("message", "") for c in conditions)

        eventually(told, what="the third is told why it waits")
        claims = kube.items("resourceclaims", "-n", namespace)
        results = [
            r["device"] for c in claims if c.get("status") for r in c["status"]["allocation"]["devices"]["results"]
        ]
        assert sorted(results) == ["gpu-0", "gpu-1"]
    finally:
        kube.kubectl("delete", "pods", "--all", "-n", namespace)
        kube.kubectl("delete", "resourceslice", slice_)
        kube.kubectl("delete", "deviceclass", class_)


def _text(body: Json) -> str:
    return json.dumps(body)
