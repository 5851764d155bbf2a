"""What the network of a run keeps to whatever befalls it."""

from __future__ import annotations

import asyncio
from random import Random

from strato.api.wire import User
from strato.clock import VirtualClock
from strato.testing.chaos.network import Channel, Network, ProcessClient
from strato.testing.chaos.processes import Process, ProcessLoop


def test_a_watch_keeps_its_order_where_chunks_arrive_at_one_instant() -> None:
    loop = ProcessLoop(VirtualClock())
    sent = [b"%d\n" % number for number in range(50)]

    async def main(process: Process) -> None:
        network = Network(loop, Random(1))
        channel = Channel(network, ProcessClient(network, "p", process, User("u", ()), is_embedded=False))
        for chunk in sent:
            channel.push(chunk)
        channel.push(b"")
        got.extend([chunk async for chunk in channel])

    async def story() -> None:
        loop.start_process("p", main)
        await asyncio.sleep(5)
        await loop.end()

    got: list[bytes] = []
    loop.run_until_complete(story())
    loop.close()
    assert got == sent
