"""Store frameworks and operators' settings in ConfigMaps."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.core import ConfigMap
from strato.api.meta import Json
from strato.api.names import is_label
from strato.client.cluster import Cluster
from strato.errors import AlreadyExists, ApiError, NotFound
from strato.interop.mesos.cluster.pods import FRAMEWORK, MASTER
from strato.interop.mesos.master import records
from strato.interop.mesos.master.state import MasterState
from strato.interop.mesos.resourcejson import to_json

REGISTRY = ""
"""Key of the registry, beside framework ids."""
_FRAMEWORK_DATA, _REGISTRY_DATA = "framework", "registry"
_log = logging.getLogger(__name__)


class OperatorRegistry(msgspec.Struct, omit_defaults=True):
    """Weights, quotas, maintenance, gone agents and conversions of resources, as operators have set them."""

    weights: dict[str, float] = {}
    quotas: dict[str, Json] = {}
    schedule: Json = {}
    gone_agents: dict[str, float] = {}
    down_machines: list[Json] = []
    conversions: dict[str, tuple[list[Json], list[Json]]] = {}
    """By agent, the resources from which reservations and volumes were made, and the resulting ones."""


class Keeper:
    """Writes ConfigMaps of one master, and reads them at its start."""

    def __init__(self, cluster: Cluster, state: MasterState, master: str, namespace: str) -> None:
        self._cluster, self._state, self._master, self._namespace = cluster, state, master, namespace

    def build(self, key: str) -> tuple[str, Json | None]:
        """Return the ConfigMap of a framework, or of the registry; None deletes it."""
        if key == REGISTRY:
            state = self._state
            known = {a.id: (a.converted_from, a.converted_to) for a in state.agents.values()}
            every = {**state.conversions, **known}  # includes agents that have not been seen since the start
            conversions = {agent: (to_json(old), to_json(new)) for agent, (old, new) in every.items() if old or new}
            registry = OperatorRegistry(
                state.weights, state.quotas, state.schedule, state.gone_agents, state.down_machines, conversions
            )
            return f"{self._master}-registry", self._object(_REGISTRY_DATA, registry, {})
        framework = self._state.frameworks.get(key)
        readable = key if is_label(key) and len(key) <= 48 else hashlib.sha256(key.encode()).hexdigest()[:40]
        name = f"{self._master}-fw-{readable}"
        if framework is None:
            return name, None
        record = records.framework_record(framework)
        return name, self._object(_FRAMEWORK_DATA, record, {FRAMEWORK: key})

    def _object(self, data: str, record: Any, annotations: dict[str, str]) -> Json:
        metadata = {"labels": {MASTER: self._master}, "annotations": annotations}
        return {"metadata": metadata, "data": {data: records.encode(record)}}

    async def send(self, requests: Sequence[tuple[str, Json | None]]) -> Sequence[ApiError | None]:
        """Write ConfigMaps; return the error of each."""
        return [await self._send_one(name, body) for name, body in requests]

    async def _send_one(self, name: str, body: Json | None) -> ApiError | None:
        try:
            if body is None:
                await self._cluster.delete(catalog.CONFIGMAP, name, self._namespace)
                return None
            try:
                await self._cluster.patch(catalog.CONFIGMAP, name, self._namespace, body)
            except NotFound:
                metadata = {**body["metadata"], "name": name, "namespace": self._namespace}
                whole = {"apiVersion": "v1", "kind": "ConfigMap", **body, "metadata": metadata}
                await self._cluster.create(catalog.CONFIGMAP, whole, self._namespace)
        except AlreadyExists as error:
            return error
        except ApiError as error:
            return None if body is None and isinstance(error, NotFound) else error
        return None

    async def read(self) -> tuple[list[records.FrameworkRecord], OperatorRegistry]:
        """Return the stored frameworks and the registry."""
        page = await self._cluster.list(ConfigMap, self._namespace, label_selector=f"{MASTER}={self._master}")
        frameworks, registry = [], OperatorRegistry()
        for item in page.items:
            try:
                if _FRAMEWORK_DATA in item.data:
                    frameworks.append(msgspec.json.decode(item.data[_FRAMEWORK_DATA], type=records.FrameworkRecord))
                elif _REGISTRY_DATA in item.data:
                    registry = msgspec.json.decode(item.data[_REGISTRY_DATA], type=OperatorRegistry)
            except msgspec.MsgspecError as error:
                _log.warning("ConfigMap %s cannot be read and is passed over: %s", item.metadata.key, error)
        return frameworks, registry
