"""ResourceQuotas: what a namespace uses of what it may.

Pods are counted from the watch, soon after they change; other objects are counted by listing them, every half
minute. Nothing is refused here.

Source: v1 ResourceQuota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.core import PersistentVolumeClaim, Pod, ResourceQuota, Service
from strato.api.core.config import ResourceQuotaSpec, ScopeRequirement
from strato.api.kinds import Kind
from strato.api.meta import Key
from strato.api.pods import qos_class
from strato.api.quantity import NANO, Quantity, parse
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.clock import Clock
from strato.controllers.reconcile import KeyedController
from strato.controllers.usage import Usage, add, pod_usage, same
from strato.errors import NotFound

SETTLE_SECONDS: Final = 0.5
"""Pods change in crowds."""

RECOUNT_SECONDS: Final = 30.0
"""How often objects other than pods are counted."""

_PLAIN_COUNTS: Final = {
    "configmaps": catalog.CONFIGMAP,
    "persistentvolumeclaims": catalog.PERSISTENTVOLUMECLAIM,
    "replicationcontrollers": catalog.REPLICATIONCONTROLLER,
    "resourcequotas": catalog.RESOURCEQUOTA,
    "secrets": catalog.SECRET,
    "services": catalog.SERVICE,
}
_BY_RESOURCE: Final = {kind.resource: kind for kind in (*catalog.BUILTIN, *catalog.VOLCANO) if kind.namespaced}
_ZERO: Final = Quantity(0)


def counts_pod(spec: ResourceQuotaSpec, pod: Pod) -> bool:
    """Return whether a quota's scopes take a pod in. Pods that ended count for nothing."""
    if pod.is_finished:
        return False
    wanted = [ScopeRequirement(scope_name=name, operator="Exists") for name in spec.scopes]
    wanted += spec.scope_selector.match_expressions if spec.scope_selector is not None else ()
    return all(_in_scope(requirement, pod) for requirement in wanted)


def _in_scope(requirement: ScopeRequirement, pod: Pod) -> bool:
    name = requirement.scope_name
    if name in ("Terminating", "NotTerminating"):
        return (pod.spec.active_deadline_seconds is not None) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (qos_class(pod.spec) == "BestEffort") == (name == "BestEffort")
    if name == "PriorityClass":
        value = pod.spec.priority_class_name
        holds = {
            "In": value in requirement.values,
            "NotIn": value not in requirement.values,
            "Exists": bool(value),
            "DoesNotExist": not value,
        }
        return holds.get(requirement.operator, False)
    return False


def pods_usage(spec: ResourceQuotaSpec, pods: Iterable[Pod]) -> Usage:
    """Return what the pods that count use together."""
    total: Usage = {}
    for pod in pods:
        if counts_pod(spec, pod):
            add(total, pod_usage(pod.spec))
    return total


def counted_kind(name: str) -> Kind | None:
    """Return the kind whose objects a quota's key counts (``services``, ``count/jobs.batch``), None for others."""
    if name.startswith("count/"):
        return _BY_RESOURCE.get(name.removeprefix("count/"))
    return _PLAIN_COUNTS.get(name)


class QuotaController(KeyedController):
    """See the module. Namespaces without quotas cost one look-up per pod event."""

    name: ClassVar[str] = "kube-resourcequota-controller"
    workers: ClassVar[int] = 2

    def __init__(self, cluster: Cluster, informers: Informers, clock: Clock) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._in_namespace: Counter[str] = Counter()
        self._quotas = informers.informer(ResourceQuota)
        self._pods = informers.informer(Pod)
        self._quotas.add_handler(self._on_quota)
        self._pods.add_handler(self._on_pod)

    def _on_quota(self, change: Change[ResourceQuota]) -> None:
        if change.old is None:
            self._in_namespace[change.key.namespace] += 1
        if change.new is None:
            self._in_namespace[change.key.namespace] -= 1
        elif change.old is None or change.old.spec != change.new.spec:
            self.queue.add(change.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        if not len(self._quotas):
            return
        namespace = change.key.namespace
        if not self._in_namespace.get(namespace):
            return
        old, new = change.old, change.new
        if old is not None and new is not None and old.is_finished == new.is_finished and old.spec == new.spec:
            return
        for quota in self._quotas.list():
            if quota.metadata.namespace == namespace:
                self.queue.add_after(quota.key, SETTLE_SECONDS)

    async def reconcile(self, key: Key) -> float | None:
        """Count and write."""
        quota = self._quotas.get(key)
        if quota is None or quota.metadata.deletion_timestamp is not None:
            return None
        usage = pods_usage(quota.spec, (pod for pod in self._pods.list() if pod.metadata.namespace == key.namespace))
        used: dict[str, str] = {}
        for name in quota.spec.hard:
            counted = await self._count(name, key.namespace)
            used[name] = str(counted if counted is not None else usage.get(name, _ZERO))
        hard = quota.spec.hard
        if not same(quota.status.used, used) or not same(quota.status.hard, hard):
            status: Mapping[str, Any] = {
                "hard": {**dict.fromkeys(quota.status.hard), **hard},
                "used": {**dict.fromkeys(quota.status.used), **used},
            }
            try:
                await self._cluster.patch(
                    ResourceQuota, key.name, key.namespace, {"status": status}, subresource="status"
                )
            except NotFound:
                return None
        return RECOUNT_SECONDS

    async def _count(self, name: str, namespace: str) -> Quantity | None:
        """Return the number of objects a key counts; None for keys that are about pods."""
        if name in ("pods", "count/pods"):
            return None
        if name == "requests.storage":
            claims = (await self._cluster.list(PersistentVolumeClaim, namespace)).items
            total = _ZERO
            for claim in claims:
                total = total + parse(claim.spec.resources.requests.get("storage", 0))
            return total
        if name in ("services.loadbalancers", "services.nodeports"):
            kinds = ("LoadBalancer",) if name.endswith("loadbalancers") else ("LoadBalancer", "NodePort")
            services = (await self._cluster.list(Service, namespace)).items
            return Quantity(NANO * sum(service.spec.type in kinds for service in services))
        kind = counted_kind(name)
        if kind is None:
            return None
        return Quantity(NANO * len((await self._cluster.list(kind, namespace)).items))
