"""Schemas of batch.volcano.sh and flow.volcano.sh (spec volcano-api 3, 4 and 8)."""

from __future__ import annotations

from strato.api.crds import jobrules
from strato.api.crds.rules import ValidationRule, add
from strato.api.crds.schema import (
    LABEL,
    SUBDOMAIN,
    Schema,
    array,
    boolean,
    duration,
    integer,
    mapping,
    network_topology,
    obj,
    object_reference,
    opaque,
    text,
    time,
)
from strato.api.waitfor import MAX_TEXT

EVENTS = (
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
    "TaskFailed",
)
PHASES = (
    "Pending",
    "Aborting",
    "Aborted",
    "Running",
    "Restarting",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)


def _policies(description: str) -> Schema:
    policy = obj(
        {
            "action": text("What to do: AbortJob, RestartJob, RestartTask, RestartPod, TerminateJob, CompleteJob, …"),
            "event": text("The event that triggers the action.", enum=EVENTS),
            "events": array(text(enum=EVENTS), "Several events that trigger the action."),
            "exitCode": integer("The container exit code that triggers the action; not 0, not with events."),
            "timeout": duration("How long to wait before the action runs."),
        },
        "What to do on an event or exit code.",
    )
    return array(policy, description)


def _task() -> Schema:
    partition = obj(
        {
            "totalPartitions": integer("Number of partitions.", minimum=1),
            "partitionSize": integer("Pods per partition; totalPartitions times this is replicas.", minimum=1),
            "minPartitions": integer("Partitions that must run.", minimum=0, default=0),
            "networkTopology": network_topology(),
        },
        "How the task is cut into groups of pods that are placed together.",
        required=["partitionSize", "totalPartitions"],
    )
    return obj(
        {
            "name": text("Name of the task, unique in the job.", max_length=63, pattern=LABEL),
            "replicas": integer("Pods of the task.", minimum=0),
            "minAvailable": integer("Pods of the task that must run; replicas when unset.", minimum=0),
            "template": opaque("Template of the task's pods (v1 PodTemplateSpec)."),
            "policies": _policies("Lifecycle policies of the task; they come before the job's."),
            "topologyPolicy": text(
                "NUMA policy of the task's pods.", enum=["none", "best-effort", "restricted", "single-numa-node"]
            ),
            "maxRetry": integer("Container restarts of the task after which TaskFailed is raised.", minimum=0),
            "dependsOn": obj(
                {
                    "name": array(text(), "Tasks that come first."),
                    "iteration": text("any: one of them suffices; all: every one."),
                },
                "Tasks that must have started before this one.",
            ),
            "partitionPolicy": partition,
        },
        "Pods with the same template.",
    )


def job_spec(description: str = "What the job should be.") -> Schema:
    """Return the schema of JobSpec."""
    volume = obj(
        {
            "mountPath": text("Where containers see the volume.", min_length=1, pattern="^[^:]+$"),
            "volumeClaimName": text("Name of the claim.", max_length=253),
            "volumeClaim": opaque("The claim to make (v1 PersistentVolumeClaimSpec)."),
        },
        required=["mountPath"],
    )
    return obj(
        {
            "schedulerName": text("Scheduler of the pods.", max_length=63),
            "minAvailable": integer("Pods that must run at once: the size of the gang.", minimum=0),
            "volumes": array(volume, "Volumes mounted into every container."),
            "tasks": array(_task(), "The tasks of the job.", min_items=1),
            "policies": _policies("Lifecycle policies of the job."),
            "plugins": mapping(array(text()), "Job plugins and their arguments: svc, env, ssh, pytorch, mpi, …"),
            "runningEstimate": duration("How long the job is expected to run."),
            "queue": text("Queue of the job.", max_length=253, pattern=SUBDOMAIN, default="default"),
            "maxRetry": integer("Restarts after which the job fails.", minimum=0, default=3),
            "ttlSecondsAfterFinished": integer("Seconds after its end that the job is deleted.", minimum=0),
            "priorityClassName": text("Priority class of the job and its pods.", max_length=253, pattern=SUBDOMAIN),
            "minSuccess": integer("Pods that must succeed for the job to complete.", minimum=1),
            "networkTopology": network_topology(),
        },
        description,
    )


def _state(description: str) -> Schema:
    return obj(
        {
            "phase": text("Phase of the job.", enum=PHASES),
            "reason": text("Why."),
            "message": text("Why, for people."),
            "lastTransitionTime": time("When the state was written last."),
        },
        description,
    )


def task_status_count() -> Schema:
    """Return the schema of the pods of each task by phase."""
    return mapping(obj({"phase": mapping(integer(), "Pods by phase.")}), "Pods of each task by phase.")


def job_status() -> Schema:
    """Return the schema of JobStatus."""
    counters = {
        name: integer(f"Number of {name} pods.", minimum=0)
        for name in ("pending", "running", "succeeded", "failed", "terminating", "unknown")
    }
    condition = obj(
        {"status": text("The phase.", enum=PHASES), "lastTransitionTime": time("When it was entered.")},
        required=["status"],
    )
    return obj(
        {
            "state": _state("Where the job is."),
            "minAvailable": integer("The job's minAvailable.", minimum=0),
            "taskStatusCount": task_status_count(),
            **counters,
            "version": integer("Rises whenever all pods are killed.", minimum=0),
            "retryCount": integer("Restarts so far.", minimum=0),
            "runningDuration": duration("How long the job ran."),
            "controlledResources": mapping(text(), "What the controller made for the job."),
            "conditions": array(condition, "Phases entered, with their times."),
        },
        "How the job is doing.",
    )


def job() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a Job."""
    return {"spec": jobrules.check_job_spec(job_spec()), "status": job_status()}


_SCHEDULE = (
    ValidationRule("self != ''", "schedule is required, but got empty"),
    ValidationRule(
        "!self.contains('TZ')", "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    ),
    ValidationRule(
        "self == '' || self.contains('TZ') || (self.startsWith('@') ? "
        "self.matches('^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$') || self.startsWith('@every ') : "
        "self.trim().matches('^[-0-9A-Za-z*?/,]+([ \\t]+[-0-9A-Za-z*?/,]+){4}$'))",
        "schedule is not a valid cron expression: expected exactly 5 fields, or a descriptor",
        "'schedule is not a valid cron expression: ' + self + ': expected exactly 5 fields, or a descriptor'",
    ),
)
_TIME_ZONE = (
    ValidationRule("self != ''", "timeZone must be nil or non-empty string, got empty string"),
    ValidationRule(
        "self == '' || (self.matches('^[A-Za-z._0-9+][-A-Za-z._0-9+]{0,13}(/[A-Za-z._0-9+][-A-Za-z._0-9+]{0,13})*$') "
        "&& !self.matches('(^|/)[.][.]?(/|$)'))",
        "unknown timeZone",
        "'unknown timeZone ' + self",
    ),
    ValidationRule(
        "self.lowerAscii() != 'local'",
        "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
    ),
)
CRON_ROOT = (
    ValidationRule(
        "self.metadata.name.size() <= 52",
        "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)",
        on_create=True,
    ),
)
"""Rules of the whole object: the names of a cron job's jobs are eleven characters longer than its own."""

MAX_FLOWS = 250
MAX_TARGETS = 128
MAX_CONDITIONS = 16
_FLOWS = (
    ValidationRule(
        "[self.map(f, f.name)].all(names, self.all(f, !has(f.dependsOn) || !has(f.dependsOn.targets) || "
        "f.dependsOn.targets.all(t, t in names)))",
        "jobflow Flow is not DAG: a flow depends on one that is not there",
    ),
)
_FLOW = ValidationRule(
    "!has(self.dependsOn) || !has(self.dependsOn.targets) || !(self.name in self.dependsOn.targets)",
    "jobflow Flow is not DAG: a flow depends on itself",
    "'jobflow Flow is not DAG: vertex ' + self.name + ' depends on itself'",
)


def cron_job() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a CronJob."""
    spec = obj(
        {
            "schedule": add(text("When, in cron's five fields or as @hourly, @daily, …", max_length=1024), *_SCHEDULE),
            "timeZone": add(text("IANA time zone of the schedule.", max_length=255), *_TIME_ZONE),
            "startingDeadlineSeconds": integer("How late a run may start.", minimum=0, bits=64),
            "concurrencyPolicy": text(
                "What to do while the last run is active.", enum=["Allow", "Forbid", "Replace"], default="Allow"
            ),
            "suspend": boolean("Whether to start no runs.", default=False),
            "jobTemplate": obj(
                {"metadata": opaque("Labels and annotations of the jobs."), "spec": job_spec()}, "The job to make."
            ),
            "successfulJobsHistoryLimit": integer("Completed jobs to keep.", minimum=0, default=3),
            "failedJobsHistoryLimit": integer("Failed jobs to keep.", minimum=0, default=1),
        },
        "When to run which job.",
        required=["jobTemplate", "schedule"],
    )
    status = obj(
        {
            "active": array(object_reference(), "Jobs that run.", list_type="atomic"),
            "lastScheduleTime": time("When a job was made last."),
            "lastSuccessfulTime": time("When a job completed last."),
        },
        "How it is doing.",
    )
    return {"spec": spec, "status": status}


def _probe() -> Schema:
    task_name = text("Task to probe.", max_length=253)
    header = obj({"name": text(), "value": text()}, required=["name", "value"])
    port = integer(minimum=0, maximum=65535, bits=0)
    service_name = text("Service to ask instead of a task; then it must hold besides.", max_length=253)
    http_get = {"taskName": task_name, "serviceName": service_name, "path": text(), "port": port, "httpHeader": header}
    an_object = {
        "apiVersion": text("Group and version; v1 if empty.", max_length=317),
        "kind": text("Kind, as in ConfigMap.", max_length=63),
        "name": text("Name, in the flow's namespace.", max_length=253),
        "resource": text("Plural of the kind, where it is not the usual one.", max_length=63),
        "for": text("What is waited for, as kubectl wait --for says it; create if empty.", max_length=MAX_TEXT),
    }
    claim_path = {
        "claimName": text("Claim, in the flow's namespace.", max_length=253),
        "path": text("File or directory in the claim that must be there.", max_length=1024),
        "image": text("Of the pod that looks; it needs a shell.", max_length=1024),
    }
    return obj(
        {
            "httpGetList": array(obj(http_get)),
            "tcpSocketList": array(obj({"taskName": task_name, "port": port}, required=["port"])),
            "taskStatusList": array(obj({"taskName": task_name, "phase": text(max_length=63)})),
            "objectList": array(
                obj(an_object, required=["kind", "name"]), "Objects to wait for.", max_items=MAX_CONDITIONS
            ),
            "claimPathList": array(
                obj(claim_path, required=["claimName", "path"]), "Files to wait for.", max_items=MAX_CONDITIONS
            ),
        },
        "What the targets must show instead of being completed, asked of the targets that have the task; and what "
        "must hold besides: services, objects and paths in claims.",
    )


def _without_defaults(schema: Schema) -> Schema:
    """Return a schema for patches: without defaults, because a missing member means no change."""
    return {
        name: {key: _without_defaults(one) for key, one in member.items()}
        if name == "properties"
        else _without_defaults(member)
        if isinstance(member, dict)
        else member
        for name, member in schema.items()
        if name not in ("default", "required", "minItems")
    }


def job_flow() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a JobFlow."""
    flow = obj(
        {
            "name": text("Name of a JobTemplate.", min_length=1),
            "dependsOn": obj(
                {"targets": array(text(), "Flows that come first.", max_items=MAX_TARGETS), "probe": _probe()},
                "What must come first.",
            ),
            "patch": obj({"jobSpec": _without_defaults(job_spec("Merged over the template's spec; tasks by name."))}),
        },
        required=["name"],
    )
    history = obj({"startTimestamp": time(), "endTimestamp": time(), "state": text(enum=PHASES)})
    job_entry = obj(
        {
            "name": text(),
            "state": text(enum=PHASES),
            "startTimestamp": time(),
            "endTimestamp": time(),
            "restartCount": integer(minimum=0),
            "runningHistories": array(history),
        }
    )
    condition = obj(
        {
            "phase": text(enum=PHASES),
            "createTime": time(),
            "runningDuration": duration(),
            "taskStatusCount": task_status_count(),
        }
    )
    lists = ("pendingJobs", "runningJobs", "failedJobs", "completedJobs", "terminatedJobs", "unKnowJobs")
    status = obj(
        {
            **{name: array(text()) for name in lists},
            "jobStatusList": array(job_entry, "Each job's history."),
            "conditions": mapping(condition, "State of each job."),
            "waitingSteps": array(obj({"name": text(), "message": text()}), "Steps that probes hold back, and why."),
            "state": obj(
                {"phase": text(enum=["Succeed", "Terminating", "Failed", "Running", "Pending"])}, "Where the flow is."
            ),
        },
        "How the flow is doing.",
    )
    spec = obj(
        {
            "flows": add(array(add(flow, _FLOW), "The steps.", max_items=MAX_FLOWS), *_FLOWS),
            "jobRetainPolicy": text("What becomes of the jobs when the flow succeeded.", enum=["retain", "delete"]),
        },
        "Which jobs in which order.",
    )
    return {"spec": spec, "status": status}


def job_template() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a JobTemplate."""
    status = obj({"jobDependsOnList": array(text(), "Jobs made from the template.")})
    return {"spec": job_spec("The job to make."), "status": status}
