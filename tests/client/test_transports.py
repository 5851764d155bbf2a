"""One behaviour, two transports: every test here runs in this process and over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from strato.api import catalog
from strato.api.core import Node, Pod
from strato.client.cluster import Binding, Cluster, EventType, PatchType
from strato.errors import AlreadyExists, Conflict, Forbidden, Gone, NotFound, Unavailable
from tests.client.fakeserver import FakeServer

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


def a_pod(name: str, **labels: str) -> dict:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "labels": labels}}


async def watch_and(remote: Cluster, act: Callable[[], None], since: str = "100") -> None:
    """Watch to the end and act on every batch."""
    async for _ in remote.watch(Pod, resource_version=since):
        act()


async def test_create_and_get_answer_views_or_json(remote: Cluster) -> None:
    made = await remote.create(Pod, a_pod("a"), "ns")
    assert isinstance(made, Pod)
    assert (await remote.get(Pod, "a", "ns")).metadata.name == "a"
    assert (await remote.get(catalog.POD, "a", "ns"))["metadata"]["uid"] == made.metadata.uid


async def test_namespace_of_a_create_is_the_objects_own_by_default(remote: Cluster, server: FakeServer) -> None:
    await remote.create(Pod, a_pod("a"))
    assert server.requests[-1].path == "/api/v1/namespaces/ns/pods"


async def test_list_pages_and_fills_in_what_items_do_not_repeat(remote: Cluster, server: FakeServer) -> None:
    for number in range(5):
        server.put(NODES, {"metadata": {"name": f"n{number}"}})
    first = await remote.list(catalog.NODE, limit=3)
    assert [item["kind"] for item in first.items] == ["Node"] * 3
    rest = await remote.list(Node, limit=3, continue_token=first.continue_token)
    assert [item.metadata.name for item in rest.items] == ["n3", "n4"]
    assert rest.continue_token == ""
    assert first.resource_version == rest.resource_version


async def test_the_next_page_is_asked_for_while_one_is_read(remote: Cluster, server: FakeServer) -> None:
    for number in range(5):
        server.put(NODES, {"metadata": {"name": f"n{number}"}})
    names: list[list[str]] = []
    async with asyncio.timeout(10):
        async for page in remote.pages(Node, limit=2, label_selector=""):
            names.append([item.metadata.name for item in page.items])
            while len(server.requests) < min(len(names) + 1, 3):
                await asyncio.sleep(0)
    assert names == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    assert [request.param("limit") for request in server.requests] == ["2", "2", "2"]


async def test_who_reads_no_further_leaves_nothing_behind(remote: Cluster, server: FakeServer) -> None:
    for number in range(5):
        server.put(NODES, {"metadata": {"name": f"n{number}"}})
    before = asyncio.all_tasks()
    pages = remote.pages(Node, limit=1)
    async with contextlib.aclosing(pages):
        assert [item.metadata.name for item in (await anext(pages)).items] == ["n0"]
    assert {task for task in asyncio.all_tasks() if "pages" in repr(task)} <= before


async def test_list_sends_its_selectors(remote: Cluster, server: FakeServer) -> None:
    await remote.list(Pod, "ns", label_selector="a in (b,c)", field_selector="spec.nodeName=")
    query = server.requests[-1].query
    assert query["labelSelector"] == ["a in (b,c)"]
    assert query["fieldSelector"] == ["spec.nodeName="]


async def test_watch_yields_changes_in_order_until_it_ends(remote: Cluster, server: FakeServer) -> None:
    since = server.revision
    server.put(PODS, a_pod("a"))
    server.put(PODS, a_pod("a", x="1"))
    server.remove(PODS, "ns", "a")
    server.put(PODS, a_pod("b"))
    seen = []
    async for events in remote.watch(Pod, resource_version=str(since)):
        seen += [(event.type, event.object.metadata.name) for event in events]
        if len(seen) == 4:
            server.bookmark()
            server.end_watches()
    assert seen[:4] == [
        (EventType.ADDED, "a"),
        (EventType.MODIFIED, "a"),
        (EventType.DELETED, "a"),
        (EventType.ADDED, "b"),
    ]
    assert seen[4][0] is EventType.BOOKMARK


async def test_watch_of_a_forgotten_revision_is_gone(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    server.compact()
    with pytest.raises(Gone):
        await watch_and(remote, lambda: None, since="1")


async def test_watch_that_expires_midway_is_gone(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    with pytest.raises(Gone):
        await watch_and(remote, server.compact)


async def test_watch_that_breaks_is_unavailable(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    with pytest.raises(Unavailable):
        await watch_and(remote, server.break_watches)


async def test_watch_left_early_frees_the_watcher(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    watch = remote.watch(Pod, resource_version="100")
    async for _ in watch:
        break
    await watch.aclose()  # type: ignore[attr-defined]  # a generator, as the protocol's users may not assume
    server.put(PODS, a_pod("b"))  # over HTTP the server notices when it writes
    for _ in range(6000):
        if not server.watchers:
            break
        server.put(PODS, a_pod("b"))
        await asyncio.sleep(0.01)
    assert not server.watchers


async def test_watch_carries_objects_of_any_size(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("big", filler="x" * 3_000_000))
    server.put(PODS, a_pod("small"))
    names = []
    async for events in remote.watch(Pod, resource_version="100"):
        names += [event.object.metadata.name for event in events]
        if len(names) == 2:
            server.end_watches()
    assert names == ["big", "small"]


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        pytest.param(403, "Forbidden", Forbidden, id="forbidden"),
        pytest.param(404, "NotFound", NotFound, id="not found"),
        pytest.param(409, "Conflict", Conflict, id="conflict"),
        pytest.param(409, "AlreadyExists", AlreadyExists, id="already exists"),
        pytest.param(410, "Expired", Gone, id="expired"),
        pytest.param(410, "Gone", Gone, id="gone"),
        pytest.param(503, "ServiceUnavailable", Unavailable, id="unavailable"),
    ],
)
async def test_error_statuses_become_our_errors(
    remote: Cluster, server: FakeServer, code: int, reason: str, error: type[Exception]
) -> None:
    server.fail_next("get", code, reason, "because")
    with pytest.raises(error, match="because"):
        await remote.get(Pod, "a", "ns")


async def test_connection_that_breaks_is_unavailable(remote: Cluster, server: FakeServer) -> None:
    server.break_next("create")
    with pytest.raises(Unavailable):
        await remote.create(Pod, a_pod("a"), "ns")
    assert server.verbs() == ["create"], "a write that may have happened is never sent twice"


async def test_patch_says_its_type_and_owner(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a", old="1"))
    changed = await remote.patch(Pod, "a", "ns", {"metadata": {"labels": {"new": "2"}}}, field_manager="me")
    assert changed.metadata.labels == {"old": "1", "new": "2"}
    request = server.requests[-1]
    assert request.headers["content-type"] == PatchType.MERGE.value
    assert request.query["fieldManager"] == ["me"]


async def test_apply_is_forced(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    await remote.patch(Pod, "a", "ns", {"spec": {}}, patch_type=PatchType.APPLY, field_manager="me")
    assert server.requests[-1].query["force"] == ["true"]


async def test_replace_is_guarded_by_the_revision(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    stale = await remote.get(catalog.POD, "a", "ns")
    await remote.replace(catalog.POD, {**stale, "spec": {"nodeName": "n"}})
    with pytest.raises(Conflict):
        await remote.replace(catalog.POD, stale)


async def test_delete_carries_its_preconditions(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    await remote.delete(Pod, "a", "ns", uid="u", grace_period_seconds=0, propagation="Foreground")
    body = server.requests[-1].body.decode()
    for part in ('"uid":"u"', '"gracePeriodSeconds":0', '"propagationPolicy":"Foreground"'):
        assert part in body
    with pytest.raises(NotFound):
        await remote.delete(Pod, "a", "ns")


async def test_bind_posts_a_binding(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    assert await remote.bind_all([Binding("ns", "a", "node-1", uid="u", annotations={"k": "v"})]) == [None]
    assert server.requests[-1].path == "/api/v1/namespaces/ns/pods/a/binding"
    body = server.requests[-1].body.decode()
    for part in ('"target":{"apiVersion":"v1","kind":"Node","name":"node-1"}', '"uid":"u"', '"k":"v"'):
        assert part in body


async def test_dry_run_reaches_the_server(remote: Cluster, server: FakeServer) -> None:
    await remote.create(Pod, a_pod("a"), "ns", dry_run=True)
    assert server.requests[-1].query["dryRun"] == ["All"]


async def test_raw_and_stream_pass_bodies_through(remote: Cluster, server: FakeServer) -> None:
    server.put(PODS, a_pod("a"))
    assert b'"name":"a"' in await remote.raw("GET", "/api/v1/namespaces/ns/pods/a")
    chunks = [chunk async for chunk in remote.stream("/api/v1/namespaces/ns/pods/a")]
    assert b'"name":"a"' in b"".join(chunks)
    with pytest.raises(NotFound):
        _ = [chunk async for chunk in remote.stream("/api/v1/namespaces/ns/pods/none")]


async def test_object_that_does_not_fit_its_view_is_left_out(
    remote: Cluster, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(NODES, {"metadata": {"name": "good"}})
    server.put(NODES, {"metadata": {"name": "odd"}, "spec": "text"})
    assert [node.metadata.name for node in (await remote.list(Node)).items] == ["good"]
    assert "name=odd" in caplog.text
    server.put(NODES, {"metadata": {"name": "later"}})
    names = []
    async for events in remote.watch(Node, resource_version="100"):
        names += [event.object.metadata.name for event in events]
        server.end_watches()
    assert names == ["good", "later"]


async def test_closed_client_refuses(remote: Cluster) -> None:
    await remote.close()
    with pytest.raises(Unavailable, match="closed"):
        await remote.get(Pod, "a", "ns")
