"""What breaks one rule each: for the chain, for our evaluation of the definitions, and for a real API server."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from strato.api import catalog
from strato.api.kinds import Kind

Json = dict[str, Any]

TEMPLATE: Json = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
TIERS: Json = {"mode": "hard", "highestTierAllowed": 1, "highestTierName": "rack"}


@dataclass(frozen=True)
class Violation:
    """An object that one rule refuses."""

    name: str
    kind: Kind
    body: Json
    text: str
    """In every answer."""
    old: Json | None = None
    """The stored object, when the rule is about changes."""
    chain_text: str = ""
    """What the chain says instead, where the definition's answer is the schema's own."""


def task(name: str = "a", replicas: int = 1, **more: Any) -> Json:
    """Return a task."""
    return {"name": name, "replicas": replicas, "template": copy.deepcopy(TEMPLATE), **more}


def job(*tasks: Json, name: str = "x", **spec: Any) -> Json:
    """Return a job, complete as far as admission completes it."""
    return {"metadata": {"name": name}, "spec": {"queue": "default", "maxRetry": 3, "tasks": list(tasks), **spec}}


def queue(name: str = "x", **spec: Any) -> Json:
    """Return a queue."""
    return {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": True, **spec}}


def cron(name: str = "x", **spec: Any) -> Json:
    """Return a cron job."""
    return {"metadata": {"name": name}, "spec": {"schedule": "* * * * *", "jobTemplate": {}, **spec}}


def flow(*flows: Json) -> Json:
    """Return a job flow."""
    return {"metadata": {"name": "x"}, "spec": {"flows": list(flows)}}


def hyper_node(**spec: Any) -> Json:
    """Return a HyperNode."""
    return {"metadata": {"name": "x"}, "spec": {"tier": 1, **spec}}


def _policies(*policies: Json) -> Json:
    return job(task(), policies=list(policies))


def _of_task(*policies: Json) -> Json:
    return job(task(policies=list(policies)))


_ABORT = {"event": "PodFailed", "action": "AbortJob"}
_PARTS = {"totalPartitions": 2, "partitionSize": 2}
_OLD = job(task(replicas=2), minAvailable=1, plugins={"svc": []}, volumes=[{"mountPath": "/v", "volumeClaim": {}}])


def changed(**spec: Any) -> Json:
    """Return the stored job with members of its spec replaced; None removes one."""
    new = copy.deepcopy(_OLD)
    new["spec"].update(spec)
    new["spec"] = {name: value for name, value in new["spec"].items() if value is not None}
    return new


def _change(name: str, text: str = "job updates may not change fields other than", **spec: Any) -> Violation:
    return Violation(name, catalog.VCJOB, changed(**spec), text, old=_OLD)


JOBS = [
    Violation("a job without a spec", catalog.VCJOB, {"metadata": {"name": "x"}}, "No task specified in job spec"),
    Violation("a job without tasks", catalog.VCJOB, {"metadata": {"name": "x"}, "spec": {}}, "No task specified"),
    Violation(
        "an empty list of tasks",
        catalog.VCJOB,
        job(),
        "should have at least 1 items",
        chain_text="No task specified in job spec",
    ),
    Violation(
        "more available than replicas",
        catalog.VCJOB,
        job(task(minAvailable=2)),
        "'minAvailable' is greater than 'replicas' in task: a",
    ),
    Violation("a task's name twice", catalog.VCJOB, job(task(), task("b"), task()), "duplicated task name"),
    Violation("an unusable name of a task", catalog.VCJOB, job(task("a_")), "should match", chain_text="-"),
    Violation(
        "a gang larger than the job",
        catalog.VCJOB,
        job(task(), minAvailable=2),
        "job 'minAvailable' should not be greater than total replicas in tasks",
    ),
    Violation("an unknown plugin", catalog.VCJOB, job(task(), plugins={"zz": []}), "unable to find job plugin: zz"),
    Violation("mpi without its master", catalog.VCJOB, job(task(), plugins={"mpi": []}), "mpi master task was not"),
    Violation(
        "mpi whose master has another name",
        catalog.VCJOB,
        job(task("master"), plugins={"mpi": ["--master=boss"]}),
        "mpi master task was not",
    ),
    Violation("the root queue", catalog.VCJOB, job(task(), queue="root"), "can not submit job to root queue"),
    Violation("tiers by number and name", catalog.VCJOB, job(task(), networkTopology=TIERS), "simultaneously"),
    Violation(
        "a task that waits for itself",
        catalog.VCJOB,
        job(task(dependsOn={"name": ["a"]})),
        "doesn't form a directed acyclic graph(DAG);",
    ),
    Violation(
        "a task that waits for an unknown one",
        catalog.VCJOB,
        job(task(dependsOn={"name": ["b"]})),
        "doesn't form a directed acyclic graph(DAG);",
    ),
    Violation(
        "a task that waits for another twice",
        catalog.VCJOB,
        job(task(), task("b", dependsOn={"name": ["a", "a"]})),
        "Duplicate value",
        chain_text="lists a dependency twice",
    ),
    Violation(
        "partitions that do not make up the replicas",
        catalog.VCJOB,
        job(task(replicas=3, partitionPolicy=_PARTS)),
        "'Replicas' are not equal to TotalPartitions*PartitionSize in task: a",
    ),
    Violation(
        "partitions that do not make up what is available",
        catalog.VCJOB,
        job(task(replicas=4, minAvailable=3, partitionPolicy={**_PARTS, "minPartitions": 1})),
        "'MinAvailable' is not equal to MinPartitions*PartitionSize in task: a",
    ),
    Violation(
        "tiers of partitions by number and name",
        catalog.VCJOB,
        job(task(replicas=4, partitionPolicy={**_PARTS, "networkTopology": TIERS})),
        "simultaneously",
    ),
    Violation(
        "a name that leaves no room for its pods'",
        catalog.VCJOB,
        job(task("b" * 40), name="x" * 30),
        "name part must be no more than 63 bytes",
    ),
    Violation("a name too long", catalog.VCJOB, job(task(), name="x" * 64), "name part must be no more than 63 bytes"),
    Violation(
        "two volumes at one path",
        catalog.VCJOB,
        job(
            task(),
            volumes=[
                {"mountPath": "/v", "volumeClaim": {}},
                {"mountPath": "/v", "volumeClaimName": "c"},
            ],
        ),
        "duplicated mountPath: /v",
    ),
    Violation(
        "a volume of nothing",
        catalog.VCJOB,
        job(task(), volumes=[{"mountPath": "/v"}]),
        "either VolumeClaim or VolumeClaimName must be specified",
    ),
    Violation(
        "a volume of two claims",
        catalog.VCJOB,
        job(task(), volumes=[{"mountPath": "/v", "volumeClaim": {}, "volumeClaimName": "c"}]),
        "conflict: If you want to use an existing PVC",
    ),
    Violation(
        "an unusable name of a claim",
        catalog.VCJOB,
        job(task(), volumes=[{"mountPath": "/v", "volumeClaimName": "C_"}]),
        "should match",
        chain_text="invalid VolumeClaimName C_",
    ),
    _change("another queue", queue="other"),
    _change("another scheduler", schedulerName="other"),
    _change("other plugins", plugins={"env": []}),
    _change("a policy more", policies=[_ABORT]),
    _change("a time to live", ttlSecondsAfterFinished=5),
    _change("another topology", networkTopology={"mode": "hard", "highestTierAllowed": 1}),
    _change("a volume less", volumes=None),
    _change("a task's other name", tasks=[task("b", 2)]),
    _change("a task's other numa policy", tasks=[task("a", 2, topologyPolicy="none")]),
    _change("a task more", "job updates may not add or remove tasks", tasks=[task("a", 2), task("b")]),
]

for place, build in (("the job's", _policies), ("a task's", _of_task)):
    JOBS += [
        Violation(
            f"{place} policy for events and a code",
            catalog.VCJOB,
            build({**_ABORT, "exitCode": 1}),
            "must not specify event and exitCode simultaneously",
        ),
        Violation(
            f"{place} policy for nothing",
            catalog.VCJOB,
            build({"action": "AbortJob"}),
            "either event and exitCode should be specified",
        ),
        Violation(
            f"{place} policy for an internal event",
            catalog.VCJOB,
            build({"event": "PodRunning", "action": "AbortJob"}),
            "invalid policy event: PodRunning",
        ),
        Violation(
            f"{place} policy for internal events",
            catalog.VCJOB,
            build({"events": ["PodFailed", "OutOfSync"], "action": "AbortJob"}),
            "invalid policy event: OutOfSync",
        ),
        Violation(
            f"{place} policy with an internal action",
            catalog.VCJOB,
            build({"event": "*", "action": "SyncJob"}),
            "invalid policy action: SyncJob",
        ),
        Violation(f"{place} policy for success", catalog.VCJOB, build({"exitCode": 0}), "0 is not a valid error code"),
        Violation(
            f"{place} policies for one event twice",
            catalog.VCJOB,
            build(_ABORT, {"events": ["PodFailed"], "action": "RestartJob"}),
            "duplicate event PodFailed  across different policy",
        ),
        Violation(
            f"{place} policies for any event and another",
            catalog.VCJOB,
            build(_ABORT, {"event": "*", "action": "RestartJob"}),
            "if there's * here, no other policy should be here",
        ),
    ]
JOBS.append(
    Violation(
        "the job's policies for one code twice",
        catalog.VCJOB,
        _policies({"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}),
        "duplicate exitCode",
    )
)

OTHERS = [
    Violation(
        "a group's tiers by number and name",
        catalog.PODGROUP,
        {"metadata": {"name": "x"}, "spec": {"queue": "default", "networkTopology": TIERS}},
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
    ),
    Violation(
        "a sub-group's tiers by number and name",
        catalog.PODGROUP,
        {"metadata": {"name": "x"}, "spec": {"subGroupPolicy": [{"name": "s", "networkTopology": TIERS}]}},
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
    ),
    Violation("less than nothing", catalog.QUEUE, queue(capability={"cpu": "-1"}), "greater than or equal to 0"),
    Violation("half a device", catalog.QUEUE, queue(deserved={"nvidia.com/gpu": "500m"}), "must be an integer"),
    Violation(
        "a guarantee that is not deserved",
        catalog.QUEUE,
        queue(guarantee={"resource": {"cpu": 2}}, deserved={"cpu": 1}),
        "must be >= guarantee",
    ),
    Violation(
        "more deserved than possible",
        catalog.QUEUE,
        queue(deserved={"memory": "2Gi"}, capability={"memory": "1Gi"}),
        "must be <= capability",
    ),
    Violation("a queue below itself", catalog.QUEUE, queue(parent="x"), "queue x cannot use itself as parent"),
    Violation("a weight too large", catalog.QUEUE, queue(weight=65536), "less than or equal to 65535", chain_text="-"),
    Violation("no schedule", catalog.VCCRONJOB, cron(schedule=""), "schedule is required, but got empty"),
    Violation(
        "a zone in the schedule",
        catalog.VCCRONJOB,
        cron(schedule="TZ=UTC * * * * *"),
        "schedule should not contain TZ or CRON_TZ",
    ),
    Violation(
        "a schedule of four fields",
        catalog.VCCRONJOB,
        cron(schedule="* * * *"),
        "schedule is not a valid cron expression: * * * *",
    ),
    Violation(
        "an unknown descriptor",
        catalog.VCCRONJOB,
        cron(schedule="@often"),
        "schedule is not a valid cron expression: @often",
    ),
    Violation(
        "an empty zone",
        catalog.VCCRONJOB,
        cron(timeZone=""),
        "timeZone must be nil or non-empty string, got empty string",
    ),
    Violation("a zone outside the base", catalog.VCCRONJOB, cron(timeZone="../UTC"), "unknown timeZone ../UTC"),
    Violation("the local zone", catalog.VCCRONJOB, cron(timeZone="Local"), "timeZone can't be Local"),
    Violation(
        "a name too long for its runs", catalog.VCCRONJOB, cron(name="x" * 53), "must be no more than 52 characters"
    ),
    Violation(
        "an unknown concurrency policy",
        catalog.VCCRONJOB,
        cron(concurrencyPolicy="Maybe"),
        'supported values: "Allow", "Forbid", "Replace"',
        chain_text="-",
    ),
    Violation(
        "a flow that waits for itself",
        catalog.JOBFLOW,
        flow({"name": "a", "dependsOn": {"targets": ["a"]}}),
        "jobflow Flow is not DAG: vertex a depends on itself",
    ),
    Violation(
        "a flow that waits for an unknown one",
        catalog.JOBFLOW,
        flow({"name": "a", "dependsOn": {"targets": ["b"]}}),
        "jobflow Flow is not DAG",
    ),
    Violation("a HyperNode without members", catalog.HYPERNODE, hyper_node(), "member must have at least one member"),
    Violation(
        "a pattern that is none",
        catalog.HYPERNODE,
        hyper_node(members=[{"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}]),
        "pattern",
    ),
    Violation(
        "a member selected in two ways",
        catalog.HYPERNODE,
        hyper_node(members=[{"type": "Node", "selector": {"exactMatch": {"name": "n"}, "labelMatch": {}}}]),
        "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        chain_text="-",
    ),
]
"""``chain_text`` "-": the schema alone has it, the chain never sees such an object."""

VIOLATIONS = [*JOBS, *OTHERS]

FULL = job(
    task(
        "master",
        policies=[{"events": ["TaskCompleted", "PodFailed"], "action": "CompleteJob", "timeout": "1m"}],
        topologyPolicy="none",
        maxRetry=1,
    ),
    task("a", 4, minAvailable=2, partitionPolicy={**_PARTS, "minPartitions": 1}, dependsOn={"name": ["master"]}),
    minAvailable=3,
    schedulerName="volcano",
    plugins={"mpi": ["--master=master", "--worker", "a"], "ssh": [], "svc": []},
    policies=[{"event": "*", "action": "RestartJob"}, {"exitCode": 137, "action": "anything"}],
    volumes=[{"mountPath": "/a", "volumeClaim": {}}, {"mountPath": "/b", "volumeClaimName": "c"}],
    networkTopology={"mode": "soft", "highestTierAllowed": 2},
    runningEstimate="1h",
    ttlSecondsAfterFinished=0,
    minSuccess=1,
    priorityClassName="high",
)


def scaled(body: Json) -> Json:
    """Return the job as its owner, and the controller, may change it."""
    new = copy.deepcopy(body)
    new["spec"].update(minAvailable=1, priorityClassName="low")
    new["spec"]["tasks"][0].update(replicas=3, minAvailable=0)
    new["spec"]["volumes"][0]["volumeClaimName"] = "made-by-the-controller"
    return new


def as_go_writes(body: Json) -> Json:
    """Return the job as a client with Go's types writes it back: some empty members come, others go."""
    new = copy.deepcopy(body)
    new["metadata"]["creationTimestamp"] = None
    new["status"] = {"state": {"lastTransitionTime": None}}
    for each in new["spec"]["tasks"]:
        each["template"].setdefault("metadata", {})["creationTimestamp"] = None
        for container in each["template"]["spec"]["containers"]:
            container["resources"] = {}
    for volume in new["spec"].get("volumes", ()):
        if "volumeClaim" in volume:
            volume["volumeClaim"]["resources"] = {}
    return new


FINE: list[tuple[str, Kind, Json, Json | None]] = [
    ("a job with everything", catalog.VCJOB, FULL, None),
    ("a job of one task", catalog.VCJOB, job(task()), None),
    ("a job that is scaled", catalog.VCJOB, scaled(FULL), FULL),
    ("a job that a client in Go writes back", catalog.VCJOB, as_go_writes(FULL), FULL),
    ("a cron job by descriptor", catalog.VCCRONJOB, cron(schedule="@every 1h"), None),
    ("a cron job by names", catalog.VCCRONJOB, cron(schedule="0/5 8-18 ? JAN-DEC mon,FRI"), None),
    ("a cron job with a zone", catalog.VCCRONJOB, cron(timeZone="America/Argentina/Buenos_Aires"), None),
    (
        "a queue with amounts",
        catalog.QUEUE,
        queue(
            capability={"cpu": "3500m", "memory": "1.5Gi", "nvidia.com/gpu": 4},
            deserved={"cpu": 2},
            guarantee={"resource": {"cpu": 1}},
            parent="root",
        ),
        None,
    ),
    ("a chain of flows", catalog.JOBFLOW, flow({"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}), None),
    (
        "a HyperNode by pattern",
        catalog.HYPERNODE,
        hyper_node(members=[{"type": "Node", "selector": {"regexMatch": {"pattern": "^node-[0-9]+$"}}}]),
        None,
    ),
]
