"""Collections that are more than a slice: consistent, in turns with others, and made as they are read."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from strato.api import catalog
from strato.api.wire import Request, Response
from strato.clock import VirtualClock, run_virtual
from strato.http import streaming
from strato.http.streaming import Pushing
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server
from strato.server.fields import Filter
from strato.server.rest import collections, watching
from strato.server.rest.continuetokens import TTL_SECONDS
from tests.server.asking import ADMIN, Client

MAPS = "/api/v1/namespaces/default/configmaps"
COUNT = 3000
"""Objects, of which a slice looks at some hundreds."""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "CHUNK_BYTES", 16 * 1024)


def with_maps(main: Callable[[ApiServer, Client], Coroutine[Any, Any, None]]) -> None:
    clock = VirtualClock()

    async def run() -> None:
        server = in_memory_server(clock, random.Random(1))
        client = Client(server)
        for number in range(COUNT):
            labels = {"half": str(number % 2)}
            await client.ask("POST", MAPS, {"metadata": {"name": f"m{number:05}", "labels": labels}})
        await main(server, client)

    run_virtual(clock, run())


async def body(response: Response) -> Any:
    assert response.stream is not None
    assert response.is_text
    return json.loads(b"".join([chunk async for chunk in response.stream]))


def get(accept: str = "", **query: str) -> Request:
    return Request("GET", MAPS, {name: [text] for name, text in query.items()}, {"accept": accept}, user=ADMIN)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ],
    ids=["objects", "table", "metadata"],
)
@pytest.mark.parametrize("selector", ["", "half=1"], ids=["all", "selected"])
def test_a_long_list_is_of_one_revision_whatever_is_written_while_it_is_read(accept: str, selector: str) -> None:
    async def main(server: ApiServer, client: Client) -> None:
        revision = server.store.published
        response = await server.handle(get(accept, labelSelector=selector))
        assert response.stream is not None
        chunks = [await anext(response.stream)]
        for number in range(COUNT):
            if number % 3 == 0:
                await client.ask("DELETE", f"{MAPS}/m{number:05}")
            else:
                await client.ask("PATCH", f"{MAPS}/m{number:05}", {"data": {"a": "b"}}, "application/merge-patch+json")
            await client.ask("POST", MAPS, {"metadata": {"name": f"n{number:05}", "labels": {"half": "1"}}})
        chunks += [chunk async for chunk in response.stream]
        answer = json.loads(b"".join(chunks))
        assert answer["metadata"] == {"resourceVersion": str(revision)}
        rows = [row["object"] for row in answer["rows"]] if "rows" in answer else answer["items"]
        wanted = [f"m{number:05}" for number in range(COUNT) if not selector or number % 2]
        assert [row["metadata"]["name"] for row in rows] == wanted
        assert all("data" not in row for row in rows)
        assert all(int(row["metadata"]["resourceVersion"]) <= revision for row in rows)
        assert len(chunks) > 5

    with_maps(main)


def test_others_are_served_between_slices_and_users_take_turns() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        dispatcher, order = server.state.flows.dispatcher, []

        async def read(name: str) -> None:
            response = await server.handle(get(labelSelector="half=1"))
            assert response.stream is not None
            async for _ in response.stream:
                order.append(name)  # noqa: PERF401 - in the order of everybody

        async def ask() -> None:
            while order.count("a") < 10:
                rounds = dispatcher.rounds
                await client.ask("GET", f"{MAPS}/m00001")
                await asyncio.sleep(0)
                assert dispatcher.rounds - rounds <= 2  # no more is done between two requests of somebody else
                order.append("small")

        await asyncio.gather(read("a"), read("b"), ask())
        chunks = [name for name in order if name != "small"]
        assert {chunks[at] for at in range(2, 4)} == {"a", "b"}
        assert order.count("small") >= 10

    with_maps(main)


def test_nothing_is_made_for_a_reader_that_does_not_read() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        dispatcher = server.state.flows.dispatcher
        responses = [await server.handle(get()) for _ in range(50)]
        before = dispatcher.slices
        for _ in range(100):
            await asyncio.sleep(0)
        assert dispatcher.slices == before
        for response in responses:
            await response.stream.aclose()  # type: ignore[union-attr]  # it is one

    with_maps(main)


def test_collections_of_one_flow_are_read_so_many_at_a_time() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        flow = server.state.flows.flow_of(get())
        streams = [(await server.handle(get())).stream for _ in range(40)]
        seats = flow.free_seats
        readers = [asyncio.ensure_future(_two(stream)) for stream in streams]
        for _ in range(200):
            await asyncio.sleep(0)
        assert sum(reader.done() for reader in readers) == seats
        assert flow.free_seats == 0
        for reader, stream in zip(readers, streams, strict=True):
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            await stream.aclose()  # type: ignore[union-attr]  # it is one
        assert flow.free_seats == seats

    async def _two(stream: Any) -> None:
        await anext(stream)
        await anext(stream)

    with_maps(main)


def test_a_collection_is_deleted_in_slices_and_others_are_served_meanwhile() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        dispatcher = server.state.flows.dispatcher
        before = dispatcher.slices
        deletion = asyncio.ensure_future(
            server.handle(Request("DELETE", MAPS, {"labelSelector": ["half=1"]}, user=ADMIN))
        )
        left = []
        while not deletion.done():
            left.append(len(server.store.bucket("configmaps").objects))
            await asyncio.sleep(0)
        assert max(a - b for a, b in pairwise(left)) <= 60
        assert dispatcher.slices - before > 20
        answer = await body(await deletion)
        assert [item["metadata"]["name"] for item in answer["items"]] == [f"m{n:05}" for n in range(COUNT) if n % 2]
        assert list(server.store.bucket("configmaps").keys()) == [
            f"default/m{number:05}" for number in range(COUNT) if number % 2 == 0
        ]

    with_maps(main)


def test_the_start_of_a_watch_is_made_in_slices() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        request = get(
            watch="true",
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
            labelSelector="half=1",
            timeoutSeconds="1",
        )
        stream: Any = (await server.handle(request)).stream
        dispatcher = server.state.flows.dispatcher
        before = dispatcher.slices
        first = await anext(stream)
        assert first.count(b"\n") <= 512
        await client.ask("PATCH", f"{MAPS}/m02999", {"data": {"a": "b"}}, "application/merge-patch+json")
        chunks = [chunk async for chunk in stream]
        frames = [json.loads(line) for chunk in (first, *chunks) for line in chunk.splitlines()]
        assert dispatcher.slices - before >= 2
        assert [frame["type"] for frame in frames] == ["ADDED"] * (COUNT // 2) + ["BOOKMARK", "MODIFIED"]
        assert "data" not in frames[COUNT // 2 - 1]["object"]

    with_maps(main)


def test_pages_with_a_selector_are_whole_however_few_match() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await client.ask(
            "PATCH", f"{MAPS}/m02998", {"metadata": {"labels": {"half": "x"}}}, "application/merge-patch+json"
        )
        page = await client.ask("GET", MAPS, labelSelector="half=x", limit="1")
        assert [item["metadata"]["name"] for item in page["items"]] == ["m02998"]
        assert "remainingItemCount" not in page["metadata"]
        token = page["metadata"]["continue"]
        page = await client.ask("GET", MAPS, labelSelector="half=x", limit="1", **{"continue": token})
        assert page["items"] == []
        assert "continue" not in page["metadata"]

    with_maps(main)


class Reader:
    """Takes what is written at once."""

    is_writable = True

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    async def drained(self) -> None:
        """Go on."""

    def finish(self) -> None:
        """End."""

    def abort(self) -> None:
        raise AssertionError("the stream broke")


@pytest.mark.parametrize("selector", ["", "half=1", "half=x"], ids=["all", "half", "one"])
def test_a_reader_that_reads_gets_the_start_of_a_watch_without_delay(
    selector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "CHUNK_BYTES", 16 * 1024)
    monkeypatch.setattr(watching, "SLICE_SECONDS", 1e-4)
    for module in (watching, streaming):
        monkeypatch.setattr(module, "LARGE_BYTES", 8 * 1024)

    async def main(server: ApiServer, client: Client) -> None:
        await client.ask(
            "PATCH", f"{MAPS}/m00001", {"metadata": {"labels": {"half": "x"}}}, "application/merge-patch+json"
        )
        request = get(
            watch="true",
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
            labelSelector=selector,
        )
        stream: Any = (await server.handle(request)).stream
        reader, loop = Reader(), asyncio.get_running_loop()
        began = loop.time()
        pushing = Pushing(reader, stream, loop)
        pushing.flush()
        while not reader.chunks or b"initial-events-end" not in reader.chunks[-1]:
            await asyncio.sleep(0)
        assert loop.time() == began  # no timer was waited for
        pushing.stop()

    with_maps(main)


def test_a_list_that_took_too_long_is_read_to_its_end_from_what_there_is_now() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        page = await body(await server.handle(get(limit="1000")))
        names = [item["metadata"]["name"] for item in page["items"]]
        await server.state.clock.sleep(TTL_SECONDS + 1)
        token = page["metadata"]["continue"]
        response = await server.handle(get(limit="1000", **{"continue": token}))
        assert response.status == 410
        token = json.loads(response.body)["metadata"]["continue"]
        pages = 0
        while token:
            page = await body(await server.handle(get(limit="1000", **{"continue": token})))
            names += [item["metadata"]["name"] for item in page["items"]]
            token, pages = page["metadata"].get("continue", ""), pages + 1
        assert pages == 2
        assert names == [f"m{number:05}" for number in range(COUNT)]

    with_maps(main)


@pytest.mark.parametrize("selector", ["", "metadata.name!=x"], ids=["everything", "selected"])
def test_objects_are_selected_in_slices(selector: str) -> None:
    items = [(f"ns/m{number}", b'{"metadata":{"name":"m"}}') for number in range(10 * COUNT)]
    selection = collections.Selection(iter(items), Filter(catalog.CONFIGMAP, "", selector), 0)
    slices = 1
    while not selection.step():
        slices += 1
    assert (slices > 3, len(selection.found)) == (True, len(items))
