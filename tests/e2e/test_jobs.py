"""Volcano jobs from submission to clean-up, on the embedded server and on a real kube-apiserver alike."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from typing import Any

import pytest

from tests.e2e.worlds import STRATO, World, eventually

pytestmark = pytest.mark.e2e


def vcjob(
    name: str,
    *,
    replicas: int = 3,
    cpu: str = "1",
    seconds: float = 1,
    min_available: int | None = None,
    queue: str = "default",
    **spec: Any,
) -> dict[str, Any]:
    container = {
        "name": "work",
        "image": "busybox",
        "command": ["sleep", f"{seconds:g}"],
        "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
    }
    task = {
        "name": "work",
        "replicas": replicas,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1}},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "minAvailable": replicas if min_available is None else min_available,
            "tasks": [task],
            **spec,
        },
    }


def submit(world: World, namespace: str, job: dict[str, Any]) -> None:
    world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(job))


def pods_of(world: World, namespace: str, job: str) -> list[dict[str, Any]]:
    return world.items("pods", "-n", namespace, "-l", f"volcano.sh/job-name={job}")


def bound(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def test_a_gang_job_runs_to_completion(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("train", replicas=6))
    eventually(lambda: world.job_phase("train", namespace) == "Completed", what="job is Completed")
    pods = pods_of(world, namespace, "train")
    assert sorted(pod["metadata"]["name"] for pod in pods) == [f"train-work-{index}" for index in range(6)]
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}


def test_the_pod_group_comes_before_its_pods_and_passes_through_inqueue(world: World, namespace: str) -> None:
    command = ["kubectl", "--kubeconfig", str(world.kubeconfig), "get", "podgroups", "-n", namespace, "-w"]
    line_format = "jsonpath={.metadata.name} {.status.phase}{'\\n'}"
    submit(world, namespace, vcjob("first", replicas=1, seconds=600))  # its line shows that the watch is attached
    eventually(lambda: world.items("podgroups", "-n", namespace), what="the first pod group")
    watch = subprocess.Popen([*command, "-o", line_format], stdout=subprocess.PIPE, text=True)
    try:
        assert watch.stdout is not None
        watch.stdout.readline()
        submit(world, namespace, vcjob("phases", seconds=3))
        seen: list[str] = []
        for line in watch.stdout:
            name, _, phase = line.strip().partition(" ")
            if name.startswith("phases-") and phase not in seen:
                seen.append(phase)
            if "Running" in seen:
                break
    finally:
        watch.kill()
        watch.communicate()
    assert seen == ["Pending", "Inqueue", "Running"]
    group = next(g for g in world.items("podgroups", "-n", namespace) if g["metadata"]["name"].startswith("phases-"))
    assert group["metadata"]["ownerReferences"][0]["name"] == "phases"
    for pod in pods_of(world, namespace, "phases"):
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]
        assert pod["metadata"]["creationTimestamp"] >= group["metadata"]["creationTimestamp"]


@pytest.mark.own_nodes
def test_gangs_that_do_not_fit_together_run_one_after_another(world: World, namespace: str) -> None:
    """16 cpus hold one and a third gang of 12: no gang may ever be half-started."""
    for copy in range(3):
        submit(world, namespace, vcjob(f"gang-{copy}", replicas=12, seconds=2))

    def all_completed() -> bool:
        # one list, so of one moment: binding 12 pods takes several writes, so one gang may be in the making, never two
        pods = bound(world.items("pods", "-n", namespace))
        placed = Counter(pod["metadata"]["labels"]["volcano.sh/job-name"] for pod in pods)
        assert sum(count < 12 for count in placed.values()) <= 1, placed
        return all(world.job_phase(f"gang-{copy}", namespace) == "Completed" for copy in range(3))

    eventually(all_completed, timeout=240, what="three gangs complete")


@pytest.mark.own_nodes
def test_a_gang_that_cannot_fit_waits_and_says_why(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("huge", replicas=4, cpu="5"))
    group = eventually(
        lambda: next(
            (
                group
                for group in world.items("podgroups", "-n", namespace)
                if any(c["type"] == "Unschedulable" for c in group.get("status", {}).get("conditions", []))
            ),
            None,
        ),
        what="an Unschedulable condition",
    )
    condition = next(c for c in group["status"]["conditions"] if c["type"] == "Unschedulable")
    assert condition["reason"] == "NotEnoughResources"
    assert not bound(pods_of(world, namespace, "huge"))
    text = world.strato("explain", "-n", namespace, "job/huge")
    assert "cpu" in text


def test_suspend_kills_the_pods_and_resume_runs_them_again(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("pause", seconds=600))
    eventually(lambda: world.job_phase("pause", namespace) == "Running", what="job runs")
    assert "suspend job pause successfully" in world.strato("job", "suspend", "-n", namespace, "-N", "pause")
    eventually(lambda: world.job_phase("pause", namespace) == "Aborted", what="job is Aborted")
    eventually(lambda: not pods_of(world, namespace, "pause"), what="its pods are gone")
    world.strato("job", "resume", "-n", namespace, "-N", "pause")
    eventually(lambda: world.job_phase("pause", namespace) == "Running", what="job runs again")
    eventually(lambda: len(bound(pods_of(world, namespace, "pause"))) == 3, what="its pods are back")
    assert world.get("vcjob", "pause", "-n", namespace)["status"]["retryCount"] == 1


def test_deleting_a_job_removes_what_it_owns_and_nothing_else(world: World, namespace: str) -> None:
    world.kubectl("create", "configmap", "bystander", "-n", namespace, "--from-literal=a=b")
    submit(world, namespace, vcjob("gone", seconds=600, plugins={"svc": [], "env": []}))
    eventually(lambda: world.job_phase("gone", namespace) == "Running", what="job runs")
    assert world.get("configmap", "gone-svc", "-n", namespace)["data"]["work.host"].split() == [
        f"gone-work-{index}.gone" for index in range(3)
    ]
    assert world.get("service", "gone", "-n", namespace)["spec"]["clusterIP"] == "None"
    world.strato("job", "delete", "-n", namespace, "-N", "gone")
    for kind in ("vcjob", "pods", "podgroups", "services", "networkpolicies"):
        eventually(lambda kind=kind: not world.items(kind, "-n", namespace), what=f"no {kind} are left")
    names = {item["metadata"]["name"] for item in world.items("configmaps", "-n", namespace)}
    assert names - {"kube-root-ca.crt"} == {"bystander"}


@pytest.mark.own_nodes
def test_a_failing_pod_restarts_its_job_until_the_retries_are_used_up(world: World, namespace: str) -> None:
    job = vcjob("flaky", replicas=2, maxRetry=2, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    job["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"strato.dev/exit-code": "3"}}
    submit(world, namespace, job)
    eventually(lambda: world.job_phase("flaky", namespace) == "Failed", what="job is Failed")
    assert world.get("vcjob", "flaky", "-n", namespace)["status"]["retryCount"] == 2


def test_a_completed_task_completes_the_job_by_policy(world: World, namespace: str) -> None:
    job = vcjob("policy", replicas=1, seconds=1)
    server = json.loads(json.dumps(job["spec"]["tasks"][0]))
    server["name"], server["template"]["spec"]["containers"][0]["command"] = "server", ["sleep", "600"]
    job["spec"]["tasks"][0]["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    job["spec"]["tasks"].append(server)
    job["spec"]["minAvailable"] = 2
    submit(world, namespace, job)
    eventually(lambda: world.job_phase("policy", namespace) == "Completed", what="job is Completed")


def test_ttl_removes_a_finished_job(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("brief", ttlSecondsAfterFinished=1))
    eventually(lambda: world.get("vcjob", "brief", "-n", namespace) is None, what="the job is gone")


def test_a_plain_pod_gets_a_pod_group_and_a_node(world: World, namespace: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain"},
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "c", "image": "nginx", "command": ["sleep", "600"]}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
    found = eventually(
        lambda: next((p for p in world.items("pods", "-n", namespace) if p["status"].get("phase") == "Running"), None),
        what="pod runs",
    )
    assert found["metadata"]["annotations"]["scheduling.k8s.io/group-name"].startswith("podgroup-")


def test_job_wait_follows_to_the_end(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("waited"))
    text = world.strato("job", "wait", "-n", namespace, "waited", "--timeout", "300")
    assert "waited: Completed" in text


def test_job_list_says_where_jobs_stand(world: World, namespace: str) -> None:
    submit(world, namespace, vcjob("listed", seconds=600))
    eventually(lambda: world.job_phase("listed", namespace) == "Running", what="job runs")
    header, row = world.strato("job", "list", "-n", namespace).splitlines()
    assert header.split() == ("Name Queue Phase Age Duration Pods Min Pending Running Succeeded Failed Reason".split())
    name, queue, phase, age, duration, *counts = row.split()
    assert (name, queue, phase, counts) == ("listed", "default", "Running", "3 3 0 3 0 0".split())
    assert age[-1] == duration[-1] == "s"


@pytest.mark.own_nodes
@pytest.mark.timeout(480)
def test_a_node_that_falls_silent_becomes_not_ready(world: World) -> None:
    command = [*STRATO, "run", "node", "--kubeconfig", str(world.kubeconfig)]
    node = subprocess.Popen(
        [*command, "--hollow-nodes", "1", "--prefix", "silent", "--cpu", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def ready() -> str:
        found = world.get("node", "silent-0") or {"status": {}}
        return next((c["status"] for c in found["status"].get("conditions", []) if c["type"] == "Ready"), "")

    try:
        eventually(lambda: ready() == "True", what="the node is Ready")
    finally:
        node.kill()
        node.wait()
    eventually(lambda: ready() == "Unknown", timeout=360, what="the node is NotReady", every=1)
    world.kubectl("delete", "node", "silent-0")


def test_an_invalid_job_is_refused_with_every_problem(world: World, namespace: str) -> None:
    job = vcjob("bad", min_available=9, replicas=3, queue="no-such-queue")
    done = subprocess.run(
        [*STRATO, "-k", str(world.kubeconfig), "kubectl", "create", "-n", namespace, "-f", "-"],
        input=json.dumps(job),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0
    assert "minAvailable" in done.stderr
    # a real API server asks the webhook, which knows the queues, only about what the definition's own rules let pass
    assert "queue" in done.stderr or world.is_kubernetes
    job["spec"]["minAvailable"] = 3
    done = world.kubectl_process("create", "-n", namespace, "-f", "-", stdin=json.dumps(job), check=False)
    assert "unable to find job queue" in done.stderr
