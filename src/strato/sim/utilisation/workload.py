"""Makes the objects that an experiment submits: pods of services, and trainings as TFJobs at random instants. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from strato.agent.containers import WORKLOAD_LABEL
from strato.agent.events import Workload
from strato.api import catalog
from strato.api.cpudemand import CPU_DEMAND
from strato.client.cluster import Json
from strato.node.hollow.cpu import SETS_PACE, WAITS_FOR
from strato.node.hollow.runplan import RUN_SECONDS
from strato.sim.utilisation.options import WORKING, ArrivalOptions, Experiment, OnlineService, PodOptions, TrainingKind

NAMESPACE: Final = "default"
_DAY_SECONDS: Final = 86400.0
_REPLICA_TYPES: Final = {"chief": "Chief", "ps": "PS", "worker": "Worker", "evaluator": "Evaluator"}
_KEPT_SECONDS: Final = 300
"""Time after which ended jobs are deleted, so that a long experiment does not hold all of them in memory."""


@dataclass(frozen=True, slots=True)
class SubmittedTraining:
    """One training."""

    at: float
    """When it is submitted, seconds after the start."""
    name: str
    kind: TrainingKind
    run_seconds: float
    """Run time with all the CPU that its pods demand."""


def draw_trainings(
    kinds: Sequence[TrainingKind], arrivals: ArrivalOptions, seconds: float, random: Random
) -> list[SubmittedTraining]:
    """Draw the trainings of so many seconds from midnight on, ordered by instant; their number is not random."""
    if not kinds:
        return []
    count = round(arrivals.per_day * seconds / _DAY_SECONDS)
    found = []
    for number in range(count):
        at = _instant(arrivals, seconds, random)
        kind = random.choices(kinds, [one.share for one in kinds])[0]
        minutes = random.lognormvariate(math.log(kind.median_minutes), kind.spread)
        found.append(SubmittedTraining(at, f"{kind.name}-{number}", kind, 60 * min(minutes, kind.most_minutes)))
    return sorted(found, key=lambda one: (one.at, one.name))


def _instant(arrivals: ArrivalOptions, seconds: float, random: Random) -> float:
    """Draw an instant in proportion to the rate of the hour, by rejection sampling."""
    while True:
        at = random.uniform(0, seconds)
        angle = 2 * math.pi * (at / 3600 - arrivals.peak_hour) / 24
        if random.uniform(0, 1 + arrivals.peak_ratio) <= 1 + arrivals.peak_ratio * math.cos(angle):
            return at


def priority_classes(experiment: Experiment) -> list[Json]:
    """Return the priority classes that services and trainings name."""
    values = {one.priority for one in experiment.services} | {one.priority for one in experiment.kinds}
    return [
        {
            "apiVersion": catalog.PRIORITYCLASS.api_version,
            "kind": catalog.PRIORITYCLASS.name,
            "metadata": {"name": _priority_name(value)},
            "value": value,
        }
        for value in sorted(values)
    ]


def service_pods(service: OnlineService) -> list[Json]:
    """Return the pods of a service, which run until the end of the experiment."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{service.name}-{number}",
                "namespace": NAMESPACE,
                "labels": {WORKLOAD_LABEL: Workload.ONLINE.value, "app": service.name},
                "annotations": {CPU_DEMAND: service.demand},
            },
            "spec": {**_pod_spec(service, service.priority, "main"), "restartPolicy": "Always"},
        }
        for number in range(service.replicas)
    ]


def training_job(one: SubmittedTraining, *, gang: bool) -> Json:
    """Return a training's TFJob. Without ``gang`` its pods are placed one by one, but work only once all run."""
    kind = one.kind
    policy: Json = {"priorityClass": _priority_name(kind.priority)}
    if not gang:
        policy["minAvailable"] = 1
    spec: Json = {
        "runPolicy": {
            "cleanPodPolicy": "Running",
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "schedulingPolicy": policy,
        },
        "tfReplicaSpecs": {
            _REPLICA_TYPES[role]: {
                "replicas": options.replicas,
                "restartPolicy": "OnFailure",
                "template": _template(one, role, options),
            }
            for role, options in kind.roles.items()
        },
    }
    if "chief" not in kind.roles:
        spec["successPolicy"] = "AllWorkers"
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": one.name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _template(one: SubmittedTraining, role: str, options: PodOptions) -> Json:
    annotations = {CPU_DEMAND: options.demand, WAITS_FOR: str(one.kind.pods)}
    if role in WORKING:
        annotations[RUN_SECONDS] = f"{one.run_seconds:.3f}"
    if options.sets_pace:
        annotations[SETS_PACE] = "true"
    return {"metadata": {"annotations": annotations}, "spec": _pod_spec(options, one.kind.priority, "tensorflow")}


def _pod_spec(options: PodOptions, priority: int, container: str) -> Json:
    resources: dict[str, Mapping[str, Any]] = {"requests": {"cpu": options.cpu, "memory": options.memory}}
    if options.cpu_limit:
        resources["limits"] = {"cpu": options.cpu_limit}
    return {
        "schedulerName": "volcano",
        "priorityClassName": _priority_name(priority),
        "containers": [{"name": container, "image": "simulated", "resources": resources}],
    }


def _priority_name(priority: int) -> str:
    return f"p-{priority}" if priority >= 0 else f"p-minus-{-priority}"
