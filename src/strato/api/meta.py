"""Object metadata and the base of every typed read.

Typed reads are partial: a Struct names the fields we use, unknown fields are not decoded, absent ones
take defaults. They are read-only views; writes are creates of plain JSON and patches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]
"""A whole object as decoded JSON, or a part of one. The one place where Any is the honest type."""


class View(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False, omit_defaults=True):
    """Base of all partial views: frozen, camelCase on the wire, snake_case here, unknown fields ignored."""


class Key(NamedTuple):
    """Namespace and name of an object; the namespace of a cluster-scoped one is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_new = tuple.__new__
"""Makes a `Key` in half the time of its constructor."""


class OwnerReference(View, frozen=True, kw_only=True):
    """``metadata.ownerReferences[]``."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(View, frozen=True, kw_only=True):
    """``metadata``. Times are RFC 3339 text; `strato.clock.parse_time` reads them."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return _new(Key, (self.namespace, self.name))

    @property
    def controller(self) -> OwnerReference | None:
        """The controlling owner of the object, if any."""
        for reference in self.owner_references or ():
            if reference.controller:
                return reference
        return None

    def label(self, name: str, default: str = "") -> str:
        """Return a label's value."""
        return self.labels.get(name, default) if self.labels else default

    def annotation(self, name: str, default: str = "") -> str:
        """Return an annotation's value."""
        return self.annotations.get(name, default) if self.annotations else default


class Object(View, frozen=True, kw_only=True):
    """Base of every top-level view."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key


class Condition(View, frozen=True, kw_only=True):
    """One entry of ``status.conditions``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int = 0
