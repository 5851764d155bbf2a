"""Namespaces: what each one holds from the start, and how one is emptied when it is deleted.

A namespace being deleted loses the contents of every namespaced resource the API serves (discovered, so custom
resources are among them); when nothing is left its finalizer goes, and with it the namespace.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.core import ConfigMap, Namespace, ServiceAccount
from strato.api.meta import Key
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.clock import Clock
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, ApiError, Conflict, MethodNotAllowed, NotFound

FINALIZER: Final = "kubernetes"
ROOT_CA: Final = "kube-root-ca.crt"

_RETRY_SECONDS: Final = 0.5
"""How soon a namespace is looked at again whose pods still end."""


class NamespaceController(KeyedController):
    """Empties namespaces that are being deleted."""

    name: ClassVar[str] = "kube-namespace-controller"
    workers: ClassVar[int] = 8

    def __init__(self, cluster: Cluster, informers: Informers, clock: Clock) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._namespaces = informers.informer(Namespace)
        self._namespaces.add_handler(self._on_namespace)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        if change.new is not None and change.new.metadata.deletion_timestamp is not None:
            self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """Delete what is in the namespace; drop the finalizer when nothing is."""
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        if await self._empty(key.name):
            return await self._finalize(namespace)
        return _RETRY_SECONDS

    async def _empty(self, namespace: str) -> bool:
        """Delete everything in a namespace; returns whether nothing is left."""
        empty = True
        for path in await self._collections(namespace):
            try:
                listing = json.loads(await self._cluster.raw("GET", path, query={"limit": "1"}))
                if not listing.get("items"):
                    continue
                empty = False
                await self._cluster.raw("DELETE", path)
            except (NotFound, MethodNotAllowed):
                continue
        return empty

    async def _collections(self, namespace: str) -> list[str]:
        """Return the URL paths of all collections of a namespace that can be deleted."""
        paths = []
        for prefix in await self._group_versions():
            try:
                resources = json.loads(await self._cluster.raw("GET", prefix)).get("resources") or ()
            except ApiError:
                continue  # a group that cannot be read now is tried again in the next round
            for resource in resources:
                verbs = resource.get("verbs") or ()
                if resource.get("namespaced") and "/" not in resource["name"] and "deletecollection" in verbs:
                    paths.append(f"{prefix}/namespaces/{namespace}/{resource['name']}")
        return paths

    async def _group_versions(self) -> list[str]:
        prefixes = ["/api/v1"]
        groups = json.loads(await self._cluster.raw("GET", "/apis")).get("groups") or ()
        for group in groups:
            preferred = group.get("preferredVersion") or (group.get("versions") or [{}])[0]
            if version := preferred.get("groupVersion"):
                prefixes.append(f"/apis/{version}")
        return prefixes

    async def _finalize(self, namespace: Namespace) -> float | None:
        name = namespace.metadata.name
        try:
            whole = await self._cluster.get(catalog.NAMESPACE, name)
            kept = [f for f in whole.get("spec", {}).get("finalizers") or () if f != FINALIZER]
            whole["spec"] = {**whole.get("spec", {}), "finalizers": kept}
            await self._cluster.replace(catalog.NAMESPACE, whole, subresource="finalize")
        except NotFound:
            return None
        except Conflict:
            return 0.0
        return None


class ServiceAccountController(KeyedController):
    """Keeps a ``default`` service account in every namespace."""

    name: ClassVar[str] = "kube-serviceaccount-controller"

    def __init__(self, cluster: Cluster, informers: Informers, clock: Clock) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._namespaces = informers.informer(Namespace)
        self._accounts = informers.informer(ServiceAccount)
        self._namespaces.add_handler(self._on_namespace)
        self._accounts.add_handler(self._on_account)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        if change.new is not None and change.old is None:
            self.queue.add(change.key)

    def _on_account(self, change: Change[ServiceAccount]) -> None:
        if change.new is None and change.key.name == "default":
            self.queue.add(Key("", change.key.namespace))

    async def reconcile(self, key: Key) -> float | None:
        """Create the account when it is missing."""
        if not _is_alive(self._namespaces.get(key)) or Key(key.name, "default") in self._accounts:
            return None
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": key.name}}
        await _create(self._cluster, ServiceAccount, body, key.name)
        return None


class RootCertificateController(KeyedController):
    """Publishes the API server's certificate authority to every namespace, as the ConfigMap pods mount.

    The certificate is taken from the ConfigMap of that name in ``kube-system``, which whoever starts the server
    writes; without one there is nothing to publish.
    """

    name: ClassVar[str] = "kube-root-ca-controller"

    def __init__(self, cluster: Cluster, informers: Informers, clock: Clock) -> None:
        super().__init__(clock)
        self._cluster = cluster
        self._namespaces = informers.informer(Namespace)
        self._maps = informers.informer(ConfigMap)
        self._namespaces.add_handler(self._on_namespace)
        self._maps.add_handler(self._on_map)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        if change.new is not None and change.old is None:
            self.queue.add(change.key)

    def _on_map(self, change: Change[ConfigMap]) -> None:
        if change.key.name != ROOT_CA:
            return
        if change.key.namespace != "kube-system":
            self.queue.add(Key("", change.key.namespace))
            return
        for namespace in self._namespaces.list():
            self.queue.add(namespace.key)

    async def reconcile(self, key: Key) -> float | None:
        """Bring the copy of one namespace up to date."""
        source = self._maps.get(Key("kube-system", ROOT_CA))
        if source is None or key.name == "kube-system" or not _is_alive(self._namespaces.get(key)):
            return None
        data = dict(source.data)
        copy = self._maps.get(Key(key.name, ROOT_CA))
        if copy is None:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "namespace": key.name},
                "data": data,
            }
            await _create(self._cluster, ConfigMap, body, key.name)
        elif dict(copy.data) != data:
            change = {**dict.fromkeys(copy.data), **data}
            await self._cluster.patch(ConfigMap, ROOT_CA, key.name, {"data": change})
        return None


def _is_alive(namespace: Namespace | None) -> bool:
    return namespace is not None and namespace.metadata.deletion_timestamp is None


async def _create(
    cluster: Cluster, view: type[ServiceAccount | ConfigMap], body: dict[str, Any], namespace: str
) -> None:
    """Create an object of a namespace that may just be going away."""
    try:
        await cluster.create(catalog.kind_of(view), body, namespace)
    except (AlreadyExists, NotFound):
        return
