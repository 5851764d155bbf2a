"""Match stored objects against label and field selectors; only the members a selector needs are decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.forms import FORMS
from strato.api.kinds import Kind
from strato.api.selectors import FieldSelector, InvalidSelector, Selector, parse_field_selector, parse_selector
from strato.errors import BadRequest

_BUILT_IN = frozenset(kind.group for kind in catalog.BUILTIN)
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
    ("certificates.k8s.io", "certificatesigningrequests"): frozenset(("spec.signerName",)),
    ("apps", "replicasets"): frozenset(("status.replicas",)),
    ("batch", "jobs"): frozenset(("status.successful",)),
}
_RENAMED: Mapping[tuple[str, str], Mapping[str, str]] = {
    (form.kind.group, form.kind.plural): form.fields for form in FORMS.values() if form.fields
}
"""Field names of kinds that are served in another form than they are stored: there, and in the stored form."""
Decode = Callable[[bytes], Any]
_BOOLEANS = frozenset(("spec.hostNetwork", "spec.unschedulable"))


_LONGEST = 64 * 1024
SHORT_SELECTOR = 4096
"""Longest selectors, in characters, that are cached parsed; longer ones are parsed each time."""
_SHARED_BYTES = 16 * 1024
"""Largest body whose decoded head is cached; the cache keeps the whole body as its key."""


class Filter:
    """The label and field selectors of a list or watch of one kind."""

    def __init__(self, kind: Kind, label_selector: str, field_selector: str) -> None:
        """Parse both selectors.

        Raises:
            BadRequest: One cannot be parsed or names a field that cannot be selected by.
        """
        length = len(label_selector) + len(field_selector)
        if length > _LONGEST:
            raise BadRequest(f"a selector may have {_LONGEST} characters at most")
        parse = _parsed if length <= SHORT_SELECTOR else _parsed.__wrapped__
        self._labels, self._fields, self._decode = parse(
            kind.group, kind.plural, frozenset(kind.selectable_fields), label_selector, field_selector
        )
        self.everything = self._labels.is_empty and not self._fields.requirements
        """Whether every object matches."""
        self.name = self._fields.exact("metadata.name")
        """The only name that can match, if the field selector requires one."""

    def matches(self, body: bytes) -> bool:
        """Return whether a stored object matches."""
        return self.everything or self._matches(self._decode(body))

    def matches_shared(self, body: bytes) -> bool:
        """Return the same for a body that many watchers check: the first one decodes it, the others use its result."""
        if self.everything:
            return True
        return self._matches(_head(self._decode, body) if len(body) <= _SHARED_BYTES else self._decode(body))

    def _matches(self, head: Any) -> bool:
        if not self._labels.matches(head.metadata.labels):
            return False
        return not self._fields.requirements or self._fields.matches(lambda field: _value(head, field))


@lru_cache(maxsize=512)
def _parsed(
    group: str, plural: str, selectable: frozenset[str], labels: str, fields: str
) -> tuple[Selector, FieldSelector, Decode]:
    try:
        selector, field_selector = parse_selector(labels), parse_field_selector(fields)
    except InvalidSelector as error:
        raise BadRequest(str(error)) from error
    renamed = _RENAMED.get((group, plural), {})
    more = frozenset(renamed) or _FIELDS.get((group, plural)) or selectable
    known = _EVERYWHERE | more if more else _EVERYWHERE
    for requirement in field_selector.requirements:
        if requirement.field not in known:
            if known is _EVERYWHERE and group in _BUILT_IN:
                raise BadRequest(
                    f'"{requirement.field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
                )
            raise BadRequest(f"field label not supported: {requirement.field}")
    if renamed:
        found = field_selector.requirements
        field_selector = FieldSelector(tuple(replace(one, field=renamed.get(one.field, one.field)) for one in found))
    return selector, field_selector, _decoder(frozenset(r.field for r in field_selector.requirements))


def labels_of(body: bytes) -> Mapping[str, str]:
    """Return the labels of a stored object, without decoding the rest of it."""
    labels: Mapping[str, str] = _decoder(frozenset())(body).metadata.labels or {}
    return labels


@lru_cache(maxsize=128)
def _decoder(fields: frozenset[str]) -> Decode:
    """Return a decoder of the labels and these fields alone; it takes a tenth of the time of decoding a pod."""
    paths = {"metadata.labels", *(field for field in fields if field != "source")}
    if "source" in fields:
        paths |= {"source.component", "reportingComponent"}
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        *parents, last = path.split(".")
        place = tree
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = {}
    return msgspec.json.Decoder(_struct("Head", tree)).decode


def _struct(name: str, tree: dict[str, Any]) -> type[msgspec.Struct]:
    members = [(part, _struct(part, inner) | None if inner else Any, None) for part, inner in tree.items()]
    return msgspec.defstruct(name, members, frozen=True, gc=False)


@lru_cache(maxsize=2048)  # at most 32 MiB of bodies; in C, as every watcher calls it for every event
def _head(decode: Decode, body: bytes) -> Any:
    return decode(body)  # a look-up is cheap: bytes objects cache their hash, and all watchers have the same object


def _value(head: Any, field: str) -> str:
    if field == "source":
        return _value(head, "source.component") or _value(head, "reportingComponent")
    value = head
    for part in field.split("."):
        value = getattr(value, part, None)
    if field in _BOOLEANS or isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
