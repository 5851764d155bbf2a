"""Label and field selectors over stored bytes, decoding only what selectors may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from strato.api.kinds import Kind
from strato.api.selectors import FieldSelector, InvalidSelector, Selector, parse_field_selector, parse_selector
from strato.errors import BadRequest

_EVERYWHERE = frozenset(("metadata.name", "metadata.namespace"))
_FIELDS: Mapping[tuple[str, str], frozenset[str]] = {
    ("", "pods"): frozenset(
        (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        )
    ),
    ("", "nodes"): frozenset(("spec.unschedulable",)),
    ("", "namespaces"): frozenset(("status.phase",)),
    ("", "secrets"): frozenset(("type",)),
    ("", "services"): frozenset(("spec.clusterIP", "spec.type")),
    ("", "replicationcontrollers"): frozenset(("status.replicas",)),
    ("", "events"): frozenset(
        [f"involvedObject.{part}" for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")]
        + ["involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"]
    ),
    ("apps", "replicasets"): frozenset(("status.replicas",)),
    ("batch", "jobs"): frozenset(("status.successful",)),
}
_BOOLEANS = frozenset(("spec.hostNetwork", "spec.unschedulable"))


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta = _Meta()


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_any = msgspec.json.Decoder().decode


class Filter:
    """What a list or watch wants to see of one kind."""

    def __init__(self, kind: Kind, label_selector: str, field_selector: str) -> None:
        """Parse both selectors.

        Raises:
            BadRequest: One cannot be parsed or names a field that cannot be selected by.
        """
        self._labels, self._fields = _parsed(kind.group, kind.plural, label_selector, field_selector)
        self._needs_fields = any(r.field not in _EVERYWHERE for r in self._fields.requirements)
        self.everything = self._labels.is_empty and not self._fields.requirements
        """Whether nothing is filtered out."""
        self.name = self._fields.exact("metadata.name")
        """The only name that matches, when there is one."""

    def matches(self, body: bytes) -> bool:
        """Return whether a stored object is wanted."""
        if self.everything:
            return True
        head = _decode_head(body).metadata
        if not self._labels.matches(head.labels):
            return False
        if not self._needs_fields:
            values = {"metadata.name": head.name, "metadata.namespace": head.namespace}
            return self._fields.matches(values.__getitem__)
        obj = _decode_any(body)
        return self._fields.matches(lambda field: _value(obj, field))


@lru_cache(maxsize=512)
def _parsed(group: str, plural: str, labels: str, fields: str) -> tuple[Selector, FieldSelector]:
    try:
        selector, field_selector = parse_selector(labels), parse_field_selector(fields)
    except InvalidSelector as error:
        raise BadRequest(str(error)) from error
    known = _EVERYWHERE | _FIELDS.get((group, plural), frozenset())
    for requirement in field_selector.requirements:
        if requirement.field not in known:
            version = f"{group}/v1" if group else "/v1"
            raise BadRequest(
                f'Unable to find "{version}, Resource={plural}" that match label selector "{labels}", '
                f'field selector "{fields}": field label not supported: {requirement.field}'
            )
    return selector, field_selector


def _value(obj: Any, field: str) -> str:
    if field == "source":
        source: Any = obj.get("source") or {}
        return str(source.get("component") or obj.get("reportingComponent") or "")
    value: Any = obj
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if field in _BOOLEANS:
        return "true" if value else "false"
    return "" if value is None else str(value)
