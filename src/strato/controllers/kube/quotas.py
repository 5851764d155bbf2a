"""ResourceQuotas: what each namespace uses of its limits.

The controller counts pods from the watch, soon after they change, and other objects by listing them every half minute.
The server charges new objects to the quota at once (`strato.server.rest.quotas`); this controller takes deleted and
ended ones off again.

Source: v1 ResourceQuota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from strato.api.core import Pod, ResourceQuota
from strato.api.meta import Key
from strato.api.quantity import NANO, Quantity
from strato.api.quotas import counted_kind, counts_ones, object_usage, pods_usage
from strato.api.usage import same
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.reconcile import KeyedController
from strato.errors import Conflict, NotFound

DEBOUNCE_SECONDS: Final = 0.5
"""Delay before a pass, so that pods that change together cause one."""

RECOUNT_SECONDS: Final = 30.0
"""How often objects other than pods are counted."""

_ZERO: Final = Quantity(0)


class QuotaController(KeyedController):
    """See the module. Namespaces without quotas cost one look-up per pod event."""

    name: ClassVar[str] = "kube-resourcequota-controller"
    workers: ClassVar[int] = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._in_namespace: Counter[str] = Counter()
        self._quotas = context.informers.informer(ResourceQuota)
        self._pods = context.informers.informer(Pod)
        self._quotas.add_handler(self._on_quota)
        self._pods.add_handler(self._on_pod, among=lambda changes: changes if len(self._quotas) else ())

    def _on_quota(self, change: Change[ResourceQuota]) -> None:
        if change.old is None:
            self._in_namespace[change.key.namespace] += 1
        if change.new is None:
            self._in_namespace[change.key.namespace] -= 1
        elif change.old is None or change.old.spec != change.new.spec:
            self.queue.add(change.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        namespace = change.key.namespace
        if not self._in_namespace.get(namespace):
            return
        old, new = change.old, change.new
        if old is not None and new is not None and old.is_finished == new.is_finished and old.spec == new.spec:
            return
        for quota in self._quotas.list():
            if quota.metadata.namespace == namespace:
                self.queue.add_after(quota.key, DEBOUNCE_SECONDS)

    async def reconcile(self, key: Key) -> float | None:
        """Count what a quota's namespace uses, and write the quota's status."""
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
            # The server may have charged new objects since the quota was read: the resource version makes the write
            # fail then, so that it does not overwrite their charge.
            change = {"metadata": {"resourceVersion": quota.metadata.resource_version}, "status": status}
            try:
                await self._cluster.patch(ResourceQuota, key.name, key.namespace, change, subresource="status")
            except NotFound:
                return None
            except Conflict:
                return DEBOUNCE_SECONDS
        return RECOUNT_SECONDS

    async def _count(self, name: str, namespace: str) -> Quantity | None:
        """Return the use of a quota key by objects other than pods; None for keys that pods use."""
        kind = counted_kind(name)
        if kind is None:
            return None
        items = (await self._cluster.list(kind, namespace)).items
        if counts_ones(name):
            return Quantity(NANO * len(items))
        total = _ZERO
        for item in items:
            total = total + object_usage(kind, msgspec.to_builtins(item)).get(name, _ZERO)
        return total
