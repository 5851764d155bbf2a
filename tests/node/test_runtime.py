"""The node's connection to the helper that makes its processes: when the helper is killed, and when it is full."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from strato.node.sandbox.runtime import Runtime, RuntimeProblem


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    made = Runtime(str(tmp_path), "plain")
    await made.open()
    yield made
    made.close()


async def test_a_helper_that_was_killed_is_started_again(runtime: Runtime) -> None:
    killed = runtime._pid
    os.kill(killed, signal.SIGSTOP)
    waiting = asyncio.create_task(runtime.call("probe"))
    await asyncio.sleep(0)
    os.kill(killed, signal.SIGKILL)
    async with asyncio.timeout(20):  # bounds a failing test
        with pytest.raises(RuntimeProblem, match="the sandbox helper died"):
            await waiting
        assert "isolation" in await runtime.call("probe")
    assert runtime._pid != killed


async def test_others_go_on_while_a_request_waits_for_room_in_the_socket(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection: Any = runtime._socket

    class Full:
        """Has room once others have had their turn."""

        has_room = False
        tries = 0

        def send(self, message: bytes) -> int:
            self.tries += 1
            assert self.tries < 1000, "nobody else has a turn"
            if not self.has_room:
                raise BlockingIOError
            sent: int = connection.send(message)
            return sent

        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

    full = Full()
    monkeypatch.setattr(runtime, "_socket", full)
    asyncio.get_running_loop().call_soon(setattr, full, "has_room", True)
    assert "isolation" in await runtime.call("probe")
    assert full.tries > 1
