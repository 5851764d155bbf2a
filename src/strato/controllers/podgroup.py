"""PodGroups for pods that have none: plain pods, and pods of workloads without gang support.

`build_group` builds the group of a pod; the controller creates it and annotates the pod with its name.

Source: volcano-controllers Part C.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from strato.api import usage
from strato.api.apps import DaemonSet, ReplicaSet, StatefulSet
from strato.api.batch import Job as BatchJob
from strato.api.core import Pod
from strato.api.meta import Key, Object
from strato.api.selectors import from_labels
from strato.api.volcano.scheduling import GROUP_ANNOTATION, QUEUE_ANNOTATION, PodGroup
from strato.client.cluster import Cluster, PatchType
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.job import terms
from strato.controllers.owners import controller_reference
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, Forbidden, NotFound

GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"

_WORKLOAD: Final = "workload/"
"""Prefix of work-queue keys that name a workload by its uid instead of a pod; no pod name has a slash."""

V = TypeVar("V", bound=Object)

_INHERITABLE: Mapping[tuple[str, str], type[Object]] = {
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("batch/v1", "Job"): BatchJob,
}


def group_name(pod: Pod) -> str:
    """Return the name of the group a pod belongs to: that of its managing owner, else its own."""
    owner = pod.metadata.controller
    return f"podgroup-{owner.uid if owner is not None else pod.metadata.uid}"


def is_ours(pod: Pod, schedulers: Collection[str]) -> bool:
    """Return whether a pod needs a group from this controller."""
    return pod.spec.scheduler_name in schedulers and not pod.metadata.annotation(GROUP_ANNOTATION)


def build_group(pod: Pod, inherited: Mapping[str, str]) -> dict[str, Any]:
    """Return the PodGroup of a pod."""
    annotations = {key: value for key, value in inherited.items() if key.startswith("volcano.sh/")}
    for key in (terms.PREEMPTABLE, terms.COOLDOWN_TIME, terms.REVOCABLE_ZONE):
        if value := pod.metadata.annotation(key):
            annotations[key] = value
    for key in (terms.JDB_MIN_AVAILABLE, terms.JDB_MAX_UNAVAILABLE):
        if value := pod.metadata.annotation(key):
            annotations[key] = value
            break
    labels = {key: value for key in (terms.PREEMPTABLE, terms.COOLDOWN_TIME) if (value := pod.metadata.label(key))}
    min_member = _min_member(inherited.get(GROUP_MIN_MEMBER))
    needed: usage.Usage = {}
    usage.add(needed, usage.pod_usage(pod.spec), min_member)
    spec: dict[str, Any] = {"minMember": min_member, "minResources": usage.to_json(needed)}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if queue := pod.metadata.annotation(QUEUE_ANNOTATION):
        spec["queue"] = queue
    if (topology := _topology(pod)) is not None:
        spec["networkTopology"] = topology
    metadata: dict[str, Any] = {
        "name": group_name(pod),
        "namespace": pod.metadata.namespace,
        "ownerReferences": _owners(pod),
    }
    if annotations:
        metadata["annotations"] = annotations
    if labels:
        metadata["labels"] = labels
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _min_member(text: str | None) -> int:
    if text is None:
        return 1
    try:
        number = int(text)
    except ValueError:
        return 1
    return number if number >= 0 else 1


def _owners(pod: Pod) -> list[dict[str, Any]]:
    if pod.metadata.controller is None:
        return [controller_reference("v1", "Pod", pod.metadata)]
    return [msgspec.to_builtins(owner) for owner in pod.metadata.owner_references or ()]


def _topology(pod: Pod) -> dict[str, Any] | None:
    mode, tier = pod.metadata.annotation(TOPOLOGY_MODE), pod.metadata.annotation(TOPOLOGY_TIER)
    if not mode and not tier:
        return None
    topology: dict[str, Any] = {"mode": mode.lower() if mode.lower() in ("hard", "soft") else "hard"}
    if tier:
        with suppress(ValueError):  # an invalid tier is ignored
            topology["highestTierAllowed"] = int(tier)
    return topology


class PodGroupController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "pg-controller"
    workers: ClassVar[int] = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._schedulers = frozenset(context.settings.scheduler_names)
        self._inherit = context.settings.inherit_owner_annotations
        self._pods = context.informers.informer(Pod)
        self._groups = context.informers.informer(PodGroup)
        self._pods.add_handler(self._on_pod, among=self._without_group)
        context.informers.informer(ReplicaSet).add_handler(self._on_workload)
        context.informers.informer(StatefulSet).add_handler(self._on_workload)

    def _on_pod(self, change: Change[Pod]) -> None:
        self.queue.add(change.key)

    def _without_group(self, changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
        """Return the changes of new pods that need a group from this controller."""
        return [
            change
            for change in changes
            if change.old is None and (pod := change.new) is not None and is_ours(pod, self._schedulers)
        ]

    def _on_workload(self, change: Change[Any]) -> None:
        workload: ReplicaSet | StatefulSet | None = change.new
        if workload is None or (change.old is not None and change.old.spec.replicas == workload.spec.replicas):
            return
        self.queue.add(Key(workload.metadata.namespace, f"{_WORKLOAD}{workload.metadata.uid}/{workload.metadata.name}"))

    async def reconcile(self, key: Key) -> float | None:
        """Create the group of one pod and annotate the pod, or bring the group of a workload up to date."""
        if key.name.startswith(_WORKLOAD):
            await self._reconcile_workload(key)
            return None
        pod = self._pods.get(key)
        if pod is None or not is_ours(pod, self._schedulers):
            return None
        if Key(key.namespace, group_name(pod)) not in self._groups:
            body = build_group(pod, await self._inherited(pod))
            with suppress(AlreadyExists):  # another pod of the same owner was first
                await self._cluster.create(PodGroup, body, key.namespace)
        await self._join(pod)
        return None

    async def _join(self, pod: Pod) -> None:
        change = {"metadata": {"annotations": {GROUP_ANNOTATION: group_name(pod)}}}
        with suppress(NotFound):
            await self._cluster.patch(
                Pod, pod.metadata.name, pod.metadata.namespace, change, patch_type=PatchType.STRATEGIC
            )

    async def _inherited(self, pod: Pod) -> dict[str, str]:
        """Collect the annotations of a pod's owners; the first owner with a key wins.

        Owners that are gone or that the controller may not read are skipped.
        """
        found: dict[str, str] = {}
        if not self._inherit:
            return found
        for owner in pod.metadata.owner_references or ():
            view = _INHERITABLE.get((owner.api_version, owner.kind))
            if view is None:
                continue
            try:
                read = await self._cluster.get(view, owner.name, pod.metadata.namespace)
            except (NotFound, Forbidden):
                continue
            for key, value in (read.metadata.annotations or {}).items():
                found.setdefault(key, value)
        return found

    async def _reconcile_workload(self, key: Key) -> None:
        uid, _, name = key.name.removeprefix(_WORKLOAD).partition("/")
        workload = await self._read_workload(key.namespace, name, uid)
        if workload is None:
            return
        group = Key(key.namespace, f"podgroup-{uid}")
        if workload.spec.replicas == 0:
            if group in self._groups:
                try:
                    await self._cluster.delete(PodGroup, group.name, group.namespace)
                except NotFound:
                    return
            return
        pod = self._pod_of(workload)
        if pod is None or not is_ours(pod, self._schedulers):
            return
        body = build_group(pod, await self._inherited(pod))
        known = self._groups.get(group)
        if known is None:
            with suppress(AlreadyExists):  # another pod of the same owner was first
                await self._cluster.create(PodGroup, body, key.namespace)
        else:
            change = {
                "metadata": {
                    "labels": body["metadata"].get("labels"),
                    "annotations": body["metadata"].get("annotations"),
                },
                "spec": body["spec"],
            }
            await self._cluster.patch(PodGroup, group.name, group.namespace, change)
        await self._join(pod)

    async def _read_workload(self, namespace: str, name: str, uid: str) -> ReplicaSet | StatefulSet | None:
        replica_set = await _get_or_none(self._cluster, ReplicaSet, name, namespace)
        if replica_set is not None and replica_set.metadata.uid == uid:
            return replica_set
        stateful_set = await _get_or_none(self._cluster, StatefulSet, name, namespace)
        return stateful_set if stateful_set is not None and stateful_set.metadata.uid == uid else None

    def _pod_of(self, workload: ReplicaSet | StatefulSet) -> Pod | None:
        """Return the first pod that the workload controls; Volcano matches labels over all namespaces instead."""
        selector = workload.spec.selector
        matches = from_labels(selector.match_labels) if selector is not None else None
        for pod in self._pods.list():
            owner = pod.metadata.controller
            if owner is None or owner.uid != workload.metadata.uid:
                continue
            if matches is None or matches.matches(pod.metadata.labels):
                return pod
        return None


async def _get_or_none(cluster: Cluster, view: type[V], name: str, namespace: str) -> V | None:
    try:
        return await cluster.get(view, name, namespace)
    except NotFound:
        return None
