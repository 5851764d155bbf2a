"""Quotas and limit ranges at writes: the same words on either world."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e


def pod(name: str, **resources: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "3600"], "resources": resources}
    # nobody places it: it only has to be there
    spec = {"schedulerName": "nobody", "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_quota_is_held_at_creation(world: World, namespace: str) -> None:
    def create(body: dict[str, Any]) -> str:
        return world.kubectl_process("create", "-n", namespace, "-f", "-", stdin=json.dumps(body), check=False).stderr

    hard = {"requests.cpu": "1", "requests.memory": "1Gi", "count/configmaps": "3"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    assert create(quota) == ""
    eventually(
        lambda: len((world.get("quota", "q", "-n", namespace).get("status") or {}).get("used") or {}) == 3,
        what="the quota is counted",
    )
    # a real server judges by its cache, and takes no pods before the quota there is counted
    eventually(lambda: create(pod("a", requests={"cpu": "600m", "memory": "512Mi"})) == "", what="the first pod fits")
    assert world.get("quota", "q", "-n", namespace)["status"]["used"]["requests.cpu"] == "600m"
    refused = create(pod("b", requests={"cpu": "600m", "memory": "512Mi"}))
    assert (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, '
        "limited: requests.cpu=1"
    ) in refused
    refused = create(pod("b", requests={"cpu": "600m", "memory": "600Mi"}))
    assert (
        "exceeded quota: q, requested: requests.cpu=600m,requests.memory=600Mi, "
        "used: requests.cpu=600m,requests.memory=512Mi, limited: requests.cpu=1,requests.memory=1Gi"
    ) in refused
    refused = create(pod("b", requests={"cpu": "100m"}))
    assert 'pods "b" is forbidden: failed quota: q: must specify requests.memory for: c' in refused
    world.kubectl("delete", "pod", "a", "-n", namespace, "--wait=true")
    eventually(
        lambda: create(pod("c", requests={"cpu": "1", "memory": "1Gi"})) == "", what="the room of a pod comes back"
    )


def test_an_update_is_charged_what_it_adds(world: World, namespace: str) -> None:
    def create(body: dict[str, Any]) -> None:
        world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body))

    def patched(kind: str, change: dict[str, Any]) -> str:
        patch = json.dumps({"spec": change})
        done = world.kubectl_process("patch", kind, "one", "-n", namespace, "-p", patch, check=False)
        return "\n".join(line for line in done.stderr.splitlines() if not line.startswith("Warning: "))

    def counted(name: str) -> bool:
        return bool((world.get("quota", name, "-n", namespace).get("status") or {}).get("used"))

    for name, spec in (
        ("ports", {"hard": {"services.nodeports": "1"}}),
        ("ending", {"hard": {"pods": "0"}, "scopes": ["Terminating"]}),
    ):
        create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec})
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one"}, "spec": {"ports": ports}})
    create(pod("one"))
    eventually(lambda: counted("ports") and counted("ending"), what="the quotas are counted")
    assert (
        'services "one" is forbidden: exceeded quota: ports, requested: services.nodeports=2, '
        "used: services.nodeports=0, limited: services.nodeports=1"
    ) in patched("service", {"type": "NodePort"})
    assert (
        'pods "one" is forbidden: exceeded quota: ending, requested: pods=1, used: pods=0, limited: pods=0'
    ) in patched("pod", {"activeDeadlineSeconds": 600})
    assert patched("service", {"type": "NodePort", "ports": [{"name": "b", "port": 81, "$patch": "delete"}]}) == ""


def test_a_limit_range_fills_in_and_bounds(world: World, namespace: str) -> None:
    limits = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}, "max": {"cpu": "3"}}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limits]}}
    world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body))

    def create(made: dict[str, Any], *options: str) -> str:
        words = ("create", "-n", namespace, *options, "-f", "-")
        return world.kubectl_process(*words, stdin=json.dumps(made), check=False).stderr

    def refused() -> str:
        return create(pod("large", limits={"cpu": "4"}), "--dry-run=server")

    # a real server reads limit ranges from a cache
    eventually(lambda: "maximum cpu usage per Container is 3, but limit is 4" in refused(), what="the bound holds")
    assert create(pod("small")) == ""
    resources = world.get("pod", "small", "-n", namespace)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}


def test_a_limit_range_bounds_whole_pods_and_claims(world: World, namespace: str) -> None:
    bounds = [
        {"type": "Pod", "max": {"cpu": "3"}, "min": {"cpu": "200m"}, "maxLimitRequestRatio": {"cpu": "2"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}},
    ]
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": bounds}}
    world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body))

    def create(made: dict[str, Any], *options: str) -> str:
        words = ("create", "-n", namespace, *options, "-f", "-")
        return world.kubectl_process(*words, stdin=json.dumps(made), check=False).stderr

    def claim(storage: str) -> dict[str, Any]:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}

    eventually(
        lambda: (
            "maximum cpu usage per Pod is 3, but limit is 4"
            in create(pod("large", requests={"cpu": "4"}, limits={"cpu": "4"}), "--dry-run=server")
        ),
        what="the bound holds",
    )
    refused = create(pod("eager", requests={"cpu": "500m"}, limits={"cpu": "2"}))
    assert "cpu max limit to request ratio per Pod is 2, but provided ratio is 4.000000" in refused
    refused = create(pod("silent"))
    for text in (
        "minimum cpu usage per Pod is 200m.  No request is specified",
        "maximum cpu usage per Pod is 3.  No limit is specified",
        "cpu max limit to request ratio per Pod is 2, but no request is specified or request is 0",
    ):
        assert text in refused
    refused = create(claim("3Gi"))
    assert "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi" in refused
    refused = create(claim("512Mi"))
    assert "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi" in refused
    assert create(claim("2Gi")) == ""
    assert create(pod("small", requests={"cpu": "1"}, limits={"cpu": "2"})) == ""
