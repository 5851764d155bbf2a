"""Share equal parts of pods' metadata and status: labels, owners, conditions, container states.

Decoded on its own, a running pod takes 8.4 KB in 124 objects, most of which equal those of other pods. A pod's metadata
shares the parts that equal those of the pod decoded before it. The parts of a status are cached by their JSON bytes, as
specs are (`strato.client.specs`), so equal bytes are decoded once. Sharing is safe because views are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from sys import intern
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from strato.api.core.container import ContainerState, ContainerStatus, ResourceRequirements
from strato.api.core.pod import PodIP, PodStatus
from strato.api.meta import Condition, ObjectMeta
from strato.api.shapes import EMPTY, ResourceList

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

_MOST_PARTS: Final = 4096
"""Most cached values of a field; a full cache is cleared, as an LRU's look-up costs as much as decoding."""
_UNKNOWN: Final = object()
_LONGEST_PART: Final = 2048
"""Longest JSON of a cached value. Hostile pods can make the caches take 40 MB; usual ones take a tenth."""
_ENDED: Final = b'{"terminated":'
"""The start of a terminated container's state; it is not cached, as it holds the container's id, which no other has."""
_RUNNING: Final = "Running"


def frame_of(view: type[Any], changed: Mapping[str, Any]) -> type[Any]:
    """Return a struct with the fields of a view, some of another type; a field left as bytes is empty by default."""
    fields = []
    for field in msgspec.structs.fields(view):
        kind = changed.get(field.name, field.type)
        default = msgspec.Raw() if kind is msgspec.Raw else field.default
        fields.append((field.name, kind, msgspec.field(default=default, name=field.encode_name)))
    return msgspec.defstruct(f"{view.__name__}Frame", fields, kw_only=True, frozen=True, gc=False)


class _Part(Generic[T]):
    """Decodes one field, with a cache of values by their JSON.

    Args:
        kind: The field's type.
        default: The value of a missing field.
    """

    __slots__ = ("_decode", "_default", "_known")

    def __init__(self, kind: Any, default: T) -> None:
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(kind).decode
        self._default = default
        self._known: dict[bytes, Any] = {b"": default}

    def of(self, raw: msgspec.Raw) -> Any:
        """Return the value of the field's JSON.

        Raises:
            msgspec.DecodeError: It does not fit the type.
        """
        text = bytes(raw)  # a copy, because a `msgspec.Raw` keeps its whole receive buffer alive
        known = self._known.get(text, _UNKNOWN)
        return self._fill(text) if known is _UNKNOWN else known

    def _fill(self, text: bytes) -> T:
        value = self._decode(text)
        if len(text) > _LONGEST_PART or text.startswith(_ENDED):
            return value
        if len(self._known) >= _MOST_PARTS:
            self._known = {b"": self._default}
        self._known[text] = value
        return value


def _share(texts: dict[str, str], last: dict[str, str]) -> None:
    for key, value in last.items():
        if texts.get(key) == value:
            texts[key] = value


class _RareFields:
    """Copies fields that most objects lack; one comparison finds out whether an object has any of them.

    To pass them to the constructor of every view would cost as much as decoding the object.

    Args:
        frame: The struct that is decoded into; its defaults are the values of missing fields.
        names: The fields' names.
    """

    __slots__ = ("_get", "_names", "_nothing")

    def __init__(self, frame: type[Any], names: Sequence[str]) -> None:
        self._names, self._get = names, attrgetter(*names)
        self._nothing = self._get(frame())

    def put_into(self, made: S, frame: Any) -> S:
        """Return ``made`` with these fields of the frame it was made of."""
        found = self._get(frame)
        if found == self._nothing:
            return made
        return replace(made, **dict(zip(self._names, found, strict=True)))


_RARE_STATUS: Final = (
    "message",
    "reason",
    "nominated_node_name",
    "init_container_statuses",
    "ephemeral_container_statuses",
    "resources",
    "allocated_resources",
    "resource_claim_statuses",
)


class PodParts:
    """Shares the metadata and decodes the status of pods; `status` is the struct a status is first decoded into."""

    def __init__(self) -> None:
        raw = msgspec.Raw
        container = frame_of(
            ContainerStatus, {"state": raw, "last_state": raw, "allocated_resources": raw, "resources": raw}
        )
        containers = tuple[container, ...]  # type: ignore[valid-type]  # a type made from data
        self.status = frame_of(PodStatus, {"conditions": raw, "container_statuses": containers})
        self._last = ObjectMeta()
        self._short_frame, self._short = self.status(), PodStatus()
        """The last status without containers, and what was made of it; pods that wait for the same reason have the same
        one. Its raw fields keep one receive buffer alive."""
        self._rare_status = _RareFields(self.status, _RARE_STATUS)
        self._conditions: _Part[tuple[Condition, ...]] = _Part(tuple[Condition, ...], ())
        self._states = _Part(ContainerState, ContainerState())
        self._amounts: _Part[ResourceList] = _Part(ResourceList, EMPTY)
        self._resources: _Part[ResourceRequirements | None] = _Part(ResourceRequirements | None, None)

    def metadata_of(self, meta: ObjectMeta, status: PodStatus) -> ObjectMeta:
        """Replace parts of just decoded metadata by equal parts of the pod before, in place, and return it.

        Pods of one template follow each other in lists and watches, and comparing with the last one costs a quarter of
        looking each string up in a table. A pod that does not run shares only its owners, as it soon changes or goes.
        """
        last, self._last = self._last, meta
        if meta.owner_references != last.owner_references:
            return meta
        force_setattr(meta, "owner_references", last.owner_references)
        if status.phase != _RUNNING:
            return meta
        if meta.namespace == last.namespace:
            force_setattr(meta, "namespace", last.namespace)
        if meta.creation_timestamp == last.creation_timestamp:
            force_setattr(meta, "creation_timestamp", last.creation_timestamp)
        labels, annotations = meta.labels, meta.annotations
        if labels and last.labels:
            _share(labels, last.labels)
        if annotations and last.annotations:
            if annotations == last.annotations:
                force_setattr(meta, "annotations", last.annotations)
            else:
                _share(annotations, last.annotations)
        return meta

    def status_of(self, frame: Any) -> PodStatus:
        """Return the status that a frame holds.

        Raises:
            msgspec.DecodeError: A part does not fit its type.
        """
        if frame.container_statuses:
            return self._made_of(frame)
        if frame != self._short_frame:
            self._short = self._made_of(frame)
            self._short_frame = frame
        return self._short

    def _made_of(self, frame: Any) -> PodStatus:
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
        return self._rare_status.put_into(status, frame)

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
