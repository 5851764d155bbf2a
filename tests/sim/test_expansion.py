"""Workloads of manifests become what controllers make of them: the pods and groups that a scheduler decides on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import yaml

from strato.api import catalog
from strato.api.frameworks import BY_KIND, FRAMEWORKS, Framework
from strato.sim import expansion
from strato.sim.expansion import WORKLOADS, Expansion, expand
from strato.testing import manifests

Json = dict[str, Any]

NOW = 1_700_000_000.0
CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE: Json = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}
ONCE: Json = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
VCJOB: Json = {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": ONCE}]}


def obj(api_version: str, kind: str, name: str, spec: Json, **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec, **more}


def vcjob(name: str = "j", **spec: Any) -> Json:
    return obj("batch.volcano.sh/v1alpha1", "Job", name, {**VCJOB, **spec})


def sets(kind: str, **spec: Any) -> Json:
    return obj("apps/v1", kind, "s", {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE, **spec})


def made(*objects: Json, now: float = NOW) -> Expansion:
    located = [(f"f: document {number}", one) for number, one in enumerate(objects, 1)]
    return expand(located, located, now)


def of_kind(found: Expansion, kind: str) -> list[Json]:
    return [one for _, one in found.objects if one["kind"] == kind]


def training(framework: Framework) -> Json:
    """A training job with two pods: its leader, if it needs one, and workers."""
    container = {"name": framework.container or "c", "image": "i"}
    replica = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    roles = {framework.leaders[0]: replica, "Worker": replica} if framework.leader_required else {}
    spec = {framework.replica_map: roles or {"Worker": {**replica, "replicas": 2}}}
    return obj(framework.kind.api_version, framework.kind.name, "t", spec)


TRAINER = "trainer.kubeflow.org/v1alpha1"
STEP = {
    "name": "node",
    "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}},
    },
}
RUNTIME = obj(
    TRAINER,
    "ClusterTrainingRuntime",
    "r",
    {
        "mlPolicy": {"numNodes": 2, "torch": {}},
        "podGroupPolicy": {"volcano": {}},
        "template": {"spec": {"replicatedJobs": [STEP]}},
    },
)
TRAIN_JOB = obj(TRAINER, "TrainJob", "t", {"runtimeRef": {"name": "r"}})
NODES = [manifests.node(name, cpu="8", memory="8Gi") for name in ("n1", "n2", "n3")]
FLOW = [
    obj("flow.volcano.sh/v1alpha1", "JobTemplate", "t", VCJOB),
    obj(
        "flow.volcano.sh/v1alpha1",
        "JobFlow",
        "f",
        {
            "jobRetainPolicy": "retain",
            "flows": [{"name": "t"}, {"name": "t2", "dependsOn": {"targets": ["t"]}}],
        },
    ),
    obj("flow.volcano.sh/v1alpha1", "JobTemplate", "t2", VCJOB),
]
BATCH: Json = {"parallelism": 2, "completions": 5, "template": ONCE}
KINDS: list[tuple[list[Json], Counter[str]]] = [
    ([vcjob()], Counter(Pod=2, PodGroup=1, Job=1)),
    (
        [obj("batch.volcano.sh/v1alpha1", "CronJob", "c", {"schedule": "0 3 * * *", "jobTemplate": {"spec": VCJOB}})],
        Counter(Pod=2, PodGroup=1, Job=1, CronJob=1),
    ),
    (FLOW, Counter(Pod=2, PodGroup=1, Job=1, JobFlow=1, JobTemplate=2)),
    ([obj("batch/v1", "Job", "b", BATCH)], Counter(Pod=2, Job=1)),
    (
        [obj("batch/v1", "CronJob", "c", {"schedule": "@yearly", "jobTemplate": {"spec": BATCH}})],
        Counter(Pod=2, Job=1, CronJob=1),
    ),
    ([sets("Deployment", replicas=3)], Counter(Pod=3, ReplicaSet=1, Deployment=1)),
    ([sets("ReplicaSet", replicas=3)], Counter(Pod=3, ReplicaSet=1)),
    (
        [obj("v1", "ReplicationController", "s", {"replicas": 3, "template": TEMPLATE})],
        Counter(Pod=3, ReplicationController=1),
    ),
    ([sets("StatefulSet", replicas=3, serviceName="s")], Counter(Pod=3, StatefulSet=1)),
    ([*NODES, sets("DaemonSet")], Counter(Pod=3, Node=3, DaemonSet=1)),
    *(
        ([training(framework)], Counter({"Pod": 2, "PodGroup": 1, framework.kind.name: 1}))
        for framework in FRAMEWORKS
        if framework.kind is not catalog.MPIJOB
    ),
    ([training(BY_KIND[catalog.MPIJOB])], Counter(Pod=2, PodGroup=1, MPIJob=1, Job=1)),
    ([RUNTIME, TRAIN_JOB], Counter(Pod=2, PodGroup=1, Job=1, TrainJob=1, ClusterTrainingRuntime=1)),
]  # fmt: skip -- a table


@pytest.mark.parametrize(("objects", "counts"), KINDS, ids=[row[0][-1]["kind"] for row in KINDS])
def test_every_kind_that_ends_in_pods_is_expanded(objects: list[Json], counts: Counter[str]) -> None:
    found = made(*objects)
    assert (found.problems, found.notes) == ([], [])
    assert Counter(one["kind"] for _, one in found.objects) == counts
    pods = of_kind(found, "Pod")
    assert {pod["status"]["phase"] for pod in pods} == {"Pending"}
    assert not any("nodeName" in pod["spec"] for pod in pods)
    assert {one["metadata"]["creationTimestamp"] for one in of_kind(found, "PodGroup") + pods} == {
        "2023-11-14T22:13:20Z"
    }


def test_the_table_above_has_every_workload() -> None:
    shown = {(one["apiVersion"], one["kind"]) for objects, _ in KINDS for one in objects}
    assert shown >= {(kind.api_version, kind.name) for kind in WORKLOADS}


def test_the_same_manifests_give_the_same_objects() -> None:
    objects = [vcjob(), sets("Deployment", replicas=2)]
    assert made(*objects) == made(*objects)


def test_admission_fills_in_what_it_would() -> None:
    limits = {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}, "default": {"memory": "2Gi"}}]}
    found = made(
        vcjob(priorityClassName="high"),
        obj("v1", "LimitRange", "l", limits),
        {**obj("scheduling.k8s.io/v1", "PriorityClass", "high", {}), "value": 1000},
        sets("Deployment", template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "priorityClassName": "high"}}),
    )
    assert found.notes == []
    pods = of_kind(found, "Pod")
    assert {pod["spec"]["priority"] for pod in pods} == {1000}
    assert {pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in pods} == {"1Gi"}
    (group,) = of_kind(found, "PodGroup")
    assert group["spec"]["queue"] == "default"
    assert group["spec"]["priorityClassName"] == "high"


def test_pods_of_volcanos_scheduler_get_a_group_from_the_controller() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "schedulerName": "volcano"}}
    found = made(sets("Deployment", replicas=2, template=template))
    (group,) = of_kind(found, "PodGroup")
    names = {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in of_kind(found, "Pod")}
    assert names == {group["metadata"]["name"]}


def test_tasks_that_depend_on_others_are_there_too() -> None:
    tasks = [
        {"name": "ps", "replicas": 1, "template": ONCE},
        {"name": "w", "replicas": 2, "template": ONCE, "dependsOn": {"name": ["ps"]}},
    ]
    assert len(of_kind(made(vcjob(minAvailable=3, tasks=tasks)), "Pod")) == 3


def test_a_stateful_set_of_many_has_all_its_pods() -> None:
    found = made(sets("StatefulSet", replicas=700, serviceName="s"))
    assert (found.notes, len(of_kind(found, "Pod"))) == ([], 700)


def test_what_admission_refuses_is_a_problem_with_its_place() -> None:
    found = made(
        vcjob("lost", queue="nowhere"),
        vcjob("typo", minAvailble=1),
        sets("Deployment", replicas=-1),
        obj("batch/v1", "CronJob", "never", {"schedule": "bad", "jobTemplate": {"spec": BATCH}}),
    )
    said = [(problem.where, problem.message) for problem in found.problems]
    assert [where.partition(": spec")[0] for where, _ in said] == [f"f: document {n}" for n in (1, 2, 3, 4)]
    assert 'unable to find job queue: queues.scheduling.volcano.sh "nowhere" not found' in said[0][1]
    assert 'unknown field "spec.minAvailble"' in said[1][1]
    assert said[2][0] == "f: document 3: spec.replicas"
    assert of_kind(found, "Pod") == []


def test_a_queue_that_is_given_counts_with_its_parents_and_its_state() -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    child = {**queue, "metadata": {"name": "child"}, "spec": {"weight": 1, "parent": "team"}}
    team = {**queue, "metadata": {"name": "team"}, "spec": {"weight": 1}}
    closed = {**queue, "metadata": {"name": "shut"}, "spec": {"weight": 1}, "status": {"state": "Closed"}}
    assert made(vcjob(queue="child"), child, team).problems == []
    (problem,) = made(vcjob(queue="shut"), closed).problems
    assert "Closed" in problem.message


def test_pods_that_are_refused_are_told_once() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "priorityClassName": "nope"}}
    found = made(sets("Deployment", replicas=3, template=template))
    (note,) = found.notes
    assert note.startswith("ReplicaSet default/s-")
    assert note.endswith("is forbidden: no PriorityClass with name nope was found")
    (event,) = of_kind(found, "Event")
    assert (event["reason"], event["involvedObject"]["kind"]) == ("FailedCreate", "ReplicaSet")


def test_what_has_been_expanded_or_is_over_stays_as_it_is() -> None:
    first = made(vcjob(), sets("Deployment", replicas=2))
    again = expand(first.objects, first.objects, NOW)
    assert again.objects == first.objects
    over = {**vcjob("over"), "status": {"state": {"phase": "Completed"}}}
    done = {**obj("batch/v1", "Job", "b", BATCH), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert of_kind(made(over, done), "Pod") == []


@pytest.mark.parametrize(
    ("api_version", "kind", "instead"),
    [
        ("kubeflow.org/v1", "MXJob", "give the pods it stands for, or write it as a Job or a Deployment"),
        ("training.volcano.sh/v1alpha1", "HyperJob", "write a Job (batch.volcano.sh/v1alpha1) for each of its parts"),
        ("example.com/v1", "Widget", "give the pods it stands for, or write it as a Job or a Deployment"),
    ],
)
def test_a_kind_that_is_not_served_is_named_with_what_to_do(api_version: str, kind: str, instead: str) -> None:
    found = made(obj(api_version, kind, "x", {}), obj(api_version, kind, "y", {}))
    assert found.notes == [
        f"2 of kind {kind} ({api_version}) passed over: the kind is not served, nothing makes pods of it; {instead}"
    ]


def test_namespaces_and_service_accounts_need_not_be_given() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "serviceAccountName": "robot"}}
    workload = sets("Deployment", replicas=1, template=template)
    workload["metadata"]["namespace"] = "team"
    found = made(workload)
    assert (found.notes, [pod["metadata"]["namespace"] for pod in of_kind(found, "Pod")]) == ([], ["team"])


@pytest.mark.parametrize(
    "broken",
    [
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": 5, "spec": []},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": 7}, "spec": {"template": "x"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "A/b"}, "spec": {}},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x"}, "spec": {"jobTemplate": 3}},
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "x"}, "status": "odd"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x", "ownerReferences": "y"}},
    ],
)  # fmt: skip -- a table
def test_malformed_workloads_are_problems(broken: Json) -> None:
    found = made(broken, *yaml.safe_load_all("{apiVersion: v1, kind: Node, metadata: {name: 5}}"))
    assert found.problems
    assert all(problem.where.startswith("f: document 1") for problem in found.problems)


def test_the_name_of_the_field_alone_makes_nothing_depend() -> None:
    noted = vcjob(tasks=[{"name": "w", "replicas": 2, "template": ONCE}])
    noted["metadata"]["annotations"] = {"note": "uses dependsOn elsewhere"}
    assert not expansion._waits_for_others(noted["spec"])
    assert expansion._waits_for_others({"tasks": [{"name": "w", "dependsOn": {"name": ["ps"]}}]})
