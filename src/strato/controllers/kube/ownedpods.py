"""The pods of workloads: those in the cache, corrected by our own creates and deletes that the watch has not shown yet.

Without the correction a controller that counts pods would create or delete some twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from strato.api.core import Pod, PodStatus
from strato.api.kinds import Kind
from strato.api.meta import Key, Object, ObjectMeta
from strato.client.informer import Change, Informer
from strato.clock import parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.job.pods import revision_of
from strato.controllers.kube.adoption import (
    adopt_all,
    index_orphans,
    orphans,
    plan_ownership,
    release_all,
    selector_of,
    strip,
)
from strato.controllers.ownedcreates import create_owned
from strato.controllers.owners import controller_reference
from strato.controllers.ownwrites import OwnWrites
from strato.controllers.parallel import for_each
from strato.errors import NotFound

_PHASE_ORDER: Mapping[str, int] = {"Pending": 0, "Running": 1}
_CONCURRENT: Final = 32
_BEGINNING: Final = PodStatus(phase="Pending")
"""Status of a pod that was just created."""
_DEBOUNCE_SECONDS_PER_POD: Final = 20e-6
"""Delay before a pass, per pod of the owner: ten times what the pass costs, so that passes take a tenth of the time."""


class OwnedPods:
    """See the module.

    Args:
        on_change: Called with the key of the owner whenever one of its pods has changed, and the seconds to wait for
            further changes: a pass reads all pods of an owner, so an owner of thousands must not have a pass per pod.
        adopts: Whether owners adopt pods that they select and no owner controls.
        finalizer: Finalizer of the owners' pods, if any: adopted pods get it, released pods lose it.
    """

    def __init__(
        self,
        context: ControllerContext,
        kind: Kind,
        on_change: Callable[[Key, float], None],
        *,
        adopts: bool = True,
        finalizer: str = "",
    ) -> None:
        self._cluster, self._recorder, self._kind = context.cluster, context.recorder, kind
        self._on_change, self._finalizers = on_change, (finalizer,) if finalizer else ()
        self._pods = context.informers.informer(Pod)
        self._owned: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """Keys of the pods that the watch has shown, in the order of their first event, by uid of the owner."""
        self._created: dict[str, dict[Key, Pod]] = {}
        """Pods that we have created and the watch has not shown yet, by uid of the owner."""
        self._deleted: dict[str, set[str]] = {}
        """Uids of pods that we have deleted and the watch has not shown as deleted yet, by uid of the owner."""
        self._rewritten: OwnWrites[Pod] = OwnWrites()
        """Pods whose finalizer we have added or removed, until the watch shows them so."""
        self._owners: Informer[Any] = context.informers.informer(kind.view)
        self._owners.add_handler(self._on_owner)
        self._pods.add_owned_handler(kind, self._on_pod)
        if not adopts:
            return
        index_orphans(self._pods)
        self._pods.add_handler(self._on_orphan, among=lambda changes: _unmanaged(changes) if len(self._owners) else ())

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.object
        owner = pod.metadata.controller
        assert owner is not None, "handlers get owned pods only"
        key = pod.key
        if change.new is None:
            owned = self._owned[owner.uid]
            owned.pop(key, None)
            if not owned:
                del self._owned[owner.uid]
            self._forget_deleted(owner.uid, pod.metadata.uid)
            self._rewritten.forget(key)
        else:
            self._owned[owner.uid][key] = None
        made = self._created.get(owner.uid)
        if made is not None:
            made.pop(key, None)
            if not made:
                del self._created[owner.uid]
        self._on_change(
            Key(pod.metadata.namespace, owner.name), len(self._owned.get(owner.uid, ())) * _DEBOUNCE_SECONDS_PER_POD
        )

    def _on_orphan(self, change: Change[Pod]) -> None:
        """Queue the owner that a pod has lost, or the owners whose selectors match a pod that no owner controls."""
        pod, old = change.object, change.old
        holder = old.metadata.controller if old is not None else None
        if holder is not None:
            self._owned.get(holder.uid, {}).pop(change.key, None)
            if holder.kind == self._kind.name:
                self._on_change(Key(change.key.namespace, holder.name), 0.0)
        elif pod.metadata.labels and (old is None or old.metadata.labels != pod.metadata.labels):
            for owner in self._owners.list():
                if owner.metadata.namespace == change.key.namespace and selector_of(owner).matches(pod.metadata.labels):
                    self._on_change(owner.key, 0.0)

    async def claim(
        self,
        workload: Object,
        fits: Callable[[Pod], bool] = lambda _: True,
        lacks_finalizer: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Adopt the pods that a workload selects and no owner controls, and release those that it no longer selects.

        Args:
            workload: The owner.
            fits: Returns whether a pod without a controlling owner may be adopted.
            lacks_finalizer: Returns whether an owned pod is adopted again, to get the finalizer; None: no pod is.
        """
        owner = workload.metadata
        shown = (pod for key in self._owned.get(owner.uid, ()) if (pod := self._pods.get(key)) is not None)
        unmanaged = (pod for pod in orphans(self._pods, owner.namespace) if fits(pod))
        adopt, release = plan_ownership(owner, selector_of(workload), [*shown, *unmanaged])
        if lacks_finalizer is not None:
            adopt += filter(lacks_finalizer, self.all_of(owner.uid))
        for pod in await adopt_all(self._cluster, self._kind, owner, adopt, self._finalizers) if adopt else ():
            if pod.key in self._owned.get(owner.uid, ()):
                self._rewritten.note(pod)
            else:
                self._created.setdefault(owner.uid, {})[pod.key] = pod
        await release_all(self._cluster, owner, release, self._finalizers)
        for pod in release:
            self._owned[owner.uid].pop(pod.key, None)

    def _forget_deleted(self, owner: str, pod: str) -> None:
        gone = self._deleted.get(owner)
        if gone is not None:
            gone.discard(pod)
            if not gone:
                del self._deleted[owner]

    def _on_owner(self, change: Change[Any]) -> None:
        if change.new is None:
            self._created.pop(change.object.metadata.uid, None)
            self._deleted.pop(change.object.metadata.uid, None)

    def all_of(self, owner: str) -> list[Pod]:
        """Return an owner's pods, terminating ones included."""
        shown = [pod for key in self._owned.get(owner, ()) if (pod := self._pods.get(key)) is not None]
        made = self._created.get(owner)
        if made is not None:
            seen = revision_of(self._pods.resource_version)
            for key in [key for key, pod in made.items() if seen >= revision_of(pod.metadata.resource_version)]:
                del made[key]  # the watch has passed the create: it has shown the pod, or the pod was deleted since
            shown += made.values()
        return [self._rewritten.newest(pod.key, pod) or pod for pod in shown] if self._finalizers else shown

    def is_terminating(self, pod: Pod) -> bool:
        """Return whether a pod is being deleted, also when only our delete's answer shows that yet."""
        owner = pod.metadata.controller
        return pod.metadata.deletion_timestamp is not None or (
            owner is not None and pod.metadata.uid in self._deleted.get(owner.uid, ())
        )

    def live(self, owner: str) -> list[Pod]:
        """Return an owner's pods that are neither finished nor terminating."""
        return [pod for pod in self.all_of(owner) if not pod.is_finished and not self.is_terminating(pod)]

    async def create(self, owner: ObjectMeta, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Create pods of an owner concurrently; a pod of the owner that exists already counts as created.

        Raises:
            StratoError: The first failure, after all creates were tried.
        """
        there, failures = await create_owned(self._cluster, Pod, owner, bodies)
        for pod in there:
            if pod.key not in self._pods:
                begins = pod if pod.status.phase else msgspec.structs.replace(pod, status=_BEGINNING)
                self._created.setdefault(owner.uid, {})[pod.key] = begins
        if failures:
            message = f"Error creating: {failures[0]}"
            self._recorder.event(self._kind.view(metadata=owner), "Warning", "FailedCreate", message)
            raise failures[0]

    async def strip(self, owner: str, pods: Sequence[Pod]) -> None:
        """Remove the finalizer from pods of an owner concurrently.

        Raises:
            StratoError: The first failure, after all pods were tried.
        """

        async def strip_one(pod: Pod) -> None:
            bare = await strip(self._cluster, pod, self._finalizers)
            if bare is not None and (bare.key in self._pods or bare.key in self._created.get(owner, ())):
                self._rewritten.note(bare)

        failures = await for_each(pods, strip_one, _CONCURRENT)
        if failures:
            raise failures[0]

    async def delete(self, owner: str, pods: Sequence[Pod]) -> None:
        """Delete pods of an owner concurrently.

        Raises:
            StratoError: The first failure, after all deletes were tried.
        """

        async def delete(pod: Pod) -> None:
            self._deleted.setdefault(owner, set()).add(pod.metadata.uid)
            try:
                await self._cluster.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
            except NotFound:
                return
            except BaseException:
                self._forget_deleted(owner, pod.metadata.uid)
                raise

        failures = await for_each([pod for pod in pods if not self.is_terminating(pod)], delete, _CONCURRENT)
        if failures:
            raise failures[0]


def _unmanaged(changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
    """Return the changes of existing pods that have no owner, or none that controls them."""
    return [
        change
        for change in changes
        if (pod := change.new) is not None
        and (not pod.metadata.owner_references or pod.metadata.controller is None)
        and not pod.is_finished
    ]


def pod_body(kind: Kind, owner: ObjectMeta, template: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return the body of a pod made from a template.

    Args:
        kind: The owner's kind.
        owner: The owner.
        template: The pod template as JSON; shared, not copied.
        metadata: Further members of ``metadata``; ``labels``, ``annotations`` and ``finalizers`` are added to the
            template's.
    """
    meta = template.get("metadata") or {}
    built: dict[str, Any] = {
        "namespace": owner.namespace,
        "labels": {**(meta.get("labels") or {}), **metadata.pop("labels", {})},
        "annotations": {**(meta.get("annotations") or {}), **metadata.pop("annotations", {})},
        "ownerReferences": [controller_reference(kind.api_version, kind.name, owner)],
    }
    if finalizers := [*(meta.get("finalizers") or ()), *metadata.pop("finalizers", ())]:
        built["finalizers"] = finalizers
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**built, **metadata},
        "spec": dict(template.get("spec") or {}),
    }


def deletion_order(pod: Pod) -> tuple[Any, ...]:
    """Return the sort key of surplus pods: unassigned ones first, then not running, not ready, and the youngest."""
    meta = pod.metadata
    created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0
    return (bool(pod.spec.node_name), _PHASE_ORDER.get(pod.status.phase, 1), pod.is_ready, -created, meta.name)


def available_count(pods: Sequence[Pod], min_ready_seconds: int, now: float) -> tuple[int, float | None]:
    """Return how many pods have been ready for ``min_ready_seconds``, and the seconds until the next one has been."""
    count, next_in = 0, None
    for pod in pods:
        condition = pod.status.condition("Ready")
        if condition is None or condition.status != "True":
            continue
        since = parse_time(condition.last_transition_time) if condition.last_transition_time else now
        left = since + min_ready_seconds - now
        if min_ready_seconds == 0 or left <= 0:
            count += 1
        else:
            next_in = left if next_in is None else min(next_in, left)
    return count, next_in
