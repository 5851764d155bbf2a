"""Label and field selectors over stored bytes, decoding only what selectors may ask for."""

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
"""What fields of other forms of stored kinds are called there."""
Decode = Callable[[bytes], Any]
_BOOLEANS = frozenset(("spec.hostNetwork", "spec.unschedulable"))


_LONGEST = 64 * 1024
SHORT_SELECTOR = 4096
"""Characters of selectors; longer ones are parsed each time, in slices where there are turns."""
_SHARED_BYTES = 16 * 1024
"""Heads of larger bodies are not kept: keeping one keeps the body."""


class Filter:
    """What a list or watch wants to see of one kind."""

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
        """Whether nothing is filtered out."""
        self.name = self._fields.exact("metadata.name")
        """The only name that matches, when there is one."""

    def matches(self, body: bytes) -> bool:
        """Return whether a stored object is wanted."""
        return self.everything or self._matches(self._decode(body))

    def matches_shared(self, body: bytes) -> bool:
        """The same for bodies that many watchers look at in turn: one of them decodes, the others look it up."""
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
    """Return the labels of a stored object; the rest of it is not decoded."""
    labels: Mapping[str, str] = _decoder(frozenset())(body).metadata.labels or {}
    return labels


@lru_cache(maxsize=128)
def _decoder(fields: frozenset[str]) -> Decode:
    """Return a decoder of just the labels and the fields, a tenth of the work of decoding a pod."""
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


@lru_cache(maxsize=2048)  # at most 32 MiB of bodies; C's, as each watcher asks for each event
def _head(decode: Decode, body: bytes) -> Any:
    return decode(body)  # bytes know their hash, and the watchers share one body: a look-up is cheap


def _value(head: Any, field: str) -> str:
    if field == "source":
        return _value(head, "source.component") or _value(head, "reportingComponent")
    value = head
    for part in field.split("."):
        value = getattr(value, part, None)
    if field in _BOOLEANS or isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
