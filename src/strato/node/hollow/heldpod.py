"""What is kept of one pod on a hollow node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strato.api.core import Container, Pod
from strato.node.hollow.runplan import has_run_annotations
from strato.node.hollow.starttemplates import StartTemplate, started
from strato.node.podstatus import PodRecord, pod_status
from strato.node.predicates import Claim
from strato.node.records import record_of


class HollowPod:
    """What is kept of one pod: its record, and which timers still count.

    A pod that started from a template (``template``) gets its record only when something else happens to it, and so
    does one that runs as its status says (`runs_as_written`).

    Args:
        since: When the node took it, which is when a pod with a template started.
        is_as_written: Whether it runs as its status says.
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
        """What it has been given of its node; None is nothing."""
        self.pod_ip = pod_ip
        """Of a pod with a template; others have it in their record."""
        self.written_at: float | None = None
        """When the first status of a pod with a template was made."""
        is_late = template is not None or is_as_written
        self._record = None if is_late else record_of(pod, host_ip=host_ip, now=since)
        containers = len(pod.spec.init_containers) + len(pod.spec.containers)
        self.epochs = [0 if template is None else 1] * containers
        """Per container, the run its timers belong to; a timer of an earlier run is void."""
        self.waits = [0.0] * containers
        """Per container, its last back-off in seconds."""
        self.stops_at: float | None = None
        """When its last container ends, in monotonic time, since the API asked for its deletion."""
        self.is_stopped = False
        """All its containers have ended since; it is to be removed from the API."""
        self.is_awaited = False
        """Somebody keeps the deleted pod to learn how it ended."""

    @property
    def record(self) -> PodRecord:
        """Its record."""
        record = self._record
        if record is None and self.template is None:
            record = self._record = record_of(self.pod, host_ip=self.host_ip, now=self.since)
        if record is None:
            record = self._record = started(
                self.pod, uid=self.uid, host_ip=self.host_ip, pod_ip=self.pod_ip, since=self.since
            )
            if self.written_at is not None:
                pod_status(record, self.written_at)  # for the times of its conditions
        return record

    def running(self) -> Sequence[Container]:
        """Return the containers that run now; sidecars end when they are told to and are left out."""
        spec = self.pod.spec
        if self._record is None:
            return spec.containers
        records = self._record.containers[len(spec.init_containers) :]
        return [one for one, record in zip(spec.containers, records, strict=True) if record.state == "running"]

    def next_write(self, now: float) -> dict[str, Any] | bytes | None:
        """Return what to write of its status, or the patch that does; None of a stopped pod whose end nobody awaits."""
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
    """Return whether a pod runs, and its status says all there is to say: a node that starts again writes nothing.

    Pods with anything out of the ordinary are not looked into; they get a record at once.
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
