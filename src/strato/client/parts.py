"""Pods share the parts of their metadata and status that are equal: labels, owners, conditions, states of containers.

Decoded by itself, a running pod takes 8.4 KB in 124 objects, most of which the pods beside it have too. Metadata shares
what the one before has; of a status, as of specs (`strato.client.specs`), bytes decoded lately are not decoded again.
Views are never changed.
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
"""Of one field that are remembered; then all are forgotten: an LRU's look-up takes as long as decoding."""
_UNKNOWN: Final = object()
_LONGEST_PART: Final = 2048
"""Bytes of a part that is remembered: together at most 40 MB of a hostile text, as a rule a tenth."""
_ENDED: Final = b'{"terminated":'
"""How the state of a container begins that no other container has, for it holds an id: it is not remembered."""
_RUNNING: Final = "Running"


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
    """

    __slots__ = ("_decode", "_default", "_known")

    def __init__(self, kind: Any, default: T) -> None:
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(kind).decode
        self._default = default
        self._known: dict[bytes, Any] = {b"": default}

    def of(self, raw: msgspec.Raw) -> Any:
        """Return the value of what was left as bytes.

        Raises:
            msgspec.DecodeError: It does not fit.
        """
        text = bytes(raw)  # a copy: the raw one would keep all that was received with it
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
    """Fields that most objects do not have: all are looked at in one call.

    Args:
        frame: What is decoded into; it says what the fields are where there is nothing.
        names: Of the fields.
    """

    __slots__ = ("_get", "_names", "_nothing")

    def __init__(self, frame: type[Any], names: Sequence[str]) -> None:
        self._names, self._get = names, attrgetter(*names)
        self._nothing = self._get(frame())

    def put_into(self, made: S, frame: Any) -> S:
        """Return what was made of a frame with these fields of it."""
        found = self._get(frame)
        if found == self._nothing:
            return made
        return replace(made, **dict(zip(self._names, found, strict=True)))  # naming all would cost as much as decoding


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
    """Shares the metadata and decodes the status of pods; `status` is what to decode that into."""

    def __init__(self) -> None:
        raw = msgspec.Raw
        container = frame_of(
            ContainerStatus, {"state": raw, "last_state": raw, "allocated_resources": raw, "resources": raw}
        )
        containers = tuple[container, ...]  # type: ignore[valid-type]
        self.status = frame_of(PodStatus, {"conditions": raw, "container_statuses": containers})
        self._last = ObjectMeta()
        self._short_frame, self._short = self.status(), PodStatus()
        """The last one without containers, which pods have that wait in the same way; it keeps what came with it."""
        self._rare_status = _RareFields(self.status, _RARE_STATUS)
        self._conditions: _Part[tuple[Condition, ...]] = _Part(tuple[Condition, ...], ())
        self._states = _Part(ContainerState, ContainerState())
        self._amounts: _Part[ResourceList] = _Part(ResourceList, EMPTY)
        self._resources: _Part[ResourceRequirements | None] = _Part(ResourceRequirements | None, None)

    def metadata_of(self, meta: ObjectMeta, status: PodStatus) -> ObjectMeta:
        """Return metadata that was just decoded, and is nobody else's yet, with the parts that the last has too.

        Pods of one template come together, in lists as in watches. To look each text up in a table of all would cost
        four times as much. Of a pod that does not run only the owners are shared: it is soon written again, or removed.
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
        """Return the status of a frame.

        Raises:
            msgspec.DecodeError: A part does not fit.
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
