"""Clients that die with the server read uncommitted writes; others see only what a crash cannot roll back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence

import pytest

from strato.api import catalog
from strato.api.core import ConfigMap, Pod
from strato.api.wire import Request, Response, User
from strato.client.cluster import Binding, Created, Deletion, Json, Patch, WatchEvent
from strato.client.local import LocalCluster
from strato.clock import VirtualClock
from strato.errors import AlreadyExists, Conflict, Invalid, NotFound, Unavailable
from strato.server.api import ApiServer
from strato.server.embedded import in_memory_server
from strato.server.snapshot import Change

ADMIN = User("system:admin", ("system:masters",))


class Slow:
    """A journal whose commits are ordered by the test."""

    def __init__(self) -> None:
        self.waiting: list[Change] = []

    def append(self, change: Change) -> None:
        self.waiting.append(change)


class World:
    """A server on such a journal, a client that reads uncommitted writes and one that does not."""

    def __init__(self) -> None:
        self.server: ApiServer = in_memory_server(VirtualClock(), random.Random(1))
        self.journal = Slow()
        self.server.store.use_journal(self.journal)
        self.uncommitted = LocalCluster(self.server, ADMIN, uncommitted=True)
        self.other = LocalCluster(self.server, ADMIN)

    def commit(self) -> None:
        batch, self.journal.waiting = self.journal.waiting, []
        self.server.store.committed(batch)


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def a_few_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def names(events: Sequence[WatchEvent[ConfigMap]]) -> list[str]:
    return [f"{event.type} {event.object.metadata.name}" for event in events]


async def test_a_write_ahead_is_answered_before_it_is_durable_and_any_other_after_it() -> None:
    world = World()
    await world.uncommitted.create(catalog.CONFIGMAP, config_map("a"), "default")
    other = asyncio.ensure_future(world.other.create(catalog.CONFIGMAP, config_map("b"), "default"))
    await a_few_turns()
    assert not other.done()
    assert [change.key for change in world.journal.waiting] == ["default/a", "default/b"]
    world.commit()
    assert (await other)["metadata"]["name"] == "b"


async def test_a_watch_ahead_tells_what_is_written_and_any_other_what_is_durable() -> None:
    world = World()
    revision = str(world.server.store.revision)
    watches = [
        cluster.watch(ConfigMap, "default", resource_version=revision) for cluster in (world.uncommitted, world.other)
    ]
    uncommitted, other = (asyncio.ensure_future(anext(watch)) for watch in watches)
    await a_few_turns()
    await world.uncommitted.create(catalog.CONFIGMAP, config_map("a"), "default")
    await world.uncommitted.patch(catalog.CONFIGMAP, "a", "default", {"data": {"k": "v"}})
    await a_few_turns()
    assert names(await uncommitted) == ["ADDED a", "MODIFIED a"]
    assert not other.done()
    world.commit()
    assert names(await other) == ["ADDED a", "MODIFIED a"]
    for watch in watches:
        await watch.aclose()  # type: ignore[attr-defined]  # they are generators


async def test_a_watch_ahead_that_begins_late_hears_of_what_is_not_durable_yet() -> None:
    world = World()
    revision = str(world.server.store.revision)
    await world.uncommitted.create(catalog.CONFIGMAP, config_map("a"), "default")
    begun = asyncio.ensure_future(anext(world.uncommitted.watch(ConfigMap, "default", resource_version=revision)))
    await a_few_turns()
    world.commit()
    await world.uncommitted.create(catalog.CONFIGMAP, config_map("b"), "default")
    assert names(await begun)[0] == "ADDED a"


async def test_who_runs_ahead_reads_what_it_was_answered_once_that_is_durable() -> None:
    world = World()
    await world.uncommitted.create(catalog.CONFIGMAP, config_map("a"), "default")
    with pytest.raises(NotFound):
        await world.other.get(catalog.CONFIGMAP, "a", "default")
    reading = asyncio.ensure_future(world.uncommitted.get(catalog.CONFIGMAP, "a", "default"))
    listing = asyncio.ensure_future(world.uncommitted.list(catalog.CONFIGMAP, "default"))
    await a_few_turns()
    assert not reading.done()
    assert not listing.done()
    world.commit()
    assert (await reading)["metadata"]["name"] == "a"
    assert "a" in [one["metadata"]["name"] for one in (await listing).items]


async def test_a_bulk_delete_takes_what_is_not_durable_yet() -> None:
    world = World()
    for name in ("a", "b"):
        await world.uncommitted.create(catalog.CONFIGMAP, config_map(name), "default")
    await world.uncommitted.raw("DELETE", "/api/v1/namespaces/default/configmaps")
    world.commit()
    assert list((await world.other.list(catalog.CONFIGMAP, "default")).items) == []


async def test_a_journal_that_fails_answers_503_and_goes_on_where_it_was() -> None:
    world = World()
    watch = world.uncommitted.watch(ConfigMap, "default", resource_version=str(world.server.store.revision))
    told = asyncio.ensure_future(anext(watch))
    await a_few_turns()
    await world.uncommitted.create(catalog.CONFIGMAP, config_map("a"), "default")
    assert names(await told) == ["ADDED a"]
    writing = asyncio.ensure_future(world.other.create(catalog.CONFIGMAP, config_map("b"), "default"))
    again = asyncio.ensure_future(world.other.create(catalog.CONFIGMAP, config_map("a"), "default"))
    await a_few_turns()
    world.server.store.failed(Unavailable("the disk is full", retry_after_seconds=2))
    for answer in (writing, again):  # that it exists is not said of what a crash may take back
        with pytest.raises(Unavailable, match="the disk is full") as refused:
            await answer
        assert refused.value.retry_after_seconds == 2
    for cluster in (world.uncommitted, world.other):
        with pytest.raises(Unavailable, match="the disk is full"):
            await cluster.create(catalog.CONFIGMAP, config_map("c"), "default")
    with pytest.raises(Unavailable, match="the disk is full"):
        await world.uncommitted.get(catalog.CONFIGMAP, "a", "default")  # it would not find what it was answered
    assert list((await world.other.list(catalog.CONFIGMAP, "default")).items) == []
    world.server.store.recovered()
    world.commit()
    assert names(await anext(watch)) == ["ADDED b"], "the watch was not cut off"
    assert len((await world.uncommitted.list(catalog.CONFIGMAP, "default")).items) == 2
    await watch.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_writes_together_are_each_answered_for_themselves() -> None:
    world = World()
    for name in ("m", "n"):
        await world.uncommitted.create(catalog.CONFIGMAP, config_map(name), "default")
    made = await world.uncommitted.create_all(catalog.POD, [pod("a"), pod("b"), pod("a"), pod("-")], "default")
    assert [type(one) for one in made] == [Created, Created, AlreadyExists, Invalid]
    first = made[0]
    assert isinstance(first, Created)
    world.commit()
    stored = await world.other.get(catalog.POD, "a", "default")
    assert (stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]) == (first.uid, first.resource_version)
    bound = await world.uncommitted.bind_all(
        [
            Binding("default", "a", "n", first.uid, {"why": "so"}),
            Binding("default", "b", "n", "another"),
            Binding("default", "c", "n"),
        ]
    )
    assert [type(one) for one in bound] == [type(None), Conflict, NotFound]
    patched = await world.uncommitted.patch_all(
        catalog.POD,
        [Patch("default", "a", {"status": {"phase": "Running"}}), Patch("default", "c", {})],
        subresource="status",
    )
    assert [type(one) for one in patched] == [type(None), NotFound]
    world.commit()
    stored = await world.other.get(catalog.POD, "a", "default")
    assert (stored["spec"]["nodeName"], stored["status"]["phase"]) == ("n", "Running")
    assert stored["metadata"]["annotations"] == {"why": "so"}
    changed = await world.uncommitted.change_all(
        Pod,
        [Patch("default", "b", b'{"metadata":{"labels":{"x":"y"}}}'), Patch("default", "c", {})],
    )
    assert [type(one) for one in changed] == [Pod, NotFound]
    assert changed[0].metadata.label("x") == "y"
    deleted = await world.uncommitted.delete_all(
        ConfigMap, [Deletion("default", name, uid) for name, uid in [("m", ""), ("n", "another"), ("c", "")]]
    )
    assert [type(one) for one in deleted] == [type(None), Conflict, NotFound]


async def test_writes_together_wait_for_the_disk_once_unless_they_run_ahead() -> None:
    world = World()
    waiting = asyncio.ensure_future(world.other.create_all(catalog.POD, [pod("a"), pod("b"), pod("a")], "default"))
    await a_few_turns()
    assert not waiting.done()
    assert len(world.journal.waiting) == 2
    world.server.store.failed(Unavailable("the disk is full"))
    assert [type(one) for one in await waiting] == [Unavailable, Unavailable, Unavailable]


MAPS = "/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata":{"name":"a"},"data":{"n":"1"}}'
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param([("GET", MAPS, b"")], id="a list"),
        pytest.param([("GET", f"{MAPS}/none", b"")], id="an object that is not there"),
        pytest.param([("POST", MAPS, BODY)], id="an object to create"),
        pytest.param([("POST", MAPS, BODY), ("POST", MAPS, BODY), ("GET", f"{MAPS}/a", b"")], id="one that is there"),
        pytest.param([("POST", MAPS, BODY), ("DELETE", f"{MAPS}/a", b"")], id="an object to delete"),
        pytest.param([("POST", MAPS, b"{")], id="no JSON"),
        pytest.param([("PATCH", f"{MAPS}/a", b"{}")], id="a patch of an unknown form"),
        pytest.param([("POST", "/nowhere", b"")], id="no path of ours"),
        pytest.param([("GET", "/version", b"")], id="a page"),
        pytest.param([("GET", "/api/v1/namespaces/default/pods/p/log", b"")], id="a log of nobody"),
    ],
)
@pytest.mark.parametrize("fails", [False, True], ids=["committed", "never committed"])
async def test_an_answer_that_is_started_is_the_one_that_is_waited_for(
    asked: list[tuple[str, str, bytes]], fails: bool
) -> None:
    """A transport's way and that of everybody else give the same answers in the same moments."""

    def requests() -> list[Request]:
        return [Request(method, path, {}, JSON, body, ADMIN) for method, path, body in asked]

    async def end(world: World) -> None:
        await a_few_turns()
        if fails:
            world.server.store.failed(Unavailable("the disk is full"))
        elif world.journal.waiting:
            world.commit()
        await a_few_turns()

    waited, started = World(), World()
    tasks = [asyncio.ensure_future(waited.server.handle(request)) for request in requests()]
    answers: list[Response | None] = [None] * len(asked)
    later: list[asyncio.Future[None]] = []
    for number, request in enumerate(requests()):

        def answered(response: Response, number: int = number) -> None:
            answers[number] = response

        awaited = started.server.start(request, answered)
        if awaited is not None:

            async def tell(number: int = number, awaited: Awaitable[Response] = awaited) -> None:
                answers[number] = await awaited

            later.append(asyncio.ensure_future(tell()))
    await a_few_turns()
    assert [task.done() for task in tasks] == [answer is not None for answer in answers]
    await end(waited)
    await end(started)
    assert [task.result() for task in tasks] == answers
    await asyncio.gather(*later)


async def test_a_refusal_that_rests_on_what_is_not_durable_waits_for_the_disk() -> None:
    """Who is told that an object exists must find it, and must find it after a crash."""
    world = World()
    await world.uncommitted.create(catalog.CONFIGMAP, config_map("a"), "default")
    refused = asyncio.ensure_future(world.other.create(catalog.CONFIGMAP, config_map("a"), "default"))
    await a_few_turns()
    assert not refused.done()
    world.commit()
    with pytest.raises(AlreadyExists):
        await refused
    await world.other.get(catalog.CONFIGMAP, "a", "default")
    await world.uncommitted.delete(catalog.CONFIGMAP, "a", "default")
    gone = asyncio.ensure_future(world.other.delete(catalog.CONFIGMAP, "a", "default"))
    await a_few_turns()
    assert not gone.done()
    world.commit()
    with pytest.raises(NotFound):
        await gone
