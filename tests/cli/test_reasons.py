"""States of objects → the sentence that says why: tables over what the Kubernetes API stores."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from strato.cli.reasons.facts import Facts
from strato.cli.reasons.jobs import job_report
from strato.cli.reasons.pods import pod_reason
from strato.cli.reasons.workloads import report_of

Json = dict[str, Any]


def pod(
    name: str = "train-work-0",
    phase: str = "Failed",
    *,
    owner: Json | None = None,
    spec: Json | None = None,
    container: Json | None = None,
    init: Json | None = None,
    **status: Any,
) -> Json:
    meta: Json = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owner is not None:
        meta["ownerReferences"] = [{"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": uid(owner)}]
        meta["annotations"] = {"volcano.sh/task-spec": "work"}
    statuses: Json = {"phase": phase, **status}
    for member, given in (("containerStatuses", container), ("initContainerStatuses", init)):
        if given is not None:
            statuses[member] = [{"name": "main" if given is container else "prep", "image": "img:1", **given}]
    whole: Json = {"nodeName": "n1", "schedulerName": "volcano", "containers": [{"name": "main"}], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole, "status": statuses}


def uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def ended(code: int, **members: Any) -> Json:
    return {"state": {"terminated": {"exitCode": code, "reason": "Error", **members}}}


def waiting(reason: str, message: str = "", **members: Any) -> Json:
    return {"state": {"waiting": {"reason": reason, "message": message}}, **members}


def event(about: Json, reason: str, message: str, kind: str = "Warning", at: int = 0) -> Json:
    return {
        "metadata": {"name": f"{reason}-{at}"},
        "involvedObject": {"uid": uid(about)},
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-01-01T00:00:{at:02}Z",
    }


LIMIT = {"containers": [{"name": "main", "resources": {"limits": {"memory": "67108864"}}}]}
UNBOUND = {"nodeName": ""}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
STUCK = pod(phase="Pending", container=waiting("ContainerCreating"))

PODS: list[Any] = [
    pytest.param(pod(phase="Succeeded"), "", "", id="it has succeeded"),
    pytest.param(pod(phase="Running", container={"state": {"running": {}}}), "", "", id="it runs"),
    pytest.param(STUCK, "", "", id="its containers are being made"),
    pytest.param(pod(container=ended(3)), "exit code 3", "container main exited with code 3", id="an exit code"),
    pytest.param(
        pod(container=ended(3, message="disk gone\nbye")),
        "exit code 3",
        "container main exited with code 3: disk gone; bye",
        id="a termination message",
    ),
    pytest.param(pod(container=ended(127)), "exit code 127", "code 127 (command not found)", id="a shell's code"),
    pytest.param(
        pod(container=ended(137)),
        "exit code 137",
        "container main exited with code 137 (128 + 9: SIGKILL)",
        id="a code that tells of a signal",
    ),
    pytest.param(
        pod(container=ended(143, signal=15)),
        "SIGTERM",
        "container main was ended by signal 15 (SIGTERM), exit code 143",
        id="a signal of a runtime",
    ),
    pytest.param(pod(container=ended(255)), "exit code 255", "exited with code 255", id="no signal has that number"),
    pytest.param(
        pod(container=ended(137, reason="OOMKilled"), spec=LIMIT),
        "OOMKilled",
        "container main was killed for using more than its limit of 64Mi of memory (OOMKilled)",
        id="out of its memory",
    ),
    pytest.param(
        pod(container=ended(137, reason="OOMKilled")),
        "OOMKilled",
        "was killed for using more than the memory its node had",
        id="out of the node's memory",
    ),
    pytest.param(
        pod(container=ended(128, reason="StartError", message='exec: "x": not found')),
        "StartError",
        'container main could not be started: exec: "x": not found',
        id="a command that is not there",
    ),
    pytest.param(
        pod(init=ended(9), container=waiting("PodInitializing")),
        "exit code 9",
        "init container prep exited with code 9",
        id="an init container",
    ),
    pytest.param(
        pod(reason="Evicted", message="The node was low on resource: memory.", container=ended(137)),
        "Evicted",
        "its node evicted it: The node was low on resource: memory.",
        id="evicted",
    ),
    pytest.param(
        pod(reason="DeadlineExceeded", spec={"activeDeadlineSeconds": 2}, container=ended(143)),
        "DeadlineExceeded",
        "it ran longer than activeDeadlineSeconds (2 s)",
        id="too long",
    ),
    pytest.param(
        pod(reason="Terminated", message="Pod was terminated in response to imminent node shutdown."),
        "Terminated",
        "Terminated: Pod was terminated in response to imminent node shutdown.",
        id="its node was shut down",
    ),
    pytest.param(
        pod(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
        "PreemptionByScheduler",
        "it was ended: PreemptionByScheduler",
        id="preempted",
    ),
    pytest.param(pod(), "Failed", "it failed, and its containers' statuses do not say why", id="nobody says why"),
    pytest.param(
        pod(phase="Pending", container=waiting("CreateContainerConfigError", 'configmap "c" not found')),
        "CreateContainerConfigError",
        'container main cannot be started: configmap "c" not found',
        id="a config map that is not there",
    ),
    pytest.param(
        pod(phase="Pending", container=waiting("ImagePullBackOff", "Back-off pulling")),
        "ImagePullBackOff",
        "container main has no image img:1: Back-off pulling",
        id="an image that cannot be had",
    ),
    pytest.param(
        pod(phase="Pending", container=waiting("ErrImageNeverPull", "image 'img:1' is not in the local store")),
        "ErrImageNeverPull",
        "container main has no image: image 'img:1' is not in the local store",
        id="an image that is not there",
    ),
    pytest.param(
        pod(
            phase="Running",
            container=waiting(
                "CrashLoopBackOff", "back-off 40s", restartCount=3, lastState={"terminated": {"exitCode": 7}}
            ),
        ),
        "CrashLoopBackOff",
        "container main exited with code 7, again and again (3 restarts so far)",
        id="it ends again and again",
    ),
    pytest.param(
        pod(phase="Pending", spec=UNBOUND, conditions=[UNSCHEDULED]), "Unschedulable", "0/1 nodes", id="no node"
    ),
    pytest.param(
        pod(phase="Pending", spec={**UNBOUND, "schedulingGates": [{"name": "a/b"}]}),
        "SchedulingGated",
        "it has scheduling gates: a/b",
        id="a gate",
    ),
    pytest.param(
        pod(phase="Pending", spec={**UNBOUND, "schedulerName": "nobody"}),
        "OtherScheduler",
        "it is for the scheduler 'nobody', and none of that name has looked at it",
        id="another scheduler",
    ),
    pytest.param(
        pod(phase="Pending", spec={**UNBOUND, "schedulerName": "mine"}, conditions=[UNSCHEDULED]),
        "Unschedulable",
        "0/1 nodes",
        id="another scheduler that is there",
    ),
    pytest.param(pod(phase="Pending", spec=UNBOUND), "", "the scheduler has not looked at it yet", id="just made"),
]


@pytest.mark.parametrize(("obj", "code", "text"), PODS)
def test_why_a_pod_is_as_it_is(obj: Json, code: str, text: str) -> None:
    found = pod_reason(obj)
    assert (found.code if found is not None else "") == code
    assert text in (found.text if found is not None else "")
    assert bool(text) == (found is not None)


def test_events_say_what_hinders_a_pod_whose_containers_are_being_made() -> None:
    others = event(pod("other"), "FailedMount", "not this", at=9)
    old, new = event(STUCK, "FailedMount", "old", at=1), event(STUCK, "FailedMount", 'secret "s" not found', at=2)
    found = pod_reason(STUCK, [new, old, others, event(STUCK, "Unhealthy", "no", at=8)])
    assert found is not None
    assert (found.code, found.text) == ("FailedMount", 'it cannot be started: secret "s" not found')
    assert found.hint == "create the Secret s in its namespace, or correct the name"
    runs = pod(phase="Running", container={"state": {"running": {}}})
    assert pod_reason(runs, [event(runs, "FailedMount", "long ago")]) is None
    probed = [event(runs, "Unhealthy", "Readiness probe failed: 503")]
    assert pod_reason(runs, probed) is None
    runs["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert pod_reason(runs) is None
    unready = pod_reason(runs, probed)
    assert unready is not None
    assert (unready.code, unready.text) == ("Unhealthy", "it runs, but is not ready: Readiness probe failed: 503")


def job(phase: str = "Failed", count: int = 1, *, state: Json | None = None, **spec: Any) -> Json:
    tasks = spec.pop("tasks", [{"name": "work", "replicas": count}])
    status = {"state": {"phase": phase, **(state or {})}, "retryCount": spec.pop("tried", 0)}
    meta = {"name": "train", "namespace": "default", "uid": "uid-job"}
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return {**kind, "metadata": meta, "spec": {"maxRetry": 3, "tasks": tasks, **spec}, "status": status}


OWNER = job()
ADMITTED = {"kind": "PodGroup", "metadata": {"name": "g", "ownerReferences": [{"uid": "uid-job"}]}}
ADMITTED["status"] = {"phase": "Inqueue"}  # type: ignore[assignment]  # its type changes
REFUSED: Json = {
    **ADMITTED,
    "status": {
        "phase": "Pending",
        "conditions": [
            {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "overused cpu; so"}
        ],
    },
}


def pods(count: int, **members: Any) -> list[Json]:
    return [pod(f"train-work-{i}", owner=OWNER, **members) for i in range(count)]


def refusal(message: str) -> list[Json]:
    return [event(OWNER, "FailedCreate", f'Error creating pods: pods "train-work-0" is forbidden: {message}')]


QUOTA = "exceeded quota: small, requested: cpu=1, used: cpu=2, limited: cpu=2"
COMMAND = event(OWNER, "CommandIssued", "Start to execute command AbortJob, and clean it up to make sure", "Normal")
AFTER = [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 1, "dependsOn": {"name": ["a"]}}]
POLICY = [{"event": "PodFailed", "action": "AbortJob"}]

JOBS: list[Any] = [
    pytest.param(job(), Facts(pods(1, container=ended(3))), "exit code 3", "container main exited with code 3", id="1"),
    pytest.param(
        job(count=1000),
        Facts(pods(1000, container=ended(2))),
        "exit code 2",
        "1000 of 1000 pods: container main exited with code 2",
        id="a thousand equal pods",
    ),
    pytest.param(
        job(count=3),
        Facts([*pods(2, phase="Succeeded"), pod("train-work-2", owner=OWNER, container=ended(3))]),
        "exit code 3",
        "pod train-work-2: container main exited with code 3",
        id="one of several",
    ),
    pytest.param(
        job(count=3),
        Facts([*pods(2, container=ended(1)), pod("train-work-2", owner=OWNER, container=ended(3))]),
        "exit code 1",
        "3 of 3 pods, for 2 reasons; the most frequent (2 pods): container main exited with code 1",
        id="different ones",
    ),
    pytest.param(
        job(tried=3),
        Facts(pods(1, container=ended(4))),
        "exit code 4",
        "it was tried 3 times (maxRetry 3); the last time container main exited with code 4",
        id="no more tries",
    ),
    pytest.param(
        job(count=2),
        Facts(pods(2, reason="Evicted", message="low on memory")),
        "Evicted",
        "2 of 2 pods: its node evicted it: low on memory",
        id="evicted",
    ),
    pytest.param(
        job(state={"reason": "DeadlineExceeded", "message": "too long"}),
        Facts(),
        "DeadlineExceeded",
        "too long",
        id="the controller noted why",
    ),
    pytest.param(job(), Facts(), "Failed", "none of its pods is left to say why", id="nobody can say"),
    pytest.param(
        job("Aborted", state={"reason": "CommandIssued", "message": "command AbortJob, by root@vm"}),
        Facts(),
        "suspended",
        "it is suspended: command AbortJob, by root@vm",
        id="suspended, as noted",
    ),
    pytest.param(
        job("Aborted"),
        Facts(events=[COMMAND]),
        "suspended",
        "it is suspended: somebody issued the command AbortJob",
        id="suspended by a command, as events tell",
    ),
    pytest.param(
        job("Aborted", policies=POLICY),
        Facts(pods(1, container=ended(5))),
        "suspended",
        "it is suspended: its policy PodFailed → AbortJob was met; container main exited with code 5",
        id="suspended by a policy",
    ),
    pytest.param(
        job("Terminated"),
        Facts(events=[*refusal(QUOTA), event(OWNER, "ExecuteAction", "for retry limit reached", "Normal")]),
        "QuotaExceeded",
        "it was terminated: the controller gave it up at its retry limit: its pods cannot be made",
        id="given up",
    ),
    pytest.param(
        job("Terminated", state={"reason": "DependencyNeverSatisfied", "message": "job a was to complete, but failed"}),
        Facts(),
        "DependencyNeverSatisfied",
        "it was terminated: job a was to complete, but failed",
        id="what it waited for cannot come",
    ),
    pytest.param(
        job("Pending"),
        Facts(groups=[ADMITTED], events=refusal(QUOTA)),
        "QuotaExceeded",
        "cannot be made: pods \"train-work-0\" is forbidden: exceeded quota: small, requested: cpu=1, used: cpu=2",
        id="a quota",
    ),
    pytest.param(
        job("Pending"),
        Facts(groups=[ADMITTED], events=refusal("no PriorityClass with name high was found")),
        "NoPriorityClass",
        "no PriorityClass with name high was found",
        id="no such priority class",
    ),
    pytest.param(
        job("Pending"),
        Facts(groups=[ADMITTED], events=refusal('violates PodSecurity "baseline:latest": hostNetwork')),
        "PodSecurity",
        "violates PodSecurity",
        id="the namespace's security level",
    ),
    pytest.param(
        job("Pending"),
        Facts(groups=[ADMITTED], events=refusal("maximum cpu usage per Container is 1, but limit is 2")),
        "LimitRange",
        "maximum cpu usage per Container is 1",
        id="a limit range",
    ),
    pytest.param(
        job("Pending"),
        Facts(groups=[REFUSED], events=refusal(QUOTA)),
        "Insufficient cpu",
        "overused cpu; so",
        id="not admitted: an old refusal does not matter",
    ),
    pytest.param(
        job("Pending"),
        Facts(events=[event(OWNER, "PVCError", "Failed to create PVC, err: no class fast")]),
        "PVCError",
        "its claims cannot be made: no class fast",
        id="what comes before its group",
    ),
    pytest.param(
        job("Running", tasks=AFTER),
        Facts(
            [{**made, "metadata": {**made["metadata"], "creationTimestamp": "2026-01-01T00:00:09Z"}}
             for made in pods(1, phase="Running", container={"state": {"running": {}}})],
            [ADMITTED],
            refusal(QUOTA),
        ),
        "",
        "1 of 2 pods run",
        id="a refusal that was overcome",
    ),
    pytest.param(
        job("Pending", state={"reason": "Dependency", "message": "waits until job prepare has completed"}),
        Facts(),
        "Dependency",
        "waits until job prepare has completed",
        id="after another job",
    ),
    pytest.param(
        job("Pending", count=2),
        Facts(pods(2, phase="Pending", spec=UNBOUND, conditions=[UNSCHEDULED]), [ADMITTED]),
        "Unschedulable",
        "2 of 2 pods wait for the scheduler: 0/1 nodes",
        id="for the scheduler",
    ),
    pytest.param(
        job("Running", count=2),
        Facts(pods(2, phase="Running", container={"state": {"running": {}}}), [ADMITTED]),
        "",
        "2 of 2 pods run",
        id="all is well",
    ),
    pytest.param(job("Completed", count=2), Facts(pods(2, phase="Succeeded")), "", "2 of 2 pods succeeded", id="done"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "facts", "code", "text"), JOBS)
def test_why_a_job_is_as_it_is(obj: Json, facts: Facts, code: str, text: str) -> None:
    found = job_report(obj, facts)
    assert found.code == code
    assert text in found.summary
    assert found.render().splitlines()[0].startswith("job default/train (")
    assert len(found.render().splitlines()) <= 6


def test_what_to_do_next_is_a_command_where_there_is_one() -> None:
    failed = job_report(job(), Facts(pods(1, container=ended(3))))
    assert failed.render().splitlines()[1:] == ["next: strato job logs train"]
    refused = job_report(job("Pending"), Facts(groups=[ADMITTED], events=refusal(QUOTA)))
    assert refused.hints == ["free some of quota small, or have it raised"]
    aborted = job_report(job("Aborted"), Facts(events=[COMMAND]))
    assert aborted.hints == ["strato job resume -N train"]
    later = job_report(job("Pending", tasks=AFTER), Facts(pods(1, phase="Running"), [ADMITTED]))
    assert later.notes == ["task b starts after a (dependsOn)"]


def owned(kind: str, api: str, name: str, *, status: Json | None = None, **spec: Any) -> Json:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec, "status": status or {}}


BATCH = owned("Job", "batch/v1", "one", status={"conditions": [{"type": "Failed", "status": "True"}]}, parallelism=1)
BATCH["status"]["conditions"][0] |= {"reason": "BackoffLimitExceeded", "message": "backoff limit"}
SUSPENDED = owned("Job", "batch/v1", "one", suspend=True)
DEPLOYMENT = owned("Deployment", "apps/v1", "web", replicas=2)
REPLICAS = owned("ReplicaSet", "apps/v1", "web-1", replicas=2)
REPLICAS["metadata"]["ownerReferences"] = [{"uid": "uid-web"}]
FLOW = owned("JobFlow", "flow.volcano.sh/v1alpha1", "flow", status={"state": {"phase": "Failed"}})
STEP = job()
STEP["metadata"]["ownerReferences"] = [{"uid": "uid-flow"}]
CRON = owned("CronJob", "batch.volcano.sh/v1alpha1", "night", schedule="0 3 * * *")
NIGHT = job()
NIGHT["metadata"]["ownerReferences"] = [{"uid": "uid-night"}]
HOURLY = owned("CronJob", "batch/v1", "hourly", schedule="@hourly", status={"lastScheduleTime": "2026-01-01T00:00:00Z"})
HOUR = {**BATCH, "metadata": {**BATCH["metadata"], "ownerReferences": [{"uid": "uid-hourly"}]}}
NEW_YEAR = 1767225600.0
ENDED = {"type": "Failed", "status": "True", "reason": "TFJobFailed", "message": "TFJob default/t has failed"}
TRAINING = owned("TFJob", "kubeflow.org/v1", "t", status={"conditions": [ENDED]})
COMPLETE = {"type": "Complete", "status": "True", "reason": "AllJobsCompleted", "message": "jobset completed"}
TRAINED = owned("TrainJob", "trainer.kubeflow.org/v1alpha1", "t", status={"conditions": [COMPLETE]})
TRAINS = owned("TrainJob", "trainer.kubeflow.org/v1alpha1", "t", status={"jobsStatus": [{"name": "n", "active": 1}]})
NODES = owned("Job", "batch/v1", "t-node-0")
NODES["metadata"]["ownerReferences"] = [{"uid": "uid-t"}]
PULLING = waiting("ImagePullBackOff", "Back-off pulling image img:1")

OTHERS: list[Any] = [
    pytest.param(
        BATCH,
        Facts([pod("one-a", owner=BATCH, container=ended(3))]),
        "job default/one (Failed): BackoffLimitExceeded: backoff limit; container main exited with code 3",
        id="a batch job that failed",
    ),
    pytest.param(
        SUSPENDED, Facts(), "job default/one (Suspended): it is suspended: spec.suspend is true", id="a suspended one"
    ),
    pytest.param(
        DEPLOYMENT,
        Facts([pod(f"web-{i}", "Pending", owner=REPLICAS, container=PULLING) for i in (0, 1)], replica_sets=[REPLICAS]),
        "deployment default/web (0 of 2 ready): 2 of 2 pods: container main has no image: Back-off pulling image img:1",
        id="a deployment without its image",
    ),
    pytest.param(
        DEPLOYMENT,
        Facts(events=[event(REPLICAS, "FailedCreate", f"Error creating: {QUOTA}")], replica_sets=[REPLICAS]),
        "deployment default/web (0 of 2 ready): its pods cannot be made: exceeded quota: small",
        id="a deployment whose pods are refused",
    ),
    pytest.param(
        {**FLOW, "status": {}},
        Facts(events=[event(FLOW, "SyncJobFlow", "SyncJobFlow failed: no JobTemplate a")]),
        "jobflow default/flow (Pending): SyncJobFlow failed: no JobTemplate a",
        id="a flow that cannot make its jobs",
    ),
    pytest.param(
        {**FLOW, "status": {"waitingSteps": [{"name": "b", "message": "ConfigMap data does not exist"}]}},
        Facts(),
        "jobflow default/flow (Pending): step b waits: ConfigMap data does not exist",
        id="a flow whose step waits for an object",
    ),
    pytest.param(
        FLOW,
        Facts(pods(1, container=ended(3)), jobs=[STEP]),
        "jobflow default/flow (Failed): job default/train is Failed: container main exited with code 3",
        id="a flow with a failed job",
    ),
    pytest.param(
        CRON,
        Facts(now=NEW_YEAR),
        "cronjob default/night (Waiting): it has made no job yet, the next one is at 2026-01-01T03:00:00Z",
        id="a cron job that is young",
    ),
    pytest.param(
        {**CRON, "spec": {"schedule": "0 3 * * *", "timeZone": "Asia/Tokyo"}},
        Facts(now=NEW_YEAR),
        "cronjob default/night (Waiting): it has made no job yet, the next one is at 2026-01-01T18:00:00Z",
        id="a cron job of another zone",
    ),
    pytest.param(
        {**CRON, "spec": {"schedule": "0 3 30 2 *"}},
        Facts(now=NEW_YEAR),
        "cronjob default/night (Waiting): it never makes a job: schedule '0 3 30 2 *'",
        id="a cron job of a day that never comes",
    ),
    pytest.param(
        {**CRON, "spec": {"schedule": "0 3 * * *", "suspend": True}},
        Facts(now=NEW_YEAR),
        "cronjob default/night (Suspended): it is suspended: spec.suspend is true; it has made no job yet\n"
        "next: strato kubectl patch cronjobs.batch.volcano.sh night --type merge -p '{\"spec\":{\"suspend\":false}}'",
        id="a cron job that is suspended",
    ),
    pytest.param(
        CRON,
        Facts(pods(1, container=ended(3)), jobs=[NIGHT]),
        "cronjob default/night (Waiting): it has made no job yet\n"
        "  job default/train (Failed): container main exited with code 3",
        id="a cron job whose last job failed",
    ),
    pytest.param(
        HOURLY,
        Facts([pod("one-a", owner=BATCH, container=ended(3))], jobs=[HOUR], now=NEW_YEAR),
        "cronjob default/hourly (Waiting): its last job was due at 2026-01-01T00:00:00Z, the next one is at "
        "2026-01-01T01:00:00Z\n  job default/one (Failed): BackoffLimitExceeded: backoff limit; container main exited",
        id="a cron job of batch jobs",
    ),
    pytest.param(
        HOURLY,
        Facts(events=[event(HOURLY, "JobAlreadyActive", "Not starting job because", at=9)], now=NEW_YEAR),
        "cronjob default/hourly (Waiting): Not starting job because; its last job was due at 2026-01-01T00:00:00Z, the",
        id="a cron job that may not start the next",
    ),
    pytest.param(
        {**ADMITTED, "metadata": {**ADMITTED["metadata"], "namespace": "default"}},  # type: ignore[dict-item]  # a copy of a map
        Facts(pods(1, container=ended(3)), jobs=[OWNER]),
        "job default/train (Failed): container main exited with code 3",
        id="a job's group",
    ),
    pytest.param(
        TRAINING,
        Facts([pod("t-worker-0", owner=TRAINING, container=ended(3))]),
        "tfjob default/t (Failed): TFJob default/t has failed; container main exited with code 3",
        id="a training job that failed",
    ),
    pytest.param(TRAINED, Facts(), "trainjob default/t (Complete): jobset completed", id="a TrainJob that is over"),
    pytest.param(
        TRAINS,
        Facts([pod("t-node-0-0-a", "Pending", owner=NODES, container=PULLING)], jobs=[NODES]),
        "trainjob default/t (Running): ",
        id="a TrainJob whose pods wait",
    ),
    pytest.param(
        owned("TrainJob", "trainer.kubeflow.org/v1alpha1", "t"),
        Facts(events=[event(TRAINS, "TrainJobResourcesCreationFailed", "PodGroup t: no such queue")]),
        "trainjob default/t (Pending): what it is made of cannot be made: PodGroup t: no such queue",
        id="a TrainJob whose PodGroup is refused",
    ),
    pytest.param(
        pod("lone", container=ended(3)), Facts(), "pod default/lone (Failed): container main exited with code 3",
        id="a pod",
    ),
    pytest.param(
        pod("lone", "Running", container={"state": {"running": {}}}), Facts(),
        "pod default/lone (Running): it is on node n1", id="a pod that runs",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "facts", "text"), OTHERS)
def test_why_other_objects_are_as_they_are(obj: Json, facts: Facts, text: str) -> None:
    assert report_of(obj, facts).render().startswith(text)


def test_saying_why_does_not_load_the_scheduler() -> None:
    """Who lists jobs does not wait for what places them."""
    code = "import strato.cli.job, sys; print([name for name in sys.modules if name in ('numpy', 'numba')])"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout == "[]\n"
