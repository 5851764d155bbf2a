"""The service's requests, answered on a `FlowScheduler`: plain functions from message to message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strato.clock import Clock
from strato.mincost.graph import FlowScheduler
from strato.mincost.service import affinity
from strato.mincost.service import messages as m
from strato.mincost.service.codec import Message, WireError
from strato.mincost.stats import LoadSample
from strato.mincost.world import Machine, Selector, Taint, Task, TaskType, Toleration, Vector

TASK_COMPLETED_OK, TASK_SUBMITTED_OK, TASK_REMOVED_OK, TASK_FAILED_OK, TASK_UPDATED_OK = range(5)
TASK_NOT_FOUND, TASK_JOB_NOT_FOUND, TASK_ALREADY_SUBMITTED, TASK_STATE_NOT_CREATED = range(5, 9)
NODE_ADDED_OK, NODE_FAILED_OK, NODE_REMOVED_OK, NODE_UPDATED_OK, NODE_NOT_FOUND, NODE_ALREADY_EXISTS = range(6)
INFO_SUBMITTED_OK, INFO_REMOVED_OK, INFO_SUBMIT_FAILED, INFO_REMOVE_FAILED = 0, 2, 3, 4
CREATED, SERVING = 0, 1
PU, MACHINE = 0, 6
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
UPDATED = ("priority", "labels", "selectors", "tolerations", "one_of", "preferred", "near", "apart", "likes")
"""Fields of a task that an update replaces besides its request."""
AMOUNTS = ("cpu_cores", "ram_cap", "ephemeral_storage", "net_rx_bw", "net_tx_bw", "disk_bw")
LARGEST_AMOUNT = 1 << 57
"""Largest amount; the sum of fifty such requests still fits 63 bits."""
MOST_SLOTS = 1 << 20
RACK_LABELS = ("topology.kubernetes.io/rack", "rack")
Values = dict[str, Any]


class FirmamentService:
    """Handles the requests, and maps the names of the wire protocol to those of the engine.

    Decisions name PUs, tasks and statistics name PUs or machines, but the engine only has machines. The number of a
    task that has ended is kept until the task is removed: Poseidon reports the end and, later, the pod's deletion, and
    crashes if the answer is that the task is unknown.
    """

    def __init__(self, flow: FlowScheduler, clock: Clock) -> None:
        self._flow, self._clock = flow, clock
        self._machine_of: dict[str, str] = {}
        self._pu_of: dict[str, str] = {}
        self.statistics = flow.model.statistics
        self._ended: set[int] = set()
        self._others: dict[str, tuple[str, Vector]] = {}
        self._reserved: dict[str, Vector] = {}

    def schedule(self, _: Values) -> Values:
        """Run a round; the answer contains its decisions and the waiting tasks."""
        found = self._flow.round(self._clock.now())
        return {
            "deltas": [
                {"task_id": d.task, "resource_id": self._pu_of[d.machine], "type": int(d.type)} for d in found.deltas
            ],
            "unscheduled_tasks": list(found.unscheduled),
        }

    def task_submitted(self, request: Values) -> Values:
        """A pod waits for a node."""
        described = request["task_descriptor"]
        if described is None or request["job_descriptor"] is None:
            return {"type": TASK_JOB_NOT_FOUND}
        if described["state"] != CREATED:
            return {"type": TASK_STATE_NOT_CREATED}
        if described["uid"] in self._flow.world.tasks:
            return {"type": TASK_ALREADY_SUBMITTED}
        self._ended.discard(described["uid"])
        self._flow.submit(to_task(described, request["job_descriptor"]), self._clock.now())
        return {"type": TASK_SUBMITTED_OK}

    def task_updated(self, request: Values) -> Values:
        """Requests, priority, labels or selectors of a pod changed."""
        described, job = request["task_descriptor"], request["job_descriptor"]
        task = self._flow.world.tasks.get(described["uid"]) if described else None
        if task is None:
            ended = described is not None and described["uid"] in self._ended
            return {"type": TASK_UPDATED_OK if ended else TASK_NOT_FOUND}
        fresh = to_task(described, job or {})
        self._flow.change_request(task.id, fresh.request)
        for name in UPDATED:
            setattr(task, name, getattr(fresh, name))
        self._flow.reprice([task.id])
        return {"type": TASK_UPDATED_OK}

    def task_completed(self, request: Values) -> Values:
        """A pod succeeded."""
        return self._end(request, TASK_COMPLETED_OK)

    def task_failed(self, request: Values) -> Values:
        """A pod failed."""
        return self._end(request, TASK_FAILED_OK)

    def task_removed(self, request: Values) -> Values:
        """A pod was deleted, whether it had ended or not."""
        uid = request["task_uid"]
        if uid in self._ended:
            self._ended.discard(uid)
        elif uid in self._flow.world.tasks:
            self._flow.remove(uid)
        else:
            return {"type": TASK_NOT_FOUND}
        return {"type": TASK_REMOVED_OK}

    def _end(self, request: Values, done: int) -> Values:
        uid = request["task_uid"]
        if uid in self._flow.world.tasks:
            if done == TASK_COMPLETED_OK:
                self._flow.complete(uid, self._clock.now())
            else:
                self._flow.remove(uid)
            self._ended.add(uid)
        return {"type": done if uid in self._ended else TASK_NOT_FOUND}

    def node_added(self, request: Values) -> Values:
        """A node with its PUs joins."""
        resource = request["resource_desc"]
        if resource is None:
            return {"type": NODE_NOT_FOUND}
        if resource["uuid"] in self._pu_of:
            return {"type": NODE_ALREADY_EXISTS}
        leaves = _pus(request)
        slots = resource["max_pods"] or sum(pu["task_capacity"] or 1 for pu in leaves)
        labels, whose = _labels(resource["labels"]), f"node {resource['uuid']!r}"
        _check(slots, f"{whose}: max_pods", MOST_SLOTS)
        reserved = to_vector(resource["reserved_resources"], whose)
        self._flow.add_machine(
            Machine(
                resource["uuid"],
                slots=slots,
                capacity=to_vector(resource["resource_capacity"], whose),
                labels=labels,
                taints=_taints(resource["taints"]),
                rack=_rack(labels),
                avoids=frozenset(a["uid"] for a in resource["avoids"]),
                used=reserved,
            )
        )
        self._reserved[resource["uuid"]] = reserved
        self._pu_of[resource["uuid"]] = leaves[0]["uuid"] if leaves else resource["uuid"]
        for known in (resource, *leaves):
            self._machine_of[known["uuid"]] = resource["uuid"]
        return {"type": NODE_ADDED_OK}

    def node_updated(self, request: Values) -> Values:
        """Labels, taints or the size of a node changed.

        Capacity, reserved resources and slots are optional on the wire; absent ones stay as they are.
        """
        resource = request["resource_desc"]
        name = self._machine_of.get(resource["uuid"]) if resource else None
        if resource is None or name is None:
            return {"type": NODE_NOT_FOUND}
        machine, whose = self._flow.world.machine(name), f"node {name!r}"
        slots = resource["max_pods"] or machine.slots
        _check(slots, f"{whose}: max_pods", MOST_SLOTS)
        given = resource["resource_capacity"]
        capacity = machine.capacity if given is None else to_vector(given, whose)
        given = resource["reserved_resources"]
        reserved = self._reserved[name] if given is None else to_vector(given, whose)
        labels = _labels(resource["labels"])
        machine.used = machine.used - self._reserved[name] + reserved
        self._reserved[name] = reserved
        machine.slots, machine.capacity = slots, capacity
        machine.labels, machine.taints, machine.rack = labels, _taints(resource["taints"]), _rack(labels)
        machine.avoids = frozenset(a["uid"] for a in resource["avoids"])
        self._flow.update_machine(name)
        return {"type": NODE_UPDATED_OK}

    def node_failed(self, request: Values) -> Values:
        """A node is not ready; its tasks are gone."""
        return self._lose(request, NODE_FAILED_OK)

    def node_removed(self, request: Values) -> Values:
        """A node was removed; its tasks are gone."""
        return self._lose(request, NODE_REMOVED_OK)

    def _lose(self, request: Values, done: int) -> Values:
        name = self._machine_of.get(request["resource_uid"])
        if name is None:
            return {"type": NODE_NOT_FOUND}
        self._ended.update(self._flow.remove_machine(name, fail_tasks=True))
        del self._pu_of[name], self._reserved[name]
        self._machine_of = {key: value for key, value in self._machine_of.items() if value != name}
        self._others = {key: value for key, value in self._others.items() if value[0] != name}
        return {"type": done}

    def add_task_info(self, request: Values) -> Values:
        """A pod of another scheduler takes or releases resources."""
        name = self._machine_of.get(request["resource_id"])
        for amount in ("cpu_utilization", "mem_utilization", "ephemeral_storage_utilization"):
            _check(request[amount], f"pod {request['task_name']!r}: {amount}")
        known = self._others.pop(request["task_name"], None)
        if known is not None:
            host = self._flow.world.machine(known[0])
            host.used, host.others = host.used - known[1], host.others - 1
        if request["type"] == 1:
            return {"type": INFO_REMOVED_OK if known else INFO_REMOVE_FAILED}
        if name is None:
            return {"type": INFO_SUBMIT_FAILED}
        used = Vector(
            cpu=request["cpu_utilization"],
            ram=request["mem_utilization"],
            ephemeral=request["ephemeral_storage_utilization"],
        )
        host = self._flow.world.machine(name)
        host.used, host.others = host.used + used, host.others + 1
        self._others[request["task_name"]] = (name, used)
        return {"type": INFO_SUBMITTED_OK}

    def add_node_stats(self, request: Values) -> Values:
        """Keep a node's measurement."""
        name = self._machine_of.get(request["resource_id"])
        if name is None:
            return {"type": NODE_NOT_FOUND}
        cpus = request["cpus_stats"]
        cpu = sum(c["cpu_utilization"] for c in cpus) / len(cpus) if cpus else 0.0
        self.statistics.add_machine_sample(
            name,
            LoadSample(
                request["timestamp"],
                cpu,
                request["mem_utilization"],
                request["net_rx_bw"],
                request["net_tx_bw"],
                request["disk_bw"],
            ),
        )
        return {"type": NODE_UPDATED_OK}

    def add_task_stats(self, request: Values) -> Values:
        """Keep a task's measurement."""
        if request["task_id"] not in self._flow.world.tasks:
            return {"type": TASK_NOT_FOUND}
        cpu = request["cpu_usage"] / request["cpu_request"] if request["cpu_request"] else 0.0
        memory = request["mem_usage"] / request["mem_request"] if request["mem_request"] else 0.0
        self.statistics.add_task_sample(
            request["task_id"], LoadSample(request["timestamp"], cpu, memory, request["net_rx"], request["net_tx"])
        )
        return {"type": TASK_SUBMITTED_OK}

    def check(self, _: Values) -> Values:
        """Say that the service serves."""
        return {"status": SERVING}

    def methods(self) -> Mapping[str, tuple[Callable[[Values], Values], Message, Message]]:
        """List the service's methods: handler, request type, reply type."""
        return {
            "Schedule": (self.schedule, m.EMPTY, m.DELTAS),
            "TaskSubmitted": (self.task_submitted, m.TASK_DESCRIPTION, m.REPLY),
            "TaskUpdated": (self.task_updated, m.TASK_DESCRIPTION, m.REPLY),
            "TaskCompleted": (self.task_completed, m.TASK_UID, m.REPLY),
            "TaskFailed": (self.task_failed, m.TASK_UID, m.REPLY),
            "TaskRemoved": (self.task_removed, m.TASK_UID, m.REPLY),
            "NodeAdded": (self.node_added, m.TOPOLOGY, m.REPLY),
            "NodeUpdated": (self.node_updated, m.TOPOLOGY, m.REPLY),
            "NodeFailed": (self.node_failed, m.RESOURCE_UID, m.REPLY),
            "NodeRemoved": (self.node_removed, m.RESOURCE_UID, m.REPLY),
            "AddTaskStats": (self.add_task_stats, m.TASK_STATS, m.REPLY),
            "AddNodeStats": (self.add_node_stats, m.RESOURCE_STATS, m.REPLY),
            "AddTaskInfo": (self.add_task_info, m.TASK_INFO, m.REPLY),
            "Check": (self.check, m.HEALTH_REQUEST, m.HEALTH),
        }


def to_task(described: Values, job: Values) -> Task:
    """Turn a TaskDescriptor into a task."""
    return Task(
        described["uid"],
        described["job_id"] or job.get("uuid", ""),
        binary=described["binary"],
        request=to_vector(described["resource_request"], f"task {described['uid']}"),
        priority=described["priority"],
        type=TaskType(described["task_type"]) if described["task_type"] in set(TaskType) else TaskType.SHEEP,
        labels=_labels(described["labels"]),
        selectors=tuple(
            Selector(s["key"], OPERATORS[s["type"]] if s["type"] < len(OPERATORS) else "In", tuple(s["values"]))
            for s in described["label_selectors"]
        ),
        tolerations=tuple(
            Toleration(t["key"], t["operator"] or "Equal", t["value"], t["effect"]) for t in described["tolerations"]
        ),
        owner=described["owner_ref_uid"],
        namespace=described["task_namespace"],
        **affinity.of(described["affinity"], described["task_namespace"]),
        gang_minimum=job.get("min_number_of_tasks", 0) if job.get("is_gang_scheduling_job") else 0,
    )


def to_vector(values: Values | None, whose: str) -> Vector:
    """Turn a ResourceVector into ours (Poseidon sends millicores as cores, bytes × 1000 as bytes).

    Raises:
        WireError: An amount larger than any machine has, which would overflow prices later.
    """
    if values is None:
        return Vector()
    for name in AMOUNTS:
        _check(values[name], f"{whose}: {name}")
    return Vector(
        cpu=int(values["cpu_cores"]),
        ram=values["ram_cap"],
        ephemeral=values["ephemeral_storage"],
        net_rx=values["net_rx_bw"],
        net_tx=values["net_tx_bw"],
        disk_bw=values["disk_bw"],
    )


def _check(value: float, what: str, most: int = LARGEST_AMOUNT) -> None:
    if not 0 <= value <= most:  # NaN included
        shown = value - (1 << 64) if value > most and value >= 1 << 63 else value
        raise WireError(f"{what} is {shown}; it must be between 0 and {most}")


def _labels(found: list[Values]) -> dict[str, str]:
    return {label["key"]: label["value"] for label in found}


def _rack(labels: dict[str, str]) -> str:
    return next((labels[key] for key in RACK_LABELS if key in labels), "")


def _taints(found: list[Values]) -> tuple[Taint, ...]:
    return tuple(Taint(t["key"], t["value"], t["effect"]) for t in found)


def _pus(node: Values) -> list[Values]:
    here = node["resource_desc"]
    own = [here] if here is not None and here["type"] == PU and not node["children"] else []
    return own + [pu for child in node["children"] for pu in _pus(child)]
