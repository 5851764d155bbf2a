"""The network between the processes of a cluster: requests, answers and watches, with injected faults.

A request takes some time to arrive; the server's process carries it out even if its sender has died, and the answer
takes some time too. A component is subject to the faults of its active windows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Final

from strato.api.wire import Request, Response, User
from strato.client.calls import WireCluster, answered
from strato.errors import ApiError, Conflict, Gone, InternalError, TooManyRequests, Unavailable
from strato.server.api import ApiServer
from strato.testing.chaos.plan import FaultKind, PlannedFault
from strato.testing.chaos.processes import Process, ProcessLoop, answer_as

SILENCE_SECONDS: Final = 30.0
"""Time without an answer after which a client considers the connection broken."""
_LATENCY_SECONDS: Final = (0.0002, 0.003)
_RESET_SECONDS: Final = 0.5
"""How long the server goes on serving a watch whose client was killed."""
_Outcome = Response | ApiError


@dataclass(slots=True)
class Window:
    """A fault that is in force."""

    fault: PlannedFault
    random: Random

    def strikes(self) -> bool:
        """Draw whether a request or an event is affected."""
        return self.random.random() < self.fault.amount


@dataclass(slots=True)
class _Fate:
    """The fate of one request, drawn when it is sent."""

    out_seconds: float
    back_seconds: float
    is_carried_out: bool = True
    error: ApiError | None = None
    """Error that the client gets instead of the answer."""


@dataclass(slots=True)
class Network:
    """All connections of a cluster.

    Attributes:
        on_carried_out: Called for each request when the server starts to carry it out, with its sender and the time of
            sending.
        on_acknowledged: Called for each answer that has reached its client, with client, request and response.
    """

    loop: ProcessLoop
    random: Random
    server: ApiServer | None = None
    server_process: Process | None = None
    on_carried_out: Callable[[ProcessClient, Request, float], None] = lambda *_: None
    on_acknowledged: Callable[[ProcessClient, Request, Response], None] = lambda *_: None
    _windows: dict[str, list[Window]] = field(default_factory=dict)
    _waiting: dict[asyncio.Future[list[_Outcome]], None] = field(default_factory=dict)
    """Futures of answers that the server has not given yet."""
    _channels: dict[Channel, None] = field(default_factory=dict)

    # Faults

    def begin(self, fault: PlannedFault) -> Window:
        """Start a fault."""
        window = Window(fault, Random(fault.seed))
        self._windows.setdefault(fault.part, []).append(window)
        if fault.kind is FaultKind.REFUSED:
            self._break_off(lambda channel: channel.line.part == fault.part)
        return window

    def end(self, window: Window) -> None:
        """End a fault; after a partition, delayed data arrives or the connection breaks."""
        fault = window.fault
        self._windows[fault.part].remove(window)
        if fault.kind is FaultKind.PARTITION and not self.is_cut(fault.part):
            for channel in [channel for channel in self._channels if channel.line.part == fault.part]:
                if window.random.random() < 0.5:
                    channel.break_off(Unavailable("connection timed out"))
                else:
                    channel.flow()

    def windows(self, part: str, kind: FaultKind) -> list[Window]:
        """Return the active faults of a kind for a component."""
        return [window for window in self._windows.get(part, ()) if window.fault.kind is kind]

    def is_cut(self, part: str) -> bool:
        """Return whether the component is cut off from the server."""
        return bool(self.windows(part, FaultKind.PARTITION))

    def server_started(self, server: ApiServer, process: Process) -> None:
        """Connect all clients to a server."""
        self.server, self.server_process = server, process

    def server_died(self) -> None:
        """Break all connections."""
        self.server = self.server_process = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting:
            _fail(answer, Unavailable("connection reset by peer"))
        self._break_off(lambda _: True)

    def _break_off(self, which: Callable[[Channel], bool]) -> None:
        for channel in [channel for channel in self._channels if which(channel)]:
            channel.break_off(Unavailable("connection reset by peer"))

    # Requests

    async def send(self, line: ProcessClient, requests: Sequence[Request], *, stream: bool = False) -> list[_Outcome]:
        """Send requests together; return the answers or errors that the client gets."""
        now = self.loop.time()
        if self.windows(line.part, FaultKind.REFUSED):
            await asyncio.sleep(self.random.uniform(*_LATENCY_SECONDS))
            return [Unavailable("connection refused") for _ in requests]
        fates = [self._fate(line.part, request) for request in requests]
        answer: asyncio.Future[list[_Outcome]] = self.loop.create_future()
        arrives_at = now + max(fate.out_seconds for fate in fates)
        journey = _Journey(self, line, requests, fates, answer, now, stream)
        self.outside(arrives_at, journey.arrive)
        return await answer

    def _fate(self, part: str, request: Request) -> _Fate:
        fate = _Fate(self.random.uniform(*_LATENCY_SECONDS), self.random.uniform(*_LATENCY_SECONDS))
        for window in self._windows.get(part, ()):
            kind, amount, random = window.fault.kind, window.fault.amount, window.random
            if kind is FaultKind.SLOW:
                fate.out_seconds += random.random() * amount
                fate.back_seconds += random.random() * amount
            elif kind is FaultKind.LOST and window.strikes():
                fate.error = Unavailable("connection reset by peer")
            elif kind is FaultKind.ERRORS and window.strikes():
                fate.error, fate.is_carried_out = _draw_error(random, request)
        return fate

    def outside(self, when: float, callback: Callable[[], None]) -> None:
        """Call a function at an instant, outside of all processes."""
        self.loop.call_at(when, callback, context=_OUTSIDE)

    # Watches

    def open_channel(self, line: ProcessClient, stream: AsyncIterator[bytes]) -> Channel:
        """Open a watch and return the client's end of it; called in the server's process."""
        channel = Channel(self, line)
        self._channels[channel] = None

        async def pump() -> None:
            try:
                async for chunk in stream:
                    if channel.is_closed:
                        break
                    channel.push(chunk)
            finally:
                close = getattr(stream, "aclose", None)
                if close is not None:
                    await close()
            channel.push(b"")

        pumping = self.loop.create_task(pump())
        channel.on_close = pumping.cancel
        line.process.on_death.append(
            lambda: self.outside(self.loop.time() + _RESET_SECONDS, channel.close) if not channel.is_closed else None
        )
        return channel

    def forget(self, channel: Channel) -> None:
        """Remove a watch that has ended."""
        self._channels.pop(channel, None)


_OUTSIDE: Final = copy_context()


class _Journey:
    """Requests on their way to the server, and their answers on the way back."""

    __slots__ = ("answer", "fates", "line", "network", "outcomes", "requests", "sent_at", "stream")

    def __init__(
        self,
        network: Network,
        line: ProcessClient,
        requests: Sequence[Request],
        fates: list[_Fate],
        answer: asyncio.Future[list[_Outcome]],
        sent_at: float,
        stream: bool,
    ) -> None:
        self.network, self.line, self.requests, self.fates = network, line, requests, fates
        self.answer, self.sent_at, self.stream = answer, sent_at, stream
        self.outcomes: list[_Outcome] = []

    def arrive(self) -> None:
        network = self.network
        server, process = network.server, network.server_process
        if network.is_cut(self.line.part):
            self._stay_silent()
            return
        if server is None or process is None:
            _fail(self.answer, Unavailable("connection refused"))
            return
        network._waiting[self.answer] = None  # noqa: SLF001 -- its own
        reply: asyncio.Future[list[_Outcome]] = network.loop.create_future()
        reply.add_done_callback(self._answered, context=_OUTSIDE)
        answer_as(network.loop, process, lambda: self._carry_out(server), reply)

    async def _carry_out(self, server: ApiServer) -> list[_Outcome]:
        carried = [request for request, fate in zip(self.requests, self.fates, strict=True) if fate.is_carried_out]
        for request in carried:
            self.network.on_carried_out(self.line, request, self.sent_at)
        if len(carried) > 1:
            responses = list(await server.handle_all(carried))
        else:
            responses = [await server.handle(request) for request in carried]
        waiting = iter(responses)
        outcomes: list[_Outcome] = []
        for fate in self.fates:
            response = next(waiting) if fate.is_carried_out else None
            if response is not None and response.stream is not None:
                response = await self._streamed(response)
            outcome = fate.error if fate.error is not None else response
            assert outcome is not None, "what is not carried out has an error"
            outcomes.append(outcome)
        return outcomes

    async def _streamed(self, response: Response) -> Response:
        assert response.stream is not None
        if self.stream and not response.is_text and self.fates[0].error is None:
            response.stream = self.network.open_channel(self.line, response.stream)
            return response
        if self.stream and not response.is_text:
            close = getattr(response.stream, "aclose", None)
            if close is not None:
                await close()
            return Response(response.status)
        body = b"".join([chunk async for chunk in response.stream])
        return Response(response.status, body, response.content_type, response.headers)

    def _answered(self, reply: asyncio.Future[list[_Outcome]]) -> None:
        self.network._waiting.pop(self.answer, None)  # noqa: SLF001 -- its own
        if reply.cancelled():
            return
        error = reply.exception()
        if error is not None:
            self.network.loop.call_exception_handler({"message": "the server failed", "exception": error})
            _fail(self.answer, Unavailable("connection reset by peer"))
            return
        self.outcomes = reply.result()
        back = max(fate.back_seconds for fate in self.fates)
        self.network.outside(self.network.loop.time() + back, self._return)

    def _return(self) -> None:
        if self.network.is_cut(self.line.part):
            self._stay_silent()
            return
        if self.answer.done() or not self.line.process.is_alive:
            return
        for request, outcome in zip(self.requests, self.outcomes, strict=True):
            if isinstance(outcome, Response):
                self.network.on_acknowledged(self.line, request, outcome)
        self.answer.set_result(self.outcomes)

    def _stay_silent(self) -> None:
        silence = Unavailable("no answer: the connection timed out")
        self.network.outside(self.network.loop.time() + SILENCE_SECONDS, lambda: _fail(self.answer, silence))


class Channel:
    """An open watch: chunks arrive in order, perhaps late or twice; a lost chunk ends the watch."""

    def __init__(self, network: Network, line: ProcessClient) -> None:
        self.line = line
        self.is_closed = False
        self.on_close: Callable[[], object] = lambda: None
        self._network = network
        self._arrived: deque[bytes] = deque()
        self._held: list[bytes] = []
        self._under_way: deque[bytes] = deque()
        self._last_at = 0.0
        self._lag = network.random.random()
        """Factor of this watch's delay under the fault LATE_WATCHES."""
        self._error: ApiError | None = None
        self._has_ended = False
        self._waiting: asyncio.Future[None] | None = None

    def push(self, chunk: bytes) -> None:
        """Send a chunk; an empty one ends the watch. Called in the server's process."""
        network, part = self._network, self.line.part
        for window in network.windows(part, FaultKind.BROKEN_WATCHES):
            if chunk and window.strikes():
                expired = window.random.random() < 0.3
                self.break_off(Gone("too old resource version") if expired else Unavailable("unexpected EOF"))
                return
        for window in network.windows(part, FaultKind.REPEATED_EVENTS):
            chunk = b"".join(line * (1 + window.strikes()) for line in chunk.splitlines(keepends=True))
        at = network.loop.time() + network.random.uniform(*_LATENCY_SECONDS)
        at += sum(self._lag * window.fault.amount for window in network.windows(part, FaultKind.LATE_WATCHES))
        self._last_at = max(at, self._last_at)
        self._under_way.append(chunk)
        # timers of one instant fire in any order, so each delivers the oldest chunk
        network.outside(self._last_at, lambda: self._arrive(self._under_way.popleft()))

    def _arrive(self, chunk: bytes) -> None:
        if self._network.is_cut(self.line.part):
            self._held.append(chunk)
            return
        if chunk:
            self._arrived.append(chunk)
        else:
            self._has_ended = True
        self._wake()

    def flow(self) -> None:
        """Deliver the chunks that a partition has delayed."""
        held, self._held = self._held, []
        for chunk in held:
            self._arrive(chunk)

    def break_off(self, error: ApiError) -> None:
        """End the watch with an error; chunks under way are lost."""
        self._error = error
        self._detach()
        self._wake()

    def close(self) -> None:
        """End it from the client's side."""
        self.is_closed = True
        self._detach()
        self._wake()

    def _detach(self) -> None:
        self._network.forget(self)
        on_close, self.on_close = self.on_close, lambda: None
        on_close()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._arrived:
            if self._error is not None:
                raise self._error
            if self._has_ended or self.is_closed:
                raise StopAsyncIteration
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._arrived.popleft()

    async def aclose(self) -> None:
        """End it from the client's side."""
        self.close()


class ProcessClient(WireCluster):
    """An API client of one process, with one identity.

    Args:
        part: Name of the component whose faults apply.
        is_embedded: Whether its process dies with the server; then it is answered before the commit, and writes are
            sent together.
    """

    chunks_are_whole_lines: ClassVar[bool] = True

    def __init__(self, network: Network, part: str, process: Process, user: User, *, is_embedded: bool) -> None:
        self.network = network
        self.part = part
        self.process = process
        self.remote = not is_embedded
        self.at_once = 64 if is_embedded else 1
        self.is_embedded = is_embedded
        self._user = user

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request."""
        request.user, request.uncommitted = self._user, self.is_embedded
        (outcome,) = await self.network.send(self, [request], stream=stream)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    async def exchange_all(self, requests: Sequence[Request]) -> Sequence[Response | ApiError]:
        """Send writes, together if embedded, otherwise one by one."""
        if not self.is_embedded:
            return await super().exchange_all(requests)
        for request in requests:
            request.user, request.uncommitted = self._user, True
        try:
            outcomes = await self.network.send(self, requests)
        except Unavailable as error:
            return [error] * len(requests)
        return [answered(outcome) if isinstance(outcome, Response) else outcome for outcome in outcomes]

    async def close(self) -> None:
        """Do nothing, as no connection is kept open."""


def _draw_error(random: Random, request: Request) -> tuple[ApiError, bool]:
    """Draw an error answer, and whether the server carries the request out nevertheless."""
    errors: list[tuple[ApiError, bool]] = [
        (Unavailable("the server is currently unable to handle the request"), False),
        (TooManyRequests("too many requests, please try again later", retry_after_seconds=1), False),
        (InternalError("etcdserver: request timed out"), random.random() < 0.5),
        (
            ApiError("the server was unable to return a response in time", reason="Timeout", code=504),
            random.random() < 0.5,
        ),
    ]
    if request.method in ("PATCH", "PUT", "DELETE") or request.path.endswith("/binding"):
        errors.append(
            (Conflict("the object has been modified; please apply your changes to the latest version"), False)
        )
    if request.method == "GET" and (request.flag("watch") or request.param("continue")):
        errors.append((Gone("too old resource version"), False))
    return random.choice(errors)


def _fail(answer: asyncio.Future[list[_Outcome]], error: ApiError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # retrieved, as the waiting process may be dead
