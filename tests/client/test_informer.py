from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.wire import User
from strato.client import reflector
from strato.client.cluster import Cluster
from strato.client.informer import Change, Informer, Informers
from strato.client.local import LocalCluster
from strato.clock import SystemClock, VirtualClock, run_virtual
from strato.errors import InvariantError
from tests.client.fakeserver import FakeServer

PODS = "/api/v1/pods"


class RemoteLocal(LocalCluster):
    """In this process, but an informer must treat it as far away: pages, timeouts, bookmarks."""

    remote = True


def a_pod(name: str, version: int = 0, node: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": {"version": str(version)}},
        "spec": {"nodeName": node},
    }


class World:
    """A server and an informer under the virtual clock."""

    def __init__(self, cluster_type: type[LocalCluster] = LocalCluster) -> None:
        self.server = FakeServer()
        self.clock = VirtualClock()
        self.informer = Informer(cluster_type(self.server, User("t")), Pod, self.clock, Random(1))
        self.changes: list[Change[Pod]] = []
        self.informer.add_handler(self.changes.append)

    def run(self, script: Callable[[World], Awaitable[None]]) -> None:
        async def main() -> None:
            try:
                await script(self)
            finally:
                await self.informer.stop()

        run_virtual(self.clock, main())

    async def started(self) -> None:
        self.informer.start()
        await self.informer.wait_synced()

    async def settled(self) -> None:
        """Wait until the store shows the server's state, give or take the longest back-off."""
        for _ in range(400):
            if self.held() == self.server.names(PODS):
                return
            await self.clock.sleep(0.5)
        pytest.fail(f"informer holds {self.held()}, server {self.server.names(PODS)}")

    def held(self) -> dict[tuple[str, str], str]:
        return {tuple(pod.key): pod.metadata.resource_version for pod in self.informer.list()}

    def told(self) -> list[tuple[str, str, str]]:
        return [
            (
                change.key.name,
                change.old.metadata.label("version") if change.old else "-",
                change.new.metadata.label("version") if change.new else "-",
            )
            for change in self.changes
        ]


def test_a_kind_that_the_cluster_lacks_is_not_read() -> None:
    async def script(w: World) -> None:
        w.server.put(PODS, a_pod("a"))
        informers = Informers(LocalCluster(w.server, User("t")), w.clock, Random(1), absent=[catalog.POD])
        pods = informers.informer(Pod)
        await informers.wait_synced()
        assert pods.list() == []
        await informers.stop()

    World().run(script)


def test_informer_lists_then_follows() -> None:
    async def script(w: World) -> None:
        w.server.put(PODS, a_pod("a"))
        await w.started()
        assert w.informer.get(("ns", "a")) is not None
        w.server.put(PODS, a_pod("a", 1))
        w.server.put(PODS, a_pod("b", 2))
        w.server.remove(PODS, "ns", "a")
        await w.settled()
        assert w.told() == [("a", "-", "0"), ("a", "0", "1"), ("b", "-", "2"), ("a", "1", "-")]
        assert w.informer.resource_version == str(w.server.revision)

    World().run(script)


def test_relist_after_410_tells_only_the_difference() -> None:
    async def script(w: World) -> None:
        for name in "abc":
            w.server.put(PODS, a_pod(name))
        await w.started()
        w.changes.clear()
        w.server.break_watches()
        w.server.remove(PODS, "ns", "a")
        w.server.put(PODS, a_pod("b", 1))
        w.server.put(PODS, a_pod("d"))
        w.server.compact()
        await w.settled()
        assert sorted(w.told()) == [("a", "0", "-"), ("b", "0", "1"), ("d", "-", "0")]
        assert w.server.verbs().count("list") == 2

    World().run(script)


def test_object_made_anew_during_a_gap_is_a_delete_and_an_add() -> None:
    async def script(w: World) -> None:
        w.server.put(PODS, a_pod("a"))
        await w.started()
        w.server.break_watches()
        w.server.remove(PODS, "ns", "a")
        w.server.put(PODS, a_pod("a", 7))
        w.server.compact()
        await w.settled()
        assert w.told()[1:] == [("a", "0", "-"), ("a", "-", "7")]

    World().run(script)


def test_broken_watch_resumes_without_a_list() -> None:
    async def script(w: World) -> None:
        await w.started()
        for version in range(3):
            w.server.put(PODS, a_pod("a", version))
            await w.clock.sleep(0.1)
            w.server.break_watches()
            w.server.put(PODS, a_pod("b", version))
            await w.settled()
        assert w.server.verbs().count("list") == 1

    World().run(script)


def test_bookmarks_alone_keep_the_revision_fresh() -> None:
    async def script(w: World) -> None:
        await w.started()
        w.server.put("/api/v1/nodes", {"metadata": {"name": "n"}})
        w.server.bookmark()
        await w.clock.sleep(2)
        assert w.informer.resource_version == str(w.server.revision)
        w.server.compact()  # the old revision is lost, the bookmark's is not
        w.server.put(PODS, a_pod("a"))
        await w.settled()

    World(RemoteLocal).run(script)


def test_page_that_expires_leads_to_one_whole_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "PAGE_SIZE", 2)

    async def script(w: World) -> None:
        for name in "abcde":
            w.server.put(PODS, a_pod(name))
        handle = w.server.handle

        async def compact_after_first_page(request: Any) -> Any:
            answer = await handle(request)
            if len(w.server.requests) == 1:
                w.server.put(PODS, a_pod("f"))
                w.server.compact()
            return answer

        w.server.handle = compact_after_first_page  # type: ignore[method-assign]  # a double
        await w.started()
        assert len(w.informer) == 6
        assert [request.param("limit") for request in w.server.requests[:3]] == ["2", "2", ""]

    World(RemoteLocal).run(script)


@pytest.mark.parametrize("is_remote", [False, True])
def test_lists_are_paged_and_local_ones_in_larger_pages(is_remote: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "PAGE_SIZE" if is_remote else "LOCAL_PAGE_SIZE", 2)

    async def script(w: World) -> None:
        for name in "abcde":
            w.server.put(PODS, a_pod(name))
        await w.started()
        assert len(w.informer) == 5
        assert [request.param("limit") for request in w.server.requests[:3]] == ["2", "2", "2"]

    assert reflector.PAGE_SIZE < reflector.LOCAL_PAGE_SIZE or not is_remote
    (World(RemoteLocal) if is_remote else World()).run(script)


def test_errors_back_off_and_never_spin() -> None:
    async def script(w: World) -> None:
        for _ in range(8):
            w.server.fail_next("list", 403, "Forbidden")
        await w.started()
        assert 60 < w.clock.monotonic() < 400
        assert w.server.verbs().count("list") == 9

    World().run(script)


def test_watches_that_end_at_once_back_off() -> None:
    async def script(w: World) -> None:
        await w.started()

        async def end_at_once(request: Any) -> Any:
            answer = await type(w.server).handle(w.server, request)
            w.server.end_watches()
            return answer

        w.server.handle = end_at_once  # type: ignore[method-assign]  # a double
        w.server.end_watches()
        before = len(w.server.requests)
        await w.clock.sleep(60)
        assert len(w.server.requests) - before < 20

    World().run(script)


def test_late_handler_hears_of_everything_known() -> None:
    async def script(w: World) -> None:
        w.server.put(PODS, a_pod("a"))
        await w.started()
        batches: list[list[str]] = []
        w.informer.add_batch_handler(lambda changes: batches.append([change.key.name for change in changes]))
        assert batches == [["a"]]
        w.server.put(PODS, a_pod("b"))
        w.server.put(PODS, a_pod("c"))
        await w.settled()
        assert batches == [["a"], ["b", "c"]], "what arrives together is told together"

    World().run(script)


def test_handlers_by_managing_owner_hear_of_their_own_only() -> None:
    def owned(name: str, kind: str) -> dict[str, Any]:
        pod = a_pod(name)
        other = {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "1"}
        managing = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "2", "controller": True}
        pod["metadata"]["ownerReferences"] = [other, managing]
        return pod

    async def script(w: World) -> None:
        sets: list[str] = []
        late: list[str] = []
        w.informer.add_owned_handler(catalog.REPLICASET, lambda change: sets.append(change.key.name))
        w.server.put(PODS, owned("a", "ReplicaSet"))
        w.server.put(PODS, owned("b", "DaemonSet"))
        w.server.put(PODS, a_pod("c"))
        await w.started()
        w.informer.add_owned_handler(catalog.DAEMONSET, lambda change: late.append(change.key.name))
        assert (sets, late) == (["a"], ["b"]), "also of what was known before"
        w.server.remove(PODS, "ns", "a")
        w.server.remove(PODS, "ns", "b")
        await w.settled()
        assert (sets, late) == (["a", "a"], ["b", "b"])

    World().run(script)


def test_a_handler_with_a_selection_hears_of_what_it_selects_and_only_that() -> None:
    async def script(w: World) -> None:
        seen: list[str] = []
        looks: list[int] = []

        def removed_or_odd(changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
            looks.append(len(changes))
            return [change for change in changes if change.new is None or change.key.name in "bd"]

        w.server.put(PODS, a_pod("a"))
        w.server.put(PODS, a_pod("b"))
        await w.started()
        w.informer.add_handler(lambda change: seen.append(change.key.name), among=removed_or_odd)
        assert seen == ["b"], "also of what was known before"
        for name in "cd":
            w.server.put(PODS, a_pod(name))
        w.server.remove(PODS, "ns", "a")
        await w.settled()
        assert (seen, looks) == (["b", "d", "a"], [2, 3]), "one look for all that arrives together"

    World().run(script)


def test_index_follows_every_change() -> None:
    async def script(w: World) -> None:
        w.server.put(PODS, a_pod("a", node="n1"))
        await w.started()
        w.informer.add_index("node", lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])
        assert [pod.key.name for pod in w.informer.index("node", "n1")] == ["a"]
        w.server.put(PODS, a_pod("b", node="n1"))
        w.server.put(PODS, a_pod("a", node="n2"))
        await w.settled()
        assert [pod.key.name for pod in w.informer.index("node", "n1")] == ["b"]
        assert w.informer.index_values("node") == ["n1", "n2"]
        w.server.remove(PODS, "ns", "b")
        await w.settled()
        assert w.informer.index("node", "n1") == []

    World().run(script)


def test_an_index_that_nobody_reads_after_the_list_costs_nothing() -> None:
    async def script(w: World) -> None:
        indexed: list[str] = []

        def values_of(pod: Pod) -> Sequence[str]:
            indexed.append(pod.key.name)
            return ("all",)

        w.informer.add_index("about", values_of)
        assert w.informer.index("about", "all") == [], "read before the list, as at a start"
        w.server.put(PODS, a_pod("a"))
        await w.started()
        assert w.informer.index_fewest("about", ()) == ()
        assert indexed == []
        assert [pod.key.name for pod in w.informer.index("about", "all")] == ["a"]
        w.server.put(PODS, a_pod("b"))
        await w.settled()
        assert indexed == ["a", "b"]

    World().run(script)


def test_the_fewest_of_an_index_hold_all_that_have_every_value() -> None:
    async def script(w: World) -> None:
        for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
            w.server.put(PODS, a_pod(name, node=node))
        await w.started()
        w.informer.add_index("about", lambda pod: ["all", pod.spec.node_name])

        def fewest(*values: str) -> list[str]:
            return [pod.key.name for pod in w.informer.index_fewest("about", values)]

        assert fewest("all", "n1") == ["a", "b"]
        assert fewest("n1", "n2", "all") == ["c"]
        assert fewest("all", "n3") == [], "nothing has a value that is unknown"
        assert fewest() == []
        w.server.remove(PODS, "ns", "a")
        await w.settled()
        assert fewest("all", "n1") == ["b"]

    World().run(script)


def test_failing_handler_is_reported_and_hurts_nobody_else() -> None:
    async def script(w: World) -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        seen: list[str] = []

        def fail(change: Change[Pod]) -> None:
            raise ValueError(change.key.name)

        w.informer.add_handler(fail)
        w.informer.add_handler(lambda change: seen.append(change.key.name))
        w.server.put(PODS, a_pod("a"))
        w.server.put(PODS, a_pod("b"))
        await w.started()
        assert seen == ["a", "b"]
        assert [str(context["exception"]) for context in reported] == ["a", "b"]

    World().run(script)


def test_informers_share_one_per_view_and_selector() -> None:
    async def main() -> None:
        server = FakeServer()
        informers = Informers(LocalCluster(server, User("t")), SystemClock(), Random(1))
        pods = informers.informer(Pod)
        assert informers.informer(Pod) is pods
        assert informers.informer(Pod, label_selector="a=b") is not pods
        await informers.wait_synced()
        assert server.verbs().count("list") == 2
        await informers.stop()

    asyncio.run(main())


async def test_waiting_for_an_informer_that_never_started_is_a_bug() -> None:
    informer = Informer(LocalCluster(FakeServer(), User("t")), Pod, SystemClock(), Random(1))
    with pytest.raises(InvariantError):
        await informer.wait_synced()


async def test_informer_works_through_either_transport(remote: Cluster, server: FakeServer) -> None:
    for number in range(3):
        server.put(PODS, a_pod(f"p{number}"))
    informer = Informer(remote, Pod, SystemClock(), Random(1))
    changed = asyncio.Event()
    informer.add_handler(lambda _: changed.set())
    informer.start()
    await informer.wait_synced()
    assert len(informer) == 3
    changed.clear()
    server.remove(PODS, "ns", "p1")
    await asyncio.wait_for(changed.wait(), 120)
    assert Key("ns", "p1") not in informer
    await informer.stop()


# Whatever goes wrong on the way, the store ends as the server is, and the changes told add up to it.

NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("put"), NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.sampled_from(["compact", "end_watches", "break_watches", "bookmark", "wait", "chunk"])),
    st.tuples(st.just("fail"), st.sampled_from(["list", "watch"]), st.sampled_from([403, 410, 429, 500, 503])),
    st.tuples(st.just("break"), st.sampled_from(["list", "watch"])),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=30), st.booleans())
def test_store_equals_the_server_after_any_faults(steps: list[tuple[Any, ...]], far: bool) -> None:
    async def script(w: World) -> None:
        w.informer.start()
        for number, step in enumerate(steps):
            match step:
                case "put", name:
                    w.server.put(PODS, a_pod(name, number))
                case "remove", name if ("ns", name) in w.server.names(PODS):
                    w.server.remove(PODS, "ns", name)
                case "fail", verb, code:
                    w.server.fail_next(verb, code, {410: "Expired"}.get(code, "Other"))
                case "break", verb:
                    w.server.break_next(verb)
                case ("wait",):
                    await w.clock.sleep(0.3)
                case ("chunk",):
                    w.server.max_frames = 1
                case (act,):
                    getattr(w.server, act)()
        w.server.faults.clear()
        await w.informer.wait_synced()
        await w.settled()
        replayed: dict[Key, Pod] = {}
        for change in w.changes:
            assert replayed.get(change.key) == change.old, "old is exactly what was there"
            if change.new is None:
                del replayed[change.key]
            else:
                replayed[change.key] = change.new
        assert replayed == {pod.key: pod for pod in w.informer.list()}

    World(RemoteLocal if far else LocalCluster).run(script)
