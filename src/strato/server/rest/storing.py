"""The steps that all writing verbs share: options, the admission request, the write itself, the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from strato.admission import AdmissionRequest
from strato.api.kinds import Kind
from strato.api.status import already_exists, invalid_value, not_supported, too_long
from strato.api.wire import Request, Response
from strato.errors import AlreadyExists, Cause
from strato.http.parser import MAX_BODY_BYTES
from strato.server import preparation
from strato.server.jsonbodies import UNCOUNTED_BYTES
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest.read import invalid_options
from strato.server.rest.representations import shown
from strato.server.rest.state import State, object_key
from strato.server.rest.stored import read_members

Texts = Mapping[str, msgspec.Raw]
"""Members of an object as encoded JSON, so that a large one is not encoded in the slice in which it is written."""
NO_TEXTS: Texts = MappingProxyType({})

_MODES = ("", "Ignore", "Strict", "Warn")
_NAME_ATTEMPTS = 8
_MANAGER_BYTES = 128
_WARNINGS_LENGTH, _WARNING_LENGTH = 4096, 256
"""Characters of all warnings from which on each is cut, and those that are left of one then."""
_PLAINLY = frozenset(("application/json", "*/*"))
"""Accept headers of programs, which get objects as stored."""


class _DeletionMark(msgspec.Struct):
    """An object of which only the deletion timestamp is decoded."""

    class Metadata(msgspec.Struct):
        deletionTimestamp: str | None = None

    metadata: Metadata


_read_deletion_mark = msgspec.json.Decoder(_DeletionMark).decode


def check_options(request: Request, kind: str, more: Sequence[Cause] = ()) -> None:
    """Check the query of a write.

    Raises:
        Invalid: ``dryRun``, ``fieldManager`` or ``fieldValidation`` has an invalid value, or there are ``more`` causes.
    """
    causes = []
    dry_run = request.query.get("dryRun")
    if dry_run and list(dry_run) != ["All"]:
        causes.append(not_supported("dryRun", list(dry_run), ["All"]))
    if request.param("fieldValidation") not in _MODES:
        causes.append(not_supported("fieldValidation", request.param("fieldValidation"), _MODES))
    causes += [*_manager_problems(request.param("fieldManager")), *more]
    if causes:
        raise invalid_options(kind, causes)


def _manager_problems(name: str) -> list[Cause]:
    problems = []
    if len(name.encode()) > _MANAGER_BYTES:
        problems.append(too_long("fieldManager", _MANAGER_BYTES))
    for at, letter in enumerate(name):
        if not letter.isprintable():
            text = f"invalid character U+{ord(letter):04X} (at position {at})"
            problems.append(invalid_value("fieldManager", name, text))
            break
    return problems


def is_dry_run(request: Request) -> bool:
    """Return whether a request is a dry run; `check_options` must have checked the value."""
    return bool(request.query.get("dryRun"))


def admission_request(
    request: Request, target: ResourcePath, kind: Kind, operation: str, obj: Json | None, old: Json | None
) -> AdmissionRequest:
    """Return the admission request of a write."""
    metadata = (obj or old or {}).get("metadata", {})
    return AdmissionRequest(
        operation=operation,
        kind=kind,
        namespace=target.namespace,
        name=metadata.get("name", target.name),
        object=obj,
        old_object=old,
        user=request.user,
        dry_run=is_dry_run(request),
        subresource=target.subresource,
        audit_annotations=request.annotations if request.annotations is not None else {},
    )


_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def options(request: AdmissionRequest) -> Json | None:
    """Return the options of a write in the form that webhooks get; None if it has none."""
    kind = _OPTIONS.get(str(request.operation))
    if kind is None:
        return None
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **({"dryRun": ["All"]} if request.dry_run else {})}


def free_key(state: State, kind: Kind, metadata: Json) -> str:
    """Return the key of a new object; if its generated name is taken, generate another one, in place.

    Raises:
        AlreadyExists: There is an object of that name.
    """
    bucket = state.bucket(kind)
    for _ in range(_NAME_ATTEMPTS):
        key = object_key(kind, metadata.get("namespace", ""), metadata["name"])
        taken = bucket.latest(key)
        if taken is None:
            return key
        if not metadata.get("generateName"):
            break
        metadata["name"] = preparation.generated_name(metadata["generateName"], state.rng)
    error = already_exists(kind, metadata["name"])
    if taken is not None and b'"deletionTimestamp"' in taken and _read_deletion_mark(taken).metadata.deletionTimestamp:
        raise AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
    raise error


def store(state: State, request: Request, kind: Kind, key: str, obj: Json, texts: Texts = NO_TEXTS) -> bytes:
    """Give the object the next revision and write it; a dry run changes neither the revision nor the store.

    ``texts`` are members that have been encoded already.
    """
    is_dry = is_dry_run(request)
    if not is_dry:
        obj["metadata"]["resourceVersion"] = str(state.store.next_revision())
    body = _encode_with(obj, texts)
    if len(body) > MAX_BODY_BYTES:
        raise preparation.too_large(kind, obj)
    if is_dry:
        return body
    state.write(kind, key, body)
    return body


def remove(
    state: State,
    request: Request,
    kind: Kind,
    key: str,
    obj: Json,
    texts: Texts = NO_TEXTS,
    *,
    last: bytes | None = None,
) -> bytes:
    """Delete the object, and give its last state the revision of the deletion; a dry run changes nothing.

    ``texts`` are members that have been encoded already. Watchers get ``last``, a stored body, as the last state, if it
    is given.
    """
    revision = state.store.next_revision()
    obj["metadata"]["resourceVersion"] = str(revision)
    body = _encode_with(obj, texts)
    if not is_dry_run(request):
        state.write(kind, key, None, body if last is None else preparation.at_revision(last, revision))
    return body


def _encode_with(obj: Json, texts: Texts) -> bytes:
    return encode({**obj, **texts} if texts else obj)


def texts_of(body: bytes) -> Texts:
    """Return the members of a large stored object that stay as they are when it is deleted; of a small one, none."""
    if len(body) <= UNCOUNTED_BYTES:
        return NO_TEXTS
    return {name: text for name, text in read_members(body).items() if name not in ("metadata", "status")}


def answer(
    state: State, request: Request, served: Served, body: bytes, warnings: Sequence[str], status: int = 200
) -> Response:
    """Return the stored object in the form that the client accepts, with warnings as headers."""
    if not warnings and served.form is None and request.headers.get("accept") in _PLAINLY:
        return Response(status, body)
    return with_warnings(shown(request, served, body, now=state.clock.now(), status=status), warnings)


def with_warnings(response: Response, warnings: Sequence[str]) -> Response:
    """Return an answer with warnings as headers, before those that it has; long ones are cut as on Kubernetes."""
    if warnings:
        known = response.headers.get("warning")
        texts = [*(f'299 - "{_escaped(text)}"' for text in _bounded(warnings)), *([known] if known else ())]
        response.headers = {**response.headers, "warning": "\n".join(texts)}
    return response


def warned(answer: Response | Awaitable[Response], warning: str) -> Response | Awaitable[Response]:
    """Return an answer, which may be to come, with one warning more."""
    return with_warnings(answer, [warning]) if isinstance(answer, Response) else _warned_later(answer, warning)


async def _warned_later(answer: Awaitable[Response], warning: str) -> Response:
    return with_warnings(await answer, [warning])


def _bounded(warnings: Sequence[str]) -> list[str]:
    """Return the different warnings; if they are long together, the beginnings of the first ones."""
    different = list(dict.fromkeys(warnings))
    if sum(map(len, different)) <= _WARNINGS_LENGTH:
        return different
    shown, written = [], 0
    for text in different:
        if written >= _WARNINGS_LENGTH:
            break
        shown.append(text[:_WARNING_LENGTH])
        written += len(shown[-1])
    return shown


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
