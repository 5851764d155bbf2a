"""PodDisruptionBudgets: how many of their pods may be evicted now.

Source: policy/v1 PodDisruptionBudget.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from strato.api.apps import ReplicaSet, StatefulSet
from strato.api.core import Pod, ReplicationController
from strato.api.meta import Key
from strato.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from strato.api.selectors import from_label_selector
from strato.client.informer import Change
from strato.clock import format_time, parse_time
from strato.controllers.context import ControllerContext
from strato.controllers.reconcile import KeyedController

DEBOUNCE_SECONDS: Final = 0.2
"""Delay before a pass, so that pods that change together cause one; a pass reads all pods of the namespace."""

DISRUPTED_SECONDS: Final = 120.0
"""How long a pod counts as disrupted after an eviction was granted, while the watch does not show its deletion."""


def desired_healthy(spec: PodDisruptionBudgetSpec, expected: int) -> int:
    """Return how many of the expected pods must stay healthy; fractions are rounded up."""
    if spec.max_unavailable is not None:
        return max(0, expected - _resolve(spec.max_unavailable, expected))
    if spec.min_available is not None:
        return _resolve(spec.min_available, expected)
    return 0


def _resolve(value: int | str, whole: int) -> int:
    if isinstance(value, int):
        return value
    return math.ceil(whole * int(value.rstrip("%") or 0) / 100)


class DisruptionController(KeyedController):
    """See the module. Namespaces without budgets cost one look-up per pod event."""

    name: ClassVar[str] = "kube-disruption-controller"
    workers: ClassVar[int] = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._in_namespace: Counter[str] = Counter()
        self._budgets = context.informers.informer(PodDisruptionBudget)
        self._pods = context.informers.informer(Pod)
        self._replica_sets = context.informers.informer(ReplicaSet)
        self._replication_controllers = context.informers.informer(ReplicationController)
        self._stateful_sets = context.informers.informer(StatefulSet)
        self._budgets.add_handler(self._on_budget)
        self._pods.add_handler(self._on_pod, among=lambda changes: changes if len(self._budgets) else ())

    def _on_budget(self, change: Change[PodDisruptionBudget]) -> None:
        if change.old is None:
            self._in_namespace[change.key.namespace] += 1
        if change.new is None:
            self._in_namespace[change.key.namespace] -= 1
        else:
            self.queue.add(change.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        namespace = change.key.namespace
        if not self._in_namespace.get(namespace):
            return
        for budget in self._budgets.list():
            if budget.metadata.namespace == namespace and any(
                pod is not None and from_label_selector(budget.spec.selector).matches(pod.metadata.labels)
                for pod in (change.old, change.new)
            ):
                self.queue.add_after(budget.key, DEBOUNCE_SECONDS)

    async def reconcile(self, key: Key) -> float | None:
        """Count the pods of one budget and write its status."""
        budget = self._budgets.get(key)
        if budget is None or budget.metadata.deletion_timestamp is not None:
            return None
        selector = from_label_selector(budget.spec.selector)
        pods = [
            pod
            for pod in self._pods.list()
            if pod.metadata.namespace == key.namespace and not pod.is_finished and selector.matches(pod.metadata.labels)
        ]
        now = self.clock.now()
        disrupted = self._still_disrupted(budget, pods, now)
        healthy = sum(
            pod.is_ready and pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted
            for pod in pods
        )
        expected = self._expected(budget.spec, pods)
        desired = desired_healthy(budget.spec, expected)
        allowed = max(0, healthy - desired) if expected else 0
        await self._write(budget, healthy, desired, expected, allowed, disrupted)
        return DISRUPTED_SECONDS if disrupted else None

    def _expected(self, spec: PodDisruptionBudgetSpec, pods: Sequence[Pod]) -> int:
        """Return how many pods there should be: the replicas of their workloads, if the budget is relative to these."""
        if isinstance(spec.min_available, int):
            return len(pods)
        total, seen = 0, set()
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None:
                total += 1
                continue
            if owner.uid in seen:
                continue
            key = (pod.metadata.namespace, owner.name)
            found: ReplicaSet | ReplicationController | StatefulSet | None = None
            if owner.kind == "ReplicaSet":
                found = self._replica_sets.get(key)
            elif owner.kind == "ReplicationController":
                found = self._replication_controllers.get(key)
            elif owner.kind == "StatefulSet":
                found = self._stateful_sets.get(key)
            if found is None or found.metadata.uid != owner.uid:
                total += 1
                continue
            seen.add(owner.uid)
            total += found.spec.replicas
        return total

    def _still_disrupted(self, budget: PodDisruptionBudget, pods: Sequence[Pod], now: float) -> dict[str, str]:
        alive = {pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None}
        return {
            name: since
            for name, since in budget.status.disrupted_pods.items()
            if name in alive and now - parse_time(since) < DISRUPTED_SECONDS
        }

    async def _write(
        self,
        budget: PodDisruptionBudget,
        healthy: int,
        desired: int,
        expected: int,
        allowed: int,
        disrupted: Mapping[str, str],
    ) -> None:
        meta, old = budget.metadata, budget.status
        value, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        known = next((c for c in old.conditions if c.type == "DisruptionAllowed"), None)
        changed = known is None or known.status != value
        condition: dict[str, Any] = {
            "type": "DisruptionAllowed",
            "status": value,
            "reason": reason,
            "message": "",
            "observedGeneration": meta.generation,
            "lastTransitionTime": format_time(self.clock.now())
            if changed or known is None
            else known.last_transition_time,
        }
        status: dict[str, Any] = {
            "observedGeneration": meta.generation,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
        }
        before = msgspec.to_builtins(old)
        same = all((before.get(name) or 0) == value for name, value in status.items())
        if same and not changed and dict(old.disrupted_pods) == dict(disrupted):
            return
        gone = dict.fromkeys(name for name in old.disrupted_pods if name not in disrupted)
        status |= {"disruptedPods": {**disrupted, **gone} or None, "conditions": [condition]}
        await self.write_status(PodDisruptionBudget, meta.key, status)
