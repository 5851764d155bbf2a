"""Pods that run are given other resources: by kubectl, on hollow nodes and on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.worlds import EmbeddedWorld, World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def pod(name: str, cpu: str, memory: str = "64Mi", *, policy: str = "", script: str = "", **spec: Any) -> str:
    container = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script or "sleep 3600"]}
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}  # type: ignore[assignment]  # its type changes
    if policy:
        container["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": policy}]  # type: ignore[assignment]  # its type changes
    body = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body})


def resized(world: World, name: str, *where: str, **resources: Any) -> str:
    """Ask for other resources; return what kubectl says."""
    patch = json.dumps({"spec": {"containers": [{"name": "main", "resources": resources}]}})
    done = world.kubectl_process("patch", "pod", name, "--subresource=resize", "-p", patch, *where, check=False)
    return done.stdout + done.stderr


def is_done(world: World, name: str, *where: str) -> bool:
    """Whether the node has come to all that is wanted of a pod."""
    found = world.get("pod", name, *where)
    status, wanted = found["status"], found["spec"]["containers"][0]["resources"]
    pending = [one["type"] for one in status.get("conditions") or () if one["type"].startswith("PodResize")]
    shown = (status.get("containerStatuses") or [{}])[0].get("resources")
    seen = status.get("observedGeneration") == found["metadata"]["generation"]
    return seen and not pending and shown == wanted


@pytest.mark.own_nodes
def test_a_resized_pod_holds_what_it_has_now(world: World, namespace: str) -> None:
    """On four nodes of four CPUs each: what one pod takes more, others do not get."""
    where = ("-n", namespace)

    def create(name: str, cpu: str, **more: Any) -> None:
        world.kubectl("create", *where, "-f", "-", stdin=pod(name, cpu, schedulerName="volcano", **more))

    create("grows", "500m")
    eventually(lambda: is_done(world, "grows", *where), what="the pod runs")
    node = world.get("pod", "grows", *where)["spec"]["nodeName"]
    assert "allocatable: 4000" in resized(world, "grows", *where, requests={"cpu": "5"})
    assert (
        "Forbidden: resource requests cannot be removed"
        in world.kubectl_process(
            *("patch", "pod", "grows", "--subresource=resize", "--type=json", *where, "-p"),
            json.dumps([{"op": "remove", "path": "/spec/containers/0/resources/requests/cpu"}]),
            check=False,
        ).stderr
    )
    assert "patched" in resized(world, "grows", *where, requests={"cpu": "3500m"})
    eventually(lambda: is_done(world, "grows", *where), what="the node has resized it")
    assert world.get("pod", "grows", *where)["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "3500m"
    create("late", "1", nodeSelector={"kubernetes.io/hostname": node})
    create("elsewhere", "1")
    eventually(lambda: is_done(world, "elsewhere", *where), what="the other nodes have room")
    assert not world.get("pod", "late", *where)["spec"].get("nodeName")
    assert "patched" in resized(world, "grows", *where, requests={"cpu": "1"})
    eventually(lambda: is_done(world, "late", *where), what="what is given back is somebody else's")


@pytest.mark.embedded
def test_a_process_feels_its_new_limits(laptop: Callable[..., EmbeddedWorld]) -> None:
    world = laptop("--cpus", "2", "--memory", "2Gi", "--pod-network", "host")
    world.kubectl("create", "-f", "-", stdin=pod("kept", "100m"))
    world.kubectl("create", "-f", "-", stdin=pod("restarted", "100m", policy="RestartContainer"))
    for name in ("kept", "restarted"):
        eventually(lambda name=name: is_done(world, name), what=f"{name} runs")
        assert "patched" in resized(world, name, limits={"memory": "128Mi", "cpu": "500m"}, requests={"memory": "80Mi"})
        eventually(lambda name=name: is_done(world, name), what=f"{name} has been resized")
    kept, restarted = (world.get("pod", name)["status"]["containerStatuses"][0] for name in ("kept", "restarted"))
    eventually(
        lambda: world.get("pod", "restarted")["status"]["containerStatuses"][0]["restartCount"] == 1,
        what="the container was restarted",
    )
    assert kept["restartCount"] == 0
    assert kept["resources"]["limits"] == restarted["resources"]["limits"] == {"memory": "128Mi", "cpu": "500m"}
    if "LimitsNotEnforced" not in world.kubectl("get", "events"):
        read = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
        done = world.kubectl_process("exec", "kept", "--", "sh", "-c", read, check=False)
        assert done.stdout.split() == [str(128 << 20)]


@pytest.mark.embedded
def test_a_resize_waits_for_room(laptop: Callable[..., EmbeddedWorld]) -> None:
    world = laptop("--cpus", "2", "--memory", "2Gi", "--pod-network", "host")
    for name in ("one", "two"):
        world.kubectl("create", "-f", "-", stdin=pod(name, "800m"))
        eventually(lambda name=name: is_done(world, name), what=f"{name} runs")
    assert "patched" in resized(world, "one", requests={"cpu": "1500m"})

    def pending() -> dict[str, Any]:
        found = world.get("pod", "one")["status"].get("conditions") or ()
        return next((one for one in found if one["type"] == "PodResizePending"), {})

    eventually(lambda: pending().get("reason") == "Deferred", what="the resize is deferred")
    assert pending()["message"] == ("Node didn't have enough resource: cpu, requested: 1500, used: 800, capacity: 2000")
    assert world.get("pod", "one")["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "800m"
    world.kubectl("delete", "pod", "two")
    eventually(lambda: is_done(world, "one"), what="there is room now")
    assert "ResizeCompleted" in world.kubectl("get", "events", "--field-selector", "involvedObject.name=one")
