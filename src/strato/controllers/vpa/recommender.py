"""Once a minute: read what pods use, recommend requests, and resize running pods whose autoscaler allows it.

The controller serves only autoscalers whose ``spec.recommenders`` names one of its names. It writes a container's
histograms to a checkpoint every ten minutes, and reads the checkpoints when it starts.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Final

import msgspec

from strato.advice.estimators import Rules, estimate_pod
from strato.advice.histogram import InvalidCheckpoint
from strato.advice.use import Aggregation, ContainerUse, UseHistograms
from strato.api import catalog
from strato.api.apps import ReplicaSet
from strato.api.core import Pod
from strato.api.meta import Key, OwnerReference
from strato.api.metrics import PodMetrics, amounts
from strato.api.quantity import InvalidQuantity, value
from strato.api.verticalautoscaling import (
    VerticalPodAutoscaler,
    VerticalPodAutoscalerCheckpoint,
    VerticalPodAutoscalerStatus,
)
from strato.client.cluster import PatchType
from strato.clock import parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.vpa import checkpoints, recommendations
from strato.controllers.vpa.targets import PodsByTarget
from strato.errors import AlreadyExists, ApiError, NotFound

PERIOD_SECONDS: Final = 60.0
_SAVE_SECONDS: Final = 600.0
_SLICE: Final = 2000
"""Pods handled between two yields to the event loop."""
_log = logging.getLogger(__name__)

_Container = tuple[Key, str]
"""An autoscaler and a container."""


class VerticalAutoscalerController:
    """See the module."""

    name: ClassVar[str] = "vpa-recommender"

    def __init__(self, context: ControllerContext) -> None:
        self._cluster, self._clock, self._recorder = context.cluster, context.clock, context.recorder
        self._names = frozenset(context.settings.recommender_names)
        self._autoscalers = context.informers.informer(VerticalPodAutoscaler)
        self._pods = context.informers.informer(Pod)
        self._sets = context.informers.informer(ReplicaSet)
        self._uses: defaultdict[Key, dict[str, UseHistograms]] = defaultdict(dict)
        """Histograms by autoscaler and container."""
        self._containers: dict[tuple[_Container, str], ContainerUse] = {}
        """Use of each pod's container, by autoscaler, container and uid of the pod."""
        self._ooms: set[tuple[str, str, int]] = set()
        self._options = Aggregation()
        self._is_unmeasured = False
        self._saved_at = context.clock.monotonic()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._load()
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            with suppress(ApiError):  # checkpoints are written again in ten minutes
                await self._round()

    def _ours(self) -> list[VerticalPodAutoscaler]:
        return [one for one in self._autoscalers.list() if self._is_ours(one)]

    def _is_ours(self, autoscaler: VerticalPodAutoscaler) -> bool:
        named = {one.name for one in autoscaler.spec.recommenders} or {"default"}
        return bool(named & self._names)

    async def _load(self) -> None:
        try:
            saved = (await self._cluster.list(VerticalPodAutoscalerCheckpoint)).items
        except ApiError as error:
            _log.warning("checkpoints of vertical autoscalers cannot be read: %s", error)
            return
        for one in saved:
            autoscaler = self._autoscalers.get(Key(one.metadata.namespace, one.spec.vpa_object_name))
            if autoscaler is None or not self._is_ours(autoscaler):
                continue
            try:
                self._uses[autoscaler.key][one.spec.container_name] = checkpoints.use_of(one.status)
            except (InvalidCheckpoint, ValueError) as error:
                _log.warning("checkpoint cannot be used: name=%s error=%s", one.key, error)

    async def _round(self) -> None:
        ours = self._ours()
        if not ours:
            self._forget(set(), set(), self._clock.now())
            return
        measured = await self._measured()
        now = self._clock.now()
        by_target = PodsByTarget(self._manager)
        every = self._pods.list()
        for start in range(0, len(every), _SLICE):
            by_target.add(every[start : start + _SLICE])
            await self._clock.sleep(0)
        live: set[str] = set()
        for autoscaler in ours:
            pods = by_target.of(autoscaler.spec.target_ref, autoscaler.metadata.namespace)
            for pod in pods:
                live.add(pod.metadata.uid)
                self._take(autoscaler.key, pod, measured.get(pod.key), now)
            try:
                await self._recommend(autoscaler, pods, now)
            except NotFound:
                pass  # it was deleted
            except ApiError as error:
                _log.warning("a recommendation is not written, and tried again: vpa=%s error=%s", autoscaler.key, error)
        self._forget({one.key for one in ours}, live, now)
        if self._clock.monotonic() - self._saved_at >= _SAVE_SECONDS:
            self._saved_at = self._clock.monotonic()
            await self._save(ours, now)

    async def _measured(self) -> dict[Key, PodMetrics]:
        """Return the metrics of pods; empty if no metrics are served: then the previous recommendations stay."""
        try:
            found = {one.key: one for one in (await self._cluster.list(PodMetrics)).items}
        except ApiError as error:
            if not self._is_unmeasured:
                _log.warning("what pods use is not known, nothing new is recommended: metrics.k8s.io error=%s", error)
            self._is_unmeasured = True
            return {}
        self._is_unmeasured = False
        return found

    def _manager(self, key: Key) -> OwnerReference | None:
        owner = self._sets.get(key)
        return owner.metadata.controller if owner is not None else None

    def _take(self, autoscaler: Key, pod: Pod, metrics: PodMetrics | None, now: float) -> None:
        """Add the samples of a pod, and the memory at which its containers were OOM-killed."""
        for measured in metrics.containers if metrics is not None else ():
            used = amounts(measured.usage)
            if used is None:
                continue
            cores, used_bytes = used
            use, state = self._state(autoscaler, pod, measured.name)
            if state.add_cpu(now, cores):
                use.count_sample(now)
            state.add_memory(now, used_bytes)
        requests = {container.name: container.resources.requests for container in pod.spec.containers}
        for status in pod.status.container_statuses:
            ended = status.last_state.terminated
            event = (pod.metadata.uid, status.name, status.restart_count)
            if ended is None or ended.reason != "OOMKilled" or event in self._ooms:
                continue
            self._ooms.add(event)
            try:
                at = parse_time(ended.finished_at) if ended.finished_at else now
                requested = value(requests.get(status.name, {}).get("memory", 0))
            except (ValueError, InvalidQuantity):
                continue
            _, state = self._state(autoscaler, pod, status.name)
            state.add_oom(at, requested)

    def _state(self, autoscaler: Key, pod: Pod, container: str) -> tuple[UseHistograms, ContainerUse]:
        uses = self._uses[autoscaler]
        use = uses.get(container)
        if use is None:
            use = uses[container] = UseHistograms(self._options)
        key = ((autoscaler, container), pod.metadata.uid)
        state = self._containers.get(key)
        if state is None:
            state = self._containers[key] = ContainerUse(cpu=use.cpu, memory=use.memory, options=self._options)
        return use, state

    async def _recommend(self, autoscaler: VerticalPodAutoscaler, pods: Sequence[Pod], now: float) -> None:
        uses = {name: use for name, use in self._uses[autoscaler.key].items() if use.samples}
        found = recommendations.recommend(autoscaler, estimate_pod(uses, Rules()))
        status = recommendations.status_of(autoscaler, found, has_pods=bool(pods), now=now)
        before, wanted = autoscaler.status, msgspec.convert(status, VerticalPodAutoscalerStatus)
        if msgspec.structs.replace(wanted, recommendation=wanted.recommendation or before.recommendation) != before:
            meta = autoscaler.metadata
            autoscaler = await self._cluster.patch(
                VerticalPodAutoscaler, meta.name, meta.namespace, {"status": status}, subresource="status"
            )
        if autoscaler.spec.update_policy.update_mode in recommendations.IN_PLACE:
            await self._resize(autoscaler, pods)

    async def _resize(self, autoscaler: VerticalPodAutoscaler, pods: Sequence[Pod]) -> None:
        advice = autoscaler.status.recommendation
        for pod in pods:
            if advice is None or pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
                continue
            body = recommendations.resize_of(pod, autoscaler, advice.container_recommendations)
            if body is None:
                continue
            try:
                await self._cluster.patch(
                    catalog.POD,
                    pod.metadata.name,
                    pod.metadata.namespace,
                    body,
                    subresource="resize",
                    patch_type=PatchType.STRATEGIC,
                )
                self._recorder.event(pod, "Normal", "ResizedInPlace", f"Requests as {autoscaler.key} recommends")
            except ApiError as error:
                self._recorder.event(pod, "Warning", "ResizeRefused", f"Cannot be resized in place: {error}")

    def _forget(self, known: set[Key], live: set[str], now: float) -> None:
        """Forget deleted autoscalers and pods, and histograms without samples for eight days."""
        kept = self._options.kept_seconds
        for autoscaler in self._uses.keys() - known:
            del self._uses[autoscaler]
        for uses in self._uses.values():
            for name in [name for name, use in uses.items() if use.samples and now - use.last_sample >= kept]:
                del uses[name]
        self._containers = {
            ((autoscaler, name), uid): state
            for ((autoscaler, name), uid), state in self._containers.items()
            if uid in live and name in self._uses.get(autoscaler, ())
        }
        self._ooms = {event for event in self._ooms if event[0] in live}

    async def _save(self, ours: Sequence[VerticalPodAutoscaler], now: float) -> None:
        by_key = {one.key: one for one in ours}
        for key, container, use in [(key, name, use) for key, uses in self._uses.items() for name, use in uses.items()]:
            if not use.samples:
                continue
            body = checkpoints.body_of(by_key[key], container, use, now)
            kind = catalog.VERTICALPODAUTOSCALERCHECKPOINT
            try:
                await self._cluster.create(kind, body, key.namespace)
            except AlreadyExists:
                changes = {"spec": body["spec"], "status": body["status"]}
                await self._cluster.patch(kind, body["metadata"]["name"], key.namespace, changes)
