"""Users' steps in a chaos run: they submit jobs of every kind, scale, delete, cordon, and change templates.

Each job alone fits into the cluster, so that all jobs end after the last fault.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from strato.api import catalog
from strato.testing.chaos.plan import FAULTY_SECONDS, Setting, UserRequest, node_names
from strato.testing.manifests import Manifest, pod, priority_class, queue, vcjob

FIRST_JOB_SECONDS: Final = 8.0
"""Time of the first job, when its queue is open."""
QUOTA_NAMESPACE: Final = "team"
QUOTA_CPUS: Final = 3
"""CPU quota of all pods in the namespace with a quota."""
QUEUES: Final = {"default": 0, "research": 6, "batch": 5}
"""CPU capability of each queue; 0 for no limit."""
_PRIORITIES: Final = {"urgent": 1000, "whenever": -10}
_POLICIES: Final = (
    (),
    ({"event": "PodEvicted", "action": "RestartJob"},),
    ({"event": "PodFailed", "action": "RestartJob"}, {"event": "PodEvicted", "action": "RestartTask"}),
    ({"event": "PodFailed", "action": "AbortJob"},),
    ({"event": "TaskCompleted", "action": "CompleteJob"}, {"event": "PodEvicted", "action": "RestartPod"}),
    ({"event": "*", "action": "RestartJob"},),
    ({"exitCode": 1, "action": "TerminateJob"},),
)


def draw_steps(random: Random, setting: Setting) -> list[UserRequest]:
    """Draw the users' steps, in order of time."""
    steps = _beginning()
    jobs = random.choice((random.randint(3, 10), random.randint(8, 16), random.randint(15, 35)))
    for number in range(jobs):
        draw = random.choices(list(_MAKERS), weights=list(_MAKERS.values()))[0]
        manifest = draw(random, f"{draw.__name__.strip('_')}-{number}")
        at = random.uniform(FIRST_JOB_SECONDS, FAULTY_SECONDS * 0.85)
        steps.append(_step(at, "create", manifest))
        steps += _later(random, at, manifest)
    for name in node_names(setting):
        if random.random() < 0.25:
            at = random.uniform(FIRST_JOB_SECONDS, FAULTY_SECONDS * 0.7)
            steps.append(_step(at, "patch", _cordon(name, True)))
            if random.random() < 0.5:
                steps.append(_step(at + 0.5, "drain", _node(name)))
            steps.append(_step(at + random.uniform(5, 60), "patch", _cordon(name, False)))
        if random.random() < 0.08:
            steps.append(_step(random.uniform(FIRST_JOB_SECONDS, FAULTY_SECONDS), "delete", _node(name)))
    return sorted(steps, key=lambda step: step.at)


def _beginning() -> list[UserRequest]:
    manifests: list[dict[str, Any]] = [priority_class(name, value) for name, value in _PRIORITIES.items()]
    manifests += [queue(name, capability={"cpu": str(cpus), "memory": "1Ti"}) for name, cpus in QUEUES.items() if cpus]
    manifests.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": QUOTA_NAMESPACE}})
    manifests.append(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "cpus", "namespace": QUOTA_NAMESPACE},
            "spec": {"hard": {"requests.cpu": str(QUOTA_CPUS), "pods": "10"}},
        }
    )
    return [_step(0.0, "create", manifest) for manifest in manifests]


def _step(at: float, verb: str, manifest: dict[str, Any]) -> UserRequest:
    return UserRequest(at=round(at, 3), verb=verb, manifest=dict(manifest))


def _identity(manifest: dict[str, Any]) -> dict[str, Any]:
    metadata = manifest["metadata"]
    named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": named}


def _node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def _cordon(node: str, is_cordoned: bool) -> dict[str, Any]:
    return {**_node(node), "spec": {"unschedulable": is_cordoned}}


def _later(random: Random, at: float, manifest: dict[str, Any]) -> list[UserRequest]:
    """Draw steps on an object after its creation."""
    steps, kind = [], manifest["kind"]
    while kind == "Deployment" and random.random() < 0.5:
        at += random.uniform(5, 40)
        change: dict[str, Any] = {"replicas": random.randint(0, 3)}
        if random.random() < 0.4:
            change = {"template": {"metadata": {"annotations": {"rollout": f"{at:.0f}"}}}}
        steps.append(_step(at, "patch", {**_identity(manifest), "spec": change}))
    if manifest["apiVersion"].startswith("batch.volcano") and kind == "Job" and random.random() < 0.2:
        tasks = [{**task, "replicas": random.randint(1, 4)} for task in manifest["spec"]["tasks"]]
        minimum = min(manifest["spec"]["minAvailable"], sum(task["replicas"] for task in tasks))
        at += random.uniform(2, 30)
        steps.append(_step(at, "patch", {**_identity(manifest), "spec": {"tasks": tasks, "minAvailable": minimum}}))
    if manifest["apiVersion"].startswith("batch.volcano") and kind == "Job" and random.random() < 0.15:
        at += random.uniform(1, 30)
        steps.append(_step(at, "abort", _identity(manifest)))
        if random.random() < 0.7:
            at += random.uniform(0.2, 30)
            steps.append(_step(at, "resume", _identity(manifest)))
    is_endless = "Cron" in kind
    if is_endless or random.random() < 0.2:
        until = FAULTY_SECONDS if is_endless else at + random.uniform(0.5, 60)
        steps.append(_step(until, "delete", _identity(manifest)))
    return [step for step in steps if step.at <= FAULTY_SECONDS]


def _seconds(random: Random) -> float:
    return round(random.choice((random.uniform(0, 3), random.uniform(3, 20), random.uniform(20, 70))), 2)


def _gang(random: Random, name: str) -> Manifest:
    replicas = random.randint(1, 4)
    minimum = replicas if random.random() < 0.6 else random.randint(1, replicas)
    job = vcjob(name, queue=random.choice(list(QUEUES)), min_available=minimum)
    notes = {"strato.dev/run-seconds": f"{_seconds(random):g}"}
    if random.random() < 0.25:
        notes["strato.dev/failure-probability"] = random.choice(("0.3", "1"))
    if random.random() < 0.3:
        notes["strato.dev/stop-seconds"] = random.choice(("0", "5", "40"))
    for task in ["worker"] if random.random() < 0.7 or replicas == 1 else ["master", "worker"]:
        count = 1 if task == "master" else replicas - (0 if len(job["spec"]["tasks"]) == 0 else 1)
        job = job.task(task, count, cpu=random.choice(("500m", "1")), memory="512Mi")
        job = job.set("spec", "tasks", len(job["spec"]["tasks"]) - 1, "template", "metadata", "annotations", notes)
    job = job.spec(policies=[dict(policy) for policy in random.choice(_POLICIES)], maxRetry=random.randint(1, 3))
    if random.random() < 0.4:
        job = job.spec(priorityClassName=random.choice(list(_PRIORITIES)))
    if random.random() < 0.2:
        job = job.spec(ttlSecondsAfterFinished=random.randint(0, 30))
    if random.random() < 0.3:
        job = job.plugin("svc").plugin("env")
    return job


def _template(random: Random, container: str, restart_policy: str, seconds: float | None) -> dict[str, Any]:
    notes = {} if seconds is None else {"strato.dev/run-seconds": f"{seconds:g}"}
    if seconds is not None and random.random() < 0.2:
        notes["strato.dev/failure-probability"] = "0.3"
    resources = {"requests": {"cpu": random.choice(("250m", "500m", "1")), "memory": "256Mi"}}
    return {
        "metadata": {"annotations": notes, "labels": {"app": container}},
        "spec": {
            "restartPolicy": restart_policy,
            "schedulerName": random.choice(("volcano", "default-scheduler")),
            "containers": [{"name": container, "image": "simulated", "resources": resources}],
        },
    }


def _job(random: Random, name: str) -> Manifest:
    spec: dict[str, Any] = {
        "parallelism": random.randint(1, 4),
        "completions": random.randint(1, 4),
        "backoffLimit": random.randint(0, 4),
        "template": _template(random, "main", random.choice(("Never", "OnFailure")), _seconds(random)),
    }
    if random.random() < 0.3:
        spec["completionMode"] = "Indexed"
    if random.random() < 0.3:
        spec["ttlSecondsAfterFinished"] = random.randint(0, 30)
    namespace = random.choice(("default", QUOTA_NAMESPACE))
    return Manifest(apiVersion="batch/v1", kind="Job", metadata={"name": name, "namespace": namespace}, spec=spec)


def _deployment(random: Random, name: str) -> Manifest:
    template = _template(random, name, "Always", None)
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "250m"
    spec = {
        "replicas": random.randint(1, 3),
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    metadata = {"name": name, "namespace": "default"}
    return Manifest(apiVersion="apps/v1", kind="Deployment", metadata=metadata, spec=spec)


def _tfjob(random: Random, name: str) -> Manifest:
    seconds = _seconds(random)
    roles: dict[str, Any] = {
        "Worker": {
            "replicas": random.randint(1, 2),
            "restartPolicy": random.choice(("OnFailure", "Never", "ExitCode")),
            "template": _template(random, "tensorflow", "Never", seconds),
        }
    }
    if random.random() < 0.5:
        roles["PS"] = {"replicas": 1, "template": _template(random, "tensorflow", "Never", None)}
    for role in roles.values():
        role["template"]["spec"].pop("restartPolicy")
        role["template"]["spec"]["schedulerName"] = "volcano"
    policy = {"cleanPodPolicy": random.choice(("Running", "All")), "backoffLimit": random.randint(1, 3)}
    return Manifest(
        apiVersion=catalog.TFJOB.api_version,
        kind="TFJob",
        metadata={"name": name, "namespace": "default"},
        spec={"runPolicy": policy, "tfReplicaSpecs": roles},
    )


def _cronjob(random: Random, name: str) -> Manifest:
    job = {"backoffLimit": 1, "template": _template(random, "main", "Never", random.choice((2.0, 20.0, 90.0)))}
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": random.choice(("Allow", "Forbid", "Replace")),
        "jobTemplate": {"spec": job},
        "successfulJobsHistoryLimit": random.randint(0, 2),
    }
    return Manifest(apiVersion="batch/v1", kind="CronJob", metadata={"name": name, "namespace": "default"}, spec=spec)


def _pod(random: Random, name: str) -> Manifest:
    return pod(
        name,
        cpu=random.choice(("500m", "1", "2")),
        memory="256Mi",
        run_seconds=_seconds(random),
        priority_class=random.choice(("", *_PRIORITIES)),
        scheduler=random.choice(("volcano", "default-scheduler")),
    )


_MAKERS: Final[dict[Callable[[Random, str], Manifest], int]] = {
    _gang: 8,
    _job: 3,
    _deployment: 2,
    _tfjob: 2,
    _cronjob: 1,
    _pod: 2,
}
"""Relative frequency of each kind of object."""
