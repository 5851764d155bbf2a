"""Watchers that are slow, vanish or wait for long: they are told, and nothing of them is kept."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from strato.api import catalog
from strato.api.wire import Pushed
from strato.clock import VirtualClock, run_virtual
from strato.server import store as stores
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server
from strato.server.rest import watching
from tests.server.asking import MERGE, Client

MAPS = "/api/v1/namespaces/default/configmaps"


def in_virtual_time(main: Callable[[ApiServer, Client], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()

    async def run() -> None:
        server = in_memory_server(clock, random.Random(1))
        await main(server, Client(server))

    run_virtual(clock, run())


async def watch(client: Client, **query: str) -> AsyncIterator[bytes]:
    answer = await client.send("GET", MAPS, watch="true", **query)
    assert answer.stream is not None, answer.body
    return answer.stream


async def frames(stream: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for chunk in [chunk async for chunk in stream] for line in chunk.splitlines()]


async def close(stream: Any) -> None:
    await stream.aclose()


def watchers(server: ApiServer) -> int:
    return sum(len(bucket.watchers) for bucket in server.store.buckets())


def test_a_watcher_too_slow_is_told_to_list_again_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.Watcher, "LIMIT", 10)

    async def main(server: ApiServer, client: Client) -> None:
        stream = await watch(client)
        await client.ask("POST", MAPS, {"metadata": {"name": "a"}})
        assert json.loads(await anext(stream))["type"] == "ADDED"
        for number in range(20):
            await client.ask("PATCH", f"{MAPS}/a", {"data": {"n": str(number)}}, MERGE)
        assert watchers(server) == 0
        (last,) = await frames(stream)
        assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")

    in_virtual_time(main)


def test_watchers_that_vanish_leave_nothing_behind() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        gone = []
        for number in range(300):
            stream = await watch(client, allowWatchBookmarks="true")
            if number % 3:
                reader = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
            if number % 2:
                await close(stream)
            else:
                await client.ask("POST", MAPS, {"metadata": {"name": f"m{number}"}})
                await close(stream)
            gone.append(weakref.ref(stream))
            del stream
        assert watchers(server) == 0
        await asyncio.sleep(3600)
        gc.collect()
        assert [one for one in gone if one() is not None] == []

    in_virtual_time(main)


def test_a_watch_ends_when_its_time_is_up() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await frames(await watch(client, timeoutSeconds="90")) == []
        assert loop.time() - began == pytest.approx(90)
        assert watchers(server) == 0

    in_virtual_time(main)


def test_a_watch_that_is_silent_says_every_minute_how_far_it_is() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        stream = await watch(client, allowWatchBookmarks="true", timeoutSeconds="150")
        await client.ask("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "elsewhere"}})
        found = await frames(stream)
        assert [frame["type"] for frame in found] == ["BOOKMARK", "BOOKMARK"]
        assert {frame["object"]["metadata"]["resourceVersion"] for frame in found} == {str(server.store.published)}

    in_virtual_time(main)


def test_many_watchers_see_the_same() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        streams = [await watch(client, timeoutSeconds="5") for _ in range(50)]
        streams += [await watch(client, timeoutSeconds="5", labelSelector="l=1") for _ in range(50)]
        for number in range(10):
            labels = {"l": str(number % 2)}
            await client.ask("POST", MAPS, {"metadata": {"name": f"m{number}", "labels": labels}})
        seen = await asyncio.gather(*(frames(stream) for stream in streams))
        assert all(one == seen[0] for one in seen[:50])
        assert all(one == seen[50] for one in seen[50:])
        assert [frame["object"]["metadata"]["name"] for frame in seen[0]] == [f"m{number}" for number in range(10)]
        assert [frame["object"]["metadata"]["name"] for frame in seen[50]] == ["m1", "m3", "m5", "m7", "m9"]

    in_virtual_time(main)


def test_initial_events_come_in_bounded_chunks() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        for number in range(1100):
            await client.ask("POST", MAPS, {"metadata": {"name": f"m{number:04}"}})
        stream = await watch(
            client,
            sendInitialEvents="true",
            allowWatchBookmarks="true",
            resourceVersionMatch="NotOlderThan",
            timeoutSeconds="1",
        )
        sizes = [chunk.count(b"\n") async for chunk in stream]
        assert sizes == [512, 512, 77]

    in_virtual_time(main)


@pytest.mark.parametrize("selector", ["", "l=1", "l=2"], ids=["all", "few", "none but the last"])
def test_many_events_that_waited_come_in_bounded_chunks_and_a_bookmark_only_after_them(selector: str) -> None:
    async def main(server: ApiServer, client: Client) -> None:
        stream = await watch(client, labelSelector=selector, allowWatchBookmarks="true", timeoutSeconds="130")
        assert isinstance(stream, Pushed)
        assert stream.take() == b""
        for number in range(1500):
            body = {"metadata": {"name": f"m{number:04}", "labels": {"l": "1" if number % 700 == 0 else "0"}}}
            await client.ask("POST", MAPS, body)
        await asyncio.sleep(61)
        await client.ask("POST", MAPS, {"metadata": {"name": "z", "labels": {"l": "2"}}})
        chunks = [chunk.splitlines() for chunk in iter(stream.take, b"")]
        found = [json.loads(line) for lines in chunks for line in lines]
        assert [frame["type"] for frame in found] == ["ADDED"] * {"": 1501, "l=1": 3, "l=2": 1}[selector] + ["BOOKMARK"]
        assert found[-1]["object"]["metadata"]["resourceVersion"] == str(server.store.published)
        assert max(map(len, chunks)) <= 513
        await asyncio.sleep(70)
        assert stream.take() != b""
        assert stream.ended

    in_virtual_time(main)


def test_what_is_wanted_is_found_behind_much_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "CHUNK_BYTES", 16 * 1024)

    async def main(server: ApiServer, client: Client) -> None:
        stream = await watch(client, labelSelector="wanted=yes")
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        bucket = server.state.bucket(catalog.CONFIGMAP)
        (watcher,) = bucket.watchers
        bodies = [{"metadata": {"name": f"a{number}"}, "data": {"a": "x" * 100}} for number in range(600)]
        notified, watcher.on_change = watcher.on_change, lambda: None  # the reader is busy meanwhile
        for body in [*bodies, {"metadata": {"name": "b", "labels": {"wanted": "yes"}}}]:
            await client.ask("POST", MAPS, body)
        watcher.on_change = notified
        notified()
        async with asyncio.timeout(1):
            assert json.loads(await first)["object"]["metadata"]["name"] == "b"
        await close(stream)

    in_virtual_time(main)
