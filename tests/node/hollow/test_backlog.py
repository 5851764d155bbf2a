"""Pods that are bound to hollow nodes when these start are taken up node by node, as they are by then."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod
from strato.client.informer import Informer
from strato.clock import VirtualClock, run_virtual
from strato.node.hollow import HollowNodes, HollowOffer
from strato.node.hollow import backlog as backlogs
from strato.node.hollow.backlog import Backlog
from tests.node.fake_api import FakeApi


def pod(name: str, node: str, phase: str = "Running") -> Pod:
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node}, "status": {"phase": phase}}
    return msgspec.convert(body, Pod)


OFFER = HollowOffer(capacity={"cpu": "4", "pods": "10"})


class Copy(dict[tuple[str, str], Pod]):
    """What a backlog reads of an informer."""

    def put(self, *pods: Pod) -> list[Pod]:
        self.update({(one.metadata.namespace, one.metadata.name): one for one in pods})
        return list(pods)


def backlog(copy: Copy, clock: VirtualClock, taken: list[list[str]]) -> Backlog:
    def take_up(pods: Sequence[Pod]) -> None:
        taken.append([one.metadata.name for one in pods])

    return Backlog(cast("Informer[Pod]", copy), clock, take_up)


def test_each_node_takes_up_its_unfinished_pods_at_once() -> None:
    clock, copy, taken = VirtualClock(), Copy(), list[list[str]]()

    async def main() -> None:
        waiting = backlog(copy, clock, taken)
        waiting.fill(
            copy.put(
                pod("b", node="n"), pod("x", node="m"), pod("a", node="n"), pod("over", node="n", phase="Succeeded")
            )
        )
        assert ("n" in waiting, "m" in waiting, "o" in waiting) == (True, True, False)
        await waiting.run()
        assert taken == [["a", "b"], ["x"]]
        assert ("n" in waiting, "m" in waiting) == (False, False)

    run_virtual(clock, main())


def test_it_takes_up_what_the_informer_has_by_then() -> None:
    clock, copy, taken = VirtualClock(), Copy(), list[list[str]]()

    async def main() -> None:
        waiting = backlog(copy, clock, taken)
        waiting.fill(copy.put(pod("gone", node="n"), pod("moved", node="n"), pod("stays", node="n")))
        del copy["default", "gone"]
        copy.put(pod("moved", node="m"))
        waiting.add(copy.put(pod("new", node="n"))[0])
        waiting.take_up("n")
        waiting.take_up("n")
        assert taken == [["new", "stays"]]
        waiting.add(copy.put(pod("dropped", node="n"))[0])
        waiting.drop("n")
        await waiting.run()
        assert len(taken) == 1

    run_virtual(clock, main())


def test_others_have_their_turn_between_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlogs, "SLICE_SECONDS", -1.0)
    clock, copy, taken = VirtualClock(), Copy(), list[list[str]]()
    seen: list[int] = []

    async def main() -> None:
        waiting = backlog(copy, clock, taken)
        waiting.fill(copy.put(*(pod(f"p{number}", node=f"n{number}") for number in range(3))))
        task = asyncio.create_task(waiting.run())
        while not task.done():
            seen.append(len(taken))
            await asyncio.sleep(0)
        assert seen == [0, 1, 2, 3]

    run_virtual(clock, main())


def test_what_changes_on_a_node_meanwhile_waits_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, api, released = VirtualClock(), FakeApi(), asyncio.Event()
    run = Backlog.run

    async def late(self: Backlog) -> None:
        await released.wait()
        await run(self)

    monkeypatch.setattr(Backlog, "run", late)

    async def main() -> None:
        for name, node in (("old", "n"), ("deleted", "n"), ("elsewhere", "o")):
            api.create_pod(name, node, **asks(cpu=1))
        nodes = HollowNodes(api.cluster(), None, clock, random.Random(1), nodes=dict.fromkeys(("n", "o", "m"), OFFER))
        task = asyncio.create_task(nodes.run())
        await nodes.registered.wait()
        await clock.sleep(1)
        api.create_pod("new", "n", **asks(cpu=3))
        api.create_pod("free", "m", **asks(cpu=1))
        await api.cluster().delete(catalog.POD, "deleted", "default", grace_period_seconds=0)
        nodes.stop_node("o")
        await clock.sleep(5)
        assert [api.phase(name) for name in ("old", "new", "free")] == ["Pending", "Pending", "Running"]
        assert nodes.pod_count == 1
        released.set()
        await clock.sleep(5)
        assert [api.phase(name) for name in ("old", "new", "elsewhere")] == ["Running", "Running", "Pending"]
        nodes.start_node("o")
        await clock.sleep(5)
        assert api.phase("elsewhere") == "Running"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(clock, main())


def asks(cpu: int) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}]}
