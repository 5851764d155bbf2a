"""Encode the requests of `Cluster` calls, and decode the answers into typed views.

Both transports share this. A `Codec` belongs to one view class (or to a `Kind`, for plain JSON) and holds the
msgspec decoders for an object, a list and watch frames; each decodes bytes straight into views in one pass, so
a list of 10,000 pods builds no dicts. Pods, jobs and PodGroups with equal specs share them (`strato.client.specs`).
One object that does not fit its view (a CRD without a schema may hold anything) is left out with a warning instead of
blocking everything else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.api.status import from_status
from strato.client.cluster import DeleteOptions, EventType, Json, ListPage, WatchEvent
from strato.client.specs import SpecSharing
from strato.decoding import UNDECODABLE
from strato.errors import ApiError, InternalError

_log = logging.getLogger(__name__)

_SHARED_SPEC_KINDS = frozenset((catalog.POD, catalog.VCJOB, catalog.PODGROUP))
"""Kinds that often have thousands of objects with the same spec."""

T = TypeVar("T")
Query = dict[str, list[str]]


class _ListMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _ListBody(msgspec.Struct, Generic[T], gc=False):
    metadata: _ListMeta
    items: list[T] | None = None


class _ListHead(msgspec.Struct, gc=False):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _RawFrame(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class Codec(Generic[T]):
    """Decoders of one kind into one Python type; get one with `codec_of`."""

    __slots__ = ("_events", "_list", "_object", "_plain", "_shared", "kind")

    def __init__(self, kind: Kind, target: type[Any]) -> None:
        self.kind = kind
        self._plain = not issubclass(target, Object)
        wanted: Any = Json if self._plain else target
        self._shared = SpecSharing(kind, target) if kind in _SHARED_SPEC_KINDS and not self._plain else None
        if self._shared is not None:
            wanted = self._shared.frame
        self._object = msgspec.json.Decoder(wanted)
        self._list = msgspec.json.Decoder(_ListBody[wanted])
        self._events = msgspec.json.Decoder(WatchEvent[wanted])

    def decode_object(self, body: bytes) -> T:
        """Decode one object.

        Raises:
            InternalError: The body is not an object of this view.
        """
        try:
            decoded: T = self._decode(body)
        except UNDECODABLE as error:
            raise InternalError(f"the server's answer is not a usable {self.kind.name}: {error}") from error
        return decoded

    def _decode(self, body: bytes | msgspec.Raw) -> Any:
        decoded = self._object.decode(body)
        return decoded if self._shared is None else self._shared.whole(decoded)

    def written_spec(self, spec: object) -> bytes | None:
        """Return the JSON that a spec was decoded from; None if it is not, or no longer, cached."""
        return self._shared.written(spec) if self._shared is not None else None

    def decode_list(self, body: bytes) -> ListPage[T]:
        """Decode a list answer.

        Raises:
            InternalError: The body is not a list.
        """
        try:
            page = self._list.decode(body)
            items = page.items or []
            if self._shared is not None:
                items = [self._shared.whole(item) for item in items]
        except msgspec.ValidationError:
            page, items = self._decode_list_leniently(body)
        except UNDECODABLE as error:
            raise InternalError(f"the server's answer is not a list of {self.kind.plural}: {error}") from error
        if self._plain:
            for item in items:  # the API server leaves out apiVersion and kind in the items of a list
                item.setdefault("apiVersion", self.kind.api_version)
                item.setdefault("kind", self.kind.name)
        return ListPage(items, page.metadata.resource_version, page.metadata.continue_)

    def decode_events(self, lines: bytes) -> list[WatchEvent[T]]:
        """Decode whole lines of a watch.

        Raises:
            ApiError: The error of an ERROR frame (`Gone` for a revision that is too old).
        """
        try:
            events: list[WatchEvent[Any]] = self._events.decode_lines(lines)
            if self._shared is None:
                return events
            whole = self._shared.whole
            return [WatchEvent(event.type, whole(event.object)) for event in events]
        except UNDECODABLE:
            return self._decode_events_leniently(lines)

    def _decode_list_leniently(self, body: bytes) -> tuple[Any, list[Any]]:
        try:
            page = msgspec.json.decode(body, type=_ListBody[msgspec.Raw])
        except UNDECODABLE as error:
            raise InternalError(f"the server's answer is not a list of {self.kind.plural}: {error}") from error
        decoded = (self._decode_or_skip(raw) for raw in page.items or ())
        return page, [item for item in decoded if item is not None]

    def _decode_events_leniently(self, lines: bytes) -> list[WatchEvent[T]]:
        events = []
        for line in lines.splitlines():
            if not line.strip():
                continue
            try:
                frame = msgspec.json.decode(line, type=_RawFrame)
            except UNDECODABLE as error:
                raise InternalError(f"a watch of {self.kind.plural} sent an unreadable frame: {error}") from error
            if frame.type == "ERROR":
                raise decode_error(bytes(frame.object), 500)
            raw = _bare(frame.object) if frame.type == "BOOKMARK" else frame.object
            item = self._decode_or_skip(raw)
            if item is not None and frame.type in EventType.__members__:
                events.append(WatchEvent(EventType(frame.type), item))
        return events

    def _decode_or_skip(self, raw: msgspec.Raw) -> T | None:
        try:
            decoded: T = self._decode(raw)
        except UNDECODABLE as error:
            name = _name_of(raw)
            _log.warning("object left out, it does not fit its kind: kind=%s name=%s: %s", self.kind.name, name, error)
            return None
        return decoded


@lru_cache(1024)  # looked up in every call; bounded, because CustomResourceDefinitions come and go
def codec_of(kind: type[Object] | Kind) -> Codec[Any]:
    """Return the codec of a view class, or of a `Kind` for plain JSON."""
    if isinstance(kind, Kind):
        return Codec(kind, dict)
    return Codec(catalog.kind_of(kind), kind)


def kind_of(kind: type[Object] | Kind) -> Kind:
    """Return the `Kind` of a call's argument, which is a `Kind` or a view class."""
    return kind if isinstance(kind, Kind) else codec_of(kind).kind


def next_token(body: bytes) -> str:
    """Return the continue token that a list has in front of its items, without scanning the items.

    API servers write the list's metadata first. Empty if this one does not, or on the last page.
    """
    start = body.find(_ITEMS)
    if start < 0:
        return ""
    try:
        return _decode_head(body[:start] + _NO_ITEMS).metadata.continue_
    except UNDECODABLE:
        return ""


_ITEMS = b'"items":'
"""The start of a list's items; it cannot occur inside a JSON string, whose quotes are escaped."""
_NO_ITEMS = b'"items":[]}'
_decode_head = msgspec.json.Decoder(_ListHead).decode


def encode(body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes) -> bytes:
    """Encode a JSON body; bytes are returned as they are."""
    if isinstance(body, bytes):
        return body
    return _encode(body if isinstance(body, _PLAIN) else _plain(body))


def decode_error(body: bytes, code: int) -> ApiError:
    """Decode the error of a failed call: a ``Status``, or any other body, as a proxy in between may answer."""
    try:
        status = msgspec.json.decode(body)
    except UNDECODABLE:
        status = None
    if (
        isinstance(status, dict)
        and status.get("kind", "Status") == "Status"
        and ("message" in status or "code" in status)
    ):
        status.setdefault("code", code)
        return from_status(status)
    text = body[:500].decode("utf-8", "replace").strip()
    message = f"the server answered {code}" + (f": {text}" if text else "")
    return from_status({"kind": "Status", "message": message, "reason": _REASONS.get(code, ""), "code": code})


_encode = msgspec.json.Encoder().encode
_PLAIN = (dict, list)
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def query_of(**parameters: str | int | bool) -> Query:
    """Build query parameters; empty, zero and false ones are left out."""
    return {
        name: ["true" if value is True else str(value)]
        for name, value in parameters.items()
        if value not in ("", 0, False)
    }


def delete_options(asked: DeleteOptions) -> bytes:
    """Encode the ``DeleteOptions`` body of a delete; empty without options."""
    options: Json = {}
    guards = (("uid", asked.get("uid")), ("resourceVersion", asked.get("resource_version")))
    preconditions = {name: value for name, value in guards if value}
    if preconditions:
        options["preconditions"] = preconditions
    if (grace_period_seconds := asked.get("grace_period_seconds")) is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if propagation := asked.get("propagation"):
        options["propagationPolicy"] = propagation
    if asked.get("dry_run"):
        options["dryRun"] = ["All"]
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", **options}) if options else b""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value)


def _bare(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a bookmark's object with its metadata alone, as its other members are empty and do not fit the view."""
    metadata = msgspec.json.decode(raw, type=_Bare).metadata
    return msgspec.Raw(msgspec.json.encode({"metadata": metadata}))


class _Bare(msgspec.Struct, gc=False):
    metadata: Json


def _name_of(raw: msgspec.Raw) -> str:
    try:
        document = msgspec.json.decode(raw)
        metadata = document["metadata"]
        return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".lstrip("/")
    except (*UNDECODABLE, KeyError, TypeError, AttributeError):
        return "?"
