"""Runs the training operator's cases: a job through our plan, sync by sync, on pods that only the plan changes.

Where the specification says that we differ on purpose (part L) the difference is a rule here, applied to every case.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.core import Pod, Service
from strato.api.frameworks import BY_KIND, Framework, JobShape
from strato.api.kubeflow import TrainingJob
from strato.api.volcano.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from strato.clock import format_time
from strato.controllers.training import bodies, gang, verdicts
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.training.draft import StatusDraft
from strato.controllers.training.plan import plan
from strato.controllers.training.record import Gang, TrainingPlan, TrainingRecord
from strato.controllers.trainingoptions import PodOptions

Json = dict[str, Any]
NOW = 1_767_225_600.0
KINDS = {kind.name: kind for kind in catalog.TRAINING if kind.version == "v1"}


class Sync:
    """A job and its pods, as they are after so many syncs."""

    def __init__(self, kind: str, given: Json) -> None:
        self.framework: Framework = BY_KIND[KINDS[kind]]
        self.adapter = ADAPTERS[self.framework.kind]
        self.given = given
        self.whole = copy.deepcopy(given["job"])
        status = self.whole.setdefault("status", {})
        for name, key in (("startTime", "startSecondsAgo"), ("completionTime", "completedSecondsAgo")):
            if given.get(key) is not None:
                status[name] = format_time(NOW - given[key])
        self.pods = {one["metadata"]["name"]: one for one in copy.deepcopy(given.get("pods", []))}
        self.services = {one["metadata"]["name"]: one for one in copy.deepcopy(given.get("services", []))}
        for one in (*self.pods.values(), *self.services.values()):
            one["metadata"].setdefault("uid", f"uid-{one['metadata']['name']}")
        self.group = msgspec.convert(given["podGroups"][0], PodGroup) if given.get("podGroups") else None
        self.options = PodOptions(
            scheduler=given.get("gangScheduler", ""), cluster_domain=given.get("clusterDomain", "")
        )
        self.out: Json = {name: [] for name in ("podsCreated", "podsDeleted", "servicesCreated", "servicesDeleted")}
        self.out.update(events=[], errors=[], createdPods={}, createdServices={}, statusPerSync=[], jobDeleted=False)
        self.seen: set[Any] = set()

    @property
    def job(self) -> TrainingJob:
        return msgspec.convert(self.whole, self.framework.kind.view)  # type: ignore[return-value] # a training job's

    def record(self) -> TrainingRecord:
        job = self.job
        values = {one["metadata"]["name"]: one["value"] for one in self.given.get("priorityClasses", [])}
        return TrainingRecord(
            framework=self.framework,
            judge=self.adapter.judge,
            job=job,
            shape=JobShape.of(self.framework, job),
            pods=[msgspec.convert(one, Pod) for one in self.pods.values()],
            terminating=frozenset(),
            services=[msgspec.convert(one, Service) for one in self.services.values()],
            group=self.group,
            gang=Gang(scheduler=self.options.scheduler, priority_of=lambda name: values.get(name, 0))
            if self.options.scheduler
            else None,
            now=NOW,
        )

    def step(self) -> TrainingPlan:
        record = self.record()
        planned = plan(record)
        meta, shape = record.job.metadata, record.shape
        if planned.group is not None:
            self._write_group(shape, record.job, planned.group)
        if planned.status is not None:
            self.whole["status"] = msgspec.to_builtins(planned.status)
        for pod in planned.delete_pods:
            del self.pods[pod.metadata.name]
            self.out["podsDeleted"].append(pod.metadata.name)
        for service in planned.delete_services:
            del self.services[service.metadata.name]
            self.out["servicesDeleted"].append(service.metadata.name)
        if planned.delete_group:
            self.group = None
        by_role = {role.lower(): spec for role, spec in self.whole["spec"][self.framework.replica_map].items()}
        renderer = self.adapter.renderer(self.options)
        for replica in planned.create_services:
            body = bodies.service(shape, meta, replica)
            body["metadata"]["uid"] = "uid"
            self.services[body["metadata"]["name"]] = body
            self.out["servicesCreated"].append(body["metadata"]["name"])
            self.out["createdServices"][body["metadata"]["name"]] = body
        for replica in planned.create_pods:
            body = renderer.pod(shape, meta, by_role[replica.role.lower()]["template"], replica)
            body["metadata"]["uid"] = f"new-{len(self.out['podsCreated'])}"
            self.pods[body["metadata"]["name"]] = {**body, "status": {"phase": "Pending"}}
            self.out["podsCreated"].append(body["metadata"]["name"])
            self.out["createdPods"][body["metadata"]["name"]] = body
        self.out["events"] += [f"{one.type} {one.reason} {one.message}" for one in planned.events]
        fresh = [one for one in planned.observations if one not in self.seen]
        self.seen.update(fresh)
        self.out["events"] += [f"{one.type} {one.reason} {one.message}" for one in fresh]
        if planned.problem:
            self.out["errors"].append(planned.problem)
        self.out["jobDeleted"] = self.out["jobDeleted"] or planned.delete_job
        self.out["statusPerSync"].append(self.status())
        return planned

    def _write_group(self, shape: JobShape, job: TrainingJob, spec: PodGroupSpec) -> None:
        if self.group is None:
            made = msgspec.convert(gang.body(shape, job, spec), PodGroup)
            self.group = msgspec.structs.replace(made, status=PodGroupStatus(phase="Pending"))
        elif (patch := gang.patch(self.group, spec)) is not None:
            changed = {**msgspec.to_builtins(self.group.spec), **patch["spec"]}
            self.group = msgspec.structs.replace(
                self.group, spec=msgspec.convert({k: v for k, v in changed.items() if v is not None}, PodGroupSpec)
            )

    def status(self) -> Json:
        status = self.whole.get("status", {})
        named = ("type", "status", "reason", "message")
        return {
            "conditions": [{name: one.get(name, "") for name in named} for one in status.get("conditions", ())],
            "replicaStatuses": status.get("replicaStatuses", {}),
            **{f"{name}Set": name in status for name in ("startTime", "completionTime", "lastReconcileTime")},
        }


def run(case: Json) -> Json:
    """Return what came of a case of whole reconciles."""
    sync = Sync(case["kind"], case["given"])
    if sync.job.spec.run_policy.managed_by not in (None, "kubeflow.org/training-operator"):
        return {**sync.out, "status": sync.status(), "podGroup": sync.group}
    for _ in range(case["given"].get("syncs", 1)):
        sync.step()
        if sync.out["jobDeleted"]:
            break
    return {**sync.out, "status": sync.status(), "podGroup": sync.group, "whole": sync.whole}


def check_actual(case: Json, outcome: Json) -> None:
    """Compare with what upstream did, but for what we do differently on purpose."""
    actual, given = copy.deepcopy(case["expect"]["actual"]), case["given"]
    counts = _counts(case)
    status = actual["status"]
    finished = _differ(status, actual, given)
    ours = _status(outcome["status"], given)
    for role, replica in ours["replicaStatuses"].items():
        if "selector" not in status["replicaStatuses"].get(role, {}):
            replica.pop("selector", None)  # upstream writes it while it looks at the role, and may stop before
    assert ours == status
    for name in ("podsCreated", "servicesCreated"):
        assert sorted(outcome[name]) == sorted(_within(actual[name], counts)), name
    assert sorted(outcome["podsDeleted"]) == sorted(actual["podsDeleted"])
    # L: services without a pod do not outlive the job
    left = {one["metadata"]["name"] for one in given.get("services", [])}
    left -= {one["metadata"]["name"] for one in given.get("pods", [])}
    orphans = left - set(actual["servicesDeleted"]) if finished else set()
    assert sorted(outcome["servicesDeleted"]) == sorted([*actual["servicesDeleted"], *orphans])
    # L: WaitingForPodGroup is ours; what is seen at pods is reported once
    events = {event for event in outcome["events"] if " WaitingForPodGroup " not in event}
    assert events == set(actual["events"])
    assert bool(outcome["errors"]) == bool(actual.get("errors"))
    assert outcome["jobDeleted"] == actual.get("jobDeleted", False)
    for name, wanted in actual.get("createdPods", {}).items():
        if name in _within([name], counts):
            _check_pod(outcome["createdPods"][name], wanted)
    for name, wanted in actual.get("createdServices", {}).items():
        made = outcome["createdServices"][name]["spec"]
        assert made["clusterIP"] == wanted["clusterIP"]
        assert {port["name"]: port["port"] for port in made["ports"]} == wanted["ports"]
        assert made["selector"] == wanted["selector"]
    for name, wanted in actual.get("podGroups", {}).items():
        _check_group(outcome["podGroup"], name, wanted, given)
    if actual.get("podGroups") == {}:
        assert outcome["podGroup"] is None


def _differ(status: Json, actual: Json, given: Json) -> bool:
    """Change upstream's outcome into ours; returns whether the job is finished."""
    over = [one for one in status["conditions"] if one["type"] in ("Succeeded", "Failed") and one["status"] == "True"]
    for late in over[1:]:  # L: the first terminal verdict wins
        status["conditions"].remove(late)
        actual["events"] = [event for event in actual["events"] if late["message"] not in event]
    before = given["job"].get("status", {}).get("conditions", ())
    ended_before = any(one["type"] in ("Succeeded", "Failed") and one["status"] == "True" for one in before)
    if over and over[0]["type"] == "Failed" and not ended_before:  # L: Failed always has a completionTime
        status["completionTimeSet"] = True
        actual.pop("errors", None)
    return bool(over)


def _status(status: Json, given: Json) -> Json:
    """Return our status without what is ours alone."""
    status = copy.deepcopy(status)
    had = {one["type"] for one in given["job"].get("status", {}).get("conditions", ())}
    status["conditions"] = [one for one in status["conditions"] if one["type"] != "Created" or "Created" in had]
    for replica in status["replicaStatuses"].values():
        replica.pop("succeededIndexes", None)
    return status


def _counts(case: Json) -> dict[str, int]:
    sync = Sync(case["kind"], case["given"])
    shape = JobShape.of(sync.framework, sync.job)
    return {f"{shape.name}-{role.lower()}": shape.count(role) for role in shape.roles}


def _within(names: Iterable[str], counts: dict[str, int]) -> list[str]:
    """Leave out what upstream makes above the replicas, and deletes again (L: replicas 0)."""
    return [name for name in names if int(name.rpartition("-")[2]) < counts[name.rpartition("-")[0]]]


def _check_pod(pod: Json, wanted: Json) -> None:
    made = pod["spec"]
    for name, env in wanted.get("env", {}).items():
        container = next(one for one in made["containers"] if one["name"] == name)
        assert [_variable(one) for one in container.get("env", [])] == env
    assert pod["metadata"]["labels"] == wanted["labels"]
    assert made["restartPolicy"] == wanted["restartPolicy"]
    if "annotations" in wanted:
        assert pod["metadata"]["annotations"] == wanted["annotations"]
    if "schedulerName" in wanted:
        assert made["schedulerName"] == wanted["schedulerName"]
    inits = [f"{one['name']} | {' '.join(one['command'])}" for one in made.get("initContainers", [])]
    assert inits == wanted.get("initContainers", [])


def _variable(env: Json) -> Json:
    if "valueFrom" in env:
        return {"name": env["name"], "fieldPath": env["valueFrom"]["fieldRef"]["fieldPath"]}
    return dict(env)


def _check_group(group: PodGroup | None, name: str, wanted: Json, given: Json) -> None:
    assert group is not None
    assert group.metadata.name == name
    assert (group.metadata.annotations or None) == (wanted["annotations"] or None)
    spec = dict(wanted["spec"])
    policy = given["job"]["spec"].get("runPolicy", {}).get("schedulingPolicy", {})
    annotated = (given["job"]["metadata"].get("annotations") or {}).get("scheduling.volcano.sh/queue-name")
    if annotated and not policy.get("queue") and not given.get("podGroups"):
        spec["queue"] = annotated  # L: policy, else annotation, else default
    made = {"minResources": {}, **msgspec.to_builtins(group.spec)}
    assert {**made, "minResources": dict(made["minResources"])} == spec | {"minResources": spec.get("minResources", {})}


def check_asserted(case: Json, outcome: Json) -> None:
    """Compare with what upstream's own test checks."""
    for name, wanted in case["expect"].get("asserted", {}).items():
        if name in _ASSERTED:  # the rest is said more exactly by `actual`
            _ASSERTED[name](case, outcome, wanted)


def _pod_of(case: Json, outcome: Json) -> Json:
    pod: Json = outcome["createdPods"][case["expect"]["asserted"]["pod"]]
    return pod


def _env(case: Json, outcome: Json) -> dict[str, str]:
    container = _pod_of(case, outcome)["spec"]["containers"][0]
    return {one["name"]: one.get("value", "") for one in container.get("env", [])}


def _has_env(case: Json, outcome: Json, wanted: Any) -> None:
    env = _env(case, outcome)
    assert {name: env.get(name) for name in wanted} == wanted


def _has_exact_env(case: Json, outcome: Json, wanted: Any) -> None:
    assert list(_env(case, outcome).items()) == [tuple(pair) for pair in wanted]


def _has_cluster(case: Json, outcome: Json, wanted: Any) -> None:
    assert msgspec.json.decode(_env(case, outcome)["TF_CONFIG"])["cluster"] == wanted


def _has_config(case: Json, outcome: Json, wanted: Any) -> None:
    assert _env(case, outcome)["TF_CONFIG"] == wanted


def _injects(case: Json, outcome: Json, wanted: Any) -> None:
    pods = outcome["createdPods"].values()
    names = {env["name"] for pod in pods for one in pod["spec"]["containers"] for env in one.get("env", [])}
    assert ("TF_CONFIG" in names) == wanted


def _has_inits(case: Json, outcome: Json, wanted: Any) -> None:
    assert len(_pod_of(case, outcome)["spec"].get("initContainers", [])) == wanted


def _restarts(case: Json, outcome: Json, wanted: Any) -> None:
    assert {pod["spec"]["restartPolicy"] for pod in outcome["createdPods"].values()} == {wanted}


def _has_service(case: Json, outcome: Json, wanted: Any) -> None:
    made = outcome["createdServices"][wanted["name"]]
    assert made["metadata"]["labels"] == made["spec"]["selector"]
    assert made["metadata"]["ownerReferences"][0]["controller"]


def _completed(case: Json, outcome: Json, wanted: Any) -> None:
    sync = Sync(case["kind"], case["given"])
    record = sync.record()
    evidence = verdicts.Evidence(StatusDraft(record.shape, record.job, NOW), record.pods, ())
    assert verdicts.first_worker_completed(evidence) == wanted


def _has_condition(case: Json, outcome: Json, wanted: Any) -> None:
    assert wanted in {one["type"] for one in outcome["status"]["conditions"]}


def _is_deleted(case: Json, outcome: Json, wanted: Any) -> None:
    assert outcome["jobDeleted"] == wanted


_ASSERTED = {
    "envExact": _has_exact_env,
    "env": _has_env,
    "tfConfigCluster": _has_cluster,
    "tfConfig": _has_config,
    "tfConfigInjected": _injects,
    "initContainers": _has_inits,
    "podRestartPolicy": _restarts,
    "service": _has_service,
    "worker0Completed": _completed,
    "conditionTypePresent": _has_condition,
    "jobDeleted": _is_deleted,
}
