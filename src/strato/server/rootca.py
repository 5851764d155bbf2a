"""The ConfigMap ``kube-root-ca.crt`` in every namespace, whose CA pods use to verify the API server."""

from __future__ import annotations

from strato.api import catalog
from strato.server.rest.state import State
from strato.server.seed import ensure
from strato.server.snapshot import Change

NAME = "kube-root-ca.crt"


class RootCertificates:
    """Creates the ConfigMap in every namespace, and restores it when it is changed or deleted."""

    def __init__(self, state: State, certificate: str) -> None:
        self._state, self._certificate = state, certificate
        for namespace in state.bucket(catalog.NAMESPACE).keys():  # noqa: SIM118 - in order, and not a dictionary
            self._publish(namespace)
        state.store.on_publish(catalog.NAMESPACE.resource, self._namespace_changed)
        state.store.on_publish(catalog.CONFIGMAP.resource, self._config_map_changed)

    def _namespace_changed(self, resource: str, event: Change) -> None:
        del resource
        if event.previous is None:
            self._publish(event.key)

    def _config_map_changed(self, resource: str, event: Change) -> None:
        del resource
        if event.previous is not None and event.key.endswith(f"/{NAME}"):
            self._publish(event.key.partition("/")[0])

    def _publish(self, namespace: str) -> None:
        found = self._state.latest(catalog.NAMESPACE, "", namespace)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        metadata = {"name": NAME, "namespace": namespace}
        manifest = {"metadata": metadata, "data": {"ca.crt": self._certificate}}
        ensure(self._state, catalog.CONFIGMAP, manifest, renew=True)
