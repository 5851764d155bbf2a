"""Representations of objects by the Accept header: whole, the metadata alone, or rows of a table; in JSON or protobuf.

Everything is made as JSON. Lists and watches become protobuf here, object by object; any other answer where it leaves
(`encoded`).
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
from strato.server.flowcontrol.dispatch import Steps, at_once
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
    """The metadata of a stored object, as bytes."""

    metadata: msgspec.Raw


_read_metadata = msgspec.json.Decoder(_Described).decode


def wanted(request: Request, served: Served, *, has_table: bool = True) -> Accepted:
    """Return what the client wants to be answered about a kind.

    Raises:
        NotAcceptable: It accepts nothing we can write.
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
    """Return a stored object as PartialObjectMetadata; the rest of it is not decoded."""
    return b"".join((_META, _read_metadata(body).metadata, b"}"))


def shown(request: Request, served: Served, body: bytes, *, now: float, status: int = 200) -> Response:
    """Return one object as the client wants to see it."""
    target = wanted(request, served).target
    if target == TABLE:
        return Response(status, _row(request, served, body, now))
    if target == METADATA:
        return Response(status, metadata_alone(body))
    if target == METADATA_LIST:
        raise NotAcceptable(f"you requested {target}, but the requested object is not a list")
    return Response(status, body if served.form is None else _formed(served.form)(body))


def _formed(form: Form) -> Callable[[bytes], bytes]:
    """Return what makes another form of a stored body."""
    return lambda body: encode(form.show(_decode(body)))


def rendering(request: Request, served: Served, clock: Clock) -> Callable[[bytes], bytes] | None:
    """Return what makes of a stored body what a frame of a watch carries; None when that is the body itself."""
    target = wanted(request, served).target
    if target == TABLE:
        return lambda body: _row(request, served, body, clock.now())
    if target in (METADATA, METADATA_LIST):
        return metadata_alone
    return None if served.form is None else _formed(served.form)


def row_steps(request: Request, served: Served, body: bytes, now: float) -> Steps[bytes]:
    """Return one stored object as a table of one row, in steps where it is large."""
    obj = yield from stored_steps(body)
    revision = obj["metadata"].get("resourceVersion")  # a dry run has none
    metadata = {"resourceVersion": revision} if revision else {}
    answer = yield lambda: table(request, served, [obj], metadata, now)
    body_of_table: bytes = answer.body
    return body_of_table


def _row(request: Request, served: Served, body: bytes, now: float) -> bytes:
    return at_once(row_steps(request, served, body, now))


def table(request: Request, served: Served, objects: Sequence[Any], metadata: dict[str, Any], now: float) -> Response:
    """Return objects as rows.

    Raises:
        BadRequest: ``includeObject`` is something unknown.
    """
    renderer = _renderer(request, served, now)
    rows = [renderer.row(obj) for obj in objects]
    return Response(200, encode({**renderer.head(metadata), "rows": rows}))


def _renderer(request: Request, served: Served, now: float) -> Renderer:
    from strato.server import tables  # only people at a terminal ask for tables

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
    """Return the text of a list in the form the client wants it in; ``token`` asks for the rest of it.

    Raises:
        BadRequest: ``includeObject`` is something unknown.
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

        def steps(body: bytes) -> Steps[bytes]:
            obj = yield from stored_steps(body)
            return encode((yield lambda: row(obj)))

        shown = lambda body: encode(row(_decode(body)))  # noqa: E731 - as the others
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
        form = _formed(served.form)
        return ListText(_opened(head, "items"), b",{", bodies, lambda body: _without_type(form(body)), TABULATING)
    if served.is_custom:
        return ListText(_opened(head, "items"), b",", bodies, None)
    return ListText(_opened(head, "items"), b",{", bodies, _untyped(kind))


def _opened(head: dict[str, Any], member: str) -> bytes:
    return b'%b,"%b":[' % (encode(head)[:-1], member.encode())


def _untyped(kind: Kind) -> Callable[[bytes], bytes | memoryview]:
    """Return what follows the first brace of built-in objects in lists: neither ``apiVersion`` nor ``kind``."""
    version, name = f'"apiVersion":"{kind.api_version}",', f'"kind":"{kind.name}",'
    heads = (f"{{{version}{name}".encode(), f"{{{name}{version}".encode())
    length = len(heads[0])
    # Nearly all bodies begin with both, in one order or the other.
    return lambda body: memoryview(body)[length:] if body.startswith(heads) else _without_type(body)


def _without_type(body: bytes) -> bytes:
    members = _read_members(body)
    del members["apiVersion"], members["kind"]
    return encode(members)[1:]
