"""The HTTP service over the server's core: authentication, impersonation, flow control, decoding of large bodies.

The core does the routing; the protocol itself is in `strato.http`.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import msgspec

from strato.api.status import to_status
from strato.api.wire import Handler, Request, Response, User
from strato.errors import ApiError, BadRequest, UnsupportedMedia, one_line
from strato.http.headers import Head
from strato.http.parser import MAX_BODY_BYTES, too_large
from strato.http.service import HttpService
from strato.http.streaming import close_stream
from strato.http.websocket import WebSocket, accept, first_of
from strato.metrics import Registry
from strato.server import negotiation
from strato.server.bodies import INLINE_BYTES, is_slow, parsing
from strato.server.flowcontrol.control import FlowControl
from strato.server.flowcontrol.dispatch import at_once
from strato.server.healthendpoints import OwnPaths, Ready
from strato.server.negotiation import JSON, PROTOBUF
from strato.server.rest import encoded

_STREAM_PROTOCOLS = ("", "binary.k8s.io")
_STORING = frozenset(("POST", "PUT", "PATCH"))
"""Methods whose requests keep their seat until they are answered, because the decoded body stays in memory until it is
stored; other verbs take further seats for their work."""
_log = logging.getLogger(__name__)


class Authenticate(Protocol):
    """Authenticates a request."""

    def __call__(self, headers: Mapping[str, str], peer: bytes | None) -> User:
        """Return the user; the anonymous one if the request has no credentials.

        Args:
            headers: By name in lower case.
            peer: The client's certificate, DER, verified by TLS.

        Raises:
            Unauthorized: The request has credentials that are not valid.
        """


class Impersonate(Protocol):
    """Finds the user that ``Impersonate-…`` headers name."""

    def __call__(self, user: User, headers: Iterable[tuple[bytes, bytes]]) -> User:
        """Return the impersonated user.

        Raises:
            Forbidden: ``user`` may not impersonate it.
        """


class App(HttpService):
    """Answers HTTP requests with the server's core; made by `create_app`."""

    def __init__(
        self,
        handler: Handler,
        authenticate: Authenticate,
        own_paths: OwnPaths,
        impersonate: Impersonate | None,
        flows: FlowControl | None,
    ) -> None:
        self._flows = flows
        self._tasks: set[asyncio.Task[None]] = set()
        self._handler = handler
        self._authenticate = authenticate
        self._impersonate = impersonate
        self._own_paths = own_paths
        self._decoder = ThreadPoolExecutor(1, "decoder")  # one thread: more would compete for the interpreter lock

    def admit(self, head: Head) -> User:
        """Return the user of a request, the impersonated one if it names one.

        Raises:
            ApiError: The credentials are not valid, or the user may not impersonate.
        """
        try:
            user = self._authenticate(head.headers, head.peer)
            if head.others and self._impersonate is not None and _impersonates(head):
                head.impersonator = user
                user = self._impersonate(user, head.others)
        except ApiError:
            raise
        except Exception as error:
            raise _failed(head) from error
        return user

    def answer(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        """Call ``answered`` with the answer, at once or later, or return an awaitable that gives it.

        With flow control, a request is begun at once if the dispatcher has room. Otherwise it waits in the queue of
        its flow, or is refused with 429 if the queues of its priority level are full.
        """
        flows = self._flows
        if flows is None:
            return self._begin(head, user, body, answered)
        assigned = flows.assigned(user, head.method, head.path, "watch" in head.query)
        head.answer_lines = assigned.lines
        dispatcher = flows.dispatcher
        if dispatcher.has_room():
            began = dispatcher.timer()
            later = self._begin(head, user, body, answered)
            dispatcher.served(assigned.flow, dispatcher.timer() - began)
            return later

        def start() -> None:
            later = self._begin(head, user, body, answered)
            if later is not None:
                self._spawn(_passed_on(later, answered))

        def refuse() -> None:
            answered(_busy())

        if not dispatcher.enqueue(assigned.flow, start, refuse):
            refuse()
        return None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(
        self, head: Head, user: User, body: bytes, answered: Callable[[Response], None]
    ) -> Awaitable[Response] | None:
        try:
            headers = head.headers
            request = Request(head.method, head.path, head.query, headers, body, user, annotations=head.annotations)
            later: Awaitable[Response] | None
            if "content-encoding" in headers or (len(body) > INLINE_BYTES and is_slow(body, _content_type(headers))):
                later = self._decode_first(request)
            elif "upgrade" in headers:
                later = self._over_websocket(request)
            elif head.path.startswith("/api") and "protobuf" not in headers.get("accept", ""):  # nearly all do
                later = self._handler.start(request, answered)
            else:
                later = self._answer_elsewhere(request)
        except ApiError as error:
            answered(self.refusal(error))
            return None
        except Exception:
            answered(self.refusal(_failed(head)))
            return None
        return None if later is None else self._netted(head, later)

    def refusal(self, error: ApiError) -> Response:
        """Return an answer with the error as a ``Status``."""
        headers = {"Retry-After": str(error.retry_after_seconds)} if error.retry_after_seconds is not None else {}
        return Response(error.code, msgspec.json.encode(to_status(error)), headers=headers)

    async def _decode_first(self, request: Request) -> Response:
        """Decode a large or compressed body off the loop or in slices, then answer its request.

        A flow has few seats for this, because a decoded body takes many times the memory of its text.
        """
        flows = self._flows
        if flows is None:
            request.body = await self._parsed(request, None)
            return await self._answer_elsewhere(request)
        async with flows.dispatcher.seat(flows.flow_of(request)):
            request.body = await self._parsed(request, flows)
            if request.method in _STORING:
                return await self._answer_elsewhere(request)
        return await self._answer_elsewhere(request)

    async def _parsed(self, request: Request, flows: FlowControl | None) -> bytes:
        """Return the body decompressed and decoded.

        Raises:
            ApiError: It cannot be decompressed, or exceeds the limit once it is.
        """
        body, content_type = request.body, _content_type(request.headers)
        run = asyncio.get_running_loop().run_in_executor
        encoding = request.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity") and body:
            body = await run(self._decoder, _unpacked, body, encoding)
        if encoding and not is_slow(body, content_type):
            return body
        steps = parsing(body, content_type)
        if flows is None:
            return at_once(steps)
        return await flows.dispatcher.finish(flows.flow_of(request), steps)

    async def _answer_elsewhere(self, request: Request) -> Response:
        response = await self._own_paths.handle(request)
        if response is None:
            response = await self._handler.handle(request)
        form = negotiation.accepted(request.headers.get("accept", ""))
        if form is None or form.media != PROTOBUF or response.content_type != JSON or response.stream is not None:
            return response
        steps = encoded.steps(response.body, form)
        if self._flows is None or len(response.body) <= encoded.SMALL_BYTES:
            body = at_once(steps)
        else:
            body = await self._flows.dispatcher.finish(self._flows.flow_of(request), steps)
        return response if body is None else Response(response.status, body, PROTOBUF, response.headers)

    async def _over_websocket(self, request: Request) -> Response:
        """Answer a request that asks for a WebSocket: a watch or a log as its messages, anything else as usual."""
        response = await self._answer_elsewhere(request)
        stream, is_text = response.stream, response.content_type.startswith("application/json")
        is_asked = request.headers["upgrade"].strip().lower() == "websocket"
        if stream is None and response.content_type.startswith("text/plain"):  # a log that is not followed
            stream = _one(response.body)
        if not is_asked or stream is None or response.status != 200:
            return response
        try:
            headers, _ = accept(request.headers, _STREAM_PROTOCOLS)
        except ApiError:
            await close_stream(stream)
            raise
        session = WebSocket(partial(_send_stream, stream, is_text=is_text))
        session.when_ended(lambda: self._spawn(close_stream(stream)))  # also if the client leaves before it begins
        return Response(101, headers={**response.headers, **headers}, session=session)

    async def _netted(self, head: Head, later: Awaitable[Response]) -> Response:
        try:
            return await later
        except ApiError as error:
            return self.refusal(error)
        except Exception:  # a bug of ours must be answered with 500, not by a connection that closes
            return self.refusal(_failed(head))


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _send_stream(stream: AsyncIterator[bytes], socket: WebSocket, *, is_text: bool) -> None:
    """Send a stream until it ends or the client leaves: a watch as a text message per event, a log chunk by chunk."""

    async def outward() -> None:
        async for chunk in stream:
            for message in chunk.splitlines() if is_text else (chunk,):
                await socket.send(message.decode() if is_text else message)
        await socket.close()

    async def inward() -> None:
        while await socket.receive() is not None:
            pass

    await first_of(outward(), inward())


def _impersonates(head: Head) -> bool:
    return any(name.startswith(b"impersonate-") for name, _ in head.others)


def _failed(head: Head) -> ApiError:
    """Log the exception that is being handled, a bug of ours, and return the error for the client."""
    _log.exception("%s %s failed", head.method, head.path)
    return ApiError("an error on the server has prevented the request from succeeding")


async def _passed_on(later: Awaitable[Response], answered: Callable[[Response], None]) -> None:
    answered(await later)


def _busy() -> Response:
    """Return kube-apiserver's answer to a request that its priority level has no room for."""
    headers = {"Retry-After": "1", "X-Content-Type-Options": "nosniff"}
    return Response(429, b"Too many requests, please try again later.\n", "text/plain; charset=utf-8", headers)


def create_app(
    handler: Handler,
    authenticate: Authenticate,
    metrics: Registry | None = None,
    *,
    ready: Ready = dict,
    authorize_path: Callable[[User, str, str], None] | None = None,
    impersonate: Impersonate | None = None,
    other_metrics: Callable[[], Awaitable[bytes]] | None = None,
    flows: FlowControl | None = None,
) -> App:
    """Return the HTTP service.

    Args:
        handler: The server's core.
        authenticate: Finds a request's user; its `Unauthorized` becomes the answer.
        metrics: Rendered at ``/metrics``; without it that path goes to the core.
        ready: Checks behind ``/readyz``.
        authorize_path: Raises unless the user may use the verb on the path, for ``/metrics`` and the health paths;
            None allows all users.
        impersonate: Finds the user that ``Impersonate-…`` headers name; None ignores these headers.
        flows: Priority and fairness; None serves requests as they come.
        other_metrics: Returns another process's text for ``/metrics``; its names must differ from those of ``metrics``.
    """
    return App(handler, authenticate, OwnPaths(metrics, ready, authorize_path, other_metrics), impersonate, flows)


def _content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "")


def _unpacked(body: bytes, encoding: str) -> bytes:
    if encoding != "gzip":
        raise UnsupportedMedia(f"the body of the request has the unknown content encoding {encoding!r}; known is gzip")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as stream:
            plain = stream.read(MAX_BODY_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadRequest(f"the body of the request is not gzip: {one_line(error)}") from error
    if len(plain) > MAX_BODY_BYTES:
        raise too_large()
    return plain
