"""Pods share the parts of their metadata and status that are equal: labels, owners, conditions, states of containers.

Decoded by itself, a running pod takes 8.4 KB in 124 objects, most of which the pods beside it have too. As with specs
(`strato.client.specs`), bytes that were decoded lately are not decoded again, and views are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from strato.api.core.container import ContainerState, ContainerStatus, ResourceRequirements
from strato.api.core.pod import PodIP, PodStatus
from strato.api.meta import Condition, ObjectMeta, OwnerReference
from strato.api.shapes import EMPTY, ResourceList
from strato.lru import LONGEST

T = TypeVar("T")

_MOST_PARTS: Final = 4096
"""Of one field that are remembered; then all are forgotten: an LRU's look-up takes as long as decoding."""
_LONGEST_PART: Final = 2048
"""Bytes of a part that is remembered: together at most 40 MB of a hostile text, as a rule a tenth."""


def frame_of(view: type[Any], changed: Mapping[str, Any]) -> type[Any]:
    """Return a struct with the fields of a view, some of another type; of those left as bytes the default is none."""
    fields = []
    for field in msgspec.structs.fields(view):
        kind = changed.get(field.name, field.type)
        default = msgspec.Raw() if kind is msgspec.Raw else field.default
        fields.append((field.name, kind, msgspec.field(default=default, name=field.encode_name)))
    return msgspec.defstruct(f"{view.__name__}Frame", fields, kw_only=True, frozen=True, gc=False)


class _Part(Generic[T]):
    """One field whose equal values are shared.

    Args:
        kind: Of the field.
        default: Where there is nothing.
        finish: Called with each value that was decoded.
    """

    __slots__ = ("_decode", "_default", "_finish", "_known")

    def __init__(self, kind: Any, default: T, finish: Callable[[T], T] = lambda value: value) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._default, self._finish = default, finish
        self._known: dict[bytes, T] = {b"": default}

    def of(self, raw: msgspec.Raw) -> T:
        """Return the value of what was left as bytes.

        Raises:
            msgspec.DecodeError: It does not fit.
        """
        text = bytes(raw)  # a copy: the raw one would keep all that was received with it
        try:
            return self._known[text]
        except KeyError:
            return self._fill(text)

    def _fill(self, text: bytes) -> T:
        value = self._finish(self._decode(text))
        if len(text) > _LONGEST_PART:
            return value
        if len(self._known) >= _MOST_PARTS:
            self._known = {b"": self._default}
        self._known[text] = value
        return value


def _interned(texts: dict[str, str] | None) -> dict[str, str] | None:
    if texts is None:
        return None
    return {key: intern(value) if len(value) <= LONGEST else value for key, value in texts.items()}


_RARE_METADATA: Final = {
    "generate_name": "",
    "deletion_timestamp": None,
    "deletion_grace_period_seconds": None,
    "finalizers": None,
}
"""Fields that most pods do not have, and what they are then."""
_RARE: Final = (
    "message",
    "reason",
    "nominated_node_name",
    "init_container_statuses",
    "ephemeral_container_statuses",
    "resources",
    "allocated_resources",
    "resource_claim_statuses",
)
"""Fields of a status that most pods do not have."""


class PodParts:
    """Decodes the metadata and the status of pods. `metadata` and `status` are what to decode into."""

    def __init__(self) -> None:
        raw = msgspec.Raw
        self.metadata = frame_of(ObjectMeta, {"labels": raw, "annotations": raw, "owner_references": raw})
        container = frame_of(
            ContainerStatus, {"state": raw, "last_state": raw, "allocated_resources": raw, "resources": raw}
        )
        containers = tuple[container, ...]  # type: ignore[valid-type]
        self.status = frame_of(PodStatus, {"conditions": raw, "container_statuses": containers})
        self._labels = _Part(dict[str, str] | None, None, _interned)
        self._annotations = _Part(dict[str, str] | None, None, _interned)
        owners: Any = list[OwnerReference] | None
        self._owners: _Part[list[OwnerReference] | None] = _Part(owners, None)
        self._conditions: _Part[tuple[Condition, ...]] = _Part(tuple[Condition, ...], ())
        self._states = _Part(ContainerState, ContainerState())
        self._amounts: _Part[ResourceList] = _Part(ResourceList, EMPTY)
        self._resources: _Part[ResourceRequirements | None] = _Part(ResourceRequirements | None, None)

    def metadata_of(self, frame: Any) -> ObjectMeta:
        """Return the metadata of a frame.

        Raises:
            msgspec.DecodeError: A part does not fit.
        """
        created = frame.creation_timestamp
        meta = ObjectMeta(
            name=frame.name,
            namespace=intern(frame.namespace),
            uid=frame.uid,
            resource_version=frame.resource_version,
            generation=frame.generation,
            creation_timestamp=intern(created) if created is not None else None,
            labels=self._labels.of(frame.labels),
            annotations=self._annotations.of(frame.annotations),
            owner_references=self._owners.of(frame.owner_references),
        )
        rest = {name: value for name, default in _RARE_METADATA.items() if (value := getattr(frame, name)) != default}
        return replace(meta, **rest) if rest else meta  # naming all fields would cost as much as decoding them

    def status_of(self, frame: Any) -> PodStatus:
        """Return the status of a frame.

        Raises:
            msgspec.DecodeError: A part does not fit.
        """
        start, ip, ips = frame.start_time, frame.pod_ip, frame.pod_ips
        status = PodStatus(
            phase=intern(frame.phase),
            conditions=self._conditions.of(frame.conditions),
            host_ip=intern(frame.host_ip),
            pod_ip=ip,
            pod_ips=(PodIP(ip=ip),) if len(ips) == 1 and ips[0].ip == ip else ips,
            start_time=intern(start) if start is not None else None,
            container_statuses=self._containers(frame.container_statuses) if frame.container_statuses else (),
            qos_class=intern(frame.qos_class),
            observed_generation=frame.observed_generation,
        )
        rest = {name: value for name in _RARE if (value := getattr(frame, name))}
        return replace(status, **rest) if rest else status

    def _containers(self, frames: Sequence[Any]) -> tuple[ContainerStatus, ...]:
        return tuple(
            [
                ContainerStatus(
                    name=intern(frame.name),
                    state=self._states.of(frame.state),
                    last_state=self._states.of(frame.last_state),
                    ready=frame.ready,
                    started=frame.started,
                    restart_count=frame.restart_count,
                    image=intern(frame.image),
                    image_id=intern(frame.image_id),
                    container_id=frame.container_id,
                    allocated_resources=self._amounts.of(frame.allocated_resources),
                    resources=self._resources.of(frame.resources),
                )
                for frame in frames
            ]
        )
