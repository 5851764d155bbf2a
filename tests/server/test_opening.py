"""Lists that are served while the journal is still being read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any, cast

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.api.wire import Handler, Request, Response, User
from strato.client.informer import Informer
from strato.client.local import LocalCluster
from strato.clock import SystemClock
from strato.errors import Unavailable
from strato.server import bootstrap, opening
from strato.server.embedded import in_memory_server
from strato.server.opening import Opening

PAGE = 3


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "PAGE_OBJECTS", PAGE)


class Recorded(Handler):
    """A server that answers everything in the same way and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def handle(self, request: Request) -> Response:
        self.asked.append(f"{request.method} {request.path}")
        return Response(200, b'{"metadata":{"resourceVersion":"99"},"items":[]}')

    async def handle_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        return [await self.handle(request) for request in requests]


def pod(number: int) -> bytes:
    metadata = {"name": f"pod-{number}", "namespace": "default", "uid": f"uid-{number}", "resourceVersion": str(number)}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {}})


def listing(*, limit: int = PAGE, token: str = "", user: User = bootstrap.ADMIN, **more: str) -> Request:
    query = {"limit": [str(limit)], **{name: [value] for name, value in more.items()}}
    if token:
        query["continue"] = [token]
    return Request("GET", catalog.POD.path(), query, user=user)


async def read(early: Opening, count: int) -> None:
    """Read so many pods, and an object of another kind after each, as the journal's reader does: in a thread."""

    def reading() -> None:
        for number in range(count):
            early.take("pods", pod(number))
            early.take("nodes", b"{}")

    await asyncio.to_thread(reading)


async def names(early: Opening, *, limit: int = PAGE) -> tuple[list[str], str]:
    """List all pods as a component of the cluster does; return their names and the list's revision."""
    found: list[str] = []
    revision = ""
    async for page in LocalCluster(early, bootstrap.ADMIN, uncommitted=True).pages(Pod, limit=limit):
        found.extend(one.metadata.name for one in page.items)
        revision = page.resource_version
    return found, revision


@pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 7 * PAGE])
async def test_a_list_holds_every_pod_that_is_read_meanwhile(count: int) -> None:
    early = Opening(catalog.POD, bootstrap.ADMIN)
    listed = asyncio.create_task(names(early))
    await asyncio.sleep(0)
    await read(early, count)
    early.finish(42)
    early.open(Recorded())
    assert await listed == ([f"pod-{number}" for number in range(count)], "42")


async def test_pages_leave_while_the_rest_is_read_and_the_last_one_when_everything_is_sound() -> None:
    early = Opening(catalog.POD, bootstrap.ADMIN)
    first = asyncio.create_task(early.handle(listing()))
    await asyncio.sleep(0)
    await read(early, PAGE + 1)
    page = msgspec.json.decode((await first).body)
    assert [one["metadata"]["name"] for one in page["items"]] == ["pod-0", "pod-1", "pod-2"]
    assert "resourceVersion" not in page["metadata"]
    last = asyncio.create_task(early.handle(listing(token=page["metadata"]["continue"])))
    await asyncio.sleep(0.01)
    assert not last.done(), "the journal has not been read to its end"
    early.finish(7)
    await asyncio.sleep(0.01)
    assert not last.done(), "the server is not open"
    early.open(Recorded())
    page = msgspec.json.decode((await last).body)
    assert page["metadata"] == {"resourceVersion": "7"}
    assert [one["metadata"]["name"] for one in page["items"]] == ["pod-3"]


async def test_the_last_page_leaves_after_the_answers_of_what_waited() -> None:
    answer = asyncio.Event()

    class Slow(Recorded):
        async def handle(self, request: Request) -> Response:
            async def text() -> AsyncIterator[bytes]:
                yield b"{}"
                await answer.wait()

            return Response(200, stream=text(), is_text=True)

    early = Opening(catalog.POD, bootstrap.ADMIN)
    pods = asyncio.create_task(early.handle(listing()))
    nodes = asyncio.create_task(early.handle(Request("GET", "/api/v1/nodes", user=bootstrap.ADMIN)))
    await asyncio.sleep(0)
    early.finish(7)
    early.open(Slow())
    response = await nodes
    assert response.stream is not None
    assert await anext(response.stream) == b"{}"
    await asyncio.sleep(0.01)
    assert not pods.done(), "the list of nodes has not been sent"
    answer.set()
    assert [chunk async for chunk in response.stream] == []
    assert (await pods).status == 200


async def test_the_last_page_does_not_wait_for_a_list_that_nobody_reads() -> None:
    class Streaming(Recorded):
        async def handle(self, request: Request) -> Response:
            async def text() -> AsyncIterator[bytes]:
                yield b"{}"

            return Response(200, stream=text(), is_text=True)

    early = Opening(catalog.POD, bootstrap.ADMIN)
    pods = asyncio.create_task(early.handle(listing()))
    nodes = asyncio.create_task(early.handle(Request("GET", "/api/v1/nodes", user=bootstrap.ADMIN)))
    await asyncio.sleep(0)
    early.finish(7)
    early.open(Streaming())
    await cast("Any", (await nodes).stream).aclose()  # as a link does whose client hung up
    assert (await pods).status == 200


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(listing(user=bootstrap.SCHEDULER), id="of another user"),
        pytest.param(listing(limit=PAGE - 1), id="in smaller pages"),
        pytest.param(listing(labelSelector="a=b"), id="with a selector"),
        pytest.param(listing(watch="true"), id="a watch"),
        pytest.param(Request("GET", catalog.POD.path("default"), user=bootstrap.ADMIN), id="of one namespace"),
        pytest.param(Request("GET", "/api/v1/nodes", user=bootstrap.ADMIN), id="of another kind"),
        pytest.param(Request("POST", catalog.POD.path(), user=bootstrap.ADMIN), id="a write"),
    ],
)
async def test_everything_else_waits_for_the_server(request_: Request) -> None:
    early, server = Opening(catalog.POD, bootstrap.ADMIN), Recorded()
    answered = asyncio.create_task(early.handle(request_))
    together = asyncio.create_task(early.handle_all([request_, request_]))
    await read(early, 2 * PAGE)
    early.finish(7)
    await asyncio.sleep(0.01)
    assert not answered.done()
    assert not together.done()
    early.open(server)
    await answered
    await together
    assert server.asked == [f"{request_.method} {request_.path}"] * 3


async def test_of_two_early_lists_the_second_one_is_the_servers() -> None:
    early, server = Opening(catalog.POD, bootstrap.ADMIN), Recorded()
    lists = [asyncio.create_task(names(early)) for _ in range(2)]
    await asyncio.sleep(0)
    await read(early, 2 * PAGE)
    early.finish(7)
    early.open(server)
    assert await lists[0] == ([f"pod-{number}" for number in range(2 * PAGE)], "7")
    assert await lists[1] == ([], "99")


async def test_a_list_that_begins_late_is_the_servers() -> None:
    early, server = Opening(catalog.POD, bootstrap.ADMIN), Recorded()
    await read(early, 2 * PAGE)
    early.finish(7)
    early.open(server)
    assert await names(early) == ([], "99")


async def test_reading_goes_on_when_the_client_takes_no_more_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_PAGE_TIMEOUT_SECONDS", 0.0)
    early, server = Opening(catalog.POD, bootstrap.ADMIN), Recorded()
    first = asyncio.create_task(early.handle(listing()))
    await asyncio.sleep(0)
    await read(early, PAGE)
    token = msgspec.json.decode((await first).body)["metadata"]["continue"]
    await read(early, 20 * PAGE)
    with pytest.raises(Unavailable, match="list again"):
        await early.handle(listing(token=token))
    early.finish(7)
    early.open(server)
    assert await names(early) == ([], "99")


async def test_a_start_that_fails_frees_the_reading_thread() -> None:
    early = Opening(catalog.POD, bootstrap.ADMIN)
    reading = asyncio.create_task(read(early, 20 * PAGE))
    while early._room._value:
        await asyncio.sleep(0.001)
    early.close()
    async with asyncio.timeout(opening._PAGE_TIMEOUT_SECONDS / 2):
        await reading


async def test_an_informer_goes_on_from_the_early_list() -> None:
    """What is written after the journal was read comes as an event: nothing is missed and nothing seen twice."""
    clock = SystemClock()
    server = in_memory_server(clock)
    for number in range(PAGE + 2):
        server.store.write("pods", f"default/pod-{number}", pod(server.store.next_revision()))
    early = Opening(catalog.POD, bootstrap.ADMIN)
    informer = Informer(LocalCluster(early, bootstrap.ADMIN, uncommitted=True), Pod, clock, Random(1))
    seen: list[str] = []
    informer.add_handler(lambda change: seen.append(change.key.name))
    informer.start()
    try:
        await asyncio.sleep(0)
        await asyncio.to_thread(
            lambda: [early.take("pods", row.body) for row in list(server.store.bucket("pods").objects.values())]
        )
        early.finish(server.store.published)
        early.open(server)
        await informer.wait_synced()
        body = {"metadata": {"name": "later"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
        await LocalCluster(early, bootstrap.ADMIN).create(Pod, body, "default")
        while len(informer) < PAGE + 3:
            await asyncio.sleep(0.001)
    finally:
        await informer.stop()
    assert len(seen) == PAGE + 3
    assert len(set(seen)) == PAGE + 3
