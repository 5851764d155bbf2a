from __future__ import annotations

from random import Random

import pytest

from strato.api.wire import Request, Response, User
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, InternalError, Unavailable
from strato.scheduler.binding.startup import absent_kinds
from strato.server.embedded import in_memory_server


class Troubled(LocalCluster):
    """Answers its first requests with an error."""

    def __init__(self, clock: VirtualClock, error: ApiError, times: int) -> None:
        super().__init__(in_memory_server(clock, Random(1)), User("u", ("system:masters",)))
        self.error, self.times = error, times

    async def exchange(self, request: Request, *, stream: bool = False) -> Response:
        if self.times:
            self.times -= 1
            raise self.error
        return await super().exchange(request, stream=stream)


@pytest.mark.parametrize("error", [Unavailable("the disk is full"), InternalError("etcdserver: request timed out")])
def test_kinds_are_asked_for_until_the_server_answers(error: ApiError) -> None:
    """Chaos seed 3: a scheduler that started while the server's disk was full ended, and its process with it."""
    clock = VirtualClock()

    async def main() -> None:
        assert await absent_kinds(Troubled(clock, error, 30), clock) == frozenset()
        with pytest.raises(type(error)):
            await absent_kinds(Troubled(clock, error, 1))

    run_virtual(clock, main())
    assert clock.monotonic() == 30
