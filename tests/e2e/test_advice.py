"""Vertical autoscalers with kubectl, and advice out of what a training job really used."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.worlds import EmbeddedWorld, World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
Json = dict[str, Any]
TARGET = {"cpu": "300m"}


def deployment(namespace: str) -> Json:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "3600"]}
    container["resources"] = {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}  # type: ignore[assignment]  # its type changes
    labels = {"app": "web"}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "schedulerName": "volcano"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def vpa(namespace: str, target: Json, mode: str, recommender: str) -> Json:
    """Return an autoscaler whose policy leaves one recommendation alone, whoever makes it."""
    policy = {"containerName": "*", "controlledResources": ["cpu"], "minAllowed": TARGET, "maxAllowed": TARGET}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "targetRef": target,
            "updatePolicy": {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": [policy]},
            "recommenders": [{"name": recommender}],
        },
    }


def recommended(world: World, namespace: str, container: str) -> None:
    """Write a recommendation as some recommender would."""
    advice = {"containerName": container, "target": TARGET, "lowerBound": TARGET, "upperBound": TARGET}
    patch = {"status": {"recommendation": {"containerRecommendations": [advice]}}}
    where = ("-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    world.kubectl("patch", "vpa", "web", *where)


def pods(world: World, namespace: str) -> list[Json]:
    return [one for one in world.items("pods", "-n", namespace) if one["status"].get("phase") == "Running"]


def resources(pod: Json) -> Json:
    found: Json = pod["spec"]["containers"][0]["resources"]
    return found


WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
FOLLOWED = {"requests": {"cpu": "300m"}, "limits": {"cpu": "600m"}}


def test_new_pods_get_what_is_recommended(world: World, namespace: str) -> None:
    world.apply(deployment(namespace))
    eventually(lambda: pods(world, namespace), what="the first pod runs")
    world.apply(vpa(namespace, WEB, "Initial", "somebody"))
    recommended(world, namespace, "main")
    (first,) = pods(world, namespace)
    assert resources(first)["requests"]["cpu"] == "100m"
    world.kubectl("delete", "pod", first["metadata"]["name"], "-n", namespace)

    def second() -> list[Json]:
        return [one for one in pods(world, namespace) if one["metadata"]["uid"] != first["metadata"]["uid"]]

    (new,) = eventually(second, what="another pod runs")
    assert resources(new) == FOLLOWED
    assert new["metadata"]["annotations"]["vpaUpdates"] == (
        "Pod resources updated by web: container 0: cpu request, cpu limit"
    )


@pytest.mark.own_nodes
def test_running_pods_are_resized_as_recommended(world: World, namespace: str) -> None:
    """Also where nobody measures use: what is recommended holds."""
    world.apply(deployment(namespace))
    eventually(lambda: pods(world, namespace), what="the pod runs")
    (before,) = pods(world, namespace)
    world.apply(vpa(namespace, WEB, "InPlace", "strato"))
    recommended(world, namespace, "main")
    eventually(
        lambda: [resources(one) for one in pods(world, namespace)] == [FOLLOWED], timeout=240, what="it is resized"
    )
    (after,) = pods(world, namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0].get("restartCount", 0) == 0
    eventually(lambda: "ResizedInPlace" in world.kubectl("get", "events", "-n", namespace), what="an event says so")


def tfjob() -> Json:
    """Return a training whose chief computes until it has certainly been measured.

    Use is asked for once a minute, and a replica's first minute does not count.
    """

    def role(script: str, cpu: str) -> Json:
        container: Json = {"name": "tensorflow", "image": "strato/host", "command": ["sh", "-c", script]}
        container["resources"] = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        return {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}

    roles = {"Chief": role("timeout 130 sh -c 'while :; do :; done'; true", "700m"), "PS": role("sleep 1000", "700m")}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "ctr-20260801", "namespace": "default"},
        "spec": {"runPolicy": {"schedulingPolicy": {"queue": "rec"}}, "tfReplicaSpecs": roles},
    }


@pytest.mark.timeout(1500)
@pytest.mark.embedded
def test_advice_follows_from_what_a_training_job_used(laptop: Callable[..., EmbeddedWorld]) -> None:
    """One role computes and one sleeps, both asking for the same."""
    world = laptop("--cpus", "2", "--memory", "2Gi", "--pod-network", "host")
    assert "no use of training jobs is recorded yet" in world.own("advise")
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "rec"}, "spec": {}}
    world.apply(queue)
    world.apply(tfjob())

    def advice(*options: str) -> dict[str, Json]:
        found = json.loads(world.own("advise", *options, "-o", "json"))["items"]
        return {one["role"]: one for one in found}

    eventually(lambda: advice("-q", "rec").keys() >= {"chief", "ps"}, timeout=400, what="use is recorded", every=2)

    def report() -> Json:
        (found,) = json.loads(world.own("report", "--by", "queue", "-o", "json"))["items"]
        return dict(found)

    eventually(lambda: report()["meanRunSeconds"], timeout=400, what="the run has ended", every=2)

    def is_known() -> bool:
        """Whether the CPU samples of both are there; those of one that goes on are written now and then."""
        return all("cpu unknown" not in one.get("notes", ()) for one in advice("--queue", "rec", "ctr").values())

    eventually(is_known, timeout=400, what="the replicas' use is recorded", every=2)
    found = advice("--queue", "rec", "ctr")
    chief, ps = found["chief"], found["ps"]
    assert chief["cpuUseCores"]["p90"] > ps["cpuUseCores"]["p90"]
    assert ps["target"]["cpu"] == "100m"
    assert ps["savedCoreHoursPerRun"] > 0
    assert chief["lowConfidence"]
    assert chief["queue"] == "rec"
    assert not advice("-q", "default")
    table = world.own("advise")
    assert "CPU ADVICE" in table
    assert "low confidence" in table
    assert (report()["queue"], report()["runs"]) == ("rec", 1)
    assert report()["meanRunSeconds"] > 100
