"""Make the record of a pod from the API's object: new, or as it was before a restart of the node. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from strato.api.core import Container, ContainerStatus, Pod, PodStatus, ResourceRequirements, StateTerminated
from strato.clock import parse_time
from strato.node.podstatus import CREATING, INITIALIZING, OUR_CONDITIONS, ContainerRecord, Ending, PodRecord
from strato.node.restarts import ALWAYS


def record_of(pod: Pod, *, host_ip: str, now: float) -> PodRecord:
    """Return the record of a pod: a new one, or the one that the pod's status describes if a node has written it."""
    spec, status = pod.spec, pod.status
    inits = spec.init_containers
    known: dict[str, ContainerStatus] = {}
    if status.container_statuses or status.init_container_statuses:
        known = {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}
    waits = INITIALIZING if inits else CREATING
    containers = [_container(c, known.get(c.name), init=True, waits=waits) for c in inits] if inits else []
    containers += [_container(c, known.get(c.name), init=False, waits=waits) for c in spec.containers]
    debuggers = {s.name: s for s in status.ephemeral_container_statuses} if spec.ephemeral_containers else {}
    record = PodRecord(
        restart_policy=spec.restart_policy,
        containers=containers,
        resources=None if spec.resources is None else _given(spec.resources, status),
        ephemeral=[ephemeral_record(c, debuggers.get(c.name)) for c in spec.ephemeral_containers],
        host_ip=host_ip,
        pod_ip=status.pod_ip,
        generation=pod.metadata.generation,
        start_time=_instant(status.start_time, now),
        unmet_gates=unmet_gates(pod),
        known_ips=(status.host_ip, status.pod_ip),
    )
    for condition in status.conditions:
        if condition.type in OUR_CONDITIONS:
            record.conditions[condition.type] = (condition.status, condition.last_transition_time or "")
    return record


def unmet_gates(pod: Pod) -> str:
    """Return the kubelet's message about readiness gates without a condition that is True; empty if there are none."""
    found = []
    for gate in pod.spec.readiness_gates:
        kind, condition = gate.condition_type, pod.status.condition(gate.condition_type)
        if condition is None:
            found.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition.status != "True":
            found.append(f'the status of pod readiness gate "{kind}" is not "True", but {condition.status}')
    return ", ".join(found)


def ephemeral_record(container: Container, status: ContainerStatus | None = None) -> ContainerRecord:
    """Return the record of an ephemeral container."""
    record = _container(container, status, init=False, waits=CREATING)
    record.ephemeral = True
    return record


def _container(container: Container, status: ContainerStatus | None, *, init: bool, waits: str) -> ContainerRecord:
    sidecar = init and container.restart_policy == ALWAYS
    record = ContainerRecord(container.name, container.image, init, sidecar, reason=waits)
    record.allocated = record.actual = container.resources
    if status is None:
        return record
    if status.resources is not None and status.resources != container.resources:
        record.actual, record.allocated = status.resources, _given(container.resources, status)
    record.restart_count = status.restart_count
    record.container_id, record.image_id = status.container_id, status.image_id
    record.ready, record.started = status.ready, bool(status.started)
    if status.last_state.terminated is not None:
        record.last = _ending(status.last_state.terminated)
    if status.state.running is not None:
        record.state, record.reason = "running", ""
        record.started_at = _instant(status.state.running.started_at, 0.0)
    elif status.state.terminated is not None:
        record.state, record.reason = "terminated", ""
        record.ending = _ending(status.state.terminated)
    elif status.state.waiting is not None:
        record.reason, record.message = status.state.waiting.reason or waits, status.state.waiting.message
    return record


def _given(wanted: ResourceRequirements, status: ContainerStatus | PodStatus) -> ResourceRequirements:
    """Return the resources allocated to a container or pod: those of its status, else those of its spec."""
    held = status.resources
    if held is None or status.allocated_resources == wanted.requests:
        return wanted
    return replace(held, requests=status.allocated_resources)


def _ending(state: StateTerminated) -> Ending:
    return Ending(
        exit_code=state.exit_code,
        reason=state.reason,
        started_at=_instant(state.started_at, 0.0),
        finished_at=_instant(state.finished_at, 0.0),
        signal=state.signal,
        message=state.message,
        container_id=state.container_id,
    )


def _instant(text: str | None, default: float) -> float:
    return parse_time(text) if text else default
