"""Templates for the start of hollow pods with equal containers: their run plans and the text of their first status.

Pods of a gang share their decoded containers (`strato.client.specs`). Their first statuses differ only in uid,
addresses and the second in which they are written. So one status per second is computed (by `strato.node.podstatus`)
and kept as JSON with holes for uid and addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from strato.api.core import Pod
from strato.api.meta import Condition
from strato.api.templates import Template, template_of
from strato.lru import LruCache
from strato.node.hollow.distributions import Draws
from strato.node.hollow.runplan import RunPlan, has_run_annotations, plan_run
from strato.node.podstatus import OUR_CONDITIONS, ContainerRecord, PodRecord, pod_status
from strato.node.records import record_of

_BYTES: Final = 4 << 20
"""Most bytes of all templates; one takes a few kilobytes per container."""
_HOLES: Final = ("uid", "host_ip", "pod_ip")


def container_id(uid: str, container: ContainerRecord) -> str:
    """Return the id of a run of a container of a hollow pod."""
    return f"hollow://{uid}-{container.name}-{container.restart_count}"


def started(pod: Pod, *, uid: str, host_ip: str, pod_ip: str, since: float) -> PodRecord:
    """Return the record of a pod without init containers whose containers all started at one instant."""
    record = record_of(pod, host_ip=host_ip, now=since)
    record.pod_ip = pod_ip
    for container in record.containers:
        container.image_id = container.image
        container.run(since, container_id(uid, container))
    return record


class StartTemplate:
    """How pods with the same containers start.

    Args:
        pod: One of these pods.
        plans: Run plans of its containers.
    """

    __slots__ = ("_of", "_template", "plans")

    def __init__(self, pod: Pod, plans: tuple[RunPlan, ...]) -> None:
        self.plans = plans
        self._of: tuple[int, int, int, tuple[Condition, ...]] | None = None
        self._template: Template | None = None

    def patch(self, pod: Pod, *, host_ip: str, pod_ip: str, since: float, now: float) -> bytes:
        """Return the patch that writes the first status of a pod which started at ``since``, as JSON."""
        uid = pod.metadata.uid
        of = int(since), int(now), pod.metadata.generation, pod.status.conditions
        if of != self._of:
            self._template = template_of(_HOLES, lambda words: _patch(pod, words, since=since, now=now))
            self._of = of
        if self._template is None:
            return _patch(pod, (uid, host_ip, pod_ip), since=since, now=now)
        return self._template.fill((msgspec.json.encode(uid)[1:-1], host_ip.encode(), pod_ip.encode()))


class StartTemplates:
    """Start templates by containers; a template is made for the second pod with the same containers."""

    def __init__(self) -> None:
        self._templates: LruCache[tuple[int, str], tuple[Any, StartTemplate | None]] = LruCache(
            _BYTES, lambda _, known: 2000 + 2000 * len(known[0])
        )
        """Templates by the identity of the containers; an entry holds these, so that the id is not used again."""

    def of(self, pod: Pod, min_seconds: float) -> StartTemplate | None:
        """Return the template of a pod that is new on its node.

        None for the first pod with its containers, and for pods that need more than a plain start: those with
        annotations about their run, init containers, readiness gates or a deadline, those that end within
        ``min_seconds``, and those that ran before.
        """
        spec, status = pod.spec, pod.status
        if (
            spec.init_containers
            or spec.readiness_gates
            or spec.active_deadline_seconds is not None
            or status.container_statuses
            or status.init_container_statuses
            or status.pod_ip
            or status.start_time is not None
            or has_run_annotations(pod.metadata.annotations)
        ):
            return None
        for condition in status.conditions:
            if condition.type in OUR_CONDITIONS:
                return None
        key = id(spec.containers), spec.restart_policy
        known = self._templates.get(key)
        if known is None:
            self._templates.put(key, (spec.containers, None))
            return None
        template = known[1]
        if template is None:
            template = StartTemplate(pod, tuple(self._plan(pod, index) for index in range(len(spec.containers))))
            self._templates.put(key, (spec.containers, template))
        return template if template.plans and min(plan.seconds for plan in template.plans) > min_seconds else None

    @staticmethod
    def _plan(pod: Pod, index: int) -> RunPlan:
        container = pod.spec.containers[index]
        return plan_run(None, (*container.command, *container.args), pod.spec.restart_policy, Draws())


def _patch(pod: Pod, words: Sequence[str], *, since: float, now: float) -> bytes:
    uid, host_ip, pod_ip = words
    record = started(pod, uid=uid, host_ip=host_ip, pod_ip=pod_ip, since=since)
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": pod_status(record, now)})
