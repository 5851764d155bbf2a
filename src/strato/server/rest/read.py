"""get, list and watch."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from strato.api.kinds import Kind
from strato.api.status import aggregate, forbidden_field, not_found, not_supported
from strato.api.wire import Request, Response
from strato.errors import ApiError, BadRequest, Cause, Gone, Invalid
from strato.server.fields import Filter
from strato.server.objects import encode
from strato.server.path import ResourcePath
from strato.server.registry import Served
from strato.server.rest import forms
from strato.server.rest.state import State, object_key
from strato.server.watching import Watch

_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_MIN_WATCH_SECONDS = 1800


class Reader:
    """The reading verbs."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer one object."""
        kind = served.kind
        if request.query:
            self._revision_asked(request)
        row = self._state.bucket(kind).objects.get(object_key(kind, target.namespace, target.name))
        if row is None:
            raise not_found(kind, target.name)
        return forms.shown(request, kind, row.body, now=self._state.clock.now())

    def list(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer a collection, whole or in pages."""
        kind = served.kind
        forms.check_accept(request)
        check_list_options(request)
        wanted = Filter(kind, request.param("labelSelector"), request.param("fieldSelector"))
        start, revision = _continue(request.param("continue"))
        if start and request.param("resourceVersion") not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        limit = _integer(request, "limit")
        try:
            if not revision:
                revision = self._revision_asked(request)
            bodies, last, remaining = self._select(kind, target.namespace, wanted, start, limit, revision)
        except Gone as error:
            if not start:
                raise
            raise Gone(
                "The provided continue parameter is too old to display a consistent list result. You can start a new "
                "list without the continue parameter."
            ) from error
        token = _token(last, revision) if remaining else ""
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if token and wanted.everything:
            metadata["remainingItemCount"] = remaining
        return self.listed(request, served, bodies, metadata, token)

    def listed(
        self, request: Request, served: Served, bodies: Sequence[bytes], metadata: dict[str, Any], token: str = ""
    ) -> Response:
        """Return objects as a list in the form that is asked for; ``token`` asks for the rest of it."""
        kind, as_rows, described = served.kind, forms.wants_table(request), forms.wants_metadata(request)
        if token or (served.is_custom and not (as_rows or described)):  # as a real server writes it
            metadata["continue"] = token
        if as_rows:
            objects = [_decode(body) for body in bodies]
            return forms.table(request, kind, objects, metadata, self._state.clock.now())
        if described:
            return Response(200, forms.metadata_list(bodies, metadata))
        head = encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata})
        return Response(200, _joined(kind, head[:-1] + b',"items":[', bodies, typed=served.is_custom))

    def _revision_asked(self, request: Request) -> int:
        """Return the revision a list shall be of.

        Raises:
            ApiError: It is one of the future.
        """
        current = self._state.store.published
        asked = request.param("resourceVersion")
        if not asked or asked == "0":
            return current
        revision = _revision(asked)
        if revision > current:
            raise ApiError(
                f"Timeout: Too large resource version: {revision}, current: {current}",
                reason="Timeout",
                code=504,
                causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
                retry_after_seconds=1,
            )
        return revision if request.param("resourceVersionMatch") == "Exact" else current

    def _select(
        self, kind: Kind, namespace: str, wanted: Filter, start: str, limit: int, revision: int = 0
    ) -> tuple[Sequence[bytes], str, int]:
        """Return the wanted bodies after ``start``, the last key, and how many keys were not looked at.

        With a ``revision``, all as they were then.

        Raises:
            Gone: What has changed since is no longer known.
        """
        bucket = self._state.bucket(kind)
        if revision and revision != self._state.store.published:
            keys, body_of = bucket.at(revision, f"{namespace}/" if namespace else "")
            low, high = 0, len(keys)
        elif wanted.name is not None and (namespace or not kind.namespaced):
            row = bucket.objects.get(object_key(kind, namespace, wanted.name))
            return ([row.body] if row is not None and wanted.matches(row.body) else []), "", 0
        else:
            objects = bucket.objects
            keys, low, high = bucket.span(f"{namespace}/" if namespace else "")
            if not start and not limit:
                bodies = [objects[key].body for key in keys[low:high]]
                return (bodies if wanted.everything else [body for body in bodies if wanted.matches(body)]), "", 0

            def body_of(key: str) -> bytes:
                return objects[key].body

        found: list[bytes] = []
        for position in range(bisect_right(keys, start, low, high) if start else low, high):
            body = body_of(keys[position])
            if wanted.everything or wanted.matches(body):
                found.append(body)
                if limit and len(found) == limit:
                    return found, keys[position], high - position - 1
        return found, "", 0

    def watch(self, request: Request, target: ResourcePath, served: Served) -> Response:
        """Answer a stream of changes."""
        kind, store = served.kind, self._state.store
        check_list_options(request)
        wanted = Filter(kind, request.param("labelSelector"), request.param("fieldSelector"))
        asked = request.param("resourceVersion")
        send_initial = request.flag("sendInitialEvents") if "sendInitialEvents" in request.query else asked in ("", "0")
        prefix = f"{target.namespace}/" if target.namespace else ""
        render = forms.rendering(request, kind, self._state.clock)
        revision = store.published
        initial: Sequence[bytes] = ()
        if send_initial:
            initial, _, _ = self._select(kind, target.namespace, wanted, "", 0)
        elif asked not in ("", "0"):
            revision = _revision(asked)
        watcher, missed = store.watch(kind.resource, revision, ahead=request.ahead)
        watch = Watch(
            store,
            kind,
            watcher,
            wanted,
            prefix=prefix,
            missed=missed,
            initial=initial,
            mark_initial_end=send_initial and "sendInitialEvents" in request.query,
            bookmarks=request.flag("allowWatchBookmarks"),
            timeout_seconds=_integer(request, "timeoutSeconds") or self._default_timeout(request),
            render=render,
            render_bookmarks=forms.wants_metadata(request),
        )
        return Response(200, stream=watch)

    def _default_timeout(self, request: Request) -> float:
        """Return between half an hour and an hour for remote watches, so that they spread over servers."""
        if not request.flag("allowWatchBookmarks"):
            return 0.0
        return _MIN_WATCH_SECONDS * (1 + self._state.rng.random())


def _joined(kind: Kind, head: bytes, bodies: Sequence[bytes], *, typed: bool) -> bytes:
    """Return a list's text. Put together in one step and from views: a list may be of gigabytes."""
    if not bodies:
        return head + b"]}"
    items, separator = (list(bodies), b",") if typed else (_untyped(kind, bodies), b",{")
    items[0] = b"".join((head, separator[1:], items[0]))
    items[-1] = b"".join((items[-1], b"]}"))
    return separator.join(items)


def _untyped(kind: Kind, bodies: Sequence[bytes]) -> list[bytes | memoryview]:
    """Return what follows the first brace of built-in objects in lists: neither ``apiVersion`` nor ``kind``."""
    version, name = f'"apiVersion":"{kind.api_version}",', f'"kind":"{kind.name}",'
    heads = (f"{{{version}{name}".encode(), f"{{{name}{version}".encode())
    length = len(heads[0])
    # Nearly all bodies begin with both, in one order or the other.
    return [memoryview(body)[length:] if body.startswith(heads) else _without_type(body) for body in bodies]


def _without_type(body: bytes) -> bytes:
    obj = _decode(body)
    del obj["apiVersion"], obj["kind"]
    return encode(obj)[1:]


def check_list_options(request: Request) -> None:
    """Check how revisions are asked for.

    Raises:
        Invalid: The options of a list or watch do not go together.
    """
    match, revision = request.param("resourceVersionMatch"), request.param("resourceVersion")
    has_initial = "sendInitialEvents" in request.query
    if not match and not has_initial:
        return
    field, causes = "resourceVersionMatch", []
    if request.flag("watch"):
        if match and not has_initial:
            causes.append(
                forbidden_field(field, f"{field} is forbidden for watch unless sendInitialEvents is provided")
            )
        elif has_initial:
            if match != "NotOlderThan":
                causes.append(forbidden_field(field, f"sendInitialEvents requires setting {field} to NotOlderThan"))
                if match:
                    causes.append(not_supported(field, match, ["NotOlderThan"]))
            if request.flag("sendInitialEvents") and not request.flag("allowWatchBookmarks"):
                text = "sendInitialEvents is forbidden for watch unless allowWatchBookmarks is set"
                causes += [] if causes else [forbidden_field("sendInitialEvents", text)]
    elif has_initial:
        causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    elif not revision:
        causes.append(forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided"))
    elif match not in ("Exact", "NotOlderThan"):
        causes.append(not_supported(field, match, ["Exact", "NotOlderThan", ""]))
    elif match == "Exact" and revision == "0":
        causes.append(forbidden_field(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if causes:
        raise invalid_options("ListOptions", causes)


def invalid_options(kind: str, causes: Sequence[Cause]) -> Invalid:
    """Return the error for options: ``ListOptions.meta.k8s.io "" is invalid: …``."""
    details = {"group": "meta.k8s.io", "kind": kind}
    return Invalid(f'{kind}.meta.k8s.io "" is invalid: {aggregate(causes)}', causes=causes, details=details)


def _integer(request: Request, name: str) -> int:
    text = request.param(name)
    if not text:
        return 0
    try:
        return max(0, int(text))
    except ValueError as error:
        raise BadRequest(f"{name} must be an integer, not {text!r}") from error


def _revision(text: str) -> int:
    try:
        revision = int(text)
    except ValueError as error:
        text = f'resourceVersion: Invalid value: "{text}": must be an unsigned integer'
        raise BadRequest(f"invalid resource version: {text}") from error
    if revision < 0:
        raise BadRequest(f'resourceVersion: Invalid value: "{text}": must not be negative')
    return revision


def _token(last_key: str, revision: int) -> str:
    return base64.urlsafe_b64encode(encode({"v": 1, "rv": revision, "start": last_key})).decode().rstrip("=")


def _continue(token: str) -> tuple[str, int]:
    """Return the key a page starts after and the revision of the first page."""
    if not token:
        return "", 0
    try:
        read = _decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return str(read["start"]), int(read["rv"])
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise BadRequest(
            "invalid continue token: continue key is not valid: take it unchanged from the previous page"
        ) from error
