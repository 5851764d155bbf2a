"""A cluster that misbehaves as real ones do: it refuses, forgets to answer, and ends watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

from strato.api.wire import Request, Response
from strato.errors import Conflict, Gone, TooManyRequests, Unavailable
from tests.controllers.world import ADMIN, MeddlingCluster, World


class FaultyCluster(MeddlingCluster):
    """See the module.

    Args:
        world: Whose server it speaks to.
        seed: Of its whims.
        rate: Share of requests that go wrong.
    """

    def __init__(self, world: World, seed: int, rate: float = 0.15) -> None:
        super().__init__(world.server, ADMIN)
        self._random = Random(seed)
        self.rate = rate
        self.faults = 0

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        if stream:
            return self._cut(await super().exchange(request, stream=stream))
        if self._random.random() >= self.rate:
            return await super().exchange(request, stream=stream)
        self.faults += 1
        if request.method == "GET":
            raise Unavailable("no answer")
        kind = self._random.choice(("conflict", "busy", "down", "lost"))
        if kind == "conflict" and request.method != "POST":
            raise Conflict("somebody else wrote it")
        if kind == "busy":
            raise TooManyRequests("slowly, please")
        # A command is carried out at most once: when the answer to its deletion is lost, so is the command.
        if kind == "lost" and "/commands/" not in request.path:
            await super().exchange(request, stream=stream)
        raise Unavailable("no answer")

    def _cut(self, response: Response) -> Response:
        if response.stream is not None:
            response.stream = self._some(response.stream)
        return response

    async def _some(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        left = self._random.randint(1, 40) if self.rate else 1 << 30
        try:
            async for chunk in chunks:
                yield chunk
                left -= 1
                if left <= 0:
                    self.faults += 1
                    if self._random.random() < 0.3:
                        raise Gone("too old resource version")
                    return
        finally:
            await chunks.aclose()  # type: ignore[attr-defined] # the server's streams are generators
