"""`WireCluster`: the `Cluster` calls turned into requests, over any transport.

A transport adds one method, `exchange`: a request in, its answer out. Everything a call means (paths, query
parameters, bodies, decoding, errors) is here, so that the in-process and the HTTP client cannot differ.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.meta import Object
from strato.api.wire import Request, Response
from strato.client.cluster import (
    Binding,
    Cluster,
    Created,
    DeleteOptions,
    Deletion,
    Json,
    ListOptions,
    ListPage,
    Patch,
    PatchBody,
    PatchOptions,
    PatchType,
    WatchEvent,
    WatchOptions,
)
from strato.client.codec import Codec, codec_of, decode_error, delete_options, encode, kind_of, next_token, query_of
from strato.errors import ApiError, Unavailable


class _CreatedObject(msgspec.Struct, gc=False):
    metadata: Created


_decode_created = msgspec.json.Decoder(_CreatedObject).decode
_LONGEST_RETRY_AFTER_SECONDS = 3600.0
_PARAMETERS = {
    "label_selector": "labelSelector",
    "field_selector": "fieldSelector",
    "limit": "limit",
    "continue_token": "continue",
    "resource_version": "resourceVersion",
    "timeout_seconds": "timeoutSeconds",
}
_TURNS_TO_SEND = 2
"""Turns of the loop until the request of a task that was just created has left: the task writes it in the first, and
`Link` writes its frames to the socket in the second."""
_JSON_HEADERS = {"accept": "application/json"}
_JSON_BODY_HEADERS = {"accept": "application/json", "content-type": "application/json"}
_PATCH_HEADERS = {kind: {"accept": "application/json", "content-type": kind.value} for kind in PatchType}


class WireCluster(Cluster):
    """A `Cluster` whose transport is one method. Results are typed by the `Cluster` protocol's overloads."""

    remote: bool = True
    at_once: int = 1

    chunks_are_whole_lines: ClassVar[bool] = False
    """Whether streamed chunks end with a newline on this transport, as they do where the server makes them."""

    @abstractmethod
    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Send a request and return its answer, also if that is an error status.

        Args:
            request: What to send.
            stream: Return ``Response.stream`` for a success instead of reading the body.

        Raises:
            Unavailable: There was no answer.
        """

    async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
        """Send writes in order, at the same time, and return their answers; errors are returned, not raised."""

        async def one(request: Request) -> Response | ApiError:
            try:
                return answered(await self.exchange(request))
            except ApiError as error:
                return error

        if len(requests) == 1:  # `gather` would make a task, which costs as much as the rest of this method
            return [await one(requests[0])]
        return await asyncio.gather(*(one(request) for request in requests))

    async def get(self, kind: type[Object] | Kind, name: str, namespace: str = "") -> Any:
        """Read one object."""
        codec = codec_of(kind)
        path = codec.kind.path(namespace, name)
        return codec.decode_object(await self._call(Request("GET", path, headers=_JSON_HEADERS)))

    async def list(
        self, kind: type[Object] | Kind, namespace: str = "", **options: Unpack[ListOptions]
    ) -> ListPage[Any]:
        """Read a collection, or one page of it."""
        codec = codec_of(kind)
        return codec.decode_list(await self._call(_list_request(codec.kind, namespace, options)))

    async def pages(
        self, kind: type[Object], namespace: str = "", **options: Unpack[ListOptions]
    ) -> AsyncIterator[ListPage[Any]]:
        """Yield a collection in pages; the server makes the next page while the client decodes this one."""
        codec, token = codec_of(kind), options.get("continue_token", "")
        asked: asyncio.Task[bytes] | None = None
        try:
            while True:
                body = await (asked or self._call(_list_request(codec.kind, namespace, options, token)))
                token, asked = next_token(body), None
                if token:
                    asked = asyncio.create_task(self._call(_list_request(codec.kind, namespace, options, token)))
                    for _ in range(_TURNS_TO_SEND):
                        await asyncio.sleep(0)
                page = codec.decode_list(body)
                yield page
                if not page.continue_token:
                    return
                if asked is None:  # this server writes the token behind the items
                    token = page.continue_token
        finally:
            if asked is not None:
                asked.cancel()
                await asyncio.wait((asked,))

    async def watch(
        self, kind: type[Object] | Kind, namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncIterator[Sequence[WatchEvent[Any]]]:
        """Yield batches of changes until the server ends the watch."""
        codec = codec_of(kind)
        # bookmarks are for resuming a broken watch; one in this process does not break
        query = query_of(watch=True, allowWatchBookmarks=self.remote, **_parameters(options))
        stream = await self._open(Request("GET", codec.kind.path(namespace), query, _JSON_HEADERS))
        lines = stream if self.chunks_are_whole_lines else whole_lines(stream)
        try:
            async for chunk in lines:
                events = codec.decode_events(chunk)
                if events:
                    yield events
        finally:
            await _close(stream)

    async def create(
        self, kind: type[Object] | Kind, body: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> Any:
        """Create an object; its namespace is the argument, else the object's own."""
        codec = codec_of(kind)
        path = codec.kind.path(namespace or body.get("metadata", {}).get("namespace", ""))
        request = Request("POST", path, _dry(dry_run), _JSON_BODY_HEADERS, encode(body))
        return codec.decode_object(await self._call(request))

    async def replace(
        self, kind: Kind, body: Mapping[str, Any], *, subresource: str = "", dry_run: bool = False
    ) -> Json:
        """PUT a whole object that was read as JSON."""
        metadata = body.get("metadata", {})
        path = kind.path(metadata.get("namespace", ""), metadata.get("name", ""), subresource)
        request = Request("PUT", path, _dry(dry_run), _JSON_BODY_HEADERS, encode(body))
        answer: Json = codec_of(kind).decode_object(await self._call(request))
        return answer

    async def patch(
        self, kind: type[Object] | Kind, name: str, namespace: str, body: PatchBody, **options: Unpack[PatchOptions]
    ) -> Any:
        """Change part of an object. An apply takes over fields that others own (``force``), as controllers do."""
        codec, patch_type = codec_of(kind), options.get("patch_type", PatchType.MERGE)
        query = _dry(options.get("dry_run", False))
        if field_manager := options.get("field_manager"):
            query["fieldManager"] = [field_manager]
        if patch_type is PatchType.APPLY:
            query["force"] = ["true"]
        path = codec.kind.path(namespace, name, options.get("subresource", ""))
        request = Request("PATCH", path, query, _PATCH_HEADERS[patch_type], encode(body))
        return codec.decode_object(await self._call(request))

    async def delete(
        self, kind: type[Object] | Kind, name: str, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> None:
        """Delete an object.

        Raises:
            ValueError: The name is empty: that would be the whole collection.
        """
        await self._call(_delete_request(kind, namespace, name, **options))

    async def create_all(
        self, kind: Kind, bodies: Sequence[Mapping[str, Any] | bytes], namespace: str
    ) -> Sequence[Created | ApiError]:
        """Create objects of one kind in one namespace."""
        path = kind.path(namespace)
        answers = await self.exchange_all(
            [Request("POST", path, {}, _JSON_BODY_HEADERS, encode(body)) for body in bodies]
        )
        return [answer if isinstance(answer, ApiError) else _decode_created(answer.body).metadata for answer in answers]

    async def bind_all(self, bindings: Sequence[Binding]) -> Sequence[ApiError | None]:
        """POST Bindings of pods to nodes."""
        return _failures(await self.exchange_all([_bind_request(binding) for binding in bindings]))

    async def patch_all(
        self, kind: Kind, patches: Sequence[Patch], *, patch_type: PatchType = PatchType.MERGE, subresource: str = ""
    ) -> Sequence[ApiError | None]:
        """Patch objects of one kind."""
        return _failures(await self.exchange_all(_patches(kind, patches, patch_type, subresource, brief=True)))

    async def change_all(
        self,
        kind: type[Object] | Kind,
        patches: Sequence[Patch],
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> Sequence[Any]:
        """Patch objects of one kind, and return them as they are afterwards."""
        codec = codec_of(kind)
        answers = await self.exchange_all(_patches(codec.kind, patches, patch_type, subresource, brief=False))
        return [answer if isinstance(answer, ApiError) else _decoded(codec, answer) for answer in answers]

    async def delete_all(self, kind: type[Object], objects: Sequence[Deletion]) -> Sequence[ApiError | None]:
        """Delete objects of one kind."""
        return _failures(
            await self.exchange_all([_delete_request(kind, one.namespace, one.name, uid=one.uid) for one in objects])
        )

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send any request and return the whole answer body."""
        headers = {"accept": accept}
        if body:
            headers["content-type"] = content_type
        parameters = {name: [value] for name, value in (query or {}).items()}
        return await self._call(Request(method, path, parameters, headers, body))

    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, accept: str = "*/*"
    ) -> AsyncIterator[bytes]:
        """GET and yield the body as it arrives."""
        parameters = {name: [value] for name, value in (query or {}).items()}
        chunks = await self._open(Request("GET", path, parameters, {"accept": accept}))
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await _close(chunks)

    async def _call(self, request: Request) -> bytes:
        response = await self.exchange(request)
        if response.status >= 400:
            raise error_of(response, await _whole_body(response))
        return response.body if response.stream is None else await _whole_body(response)

    async def _open(self, request: Request) -> AsyncIterator[bytes]:
        response = await self.exchange(request, stream=True)
        if response.status >= 400:
            raise error_of(response, await _whole_body(response))
        return response.stream if response.stream is not None else _one_chunk(response.body)


async def whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Regroup a byte stream so that every chunk ends with a newline; lines may be of any length.

    Raises:
        Unavailable: The stream ended inside a line; the connection broke.
    """
    partial: list[bytes] = []  # the pieces of one unfinished line; joined once, so that huge lines cost linear time
    async for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut == 0:
            partial.append(chunk)
            continue
        partial.append(chunk[:cut])
        whole = b"".join(partial)
        partial = [chunk[cut:]] if cut < len(chunk) else []
        yield whole
    if any(part.strip() for part in partial):
        raise Unavailable("the watch was cut off inside a frame")


def answered(response: Response) -> Response | ApiError:
    """Return the answer to a write, or the error it carries."""
    return response if response.status < 400 else error_of(response, response.body)


def error_of(response: Response, body: bytes) -> ApiError:
    """Return the error that an answer carries, with the delay from its Retry-After header if the body has none."""
    error = decode_error(body, response.status)
    if error.retry_after_seconds is None and "retry-after" in response.headers:
        error.retry_after_seconds = math.ceil(retry_after_seconds(response.headers["retry-after"]))
    return error


def retry_after_seconds(text: str) -> float:
    """Parse a Retry-After header; a value that is not a number of seconds counts as 1 s."""
    try:
        return min(max(0.0, float(text)), _LONGEST_RETRY_AFTER_SECONDS)
    except ValueError:
        return 1.0


def _list_request(kind: Kind, namespace: str, options: ListOptions, token: str = "") -> Request:
    parameters = _parameters(options) | ({_PARAMETERS["continue_token"]: token} if token else {})
    return Request("GET", kind.path(namespace), query_of(**parameters), _JSON_HEADERS)


def _failures(answers: Sequence[Response | ApiError]) -> Sequence[ApiError | None]:
    return [answer if isinstance(answer, ApiError) else None for answer in answers]


def _decoded(codec: Codec[Any], answer: Response) -> Any:
    try:
        return codec.decode_object(answer.body)
    except ApiError as error:
        return error


def _delete_request(kind: type[Object] | Kind, namespace: str, name: str, **options: Unpack[DeleteOptions]) -> Request:
    body = delete_options(options)
    if not name:
        raise ValueError(f"deleting {kind_of(kind).name} without a name would delete all of them")
    headers = _JSON_BODY_HEADERS if body else _JSON_HEADERS
    return Request("DELETE", kind_of(kind).path(namespace, name), headers=headers, body=body)


def _patches(
    kind: Kind, patches: Sequence[Patch], patch_type: PatchType, subresource: str, *, brief: bool
) -> list[Request]:
    headers, end = _PATCH_HEADERS[patch_type], f"/{subresource}" if subresource else ""
    starts: dict[str, str] = {}
    requests = []
    for namespace, name, body in patches:
        start = starts.get(namespace)
        if start is None:
            start = starts[namespace] = f"{kind.path(namespace)}/"
        requests.append(Request("PATCH", f"{start}{name}{end}", {}, headers, encode(body), brief=brief))
    return requests


def _bind_request(binding: Binding) -> Request:
    namespace, pod, node, uid, annotations = binding
    metadata: Json = {"name": pod, "namespace": namespace}
    if uid:
        metadata["uid"] = uid
    if annotations:
        metadata["annotations"] = dict(annotations)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return Request(
        "POST", catalog.POD.path(namespace, pod, "binding"), {}, _JSON_BODY_HEADERS, encode(body), brief=True
    )


async def _whole_body(response: Response) -> bytes:
    if response.stream is None:
        return response.body
    try:
        return b"".join([chunk async for chunk in response.stream])
    finally:
        await _close(response.stream)


async def _one_chunk(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


async def _close(stream: AsyncIterator[bytes]) -> None:
    close = getattr(stream, "aclose", None)  # generators have the method; plain iterators may not
    if close is not None:
        await close()


def _parameters(options: ListOptions | WatchOptions) -> dict[str, Any]:
    return {_PARAMETERS[name]: value for name, value in options.items()}


def _dry(dry_run: bool) -> dict[str, list[str]]:
    return {"dryRun": ["All"]} if dry_run else {}
