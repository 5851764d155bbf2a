"""What hollow pods with equal containers share when they start: their run plans and the text of their first status.

Pods of a gang share their decoded containers (`strato.client.specs`). Their first statuses differ only by uid,
addresses and the second they are written in, so one is computed a second (by `strato.node.podstatus`) and kept as JSON
with holes for uid and addresses.
"""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

from strato.api.core import Pod
from strato.api.meta import Condition
from strato.lru import LruCache
from strato.node.podstatus import OUR_CONDITIONS, ContainerRecord, PodRecord, pod_status
from strato.node.records import record_of
from strato.node.runplan import RunPlan, has_run_annotations, plan_run

_BYTES: Final = 4 << 20
"""Bound of all templates together; one takes a few kilobytes per container."""
_HOLES: Final = {"uid": "\0uid\0", "host_ip": "\0host\0", "pod_ip": "\0pod\0"}
"""Placeholders while a status is computed. If an object contains one by chance, the check in `_with_holes` finds it."""


def container_id(uid: str, container: ContainerRecord) -> str:
    """Return the id of a run of a container of a hollow pod."""
    return f"hollow://{uid}-{container.name}-{container.restart_count}"


def started(pod: Pod, *, uid: str, host_ip: str, pod_ip: str, since: float) -> PodRecord:
    """Return the record of a pod without init containers all of whose containers started at an instant."""
    record = record_of(pod, host_ip=host_ip, now=since)
    record.pod_ip = pod_ip
    for container in record.containers:
        container.image_id = container.image
        container.run(since, container_id(uid, container))
    return record


class StartTemplate:
    """How pods with the same containers start.

    Args:
        pod: One of them.
        plans: How its containers run.
    """

    __slots__ = ("_of", "_text", "plans")

    def __init__(self, pod: Pod, plans: tuple[RunPlan, ...]) -> None:
        self.plans = plans
        self._of: tuple[int, int, tuple[Condition, ...]] | None = None
        self._text: bytes | None = None

    def patch(self, pod: Pod, *, host_ip: str, pod_ip: str, since: float, now: float) -> bytes:
        """Return the patch that writes the first status of a pod which started at ``since``, as JSON."""
        uid = pod.metadata.uid
        of = int(since), int(now), pod.status.conditions
        if of != self._of:
            self._text = _with_holes(pod, host_ip=host_ip, pod_ip=pod_ip, since=since, now=now)
            self._of = of
        if self._text is None:
            return _patch(pod, uid=uid, host_ip=host_ip, pod_ip=pod_ip, since=since, now=now)
        return _filled(self._text, uid, host_ip, pod_ip)


class StartTemplates:
    """Start templates by containers; made when the second pod with the same containers is seen.

    Args:
        rng: Goes to `strato.node.runplan.plan_run`, which draws nothing for pods that have a template.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._templates: LruCache[tuple[int, str], tuple[Any, StartTemplate | None]] = LruCache(
            _BYTES, lambda _, known: 2000 + 2000 * len(known[0])
        )
        """By identity of the containers, which are kept so that it stays theirs."""

    def of(self, pod: Pod, min_seconds: float) -> StartTemplate | None:
        """Return the template of a pod that is new on its node.

        None for the first pod with its containers, and for pods that need more than a start: those with annotations
        about their run, init containers or a deadline, that end within ``min_seconds``, or that ran before.
        """
        spec, status = pod.spec, pod.status
        if (
            spec.init_containers
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

    def _plan(self, pod: Pod, index: int) -> RunPlan:
        container = pod.spec.containers[index]
        return plan_run(None, (*container.command, *container.args), pod.spec.restart_policy, self._rng)


def _patch(pod: Pod, *, uid: str, host_ip: str, pod_ip: str, since: float, now: float) -> bytes:
    record = started(pod, uid=uid, host_ip=host_ip, pod_ip=pod_ip, since=since)
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": pod_status(record, now)})


def _with_holes(pod: Pod, *, host_ip: str, pod_ip: str, since: float, now: float) -> bytes | None:
    """Return the patch with gaps; None when a pod's own texts look like one."""
    text = _patch(pod, **_HOLES, since=since, now=now).replace(b"%", b"%%")
    for name, gap in _HOLES.items():
        text = text.replace(msgspec.json.encode(gap)[1:-1], b"%%(%s)b" % name.encode())
    uid = pod.metadata.uid
    whole = _patch(pod, uid=uid, host_ip=host_ip, pod_ip=pod_ip, since=since, now=now)
    return text if _filled(text, uid, host_ip, pod_ip) == whole else None


def _filled(text: bytes, uid: str, host_ip: str, pod_ip: str) -> bytes:
    encoded = msgspec.json.encode(uid)[1:-1]
    return text % {b"uid": encoded, b"host_ip": host_ip.encode(), b"pod_ip": pod_ip.encode()}
