"""The state of one pod on a hollow node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strato.api.core import Container, Pod
from strato.node.hollow.runplan import has_run_annotations
from strato.node.hollow.starttemplates import StartTemplate, started
from strato.node.podstatus import PodRecord, phase_of, pod_status
from strato.node.predicates import Claim
from strato.node.records import record_of

FINAL = ("Succeeded", "Failed")
"""Phases of pods that have ended."""


class HollowPod:
    """The state of one pod: its record, and which of its timers are valid.

    To save memory and time, the record of a pod that started from a template, and of one that runs exactly as its
    status says (`runs_as_written`), is made only when something else happens to the pod.

    Args:
        since: When the node began to run the pod; also the start time of a pod with a template.
        is_as_written: Whether the pod runs as its status says.
    """

    __slots__ = (
        "_record",
        "claim",
        "epochs",
        "host_ip",
        "is_awaited",
        "is_stopped",
        "name",
        "namespace",
        "node",
        "pod",
        "pod_ip",
        "since",
        "stops_at",
        "template",
        "uid",
        "waits",
        "written_at",
    )

    def __init__(
        self,
        pod: Pod,
        host_ip: str,
        since: float,
        template: StartTemplate | None = None,
        pod_ip: str = "",
        *,
        is_as_written: bool = False,
    ) -> None:
        metadata = pod.metadata
        self.namespace = metadata.namespace
        self.name = metadata.name
        self.uid = metadata.uid
        self.node = pod.spec.node_name
        self.pod = pod
        self.host_ip = host_ip
        self.since = since
        self.template = template
        self.claim: Claim | None = None
        """The node's resources that the pod has been given; None for none."""
        self.pod_ip = pod_ip
        """Address of a pod with a template; other pods have it in their record."""
        self.written_at: float | None = None
        """When the first status of a pod with a template was rendered."""
        is_late = template is not None or is_as_written
        self._record = None if is_late else record_of(pod, host_ip=host_ip, now=since)
        containers = len(pod.spec.init_containers) + len(pod.spec.containers)
        self.epochs = [0 if template is None else 1] * containers
        """Per container, the number of its present run; timers of earlier runs are ignored."""
        self.waits = [0.0] * containers
        """Per container, its last back-off in seconds."""
        self.stops_at: float | None = None
        """When the last container of a pod being deleted ends, in monotonic time; None while it is not deleted."""
        self.is_stopped = False
        """Whether all containers of a pod being deleted have ended, so that the node removes it from the API."""
        self.is_awaited = False
        """Whether a finalizer keeps the deleted pod, so that its final status has to be written."""

    @property
    def record(self) -> PodRecord:
        """The pod's record; made when it is first needed."""
        record = self._record
        if record is None and self.template is None:
            record = self._record = record_of(self.pod, host_ip=self.host_ip, now=self.since)
        if record is None:
            record = self._record = started(
                self.pod, uid=self.uid, host_ip=self.host_ip, pod_ip=self.pod_ip, since=self.since
            )
            if self.written_at is not None:
                pod_status(record, self.written_at)  # sets the transition times of the record's conditions
        return record

    @property
    def has_ended(self) -> bool:
        """Whether its containers will not run again."""
        return self._record is not None and phase_of(self._record) in FINAL

    def running(self) -> Sequence[Container]:
        """Return the running containers, without sidecars, which end with the others."""
        spec = self.pod.spec
        if self._record is None:
            return spec.containers
        records = self._record.containers[len(spec.init_containers) :]
        return [one for one, record in zip(spec.containers, records, strict=True) if record.state == "running"]

    def next_write(self, now: float) -> dict[str, Any] | bytes | None:
        """Return the status members to write, or a rendered patch; None for a stopped pod that no finalizer keeps."""
        if self.is_stopped and not self.is_awaited:
            return None
        if self._record is not None or self.template is None:
            return pod_status(self.record, now)
        if self.written_at is None:
            self.written_at = now
        return self.template.patch(
            self.pod, host_ip=self.host_ip, pod_ip=self.pod_ip, since=self.since, now=self.written_at
        )


def runs_as_written(pod: Pod) -> bool:
    """Return whether a pod runs and its status is complete, so that a node that starts again need not write it.

    False for pods with any unusual feature, such as init containers, without further checks.
    """
    spec, status = pod.spec, pod.status
    if (
        status.phase != "Running"
        or spec.init_containers
        or spec.readiness_gates
        or spec.ephemeral_containers
        or spec.active_deadline_seconds is not None
        or spec.resources is not None
        or not status.pod_ip
        or status.observed_generation != pod.metadata.generation
        or len(status.container_statuses) != len(spec.containers)
        or has_run_annotations(pod.metadata.annotations)
    ):
        return False
    ready = status.condition("Ready")
    if ready is None or ready.status != "True":
        return False
    return all(
        known.name == container.name
        and known.ready
        and known.restart_count == 0
        and known.state.running is not None
        and known.state.running.started_at
        and (known.resources is None or known.resources == container.resources)
        for known, container in zip(status.container_statuses, spec.containers, strict=True)
    )
