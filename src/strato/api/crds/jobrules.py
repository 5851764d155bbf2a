"""Rules for new and changed Jobs, in CEL (spec volcano-api 16).

They are part of the schema of Jobs only: templates, cron jobs and patches of flows are checked when a job is made from
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from strato.api.crds.rules import TIERS, ValidationRule, add, unchanged
from strato.api.crds.schema import SUBDOMAIN, Schema

MAX_TASKS = 500
"""Most tasks of one job: with one container each they fill the largest object that etcd stores."""
MAX_POLICIES = 300
"""Most policies: there are 8 events and 255 exit codes, and each may be in one policy only."""
MAX_TASK_POLICIES = 64
MAX_EVENTS = 10
"""Most events of one policy; there are 8."""
MAX_DEPENDENCIES = 32
MAX_VOLUMES = 256
MAX_PLUGINS = 32
MAX_PLUGIN_ARGUMENTS = 64

EVENTS = ("*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
"""Events a user may name (spec 2.3)."""
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
"""Actions a user may name (spec 2.4)."""
PLUGINS = ("ssh", "env", "svc", "tensorflow", "mpi", "pytorch", "hcclrank", "ray", "array")
"""Plugins a job may name: Volcano's (spec 16.2), and ``array`` of ours."""

IMMUTABLE = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`"
)


def _list(texts: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{text}'" for text in texts) + "]"


_HAS_EVENTS = "((has(self.event) && self.event != '') || (has(self.events) && self.events.size() > 0))"
_CHOICE = f"valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}]"

_POLICY = (
    ValidationRule(
        f"!{_HAS_EVENTS} || !has(self.exitCode)", f"must not specify event and exitCode simultaneously {_CHOICE}"
    ),
    ValidationRule(f"{_HAS_EVENTS} || has(self.exitCode)", f"either event and exitCode should be specified {_CHOICE}"),
    ValidationRule(
        f"!has(self.event) || self.event == '' || self.event in {_list(EVENTS)}",
        f"invalid policy event {_CHOICE}",
        f"'invalid policy event: ' + self.event + ' {_CHOICE}'",
    ),
    ValidationRule(
        f"!has(self.events) || self.events.all(e, e in {_list(EVENTS)})",
        f"invalid policy event {_CHOICE}",
        f"'invalid policy event: ' + self.events.filter(e, !(e in {_list(EVENTS)}))[0] + ' {_CHOICE}'",
    ),
    ValidationRule(
        f"!{_HAS_EVENTS} || (has(self.action) && self.action in {_list(ACTIONS)})",
        f"invalid policy action {_CHOICE}",
        f"'invalid policy action: ' + (has(self.action) ? self.action : '') + ' {_CHOICE}'",
    ),
    ValidationRule("!has(self.exitCode) || self.exitCode != 0", f"0 is not a valid error code {_CHOICE}"),
)
"""Rules of one policy."""

_NAMES = "((has(p.event) && p.event == e) || (has(p.events) && e in p.events))"
_POLICIES = (
    ValidationRule(
        f"{_list(EVENTS)}.all(e, self.filter(p, {_NAMES}).size() <= 1)",
        f"duplicate event  across different policy {_CHOICE}",
        f"'duplicate event ' + {_list(EVENTS)}.filter(e, self.filter(p, {_NAMES}).size() > 1)[0] "
        f"+ '  across different policy {_CHOICE}'",
    ),
    ValidationRule(
        "!self.exists(p, (has(p.event) && p.event == '*') || (has(p.events) && '*' in p.events)) || "
        "!self.exists(p, (has(p.event) && p.event != '' && p.event != '*') || "
        "(has(p.events) && p.events.exists(e, e != '*')))",
        f"if there's * here, no other policy should be here {_CHOICE}",
    ),
)
"""Rules of a list of policies."""

_CODES = ValidationRule(
    "[self.filter(p, has(p.exitCode)).map(p, p.exitCode)].all(codes, "
    "codes.all(c, codes.indexOf(c) == codes.lastIndexOf(c)))",
    f"duplicate exitCode {_CHOICE}",
)
"""Rules of the job's own list of policies; for the lists of all tasks their estimated cost would be too high."""


def _check_policies(policies: Schema, most: int) -> None:
    policies["maxItems"] = most
    policies["items"]["properties"]["events"]["maxItems"] = MAX_EVENTS
    add(policies["items"], *_POLICY)
    add(policies, *_POLICIES)


_REPLICAS = "(has(self.replicas) ? self.replicas : 0)"
_OF_TASK = "' in task: ' + (has(self.name) ? self.name : '')"

_TASK = (
    ValidationRule(
        f"!has(self.minAvailable) || self.minAvailable <= {_REPLICAS}",
        "'minAvailable' is greater than 'replicas' in task",
        f"\"'minAvailable' is greater than 'replicas'\" + {_OF_TASK}",
    ),
    ValidationRule(
        f"!has(self.partitionPolicy) || {_REPLICAS} == "
        "self.partitionPolicy.totalPartitions * self.partitionPolicy.partitionSize",
        "'Replicas' are not equal to TotalPartitions*PartitionSize",
        f"\"'Replicas' are not equal to TotalPartitions*PartitionSize\" + {_OF_TASK}",
    ),
    ValidationRule(
        "!has(self.partitionPolicy) || !has(self.partitionPolicy.minPartitions) || "
        "self.partitionPolicy.minPartitions == 0 || !has(self.minAvailable) || self.minAvailable == "
        "self.partitionPolicy.minPartitions * self.partitionPolicy.partitionSize",
        "'MinAvailable' is not equal to MinPartitions*PartitionSize",
        f"\"'MinAvailable' is not equal to MinPartitions*PartitionSize\" + {_OF_TASK}",
    ),
    ValidationRule(
        "!has(self.dependsOn) || !has(self.dependsOn.name) || !has(self.name) || !(self.name in self.dependsOn.name)",
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG); a task depends on itself",
    ),
)
"""Rules of one task."""

_TASK_NAMES = "self.tasks.map(t, has(t.name) ? t.name : '')"
_SPEC = (
    ValidationRule("has(self.tasks)", "No task specified in job spec"),
    ValidationRule(
        "!has(self.minAvailable) || !has(self.tasks) || "
        "self.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum() >= self.minAvailable",
        "job 'minAvailable' should not be greater than total replicas in tasks",
    ),
    ValidationRule(
        f"!has(self.tasks) || [{_TASK_NAMES}].all(names, "
        "names.all(n, n == '' || names.indexOf(n) == names.lastIndexOf(n)))",
        "duplicated task name",
    ),
    ValidationRule(
        f"!has(self.tasks) || [{_TASK_NAMES}].all(names, self.tasks.all(t, !has(t.dependsOn) || "
        "!has(t.dependsOn.name) || t.dependsOn.name.all(d, d in names)))",
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG); "
        "a task depends on one that is not there",
    ),
    ValidationRule("!has(self.queue) || self.queue != 'root'", "can not submit job to root queue"),
    ValidationRule(
        "!has(self.plugins) || !('mpi' in self.plugins) || !has(self.tasks) || "
        "(self.plugins['mpi'].exists(a, a.startsWith('--master') || a.startsWith('-master')) ? "
        "self.tasks.exists(t, has(t.name) && self.plugins['mpi'].exists(a, "
        "a == '--master=' + t.name || a == '-master=' + t.name || a == t.name)) : "
        "self.tasks.exists(t, has(t.name) && t.name == 'master'))",
        "The specified mpi master task was not found",
    ),
    ValidationRule(
        "!has(self.tasks) || !has(oldSelf.tasks) || self.tasks.size() == oldSelf.tasks.size()",
        "job updates may not add or remove tasks",
    ),
    *unchanged(
        (
            ("queue", "''"),
            ("schedulerName", "''"),
            ("maxRetry", "0"),
            ("ttlSecondsAfterFinished", "-1"),
            ("minSuccess", "0"),
            ("runningEstimate", "''"),
        ),
        IMMUTABLE,
    ),
    *(
        ValidationRule(
            f"has(self.{name}) == has(oldSelf.{name}) ? (!has(self.{name}) || self.{name} == oldSelf.{name}) : "
            f"((!has(self.{name}) || self.{name}.size() == 0) && (!has(oldSelf.{name}) || oldSelf.{name}.size() == 0))",
            IMMUTABLE,
        )
        for name in ("plugins", "policies")
    ),
    ValidationRule(
        "has(self.networkTopology) == has(oldSelf.networkTopology) && "
        "(!has(self.networkTopology) || self.networkTopology == oldSelf.networkTopology)",
        IMMUTABLE,
    ),
    *(
        ValidationRule(
            "!has(self.tasks) || !has(oldSelf.tasks) || "
            f"self.tasks.map(t, has(t.{name}) ? t.{name} : {empty}) == "
            f"oldSelf.tasks.map(t, has(t.{name}) ? t.{name} : {empty})",
            IMMUTABLE,
        )
        for name, empty in (("name", "''"), ("topologyPolicy", "''"), ("maxRetry", "0"))
    ),
    ValidationRule(
        "(has(self.volumes) ? self.volumes.map(v, v.mountPath) : []) == "
        "(has(oldSelf.volumes) ? oldSelf.volumes.map(v, v.mountPath) : [])",
        IMMUTABLE,
    ),
)
"""Rules of the spec as a whole; those with oldSelf apply to updates. Templates are not compared: a client that reads
and writes them with Go's types adds empty members, which only the webhook can distinguish from changes."""

_VOLUMES = (
    ValidationRule(
        "[self.map(v, v.mountPath)].all(paths, paths.all(p, paths.indexOf(p) == paths.lastIndexOf(p)))",
        "duplicated mountPath",
        "'duplicated mountPath: ' + [self.map(v, v.mountPath)].map(paths, "
        "paths.filter(p, paths.indexOf(p) != paths.lastIndexOf(p)))[0][0]",
    ),
    ValidationRule(
        "self.all(v, !has(v.volumeClaim) || !has(v.volumeClaimName) || v.volumeClaimName == '')",
        "conflict: If you want to use an existing PVC, just specify VolumeClaimName. If you want to create a new PVC, "
        "you do not need to specify VolumeClaimName.",
        on_create=True,  # not on updates, because the controller writes the name of the claim that it has made
    ),
)
_VOLUME = ValidationRule(
    "has(self.volumeClaim) || (has(self.volumeClaimName) && self.volumeClaimName != '')",
    "either VolumeClaim or VolumeClaimName must be specified",
)
_PLUGINS = ValidationRule(
    f"self.all(p, p in {_list(PLUGINS)})",
    "unable to find job plugin",
    f"'unable to find job plugin: ' + self.filter(p, !(p in {_list(PLUGINS)}))[0]",
)

ROOT = (
    ValidationRule("has(self.spec)", "No task specified in job spec", on_create=True),
    ValidationRule(
        "self.metadata.name.size() <= 63",
        "create job validate failed: name part must be no more than 63 bytes",
        "'create job with name ' + self.metadata.name + ' validate failed [name part must be no more than 63 bytes]'",
        on_create=True,
    ),
    ValidationRule(
        "!has(self.spec) || !has(self.spec.tasks) || self.metadata.name.size() > 63 || "
        "self.spec.tasks.all(t, self.metadata.name.size() + (has(t.name) ? t.name.size() : 8) + 3 <= 63)",
        "create pod validate failed: name part must be no more than 63 bytes; pods are named JOB-TASK-INDEX",
        on_create=True,
    ),
)
"""Rules of the object; names never change, so they are checked on creation only."""


def check_job_spec(spec: Schema) -> Schema:
    """Add the rules and bounds of Jobs to a schema of JobSpec, in place, and return it."""
    members = spec["properties"]
    _check_policies(members["policies"], MAX_POLICIES)
    add(members["policies"], _CODES)
    add(members["networkTopology"], TIERS)
    members["plugins"]["maxProperties"] = MAX_PLUGINS
    members["plugins"]["additionalProperties"]["maxItems"] = MAX_PLUGIN_ARGUMENTS
    add(members["plugins"], _PLUGINS)
    volumes = members["volumes"]
    volumes["maxItems"] = MAX_VOLUMES
    volumes["items"]["properties"]["mountPath"]["maxLength"] = 4096
    volumes["items"]["properties"]["volumeClaimName"]["pattern"] = f"^$|{SUBDOMAIN}"
    add(volumes, *_VOLUMES)
    add(volumes["items"], _VOLUME)
    members["tasks"]["maxItems"] = MAX_TASKS
    _check_task(members["tasks"]["items"])
    return add(spec, *_SPEC)


def _check_task(task: Schema) -> None:
    members = task["properties"]
    _check_policies(members["policies"], MAX_TASK_POLICIES)
    add(members["partitionPolicy"]["properties"]["networkTopology"], TIERS)
    names = members["dependsOn"]["properties"]["name"]
    names["maxItems"] = MAX_DEPENDENCIES
    names["items"]["maxLength"] = 63
    names["x-kubernetes-list-type"] = "set"
    add(task, *_TASK)
