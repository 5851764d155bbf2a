"""Why a job failed, cannot start, is suspended or waits: real failures, and what every command says of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.worlds import STRATO, EmbeddedWorld, World, eventually

pytestmark = [pytest.mark.e2e]

Json = dict[str, Any]
Laptop = Callable[..., EmbeddedWorld]


def job(name: str, command: list[str] | str, *, count: int = 1, pod: Json | None = None, **spec: Any) -> Json:
    """Return a job of one task whose containers run a command, or a shell's script."""
    container: Json = {"name": "main", "image": "strato/host", "resources": {"requests": {"cpu": "10m"}}}
    container["command"] = ["sh", "-c", command] if isinstance(command, str) else command
    given = dict(pod or {})
    container |= given.pop("container", {})
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **given}}
    task = {"name": "work", "replicas": count, "template": template}
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
    return {**kind, "spec": {"minAvailable": count, "schedulerName": "volcano", "tasks": [task], **spec}}


def policy(action: str) -> Json:
    return {"policies": [{"event": "PodFailed", "action": action}]}


HOG = [
    "python3",
    "-c",
    "x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(9)",
]
FROM = {"envFrom": [{"configMapRef": {"name": "absent"}}]}
VOLUME = {"volumes": [{"name": "v", "configMap": {"name": "absent"}}]}
CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]}
KEY = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k"}}}]}
PREPARE = {"initContainers": [{"name": "prep", "image": "strato/host", "command": ["sh", "-c", "exit 9"]}]}
SMALL = {"limits": {"memory": "64Mi"}}

REAL: list[tuple[Json, str, str]] = [
    (job("code", "echo boom; exit 3"), "(Failed): container main exited with code 3", "exit code 3"),
    (job("many", "exit 2", count=20), "(Failed): 20 of 20 pods: container main exited with code 2", "exit code 2"),
    (job("unknown", "nosuchcommand"), "container main exited with code 127 (command not found)", "exit code 127"),
    (
        job("absent", ["nosuchprogram"]),
        'container main could not be started: exec: "nosuchprogram": executable file not found in $PATH',
        "StartError",
    ),
    (
        job("unable", ["/etc/passwd"]),
        'container main could not be started: exec: "/etc/passwd": permission denied',
        "StartError",
    ),
    (job("killed", "exit 137"), "container main exited with code 137 (128 + 9: SIGKILL)", "exit code 137"),
    (job("init", "true", pod=PREPARE), "init container prep exited with code 9", "exit code 9"),
    (
        job("image", ["/nosuch"], pod={"container": {"image": "registry.invalid/none"}}),
        "container main has no image: ",
        "ImagePullBackOff",
    ),
    (
        job("config", "true", pod={"container": FROM}),
        'container main cannot be started: configmap "absent" not found\nnext: create the ConfigMap absent',
        "CreateContainerConfigError",
    ),
    (job("volume", "true", pod=VOLUME), 'its pod cannot be started: configmap "absent" not found', "FailedMount"),
    (job("secret", "true", pod={"container": KEY}), 'secret "absent" not found', "CreateContainerConfigError"),
    (job("claim", "true", pod=CLAIM), '(Pending): persistentvolumeclaim "absent" not found', "Unschedulable"),
    (
        job("late", "sleep 1000", pod={"activeDeadlineSeconds": 1}),
        "its pod ran longer than activeDeadlineSeconds (1 s)",
        "DeadlineExceeded",
    ),
    (
        job("again", "exit 7", pod={"restartPolicy": "OnFailure"}),
        "container main exited with code 7, again and again (",
        "CrashLoopBackOff",
    ),
    (
        job("tries", "exit 4", **policy("RestartJob"), maxRetry=2),
        "(Failed): it was tried 2 times (maxRetry 2); the last time container main exited with code 4",
        "exit code 4",
    ),
    (
        job("stops", "exit 5", **policy("AbortJob")),
        "(Aborted): it is suspended: policy PodFailed → AbortJob: pod stops-work-0 failed with exit code 5",
        "suspended",
    ),
    (
        job("ends", "exit 6", **policy("TerminateJob")),
        "(Terminated): it was terminated: policy PodFailed → TerminateJob: pod ends-work-0 failed with exit code 6",
        "exit code 6",
    ),
]


@pytest.mark.embedded
@pytest.mark.timeout(580)
def test_containers_that_fail_in_every_way(laptop: Laptop) -> None:
    world = laptop("--cpus", "4")
    for body, _, _ in REAL:
        world.kubectl("create", "-f", "-", stdin=json.dumps(body))
    for body, text, _ in REAL:
        name = body["metadata"]["name"]
        asked = f"strato explain job/{name} says {text!r}"
        eventually(lambda name=name, text=text: text in world.own("explain", f"job/{name}"), what=asked, every=0.5)  # type: ignore[misc]  # mypy infers no defaults

    def listed() -> dict[str, str]:
        header, *lines = world.own("job", "list").splitlines()
        return {line.split()[0]: line[header.index("Reason") :] for line in lines}

    words = {body["metadata"]["name"]: word for body, _, word in REAL}
    eventually(lambda: listed() == words, what=f"job list says {words}", every=0.5)
    page = world.own("job", "view", "-N", "many")
    assert "    Reason:\t20 of 20 pods: container main exited with code 2\n    Next:\tstrato job logs many\n" in page
    for words in (("job", "logs", "code"), ("logs", "job/code"), ("logs", "code-work-0")):
        said = world.own(*words)
        assert "boom\n" in said
        assert "is Failed: container main exited with code 3\n" in said
    assert 'no pod of job config has started: container main cannot be started: configmap "absent"' in world.own(
        "job", "logs", "config", check=False
    )


@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_a_container_beyond_its_memory_and_a_job_run_that_waits(laptop: Laptop) -> None:
    world = laptop("--cpus", "4")
    world.kubectl("create", "-f", "-", stdin=json.dumps(job("hog", HOG, pod={"container": {"resources": SMALL}})))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*STRATO, "--home", str(world.home), "job", "run", *words, "-R", "cpu=10m", "-L", "", "--wait"]
        return subprocess.run(command, text=True, capture_output=True, timeout=200, check=False)

    done = run("-N", "fails", "-i", "strato/host", "-c", "sh -c 'exit 3'")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.endswith("fails ended as Failed: container fails exited with code 3; next: strato job logs fails")
    done = run("-N", "stuck", "-i", "nowhere/none", "-c", "/nosuch", "--timeout", "8")
    assert done.returncode == 1
    assert "stuck still waits: container stuck has no image" in done.stderr
    assert "not finished after 8 s: stuck is Pending (container stuck has no image" in done.stderr
    if "without a cgroup" in world.own("status") or "not enforced" in world.own("status"):
        pytest.skip("limits of memory are not enforced on this machine")
    text = "container main was killed for using more than its limit of 64Mi of memory (OOMKilled)"
    eventually(lambda: text in world.own("explain", "job/hog"), what="the hog is killed", every=0.5)


REFUSALS: list[Any] = [
    pytest.param(
        job("quota", "true", pod={"container": {"resources": {"requests": {"cpu": "2"}}}}),
        {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "small"}, "spec": {"hard": {"cpu": "1"}}},
        ["is forbidden: exceeded quota: small, requested: cpu=2", "next: free some of quota small"],
        "QuotaExceeded",
        id="a quota",
    ),
    pytest.param(
        job("limits", "true", pod={"container": {"resources": {"limits": {"cpu": "2"}}}}),
        {
            "kind": "LimitRange",
            "apiVersion": "v1",
            "metadata": {"name": "small"},
            "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]},
        },
        ["maximum cpu usage per Container is 1, but limit is 2", "next: keep to the namespace's LimitRange"],
        "LimitRange",
        id="a limit range",
    ),
    pytest.param(
        job("priority", "true", pod={"priorityClassName": "absent"}),
        None,
        ["no PriorityClass with name absent was found", "next: create the PriorityClass absent"],
        "NoPriorityClass",
        id="a priority class that is not there",
    ),
    pytest.param(
        job("other", "true", schedulerName="nobody"),
        None,
        ["its pod is for the scheduler 'nobody', and none of that name has looked at it", "Strato's is volcano"],
        "OtherScheduler",
        id="another scheduler",
    ),
    pytest.param(
        job("selective", "true", pod={"nodeSelector": {"zone": "moon"}}),
        None,
        ["(Pending): no node takes its pod: node(s) didn't match", "next: strato explain job/selective --fix"],
        "Unschedulable",
        id="a label that no node has",
    ),
    pytest.param(
        job("huge", "true", pod={"container": {"resources": {"requests": {"memory": "1000Gi"}}}}),
        None,
        ["no node is large enough even when empty: a pod asks for memory 1000Gi, the most is "],
        "Insufficient memory",
        id="a pod larger than any node",
    ),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("body", "rule", "texts", "word"), REFUSALS)
def test_what_keeps_a_job_from_starting(
    world: World, namespace: str, body: Json, rule: Json | None, texts: list[str], word: str
) -> None:
    name = body["metadata"]["name"]
    for obj in filter(None, (rule, body)):
        world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(obj))

    def explained() -> bool:
        said = world.strato("explain", f"job/{name}", "-n", namespace).replace(f" -n {namespace}", "")
        return all(text in said for text in texts)

    eventually(explained, what=f"{texts} of job {name}", every=0.5)

    def listed() -> str:
        header, line = world.strato("job", "list", "-n", namespace).splitlines()
        return line[header.index("Reason") :]

    # explain asks the engine; the list has what the scheduler has reported, which comes a moment later
    eventually(lambda: listed() == word, what=f"job list says {word} of job {name}", every=0.5)
    page = world.strato("job", "view", "-N", name, "-n", namespace)
    assert "    Reason:\t" in page
    assert "    Next:\t" in page


@pytest.mark.timeout(300)
def test_who_suspended_a_job_is_said_until_it_is_resumed(world: World, namespace: str) -> None:
    sleepy = job("sleepy", "sleep 1000")
    sleepy["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"strato.dev/run-seconds": "1000"}}
    world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(sleepy))
    eventually(lambda: world.job_phase("sleepy", namespace) == "Running", what="it runs")
    world.strato("job", "suspend", "-N", "sleepy", "-n", namespace)
    eventually(lambda: world.job_phase("sleepy", namespace) == "Aborted", what="it is suspended")
    said = world.strato("explain", "job/sleepy", "-n", namespace)
    assert f"job {namespace}/sleepy (Aborted): it is suspended: command AbortJob, issued by " in said
    assert f"next: strato job resume -N sleepy -n {namespace}" in said
    world.strato("job", "resume", "-N", "sleepy", "-n", namespace)
    eventually(lambda: world.job_phase("sleepy", namespace) == "Running", what="it is resumed")
    assert "(Running): 1 of 1 pods run" in world.strato("explain", "job/sleepy", "-n", namespace)


@pytest.mark.own_nodes
@pytest.mark.timeout(300)
def test_a_full_cluster_is_called_full_and_its_queue_is_not_blamed(world: World, namespace: str) -> None:
    """Four nodes of 4 cpus are taken by one job; the next one waits for room, not for its queue."""
    whole = {"container": {"resources": {"requests": {"cpu": "3500m"}}}}
    for name, count in (("first", 4), ("second", 1)):
        body = job(name, "sleep 1000", count=count, pod=whole)
        body["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"strato.dev/run-seconds": "1000"}}
        world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body))
        if name == "first":
            eventually(lambda: world.job_phase("first", namespace) == "Running", what="the first runs")
    said = eventually(
        lambda: text if "full" in (text := world.strato("explain", "job/second", "-n", namespace)) else "",
        what="the second waits",
        every=0.5,
    )
    assert f"job {namespace}/second (Pending): the cluster is full: cpu " in said
    assert " is free, 3.5 is asked for" in said
    assert "the cluster is full: " in world.strato("explain", "queue/default")
