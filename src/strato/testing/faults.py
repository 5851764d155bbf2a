"""A client for tests whose API server misbehaves as real ones do: it refuses, throttles, is slow, hangs, loses answers.

    cluster = FaultyCluster(server, user, clock, Random(7), faults=WORLDS["half-dead"])
    ...
    cluster.heal()  # from now on everything is answered

Requests reach the real server, so that one carried out without an answer has really taken effect. Faults are drawn from
the given generator: the same seed gives the same faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Final

from strato.api.wire import Handler, Request, Response, User
from strato.client.calls import WireCluster
from strato.client.local import LocalCluster
from strato.clock import Clock
from strato.errors import ApiError, Conflict, Gone, TooManyRequests, Unavailable

SILENCE_SECONDS: Final = 60.0
"""Time after which a request without an answer fails, as in the HTTP client."""


class RequestFault(StrEnum):
    """A fault of a request other than an error answer."""

    LOST = "lost"
    """The request is carried out, and the connection breaks before or in the middle of the answer."""
    HANGS = "hangs"
    """The request is neither carried out nor answered."""
    LOST_AND_HANGS = "lost and hangs"
    """The request is carried out and not answered."""


Rule = Callable[[Request], ApiError | RequestFault | None]
"""Returns the fault of a request; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How an API server misbehaves; ratios are fractions of the requests, in [0, 1]."""

    connections: int = 0
    """Most concurrent requests, without watches; others wait. 0 sets no limit."""
    seconds: float = 0.0
    """Longest delay of an answer; each takes a random part of it."""
    refused_ratio: float = 0.0
    """Answered 503 and not carried out."""
    conflict_ratio: float = 0.0
    """Changes answered 409 and not carried out."""
    lost_ratio: float = 0.0
    """Carried out; the connection breaks before the answer."""
    hanging_ratio: float = 0.0
    """Never answered; half of them are carried out."""
    writes_per_second: float = 0.0
    """Writes above this rate are answered 429 with Retry-After. 0 sets no limit."""
    cut_after: int = 0
    """Most chunks of a watch before it ends, sometimes with 410. 0 sets no limit."""


WORLDS: Final[Mapping[str, Faults]] = MappingProxyType(
    {
        "one at a time": Faults(connections=1),
        "slow": Faults(connections=4, seconds=0.5),
        "refusing": Faults(refused_ratio=0.2, conflict_ratio=0.1, cut_after=40),
        "losing answers": Faults(lost_ratio=0.2, cut_after=40),
        "half-dead": Faults(hanging_ratio=0.05),
        "throttling": Faults(connections=8, writes_per_second=5.0),
    }
)
"""Misbehaviours, by name, with which every scenario should succeed."""


class FaultyCluster(LocalCluster):
    """A client of a misbehaving server.

    Args:
        handler, user: As for `LocalCluster`.
        faults: Faults at the beginning.
        at_once: Writes that callers pass to one call; each becomes a request of its own.
    """

    def __init__(
        self, handler: Handler, user: User, clock: Clock, random: Random, *, faults: Faults, at_once: int = 1
    ) -> None:
        super().__init__(handler, user)
        self.at_once = at_once
        self.faults = faults
        self.rules: list[Rule] = []
        """Rules tried in order before random faults; the first that returns a fault decides."""
        self.down = False
        """Whether all connections are refused."""
        self.count = 0
        """Number of requests with a fault."""
        self._clock = clock
        self._random = random
        self._connections = asyncio.Semaphore(faults.connections) if faults.connections else None
        self._tokens = faults.writes_per_second
        self._filled_at = clock.monotonic()

    exchange_all = WireCluster.exchange_all

    def heal(self) -> None:
        """End all faults; only the limit on concurrent requests stays."""
        self.faults = Faults(connections=self.faults.connections)
        self.rules.clear()
        self.down = False

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        """Pass a request to the server's core, unless a fault strikes."""
        if stream:
            if self.down:
                raise self._failed(Unavailable("connection refused"))
            return self._cut(await super().exchange(request, stream=stream))
        if self._connections is None:
            return await self._exchange(request)
        async with self._connections:
            return await self._exchange(request)

    async def _exchange(self, request: Request) -> Response:
        if self.down:
            raise self._failed(Unavailable("connection refused"))
        if self.faults.seconds:
            await self._clock.sleep(self._random.random() * self.faults.seconds)
        fault = self._fault(request)
        if isinstance(fault, ApiError):
            raise self._failed(fault)
        if fault is RequestFault.HANGS:
            await self._clock.sleep(SILENCE_SECONDS)
            raise self._failed(Unavailable("it did not answer in time"))
        response = await super().exchange(request)
        if fault is None:
            return response
        if fault is RequestFault.LOST_AND_HANGS:
            await self._clock.sleep(SILENCE_SECONDS)
        raise self._failed(Unavailable("it closed the connection in the middle of an answer"))

    def _failed(self, error: ApiError) -> ApiError:
        self.count += 1
        return error

    def _fault(self, request: Request) -> ApiError | RequestFault | None:
        for rule in self.rules:
            outcome = rule(request)
            if outcome is not None:
                return outcome
        faults = self.faults
        writes = request.method != "GET"
        if writes and faults.writes_per_second and not self._has_token():
            return TooManyRequests("too many requests, please try again later", retry_after_seconds=1)
        if faults == _NONE:
            return None
        chance = self._random.random() - faults.refused_ratio
        if chance < 0:
            return Unavailable("the server is currently unable to handle the request")
        chance -= faults.conflict_ratio
        if chance < 0:
            return Conflict("the object has been modified") if request.method in ("PATCH", "PUT", "DELETE") else None
        chance -= faults.lost_ratio
        if chance < 0:
            return RequestFault.LOST
        chance -= faults.hanging_ratio
        if chance < 0:
            return RequestFault.HANGS if self._random.random() < 0.5 else RequestFault.LOST_AND_HANGS
        return None

    def _has_token(self) -> bool:
        now, rate = self._clock.monotonic(), self.faults.writes_per_second
        self._tokens = min(2 * rate, self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _cut(self, response: Response) -> Response:
        if response.stream is not None:
            response.stream = self._some(response.stream)
        return response

    async def _some(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        left = self._random.randint(1, self.faults.cut_after) if self.faults.cut_after else -1
        try:
            async for chunk in chunks:
                yield chunk
                left -= 1
                if self.down:
                    raise self._failed(Unavailable("it closed the connection"))
                if left == 0 and self.faults.cut_after:
                    self.count += 1
                    if self._random.random() < 0.3:
                        raise Gone("too old resource version")
                    return
        finally:
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()


_NONE: Final = Faults()
