"""Nodes whose object says something else than they do report again: after a pause, and when it was deleted."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from strato.api.coordination import Lease
from strato.api.core import Node
from strato.client.cluster import PatchType
from strato.client.informer import Informers
from strato.clock import VirtualClock
from strato.controllers.manager import EMBEDDED
from strato.node.nodesync import NodeSync
from strato.testing.harness import ConditionTimeout, Harness, run_in_virtual_time
from strato.testing.manifests import pod

OPTIONS: dict[str, Any] = {"nodes": "2x4cpu,8Gi", "controllers": EMBEDDED, "max_lease_rate": 100.0}


def ready(node: Node) -> str:
    condition = node.status.condition("Ready")
    return "" if condition is None else condition.status


def node_of(h: Harness, name: str) -> Node:
    return h.get(Node, name)


async def running_pod(h: Harness) -> str:
    """Start a pod that runs for a day and tolerates nothing beyond the usual five minutes; return its node."""
    await h.apply(pod("p", cpu="1", run_seconds=86400))
    await h.eventually(lambda: h.pod("p").is_ready)
    return h.pod("p").spec.node_name


def test_a_node_that_was_silent_for_longer_than_its_lease_is_ready_again_with_its_pods() -> None:
    async def story(h: Harness) -> None:
        name = await running_pod(h)
        uid = h.pod("p").metadata.uid
        (nodes,) = h.world.nodes
        nodes.stop_node(name)
        await h.eventually(lambda: ready(node_of(h, name)) == "Unknown", timeout_seconds=120)
        await h.eventually(lambda: not h.pod("p").is_ready)
        nodes.start_node(name)
        await h.eventually(lambda: ready(node_of(h, name)) == "True")
        await h.eventually(lambda: not node_of(h, name).spec.taints)
        await h.eventually(lambda: h.pod("p").is_ready)
        assert h.pod("p").metadata.uid == uid
        await h.clock.sleep(600)
        assert ready(node_of(h, name)) == "True"

    run_in_virtual_time(story, **OPTIONS)


def test_a_pause_of_everybody_marks_no_node_unknown() -> None:
    """A suspended machine: controllers and nodes stop together, and nobody knows what the others did meanwhile."""

    async def story(h: Harness) -> None:
        name = await running_pod(h)
        seen: list[str] = []
        h.informer(Node).add_handler(lambda change: seen.append(ready(change.new)) if change.new else None)
        for _ in range(5):
            await h.clock.sleep(31)
            assert isinstance(h.clock, VirtualClock)
            h.clock.advance(300)
        await h.clock.sleep(60)
        assert "Unknown" not in seen
        assert h.pod("p").spec.node_name == name

    run_in_virtual_time(story, **OPTIONS)


def test_a_node_that_stays_silent_is_found_out_after_a_pause_too() -> None:
    async def story(h: Harness) -> None:
        name = await running_pod(h)
        h.world.nodes[0].stop_node(name)
        await h.clock.sleep(5)
        assert isinstance(h.clock, VirtualClock)
        h.clock.advance(300)
        await h.eventually(lambda: ready(node_of(h, name)) == "Unknown", timeout_seconds=90)

    run_in_virtual_time(story, **OPTIONS)


def test_a_deleted_node_registers_again_and_keeps_its_pods() -> None:
    async def story(h: Harness) -> None:
        name = await running_pod(h)
        pod_uid, node_uid = h.pod("p").metadata.uid, node_of(h, name).metadata.uid
        await h.delete(Node, name)
        await h.eventually(lambda: node_of(h, name).metadata.uid != node_uid)
        await h.clock.sleep(300)
        assert h.pod("p").metadata.uid == pod_uid
        assert ready(node_of(h, name)) == "True"
        lease = await h.cluster.get(Lease, name, "kube-node-lease")
        assert (lease.metadata.owner_references or [])[0].uid == node_of(h, name).metadata.uid

    run_in_virtual_time(story, **OPTIONS)


@pytest.mark.parametrize("kind", ["Ready", "MemoryPressure"])
def test_somebody_elses_word_about_a_condition_is_corrected_but_not_in_a_busy_loop(kind: str) -> None:
    async def story(h: Harness) -> int:
        name = h.world.nodes[0].names[0]
        reports = 0

        def count(change: Any) -> None:
            nonlocal reports
            reports += 1

        h.informer(Node).add_handler(count)
        wrong = {"status": {"conditions": [{"type": kind, "status": "Unknown", "reason": "Test"}]}}
        for _ in range(50):
            await h.cluster.patch(Node, name, "", wrong, patch_type=PatchType.STRATEGIC, subresource="status")
            await asyncio.sleep(0.1)
        await h.clock.sleep(10)
        condition = node_of(h, name).status.condition(kind)
        assert condition is not None
        assert condition.reason != "Test"
        return reports

    assert run_in_virtual_time(story, **OPTIONS) < 100


def test_a_deleted_pods_node_is_not_brought_back_while_it_is_silent() -> None:
    async def story(h: Harness) -> None:
        name = await running_pod(h)
        h.world.nodes[0].stop_node(name)
        await h.delete(Node, name)
        await h.clock.sleep(30)
        with pytest.raises(ConditionTimeout):
            node_of(h, name)
        await h.eventually(lambda: not h.pods(), timeout_seconds=200)

    run_in_virtual_time(story, **OPTIONS)


def test_a_node_that_was_deleted_before_the_first_list_is_registered() -> None:
    async def story(h: Harness) -> None:
        (nodes,) = h.world.nodes
        facts = dict(nodes._facts)
        present, deleted = sorted(facts)
        uids, restored = dict.fromkeys(facts, ""), list[str]()
        nodes.stop_node(deleted)
        await h.delete(Node, deleted)
        informers = Informers(h.cluster, h.clock, Random(1))
        sync = NodeSync(h.cluster, informers.informer(Node), h.clock, facts, uids, restored=restored.append)
        working = asyncio.create_task(sync.run())
        await h.clock.sleep(60)
        found = await h.cluster.get(Node, deleted, "")
        assert (ready(found), found.metadata.uid) == ("True", uids[deleted])
        assert (uids[present], set(restored)) == ("", {deleted}), "of the other there is nothing to say"
        working.cancel()
        await asyncio.wait((working,))
        await informers.stop()

    run_in_virtual_time(story, **OPTIONS)


@pytest.mark.parametrize(
    ("change", "is_restored"),
    [
        pytest.param(None, True, id="it was deleted"),
        pytest.param("Ready", True, id="somebody said that it is not ready"),
        pytest.param("MemoryPressure", False, id="its pods are ready as before"),
    ],
)
def test_a_node_that_reports_writes_its_pods_again_where_their_readiness_is_in_doubt(
    change: str | None, is_restored: bool
) -> None:
    """Whatever the node lifecycle controller does, which does not run here."""

    async def story(h: Harness) -> None:
        (nodes,) = h.world.nodes
        name = nodes.names[0]
        nodes.stop_node(name)
        informers, restored = Informers(h.cluster, h.clock, Random(1)), list[str]()
        facts = {name: nodes._facts[name]}
        sync = NodeSync(h.cluster, informers.informer(Node), h.clock, facts, {}, restored=restored.append)
        working = asyncio.create_task(sync.run())
        await h.clock.sleep(10)
        if change is None:
            await h.delete(Node, name)
        else:
            wrong = {"status": {"conditions": [{"type": change, "status": "Unknown"}]}}
            await h.cluster.patch(Node, name, "", wrong, patch_type=PatchType.STRATEGIC, subresource="status")
        await h.clock.sleep(10)
        condition = (await h.cluster.get(Node, name)).status.condition(change or "Ready")
        assert condition is not None
        assert condition.status != "Unknown"
        assert restored == ([name] if is_restored else [])
        working.cancel()
        await asyncio.wait((working,))
        await informers.stop()

    run_in_virtual_time(story, **{**OPTIONS, "controllers": ()})
