"""What hollow pods of one template have in common when they start: how long they run, and what their node writes first.

The pods of a gang share their containers (`strato.client.specs`), and so do jobs by the thousand. Their first status
differs by uid, addresses and the second it is written in, so it is worked out once in the second as
`strato.node.podstatus` has it, and kept as JSON with gaps for the rest.
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
from strato.node.runplan import RunPlan, has_wishes, plan_run

_BYTES: Final = 4 << 20
"""Of all forms, a few kilobytes for each container."""
_GAPS: Final = {"uid": "\0uid\0", "host_ip": "\0host\0", "pod_ip": "\0pod\0"}
"""What stands for them while a status is worked out; hardly a name holds such a text, and one that does is noticed."""


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


class StartForm:
    """How the pods of one template start.

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
            self._text = _with_gaps(pod, host_ip=host_ip, pod_ip=pod_ip, since=since, now=now)
            self._of = of
        if self._text is None:
            return _patch(pod, uid=uid, host_ip=host_ip, pod_ip=pod_ip, since=since, now=now)
        return _filled(self._text, uid, host_ip, pod_ip)


class StartForms:
    """The forms of the templates there are; a template is worth one from its second pod on.

    Args:
        rng: Goes to `strato.node.runplan.plan_run`, which draws nothing for the pods that have a form.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._forms: LruCache[tuple[int, str], tuple[Any, StartForm | None]] = LruCache(
            _BYTES, lambda _, known: 2000 + 2000 * len(known[0])
        )
        """By identity of the containers, which are kept so that it stays theirs."""

    def of(self, pod: Pod, unseen_seconds: float) -> StartForm | None:
        """Return the form of a pod that is new on its node.

        None for the first of a template, and for pods that do not just start and run: those that say themselves how
        they run, have init containers or a deadline, end within ``unseen_seconds``, or ran before.
        """
        spec, status = pod.spec, pod.status
        if (
            spec.init_containers
            or spec.active_deadline_seconds is not None
            or status.container_statuses
            or status.init_container_statuses
            or status.pod_ip
            or status.start_time is not None
            or has_wishes(pod.metadata.annotations)
        ):
            return None
        for condition in status.conditions:
            if condition.type in OUR_CONDITIONS:
                return None
        key = id(spec.containers), spec.restart_policy
        known = self._forms.get(key)
        if known is None:
            self._forms.put(key, (spec.containers, None))
            return None
        form = known[1]
        if form is None:
            form = StartForm(pod, tuple(self._plan(pod, index) for index in range(len(spec.containers))))
            self._forms.put(key, (spec.containers, form))
        return form if form.plans and min(plan.seconds for plan in form.plans) > unseen_seconds else None

    def _plan(self, pod: Pod, index: int) -> RunPlan:
        container = pod.spec.containers[index]
        return plan_run(None, (*container.command, *container.args), pod.spec.restart_policy, self._rng)


def _patch(pod: Pod, *, uid: str, host_ip: str, pod_ip: str, since: float, now: float) -> bytes:
    record = started(pod, uid=uid, host_ip=host_ip, pod_ip=pod_ip, since=since)
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": pod_status(record, now)})


def _with_gaps(pod: Pod, *, host_ip: str, pod_ip: str, since: float, now: float) -> bytes | None:
    """Return the patch with gaps; None when a pod's own texts look like one."""
    text = _patch(pod, **_GAPS, since=since, now=now).replace(b"%", b"%%")
    for name, gap in _GAPS.items():
        text = text.replace(msgspec.json.encode(gap)[1:-1], b"%%(%s)b" % name.encode())
    uid = pod.metadata.uid
    whole = _patch(pod, uid=uid, host_ip=host_ip, pod_ip=pod_ip, since=since, now=now)
    return text if _filled(text, uid, host_ip, pod_ip) == whole else None


def _filled(text: bytes, uid: str, host_ip: str, pod_ip: str) -> bytes:
    encoded = msgspec.json.encode(uid)[1:-1]
    return text % {b"uid": encoded, b"host_ip": host_ip.encode(), b"pod_ip": pod_ip.encode()}
