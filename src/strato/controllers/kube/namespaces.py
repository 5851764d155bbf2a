"""Namespaces: create what each one contains from the start, and empty those that are being deleted.

The controller deletes all objects of a terminating namespace, of every namespaced resource that discovery shows, custom
resources included. When it is certain that the namespace is empty, it removes the finalizer, which deletes the
namespace.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, ClassVar, Final

from strato.api import catalog
from strato.api.core import ConfigMap, Namespace, ServiceAccount
from strato.api.meta import Key
from strato.client.cluster import Cluster, PatchType
from strato.client.informer import Change
from strato.clock import format_time
from strato.controllers.context import ControllerContext
from strato.controllers.kube.namespacecontents import Contents, conditions
from strato.controllers.reconcile import KeyedController
from strato.errors import AlreadyExists, ApiError, Conflict, MethodNotAllowed, NotFound

FINALIZER: Final = "kubernetes"
ROOT_CA: Final = "kube-root-ca.crt"

_FIRST_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 15.0
"""Longest delay before a namespace that is not empty yet is checked again; the delay doubles each time."""
_PAGE: Final = "500"


class NamespaceController(KeyedController):
    """Empties terminating namespaces, pods first, then everything else; reports in conditions what remains."""

    name: ClassVar[str] = "kube-namespace-controller"
    workers: ClassVar[int] = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._rounds: dict[Key, int] = {}
        """How often each terminating namespace was found not to be empty."""
        self._namespaces = context.informers.informer(Namespace)
        self._namespaces.add_handler(self._on_namespace)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        old, new = change
        if new is None:
            self._rounds.pop(change.key, None)
        elif new.metadata.deletion_timestamp is not None and (old is None or not _is_terminating(old)):
            self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """Delete what the namespace contains; remove its finalizer once it is empty."""
        namespace = self._namespaces.get(key)
        if namespace is None or not _is_terminating(namespace) or FINALIZER not in namespace.spec.finalizers:
            return None
        contents = Contents()
        collections = await self._collections(key.name, contents)
        pods = f"/api/v1/namespaces/{key.name}/pods"
        # pods first: the objects that pods use, such as claims and policies, must outlive them
        await self._empty(pods, collections.pop(pods, "pods."), contents)
        if not contents.remaining and not contents.failures:
            for path, resource in collections.items():
                await self._empty(path, resource, contents)
        if contents.is_empty:
            return await self._finalize(namespace)
        await self._explain(namespace, contents)
        rounds = self._rounds.get(key, 0)
        self._rounds[key] = rounds + 1
        return min(_FIRST_RETRY_SECONDS * 2.0 ** min(rounds, 16), _LONGEST_RETRY_SECONDS)

    async def _empty(self, path: str, resource: str, contents: Contents) -> None:
        """Delete all objects of a collection and record in ``contents`` what remains."""
        try:
            if not await self._look(path, resource, None):
                return
            await self._cluster.raw("DELETE", path)
            await self._look(path, resource, contents)
        except (NotFound, MethodNotAllowed):
            return
        except ApiError as error:  # a failure of one resource must not keep the others from being deleted
            contents.failures[resource] = str(error)

    async def _look(self, path: str, resource: str, contents: Contents | None) -> bool:
        """Return whether a collection has objects; records their number and finalizers in ``contents``, if given."""
        query = {"limit": "1" if contents is None else _PAGE}
        listing = json.loads(await self._cluster.raw("GET", path, query=query))
        items = listing.get("items") or ()
        if items and contents is not None:
            contents.remaining[resource] = len(items) + (listing.get("metadata", {}).get("remainingItemCount") or 0)
            for item in items:
                contents.finalizers.update(item.get("metadata", {}).get("finalizers") or ())
        return bool(items)

    async def _collections(self, namespace: str, contents: Contents) -> dict[str, str]:
        """Return all collections of a namespace that can be deleted: URL path → resource and group."""
        paths = {}
        for prefix in await self._group_versions():
            try:
                resources = json.loads(await self._cluster.raw("GET", prefix)).get("resources") or ()
            except NotFound:
                continue  # the group's last definition was deleted after the groups were listed
            except ApiError as error:
                contents.undiscovered[prefix.removeprefix("/apis/").removeprefix("/api/")] = str(error)
                continue
            group = prefix.split("/")[2] if prefix.startswith("/apis/") else ""
            for resource in resources:
                verbs = resource.get("verbs") or ()
                if resource.get("namespaced") and "/" not in resource["name"] and "deletecollection" in verbs:
                    name = resource["name"]
                    paths[f"{prefix}/namespaces/{namespace}/{name}"] = f"{name}.{group}"
        return paths

    async def _group_versions(self) -> list[str]:
        prefixes = ["/api/v1"]
        groups = json.loads(await self._cluster.raw("GET", "/apis")).get("groups") or ()
        for group in groups:
            preferred = group.get("preferredVersion") or (group.get("versions") or [{}])[0]
            if version := preferred.get("groupVersion"):
                prefixes.append(f"/apis/{version}")
        return prefixes

    async def _explain(self, namespace: Namespace, contents: Contents) -> None:
        """Write the conditions if they have changed."""
        known = {c.type: (c.status, c.last_transition_time or "") for c in namespace.status.conditions}
        wanted = conditions(contents, known, format_time(self.clock.now()))
        before = {c.type: (c.status, c.reason, c.message) for c in namespace.status.conditions}
        if before == {c["type"]: (c["status"], c["reason"], c["message"]) for c in wanted}:
            return
        body = {"status": {"conditions": wanted}}
        with suppress(NotFound):
            await self._cluster.patch(
                Namespace, namespace.metadata.name, "", body, patch_type=PatchType.STRATEGIC, subresource="status"
            )

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

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = context.informers.informer(Namespace)
        self._accounts = context.informers.informer(ServiceAccount)
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

    It copies the ConfigMap of that name in ``kube-system``, which the command that starts the server writes; without
    that ConfigMap it publishes nothing.
    """

    name: ClassVar[str] = "kube-root-ca-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = context.informers.informer(Namespace)
        self._maps = context.informers.informer(ConfigMap)
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


def _is_terminating(namespace: Namespace) -> bool:
    return namespace.metadata.deletion_timestamp is not None


def _is_alive(namespace: Namespace | None) -> bool:
    return namespace is not None and not _is_terminating(namespace)


async def _create(
    cluster: Cluster, view: type[ServiceAccount | ConfigMap], body: dict[str, Any], namespace: str
) -> None:
    """Create an object in a namespace; does nothing if the object exists or the namespace has just been deleted."""
    with suppress(AlreadyExists, NotFound):
        await cluster.create(catalog.kind_of(view), body, namespace)
