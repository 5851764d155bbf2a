"""What makes jobs and pods: flows, cron jobs, Kubernetes' own workloads. The same manifests in both worlds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import World, eventually

pytestmark = pytest.mark.e2e


def apply(world: World, namespace: str, *bodies: dict[str, Any]) -> None:
    for body in bodies:
        world.apply({**body, "metadata": {**body["metadata"], "namespace": namespace}})


def template(name: str, **job: Any) -> dict[str, Any]:
    spec = vcjob("x", **{"replicas": 1, **job})["spec"]
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}


def flow(*steps: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f"},
        "spec": {"flows": list(steps), **spec},
    }


def test_a_flow_runs_its_steps_in_order(world: World, namespace: str) -> None:
    patch = {"jobSpec": {"tasks": [{"name": "work", "replicas": 2}], "minAvailable": 2}}
    steps = ({"name": "b", "dependsOn": {"targets": ["a"]}, "patch": patch}, {"name": "a"})
    apply(world, namespace, template("a"), template("b"), flow(*steps))

    def status() -> Any:
        return world.get("jobflow", "f", "-n", namespace).get("status") or {}

    eventually(lambda: (status().get("state") or {}).get("phase") == "Succeed", what="the flow succeeded")
    seen = status()
    assert seen["completedJobs"] == ["f-b", "f-a"]
    starts = {entry["name"]: entry["startTimestamp"] for entry in seen["jobStatusList"]}
    assert starts["f-a"] < starts["f-b"]
    job = world.get("vcjob", "f-b", "-n", namespace)
    assert job["spec"]["tasks"][0]["replicas"] == 2
    assert job["metadata"]["ownerReferences"][0]["kind"] == "JobFlow"
    assert world.get("jobtemplate", "a", "-n", namespace)["status"]["jobDependsOnList"] == ["f-a"]


def test_jobs_of_a_flow_go_when_asked(world: World, namespace: str) -> None:
    apply(world, namespace, template("a"), flow({"name": "a"}, jobRetainPolicy="delete"))
    eventually(
        lambda: (
            (world.get("jobflow", "f", "-n", namespace).get("status") or {}).get("state", {}).get("phase") == "Succeed"
        ),
        what="the flow succeeded",
    )
    eventually(lambda: not world.items("jobs.batch.volcano.sh", "-n", namespace), what="its job is gone")


def test_a_cron_job_makes_jobs_and_keeps_the_youngest(world: World, namespace: str) -> None:
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "@every 3s",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": {"by": "cron"}}, "spec": vcjob("x", replicas=1)["spec"]},
        },
    }
    apply(world, namespace, body)

    def cron() -> Any:
        return world.get("cronjobs.batch.volcano.sh", "tick", "-n", namespace)

    eventually(lambda: (cron().get("status") or {}).get("lastSuccessfulTime"), what="a run succeeded")
    jobs = world.items("jobs.batch.volcano.sh", "-n", namespace)
    assert all(job["metadata"]["labels"]["by"] == "cron" for job in jobs)
    assert all("volcano.sh/cronjob-scheduled-timestamp" in job["metadata"]["annotations"] for job in jobs)
    world.kubectl(
        "patch", "cronjobs.batch.volcano.sh", "tick", "-n", namespace, "--type=merge", "-p", '{"spec":{"suspend":true}}'
    )
    eventually(lambda: not cron()["status"].get("active"), what="nothing runs")
    eventually(lambda: len(world.items("jobs.batch.volcano.sh", "-n", namespace)) <= 1, what="one job is kept")


@pytest.mark.own_nodes
def test_hyper_nodes_are_counted(world: World, namespace: str) -> None:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "^hollow-[01]$"}}}]
    body = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": f"h-{namespace}"},
        "spec": {"tier": 1, "members": members},
    }
    world.apply(body)
    try:
        eventually(
            lambda: (world.get("hypernode", body["metadata"]["name"]).get("status") or {}).get("nodeCount") == 2,
            what="two nodes are counted",
        )
    finally:
        world.kubectl("delete", "hypernode", body["metadata"]["name"])


def pod_template(*command: str, policy: str = "Always") -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": list(command) or ["sleep", "600"]}
    spec = {
        "restartPolicy": policy,
        "schedulerName": "volcano",
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
    }
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec}


@pytest.mark.embedded
def test_kubernetes_jobs_and_cron_jobs(world: World, namespace: str) -> None:
    spec = {
        "completions": 3,
        "parallelism": 2,
        "completionMode": "Indexed",
        "template": pod_template("sleep", "1", policy="Never"),
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"schedule": "@every 2s", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job["spec"]}},
    }
    apply(world, namespace, job, cron)
    world.kubectl("wait", "job/j", "-n", namespace, "--for=condition=complete", "--timeout=120s")
    assert world.get("job", "j", "-n", namespace)["status"]["completedIndexes"] == "0-2"
    eventually(
        lambda: (world.get("cronjobs.batch", "c", "-n", namespace).get("status") or {}).get("lastSuccessfulTime"),
        what="a run of the cron job succeeded",
    )


@pytest.mark.embedded
def test_kubernetes_sets(world: World, namespace: str) -> None:
    selector = {"matchLabels": {"app": "a"}}
    common = {"selector": selector, "template": pod_template()}
    stateful = {"replicas": 3, "serviceName": "s", **common}
    apply(
        world,
        namespace,
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": stateful},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": common},
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"selector": selector, "minAvailable": 6},
        },
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "10"}}},
    )
    world.kubectl("rollout", "status", "statefulset/s", "-n", namespace, "--timeout=120s")
    world.kubectl("rollout", "status", "daemonset/d", "-n", namespace, "--timeout=120s")
    assert world.get("daemonset", "d", "-n", namespace)["status"]["numberReady"] == 4
    eventually(
        lambda: (world.get("pdb", "b", "-n", namespace).get("status") or {}).get("disruptionsAllowed") == 1,
        what="seven healthy pods, six must stay",
    )
    eventually(
        lambda: (
            (world.get("resourcequota", "q", "-n", namespace).get("status") or {}).get("used", {}).get("pods") == "7"
        ),
        what="seven pods are counted",
    )


def test_a_pod_of_poseidon_is_placed_by_flow_and_says_which_prices_decided(world: World, namespace: str) -> None:
    """While kernels are loaded (the first time: compiled) `allocate` places, so another pod is tried."""
    container = {"name": "c", "image": "busybox", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "1"}}}
    numbers = itertools.count()

    def told() -> str:
        name = f"p{next(numbers)}"
        spec = {"schedulerName": "poseidon", "containers": [container], "terminationGracePeriodSeconds": 0}
        apply(world, namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        eventually(lambda: world.get("pod", name, "-n", namespace)["spec"].get("nodeName"), what=f"{name} is bound")
        text = eventually(lambda: scheduled(world, namespace, name), what=f"the event of {name}")
        explained = world.strato("explain", "-n", namespace, f"pod/{name}")
        world.kubectl("delete", "pod", name, "-n", namespace, "--grace-period=0", "--force")
        return explained if "flow: place" in text else ""

    explained = eventually(told, timeout=500, every=1.0, what="a pod was placed by flow")
    assert "flow: place " in explained
    assert "; waiting " in explained


def scheduled(world: World, namespace: str, pod: str) -> str:
    """Return what the event of a pod's placement says; empty while there is none."""
    events = world.items("events", "-n", namespace, "--field-selector", f"involvedObject.name={pod},reason=Scheduled")
    return next((event["message"] for event in events), "")
