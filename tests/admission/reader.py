"""An `AdmissionReader` of plain objects for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strato.admission import AdmissionRequest, Chain, ChainOptions
from strato.api import catalog
from strato.api.kinds import Kind

Json = dict[str, Any]


class FakeWorld:
    """Obeys `strato.admission.AdmissionReader`."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[tuple[str, str], Json]] = {}

    def add(self, kind: Kind, name: str, namespace: str = "", **members: Any) -> FakeWorld:
        obj = {"metadata": {"name": name, "namespace": namespace, **members.pop("metadata", {})}, **members}
        self._objects.setdefault(kind, {})[namespace, name] = obj
        return self

    def queue(self, name: str, state: str = "Open", allocated: Json | None = None, **spec: Any) -> FakeWorld:
        return self.add(catalog.QUEUE, name, spec=spec, status={"state": state, "allocated": allocated or {}})

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self._objects.get(kind, {}).get((namespace, name))

    def list(self, kind: Kind, namespace: str) -> Sequence[Json]:
        found = self._objects.get(kind, {}).items()
        return [obj for (where, _), obj in found if not namespace or where == namespace]


def admit(
    kind: Kind,
    obj: Json | None,
    reader: FakeWorld,
    *,
    old: Json | None = None,
    operation: str = "CREATE",
    options: ChainOptions | None = None,
    name: str = "x",
) -> Json:
    request = AdmissionRequest(operation, kind, "default" if kind.namespaced else "", name, obj, old)
    return Chain(options or ChainOptions()).admit(request, reader)
