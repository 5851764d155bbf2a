"""Converts pods as the API has them to tasks: requests, class keys, and the fields that decide how a pod is treated."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence

import msgspec

from strato.api.core import Container, Pod, PodSpec
from strato.api.shapes import ResourceList
from strato.api.volcano.scheduling import POD_GROUP_ANNOTATIONS
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.resources import CPU, MEMORY, PODS, Dimensions, counts, internal
from strato.scheduler.model.tasks import (
    AGENT_SCHEDULER,
    BOUND,
    FAILED,
    PENDING,
    RELEASING,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    TaskClass,
    uses_claims,
)

GROUP_ANNOTATION, VOLCANO_GROUP_ANNOTATION = POD_GROUP_ANNOTATIONS
ROLE_KEY = "volcano.sh/task-spec"
TASK_PRIORITY_ANNOTATION = "volcano.sh/task-priority"
PREEMPTABLE_KEY = "volcano.sh/preemptable"
MIRROR_KEY = "kubernetes.io/config.mirror"
QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"

_DEFAULTS = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What Kubernetes' scoring assumes for a container that requests none (milli-cpu, bytes)."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_encode = msgspec.json.Encoder().encode

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def go_bool(text: str) -> bool | None:
    """Read a boolean as Go's strconv does; None when the text is no boolean."""
    return True if text in _TRUE else False if text in _FALSE else None


def status_of(pod: Pod) -> int:
    """Return the task status an API object stands for (spec scheduler-core 5.3)."""
    phase = pod.status.phase
    leaving = pod.metadata.deletion_timestamp is not None
    if phase == "Running":
        return RELEASING if leaving else RUNNING
    if phase in ("Pending", ""):
        if leaving:
            return RELEASING
        return BOUND if pod.spec.node_name else PENDING
    if phase == "Succeeded":
        return SUCCEEDED
    return FAILED if phase == "Failed" else UNKNOWN


def order_of(pod: Pod) -> tuple[int, str, str]:
    """Return the default order among tasks: index in the name, creation, UID (spec scheduler-core 10)."""
    meta = pod.metadata
    name = meta.name
    tail = name.rpartition("-")[2]
    index = int(tail) if name.count("-") >= 2 and tail.isdecimal() else -1
    return index, meta.creation_timestamp or "", meta.uid


def group_of(pod: Pod) -> str:
    """Return the name of the pod's group, empty without one."""
    annotations = pod.metadata.annotations
    if not annotations:
        return ""
    return annotations.get(GROUP_ANNOTATION, "") or annotations.get(VOLCANO_GROUP_ANNOTATION, "")


def fill_task(task: Task, pod: Pod) -> None:
    """Set a task's fields from the pod's annotations, labels and spec."""
    meta, spec = pod.metadata, pod.spec
    task.pod = pod
    task.gated = bool(spec.scheduling_gates)
    task.nominated = pod.status.nominated_node_name
    task.preemption_policy = "Never" if spec.scheduler_name == AGENT_SCHEDULER else spec.preemption_policy
    task.priority = 1 if spec.priority is None else spec.priority
    task.preemptable = True
    annotations, labels = meta.annotations or {}, meta.labels or {}
    task.role = annotations.get(ROLE_KEY) or labels.get(ROLE_KEY, "")
    wanted = annotations.get(TASK_PRIORITY_ANNOTATION)
    if wanted is not None and _INTEGER.fullmatch(wanted):
        task.priority = int(wanted)
    preemptable = annotations.get(PREEMPTABLE_KEY, labels.get(PREEMPTABLE_KEY))
    if preemptable is not None:
        task.preemptable = go_bool(preemptable) is True
    if MIRROR_KEY in annotations:
        task.preemptable = False  # evicting a static pod frees nothing: its kubelet would start it again


def is_marked_preemptable(pod: Pod) -> bool:
    """Whether a pod is marked preemptable by annotation or label."""
    meta = pod.metadata
    return go_bool((meta.annotations or {}).get(PREEMPTABLE_KEY, meta.label(PREEMPTABLE_KEY))) is True


def class_key(pod: Pod, spec: PodSpec) -> Hashable:
    """Return the key of a pod's task class by its effective spec: all that filters and scores read; takes microseconds.

    Labels and the names of claims are left out on purpose: they differ between pods of one template, and the rules that
    read them (inter-pod affinity, topology spread, volumes, devices) are evaluated for single tasks, not for classes.
    """
    containers = tuple(
        [  # a list: there is nearly always one container, for which a generator would double the cost
            (c.image, tuple(c.resources.requests.items()), tuple(c.resources.limits.items()), c.ports)
            for c in spec.containers
        ]
    )
    key: tuple[Hashable, ...] = (containers, tuple(spec.node_selector.items()), spec.tolerations)
    if spec.init_containers or spec.overhead or spec.resources is not None:
        inits = tuple((c.restart_policy, tuple(c.resources.requests.items()), c.ports) for c in spec.init_containers)
        level = tuple(spec.resources.requests.items()) if spec.resources is not None else None
        key += (inits, tuple(spec.overhead.items()), level)
    if spec.affinity is not None or spec.topology_spread_constraints:
        labels = tuple(sorted((pod.metadata.labels or {}).items()))
        key += (_encode((spec.affinity, spec.topology_spread_constraints)), pod.metadata.namespace, labels)
    if spec.host_network:
        key += ("host network",)
    if spec.scheduler_name == AGENT_SCHEDULER:  # its pods may have a NodeShard of their own
        key += (AGENT_SCHEDULER,)
    return (*key, "claims") if uses_claims(spec) else key


def make_class(number: int, pod: Pod, spec: PodSpec, dims: Dimensions) -> TaskClass:
    """Build the class of a pod by its effective spec.

    Raises:
        ValueError: A quantity in the pod cannot be read.
    """
    request = requests(spec, dims)
    scored = requests(spec, dims, _DEFAULTS)
    vector = dims.vector(request)
    return TaskClass(number, spec, pod.metadata.namespace, vector, (scored[CPU], scored[MEMORY]))


def requests(spec: PodSpec, dims: Dimensions, missing: Mapping[int, int] | None = None) -> dict[int, int]:
    """Return what a pod asks of a node, by column (spec scheduler-core 5.1).

    Args:
        spec: The pod.
        dims: The columns by name.
        missing: Amounts by column, for containers that do not request the resource.
    """
    total: dict[int, int] = {}
    for container in spec.containers:
        _add(total, _of(container, dims, missing))
    init, restartable = _init_requests(spec.init_containers, dims, missing)
    _add(total, restartable)
    total |= {column: max(total.get(column, 0), amount) for column, amount in init.items()}
    total[PODS] = total.get(PODS, 0) + 1
    if spec.resources is not None:
        total |= _list(spec.resources.requests, dims)
    _add(total, _list(spec.overhead, dims))
    total.setdefault(CPU, 0)
    total.setdefault(MEMORY, 0)
    return total


def _init_requests(
    containers: Sequence[Container], dims: Dimensions, missing: Mapping[int, int] | None
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the peak request while init containers run, and the sum of those that keep running (sidecars)."""
    peak: dict[int, int] = {}
    restartable: dict[int, int] = {}
    for container in containers:
        mine = _of(container, dims, missing)
        if container.restart_policy == "Always":
            _add(restartable, mine)
            now = restartable
        else:
            now = dict(restartable)
            _add(now, mine)
        for column, amount in now.items():
            peak[column] = max(peak.get(column, 0), amount)
    return peak, restartable


def _of(container: Container, dims: Dimensions, missing: Mapping[int, int] | None) -> dict[int, int]:
    return {**(missing or {}), **_list(container.resources.requests, dims)}


def _list(resources: ResourceList, dims: Dimensions) -> dict[int, int]:
    return {dims.column(name): internal(name, text) for name, text in resources.items() if counts(name)}


def _add(total: dict[int, int], more: Mapping[int, int]) -> None:
    for column, amount in more.items():
        total[column] = total.get(column, 0) + amount


def waits_for_queue(task: Task) -> bool:
    """Whether a task's only gate is the queue-admission gate and its annotation has the scheduler remove it."""
    return only_queue_gate(task) and task.pod.metadata.annotation(QUEUE_GATE) == "true"


def only_queue_gate(task: Task) -> bool:
    """Whether the queue-admission gate is the task's only scheduling gate."""
    gates = task.pod.spec.scheduling_gates
    return len(gates) == 1 and gates[0].name == QUEUE_GATE
