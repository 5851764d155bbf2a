"""`Link`: call a `Handler` in another process of ours, over one inherited socket.

The link uses no HTTP, no TLS and no authentication. A request names the user it is sent as, and the other end believes
it, so the socket must be inherited, never come from a listener. Both ends are equal: each may send requests, and each
answers requests if it was given a handler.

A frame is its length (4 bytes, little-endian) and a MessagePack array whose first element names the frame's type. The
receiver begins single requests (`LinkRequest`) in the order in which they were sent, and frames of several (`AskAll`)
too; answers come in any order. A `LinkStream` splits long chunks into pieces of whole lines.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from strato.api.status import to_status
from strato.api.wire import Handler, Request, Response
from strato.client.linkframes import (
    AnswerAll,
    AskAll,
    Cancel,
    Chunk,
    End,
    Frame,
    LinkRequest,
    LinkResponse,
    Whole,
    decode,
    encode_into,
)
from strato.client.linkstream import LinkStream
from strato.errors import ApiError, InternalError, Unavailable

_log = logging.getLogger(__name__)

_LENGTH_BYTES = 4
_FRAMES_AT_ONCE = 8
"""Most frames that are written to the socket at once. Frames of one turn of the loop are collected, as a write costs as
much as the rest of a frame; but the other process should begin on the first while this one still makes the last."""
_REQUESTS_AT_ONCE = 32
"""Most requests of one turn of the loop in an `AskAll`, for the same reasons."""
_ANSWERED_AT_ONCE = 64
"""Requests of an uncommitted `AskAll` that are answered in one turn of the loop, about 4 ms."""


_Share = tuple[asyncio.Future[Sequence[Response]], int]
"""The future of one caller, and how many of an `AskAll`'s requests are its own."""


class Link(asyncio.Protocol, Handler):
    """One end of a socket between two processes; made by `connect`. Its `handle` asks the handler at the other end.

    Args:
        handler: Answers the other end's requests; with None they are refused.
    """

    def __init__(self, handler: Handler | None = None) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._numbers = itertools.count()
        self._outgoing: list[bytearray] = []
        self._parts: list[bytes] = []
        self._have = 0
        self._need = _LENGTH_BYTES
        self._asked: dict[int, asyncio.Future[Response]] = {}
        self._asked_all: dict[int, list[_Share]] = {}
        self._batch: list[Request] = []
        self._batch_shares: list[_Share] = []
        self._streams: dict[int, LinkStream] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._due: deque[AskAll] = deque()
        self._due_served: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.closed = asyncio.Event()
        """Set when the other end is gone or `close` was called."""

    # Asking

    async def handle(self, request: Request) -> Response:
        """Send a request to the other end and return its answer.

        Raises:
            Unavailable: The other end is gone.
        """
        if request.uncommitted and request.method != "GET":
            return (await self._together((request,)))[0]
        number = next(self._numbers)
        self._send(LinkRequest(number, request))
        answer: asyncio.Future[Response]
        answer = self._asked[number] = self._loop.create_future()
        try:
            return await answer
        except asyncio.CancelledError:
            stream = self._streams.get(number)
            if stream is not None:  # the answer arrived just before we were cancelled
                await stream.aclose()
            elif self._asked.pop(number, None) is not None:
                self._cancel(number)
            raise

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        """Send several requests to the other end in one frame and return their answers.

        Raises:
            Unavailable: The other end is gone.
        """
        if not requests:
            return ()
        if all(request.uncommitted for request in requests):
            return await self._together(requests)
        self._check_open()
        answers: asyncio.Future[Sequence[Response]] = self._loop.create_future()
        self._ask_all(list(requests), [(answers, len(requests))], uncommitted=False)
        return await answers

    def _together(self, requests: Sequence[Request]) -> asyncio.Future[Sequence[Response]]:
        """Send uncommitted writes in one frame with those of this turn and the next one of the loop.

        Their answers may share a frame, because none of them waits for the disk.
        """
        self._check_open()
        answers: asyncio.Future[Sequence[Response]] = self._loop.create_future()
        if not self._batch:
            self._loop.call_soon(self._loop.call_soon, self._send_batch)
        self._batch.extend(requests)
        self._batch_shares.append((answers, len(requests)))
        if len(self._batch) >= _REQUESTS_AT_ONCE:
            self._send_batch()
        return answers

    def _send_batch(self) -> None:
        if not self._batch or self.closed.is_set():
            return
        requests, self._batch = self._batch, []
        shares, self._batch_shares = self._batch_shares, []
        self._ask_all(requests, shares, uncommitted=True)

    def _ask_all(self, requests: list[Request], shares: list[_Share], *, uncommitted: bool) -> None:
        number = next(self._numbers)
        self._asked_all[number] = shares
        self._send(AskAll(number, requests, uncommitted))

    def _cancel(self, number: int) -> None:
        if not self.closed.is_set():
            self._send(Cancel(number))

    def _forget_stream(self, number: int, ended: bool) -> None:
        if self._streams.pop(number, None) is not None and not ended:
            self._cancel(number)

    # Answering

    async def _serve_queued(self) -> None:
        """Answer the uncommitted `AskAll` frames in order, with a limited number of requests in a turn of the loop.

        There may be thousands of requests, and this process has other work for the same loop.
        """
        while self._due:
            await self._serve_all(self._due.popleft(), _ANSWERED_AT_ONCE)
            await asyncio.sleep(0)

    async def _serve_all(self, ask: AskAll, at_once: int) -> None:
        requests = ask.requests
        responses: list[Response] = []
        try:
            for start in range(0, len(requests), at_once):
                if start:
                    await asyncio.sleep(0)
                responses += await self._responses(requests[start : start + at_once])
            answers = [
                response.status
                if request.brief and response.status < 400
                else Whole(response.status, response.body, response.content_type, response.headers)
                for request, response in zip(requests, responses, strict=True)
            ]
            self._send(AnswerAll(ask.number, answers))
        except Unavailable:
            pass  # the other end is gone
        finally:
            self._serving.pop(ask.number, None)

    async def _responses(self, requests: Sequence[Request]) -> Sequence[Response]:
        if self._handler is None:
            return [_refusal(request) for request in requests]
        try:
            return await self._handler.handle_all(requests)
        except Exception as error:  # a bug of ours: the caller must get an answer
            _log.exception("%d requests failed, %s %s first", len(requests), requests[0].method, requests[0].path)
            return [_failure(InternalError(repr(error)))] * len(requests)

    async def _serve(self, ask: LinkRequest) -> None:
        number = ask.number
        stream: AsyncIterator[bytes] | None = None
        try:
            response = await self._response(ask.request)
            stream = response.stream
            self._send(
                LinkResponse(
                    number, response.status, response.body, response.content_type, response.headers, stream is not None
                )
            )
            if stream is not None:
                self._send(End(number, await self._pump(number, stream)))
        except Unavailable:
            pass  # the other end is gone
        finally:
            self._serving.pop(number, None)
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    async def _pump(self, number: int, stream: AsyncIterator[bytes]) -> str:
        """Send a stream's chunks; return the error that ended it, empty if none."""
        try:
            async for chunk in stream:
                if self.closed.is_set():
                    break
                self._send(Chunk(number, chunk))
                await self._writable.wait()
        except Exception as error:
            return str(error) or repr(error)
        return ""

    async def _response(self, request: Request) -> Response:
        if self._handler is None:
            return _refusal(request)
        try:
            return await self._handler.handle(request)
        except ApiError as error:
            return _failure(error)
        except Exception as error:  # a bug of ours: the caller must get an answer
            _log.exception("%s %s failed", request.method, request.path)
            return _failure(InternalError(f"{request.method} {request.path}: {error!r}"))

    # Frames

    def _check_open(self) -> None:
        if self._transport is None or self.closed.is_set():
            raise Unavailable("the other process is gone")

    def _send(self, frame: Frame) -> None:
        self._check_open()
        buffer = bytearray(_LENGTH_BYTES)
        encode_into(frame, buffer, _LENGTH_BYTES)
        buffer[:_LENGTH_BYTES] = (len(buffer) - _LENGTH_BYTES).to_bytes(_LENGTH_BYTES, "little")
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(buffer)
        if len(self._outgoing) >= _FRAMES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if outgoing and self._transport is not None and not self.closed.is_set():
            self._transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    def data_received(self, data: bytes) -> None:
        """Decode the frames in received bytes; the pieces of a large frame are joined once, when all have arrived."""
        self._parts.append(data)
        self._have += len(data)
        if self._have < self._need:
            return
        buffer = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        view, start, end = memoryview(buffer), 0, len(buffer)
        self._need = _LENGTH_BYTES
        while end - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            stop = body + int.from_bytes(view[start:body], "little")
            if stop > end:
                self._need = stop - start
                break
            self._take(decode(view[body:stop]))
            start = stop
        self._parts = [buffer[start:]] if start < end else []
        self._have = end - start

    def _take(self, frame: Frame) -> None:
        number = frame.number
        if isinstance(frame, Chunk):
            stream = self._streams.get(number)
            if stream is not None:
                stream.feed(frame.data)
        elif isinstance(frame, LinkResponse):
            self._answered(frame)
        elif isinstance(frame, LinkRequest):
            self._serving[number] = self._loop.create_task(self._serve(frame))
        elif isinstance(frame, AskAll):
            if frame.uncommitted:
                self._due.append(frame)
                if self._due_served is None or self._due_served.done():
                    self._due_served = self._loop.create_task(self._serve_queued())
            else:
                self._serving[number] = self._loop.create_task(self._serve_all(frame, len(frame.requests) or 1))
        elif isinstance(frame, AnswerAll):
            self._answered_all(frame)
        elif isinstance(frame, End):
            stream = self._streams.pop(number, None)
            if stream is not None:
                stream.end(Unavailable(frame.error) if frame.error else None)
        else:
            task = self._serving.pop(number, None)  # popped here: a task that never began runs no `finally`
            if task is not None:
                task.cancel()

    def _answered(self, answer: LinkResponse) -> None:
        waiting = self._asked.pop(answer.number, None)
        if waiting is None or waiting.cancelled():
            if answer.streams:
                self._cancel(answer.number)
            return
        stream = None
        if answer.streams:  # registered at once, as the stream's first chunks may be in the same received bytes
            stream = self._streams[answer.number] = LinkStream(partial(self._forget_stream, answer.number))
        waiting.set_result(Response(answer.status, answer.body, answer.content_type, answer.headers, stream))

    def _answered_all(self, answers: AnswerAll) -> None:
        responses = [
            Response(answer)
            if isinstance(answer, int)
            else Response(answer.status, answer.body, answer.content_type, answer.headers)
            for answer in answers.responses
        ]
        start = 0
        for waiting, count in self._asked_all.pop(answers.number, ()):
            if not waiting.done():
                waiting.set_result(responses[start : start + count])
            start += count

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from asyncio.Transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests that wait, and cancel the answers under way: the other end is gone."""
        self.closed.set()
        self._writable.set()
        gone = Unavailable("the other process is gone")
        waiters: list[asyncio.Future[Any]] = list(self._asked.values())
        for shares in (*self._asked_all.values(), self._batch_shares):
            waiters.extend(answers for answers, _ in shares)
        for waiting in waiters:
            if not waiting.done():
                waiting.set_exception(gone)
                waiting.exception()  # marks it as retrieved, in case the caller was cancelled
        self._asked.clear()
        self._asked_all.clear()
        self._batch_shares.clear()
        for stream in self._streams.values():
            stream.end(gone)
        self._streams.clear()
        for task in self._tasks():
            task.cancel()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._serving.values(), *((self._due_served,) if self._due_served is not None else ())]

    def pause_writing(self) -> None:
        """Pause streams, because the other end does not keep up."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume streams."""
        self._writable.set()

    async def close(self) -> None:
        """Close the socket, cancel the answers under way, and wait for their end."""
        serving = self._tasks()
        if self._transport is not None:
            self._transport.abort()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        self.closed.set()


def _refusal(request: Request) -> Response:
    return _failure(InternalError(f"{request.method} {request.path}: this end of the link answers nothing"))


def _failure(error: ApiError) -> Response:
    return Response(error.code, msgspec.json.encode(to_status(error)))


async def connect(end: socket.socket, handler: Handler | None = None) -> Link:
    """Return the link over one end of a connected pair of stream sockets, which it then owns.

    Args:
        end: From `socket.socketpair`, or inherited.
        handler: Answers the other end's requests.
    """
    end.setblocking(False)
    _, link = await asyncio.get_running_loop().create_unix_connection(lambda: Link(handler), sock=end)
    return link
