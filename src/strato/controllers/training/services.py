"""The services of training jobs: those in the cache, and created ones that the watch has not shown yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from strato.api import catalog
from strato.api.core import Service
from strato.api.kinds import Kind
from strato.api.meta import Key, ObjectMeta
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informers
from strato.controllers.job.pods import revision_of
from strato.controllers.ownedcreates import create_owned
from strato.controllers.parallel import for_each
from strato.errors import NotFound

_CONCURRENT: Final = 32


class OwnedServices:
    """See the module.

    Args:
        cluster: Creates and deletes services.
        informers: Provide the cache of services.
        kind: The kind of the owners.
        on_change: Called with the key of the owner when one of its services was deleted.
    """

    def __init__(self, cluster: Cluster, informers: Informers, kind: Kind, on_change: Callable[[Key], None]) -> None:
        self._cluster = cluster
        self._on_change = on_change
        self._services = informers.informer(Service)
        self._owned: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """Keys of the services that the watch has shown, by uid of the owner."""
        self._made: defaultdict[str, dict[Key, Service]] = defaultdict(dict)
        """Services that we have created and the watch has not shown yet, by uid of the owner."""
        self._services.add_owned_handler(kind, self._on_service)

    def _on_service(self, change: Change[Service]) -> None:
        service = change.object
        owner = service.metadata.controller
        assert owner is not None, "handlers get owned services only"
        if change.new is not None:
            self._owned[owner.uid][service.key] = None
            return
        self._owned[owner.uid].pop(service.key, None)
        self._made[owner.uid].pop(service.key, None)
        self._on_change(Key(service.metadata.namespace, owner.name))

    def forget(self, owner: str) -> None:
        """Forget the services of a deleted owner."""
        self._owned.pop(owner, None)
        self._made.pop(owner, None)

    def all_of(self, owner: str) -> Sequence[Service]:
        """Return an owner's services."""
        shown = {key: found for key in self._owned.get(owner, ()) if (found := self._services.get(key)) is not None}
        seen = revision_of(self._services.resource_version)
        made = self._made.get(owner) or {}
        for key in [key for key, one in made.items() if seen >= revision_of(one.metadata.resource_version)]:
            del made[key]
        return list({**made, **shown}.values())

    async def create(self, owner: ObjectMeta, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Create services of an owner; a service of the owner that exists already counts as created.

        Raises:
            StratoError: The first failure, after all creates were tried.
        """
        there, failures = await create_owned(self._cluster, Service, owner, bodies)
        for service in there:
            self._made[owner.uid][service.key] = service
        if failures:
            raise failures[0]

    async def delete(self, owner: str, services: Sequence[Service]) -> None:
        """Delete services of an owner; those that do not exist any more are ignored.

        Raises:
            StratoError: The first failure, after all deletes were tried.
        """

        async def delete(service: Service) -> None:
            meta = service.metadata
            try:
                await self._cluster.delete(catalog.SERVICE, meta.name, meta.namespace, uid=meta.uid)
            except NotFound:
                return

        failures = await for_each(services, delete, _CONCURRENT)
        self._made.pop(owner, None)
        if failures:
            raise failures[0]
