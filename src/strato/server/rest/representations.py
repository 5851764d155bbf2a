"""Representations of objects by the Accept header: whole, the metadata alone, or rows of a table; in JSON or protobuf.

Everything is made as JSON first. Lists are encoded as protobuf here, object by object; watches when they are read
(`reframing`), any other answer by the HTTP service (`encoded`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from strato.api.forms import Form
from strato.api.kinds import Kind
from strato.api.wire import Request, Response
from strato.clock import Clock
from strato.errors import BadRequest, NotAcceptable
from strato.server import negotiation, protobuf
from strato.server.flowcontrol.dispatch import Steps
from strato.server.jsonbodies import stored_steps
from strato.server.negotiation import JSON, METADATA, METADATA_LIST, PLAIN_JSON, PROTOBUF, TABLE, Accepted
from strato.server.preparation import encode
from strato.server.registry import Served
from strato.server.rest import encoded
from strato.server.rest.collections import DESCRIBING, TABULATING, ListText

if TYPE_CHECKING:
    from strato.server.tables import Renderer

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_read_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_META = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
_INCLUDED = ("", "Metadata", "Object", "None")


class _Described(msgspec.Struct, gc=False):
    """A stored object of which only the metadata is kept, as bytes."""

    metadata: msgspec.Raw


_read_metadata = msgspec.json.Decoder(_Described).decode


def wanted(request: Request, served: Served, *, has_table: bool = True) -> Accepted:
    """Return the form in which to answer a client about a kind.

    Raises:
        NotAcceptable: The client accepts no form that we can encode.
    """
    accept = request.headers.get("accept", "")
    if negotiation.is_plain(accept):
        return PLAIN_JSON
    in_protobuf = protobuf.encoder(served.asked.api_version, served.kind.name) is not None
    found = negotiation.accepted(accept, in_protobuf=in_protobuf, as_table=has_table)
    if found is None:
        stream = ";stream=watch" if request.flag("watch") else ""
        raise NotAcceptable(f"only the following media types are accepted: {JSON}{stream}, {PROTOBUF}{stream}")
    return found


def metadata_alone(body: bytes) -> bytes:
    """Return a stored object as PartialObjectMetadata, without decoding the rest of it."""
    return b"".join((_META, _read_metadata(body).metadata, b"}"))


def shown(request: Request, served: Served, body: bytes, *, now: float, status: int = 200) -> Response:
    """Return one object in the form that the client accepts."""
    target = wanted(request, served).target
    if target == TABLE:
        return Response(status, _row(request, served, body, now))
    if target == METADATA:
        return Response(status, metadata_alone(body))
    if target == METADATA_LIST:
        raise NotAcceptable(f"you requested {target}, but the requested object is not a list")
    return Response(status, body if served.form is None else _formed(served.form)(body))


def _formed(form: Form) -> Callable[[bytes], bytes]:
    """Return the function that converts a stored body into another form."""
    return lambda body: encode(form.show(_decode(body)))


def conversion(request: Request, served: Served, clock: Clock) -> Callable[[Any], Any] | None:
    """Return the function that converts a decoded object into the form that the client accepts; None if none is needed.

    Raises:
        BadRequest: ``includeObject`` has an unknown value.
    """
    target = wanted(request, served).target
    if target == TABLE:
        _renderer(request, served, clock.now())  # raises now what it would raise for each object
        return lambda obj: _tabulated(request, served, obj, clock.now())
    return None if target in (METADATA, METADATA_LIST) or served.form is None else served.form.show


def rendering(request: Request, served: Served) -> Callable[[bytes], bytes] | None:
    """Return the function that cuts a stored body for a watch's frame, without decoding it; None if it stays whole."""
    return metadata_alone if wanted(request, served).target in (METADATA, METADATA_LIST) else None


def converted_steps(body: bytes, convert: Callable[[Any], Any]) -> Steps[bytes]:
    """Return a stored object converted (`conversion`), in steps if it is large."""
    obj = yield from stored_steps(body)
    return encode((yield lambda: convert(obj)))


def _row(request: Request, served: Served, body: bytes, now: float) -> bytes:
    return encode(_tabulated(request, served, _decode(body), now))


def _tabulated(request: Request, served: Served, obj: Any, now: float) -> dict[str, Any]:
    """Return one object as a table of one row."""
    revision = obj["metadata"].get("resourceVersion")  # missing in a dry run's result
    return _table(request, served, [obj], {"resourceVersion": revision} if revision else {}, now)


def table(request: Request, served: Served, objects: Sequence[Any], metadata: dict[str, Any], now: float) -> Response:
    """Return objects as the rows of a table.

    Raises:
        BadRequest: ``includeObject`` has an unknown value.
    """
    return Response(200, encode(_table(request, served, objects, metadata, now)))


def _table(
    request: Request, served: Served, objects: Sequence[Any], metadata: dict[str, Any], now: float
) -> dict[str, Any]:
    renderer = _renderer(request, served, now)
    return {**renderer.head(metadata), "rows": [renderer.row(obj) for obj in objects]}


def _renderer(request: Request, served: Served, now: float) -> Renderer:
    from strato.server import tables  # imported late: only kubectl users need tables

    include = request.param("includeObject")
    if include not in _INCLUDED:
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": must be '
            "'Metadata', 'Object', 'None', or empty"
        )
    version = wanted(request, served).version
    return tables.Renderer(served.kind, include or "Metadata", now=now, version=version)


def list_text(
    request: Request, served: Served, bodies: Iterable[bytes], metadata: dict[str, Any], token: str, now: float
) -> ListText:
    """Return the text of a list in the form that the client accepts; ``token`` is its continue token.

    Raises:
        BadRequest: ``includeObject`` has an unknown value.
    """
    kind, (media, target, _) = served.kind, wanted(request, served)
    as_rows, described = target == TABLE, target == METADATA_LIST
    if target == METADATA:
        raise NotAcceptable(f"you requested {target}, but the requested object is a list")
    if token or (served.is_custom and not (as_rows or described)):  # as a real server writes it
        metadata["continue"] = token
    if as_rows:
        renderer = _renderer(request, served, now)
        head, row = renderer.head(metadata), renderer.row
        shown = lambda body: encode(row(_decode(body)))  # noqa: E731 - as the others
        steps = lambda body: converted_steps(body, row)  # noqa: E731 - as the others
        return ListText(_opened(head, "rows"), b",", bodies, shown, TABULATING, steps)
    if described:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        if media == PROTOBUF:
            return encoded.list_text(head, "PartialObjectMetadata", bodies, metadata_alone)
        return ListText(_opened(head, "items"), b",", bodies, metadata_alone, DESCRIBING)
    head = {"kind": kind.list_kind, "apiVersion": served.asked.api_version, "metadata": metadata}
    if media == PROTOBUF:
        return encoded.list_text(head, kind.name, bodies, None if served.form is None else _formed(served.form))
    if served.form is not None:
        convert = served.form.show

        def formed(body: bytes) -> Steps[bytes]:
            return _without_type((yield from converted_steps(body, convert)))

        shown = lambda body: _without_type(encode(convert(_decode(body))))  # noqa: E731 - as the others
        return ListText(_opened(head, "items"), b",{", bodies, shown, TABULATING, formed)
    if served.is_custom:
        return ListText(_opened(head, "items"), b",", bodies, None)
    return ListText(_opened(head, "items"), b",{", bodies, _untyped(kind))


def _opened(head: dict[str, Any], member: str) -> bytes:
    return b'%b,"%b":[' % (encode(head)[:-1], member.encode())


def _untyped(kind: Kind) -> Callable[[bytes], bytes | memoryview]:
    """Return a function that cuts a built-in object's first brace, apiVersion and kind, which items of lists lack."""
    version, name = f'"apiVersion":"{kind.api_version}",', f'"kind":"{kind.name}",'
    heads = (f"{{{version}{name}".encode(), f"{{{name}{version}".encode())
    length = len(heads[0])
    # nearly all bodies begin with both members, in either order
    return lambda body: memoryview(body)[length:] if body.startswith(heads) else _without_type(body)


def _without_type(body: bytes) -> bytes:
    members = _read_members(body)
    del members["apiVersion"], members["kind"]
    return encode(members)[1:]
