"""Pods without a PodGroup make room by priority as under kube-scheduler, and only by priority."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strato.api.core import Node
from strato.controllers.manager import EMBEDDED
from strato.scheduler.config import embedded_config
from strato.scheduler.model.plan import Plan
from strato.testing.harness import Harness, run_in_virtual_time
from strato.testing.manifests import priority_class
from tests.scheduler import worlds

Json = dict[str, Any]
OURS = ("volcano", "default-scheduler")


def pod(name: str, priority: int = 0, cpu: str = "1", on: str = "", **more: Any) -> Json:
    placed = {"nodeName": on, "phase": "Running"} if on else {}
    return worlds.pod(
        name, cpu=cpu, scheduler=more.pop("scheduler", "default-scheduler"), priority=priority, **placed, **more
    )


def decide(*objects: Json, queues: tuple[Json, ...] = ()) -> Plan:
    world = worlds.world(*(queues or (worlds.queue(),)), *objects, names=OURS)
    return worlds.cycle(world, embedded_config())


def evicted(plan: Plan) -> set[str]:
    return {eviction.task.name for eviction in plan.evictions}


def budget(name: str, app: str, allowed: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def started(made: Json, at: str) -> Json:
    made["status"]["startTime"] = at
    return made


FULL = [worlds.node("n", cpu="2"), pod("a", 1, on="n"), pod("b", 2, on="n")]
CASES = [
    pytest.param([*FULL, pod("want", 1000)], {"a"}, id="the least important goes"),
    pytest.param([*FULL, pod("want", 2)], {"a"}, id="equals do not go"),
    pytest.param([*FULL, pod("want", 1)], set(), id="nobody is less important"),
    pytest.param([*FULL, pod("want", 1000, preemptionPolicy="Never")], set(), id="a policy forbids it"),
    pytest.param([*FULL, pod("want", 1000, cpu="2")], {"a", "b"}, id="both are needed"),
    pytest.param([*FULL, pod("want", 1000, cpu="3")], set(), id="nobody goes in vain"),
    pytest.param(
        [worlds.node("n", cpu="4"), pod("small", 1, on="n"), pod("large", 1, cpu="3", on="n"), pod("want", 9, cpu="3")],
        {"large"},
        id="who need not go stays",
    ),
    pytest.param(
        [
            worlds.node("m", cpu="1"),
            worlds.node("n", cpu="1"),
            pod("a", 5, on="m"),
            pod("b", 4, on="n"),
            pod("want", 9),
        ],
        {"b"},
        id="the node whose most important victim is least important",
    ),
    pytest.param(
        [
            worlds.node("m", cpu="1"),
            worlds.node("n", cpu="1"),
            started(pod("old", 1, on="m"), "2026-01-01T00:00:00Z"),
            started(pod("young", 1, on="n"), "2026-01-02T00:00:00Z"),
            pod("want", 9),
        ],
        {"young"},
        id="of equals the one that started last",
    ),
    pytest.param(
        [
            *(worlds.node(name, cpu="1") for name in "mn"),
            budget("kept", "kept", 0),
            pod("kept", 1, on="m", labels={"app": "kept"}),
            pod("other", 5, on="n", labels={"app": "other"}),
            pod("want", 9),
        ],
        {"other"},
        id="a budget weighs more than importance",
    ),
    pytest.param(
        [
            worlds.node("n", cpu="1"),
            budget("kept", "kept", 0),
            pod("kept", 1, on="n", labels={"app": "kept"}),
            pod("want", 9),
        ],
        {"kept"},
        id="a budget is broken when there is no other way",
    ),
    pytest.param(
        [
            worlds.node("n", cpu="1"),
            pod("a", 1, on="n", annotations={"volcano.sh/preemptable": "false"}),
            pod("want", 9),
        ],
        set(),
        id="who says that it does not give way",
    ),
    pytest.param(
        [
            worlds.node("n", cpu="1"),
            pod("a", 1, on="n", annotations={"kubernetes.io/config.mirror": "x"}),
            pod("want", 9),
        ],
        set(),
        id="static pods would come back",
    ),
    pytest.param(
        [
            worlds.node("n", cpu="1"),
            pod("a", 1, on="n", priorityClassName="system-node-critical"),
            pod("want", 9),
        ],
        set(),
        id="critical pods",
    ),
    pytest.param(
        [worlds.node("n", cpu="1"), pod("a", 1, on="n", scheduler="other"), pod("want", 9)],
        set(),
        id="pods of another scheduler are load",
    ),
    pytest.param(
        [
            worlds.node("n", cpu="2"),
            worlds.group("gang", 2, phase="Running"),
            *(worlds.pod(f"g{i}", "gang", phase="Running", nodeName="n", priority=0) for i in range(2)),
            pod("want", 9),
        ],
        set(),
        id="a gang keeps its minimum",
    ),
]


@pytest.mark.parametrize(("objects", "want"), CASES)
def test_victims_are_kubernetes(objects: list[Json], want: set[str]) -> None:
    plan = decide(*objects)
    assert evicted(plan) == want
    nominated = {verdict.task.name for verdict in plan.pods if verdict.nominated}
    assert nominated == ({"want"} if want else set())


@pytest.mark.parametrize(("name", "count"), [("default", 1), ("other", 0)])
def test_room_is_made_within_a_queue(name: str, count: int) -> None:
    """The other queue has more than its share, and the pod's own would let it in."""
    gang = [worlds.group("gang", 0, phase="Running", queue=name)]
    gang += [worlds.pod(f"g{i}", "gang", phase="Running", nodeName="n", priority=0) for i in range(4)]
    queues = (worlds.queue(), worlds.queue("other"))
    assert len(evicted(decide(worlds.node("n", cpu="4"), *gang, pod("want", 9), queues=queues))) == count


def test_a_gang_takes_the_place_of_less_important_pods_only() -> None:
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
    gang = [worlds.group("gang", 1, priorityClassName="high"), worlds.pod("g", "gang", priority=5)]
    place = worlds.node("n", cpu="1")
    assert evicted(decide(high, place, pod("a", 4, on="n"), *gang)) == {"a"}
    assert evicted(decide(high, place, pod("a", 5, on="n"), *gang)) == set()


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(("says", "want"), [("", set()), ("false", set()), ("true", {"a"})])
def test_another_queue_takes_back_only_from_pods_that_say_so(action: str, says: str, want: set[str]) -> None:
    config = f"""
actions: "allocate, {action}"
tiers:
- plugins: [{{name: gang}}, {{name: predicates}}, {{name: capacity}}]
"""
    notes = {"volcano.sh/preemptable": says} if says else {}
    objects = [
        worlds.queue(deserved={"cpu": "0", "memory": "0"}),
        worlds.queue("a", deserved={"cpu": "1", "memory": "8Gi"}),
        worlds.node("n", cpu="1"),
        pod("a", 0, on="n", annotations=notes),
        worlds.group("gang", 1, queue="a"),
        worlds.pod("g", "gang"),
    ]
    world = worlds.world(*objects, names=OURS)
    assert evicted(worlds.cycle(world, config)) == want


def bare(name: str, cls: str, cpu: str, **spec: Any) -> Json:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"priorityClassName": cls, "containers": [container], **spec},
    }


def deployment(name: str, cls: str, replicas: int, cpu: str) -> Json:
    template = bare(name, cls, cpu)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def on_the_embedded_cluster(story: Callable[[Harness], Awaitable[None]]) -> None:
    """Run a story on one hollow node of 128 CPUs, with the configuration and controllers of the embedded cluster."""
    config = embedded_config()
    run_in_virtual_time(story, nodes="1x128cpu,512Gi", controllers=EMBEDDED, scheduler_config=config)


async def classes(h: Harness) -> None:
    await h.apply(priority_class("low", 1), priority_class("high", 1000))


def running(h: Harness, count: int) -> Callable[[], bool]:
    return lambda: sum(pod.status.phase == "Running" for pod in h.pods()) == count


def test_one_of_eight_pods_that_fill_the_cluster_makes_room() -> None:
    async def story(h: Harness) -> None:
        await classes(h)
        await h.apply(*(bare(f"low-{i}", "low", "16") for i in range(8)))
        await h.eventually(running(h, 8))
        await h.apply(bare("high", "high", "16"))
        await h.eventually(lambda: h.pod("high").status.phase == "Running")
        await h.clock.sleep(60.0)
        assert len(h.pods()) == 8

    on_the_embedded_cluster(story)


def test_pods_of_a_deployment_make_room_and_their_successors_wait() -> None:
    async def story(h: Harness) -> None:
        await classes(h)
        await h.apply(deployment("web", "low", 8, "16"))
        await h.eventually(running(h, 8))
        await h.apply(bare("high", "high", "32"))
        await h.eventually(lambda: h.pod("high").status.phase == "Running")
        await h.clock.sleep(120.0)
        assert h.pod("high").status.phase == "Running"
        assert sum(not pod.spec.node_name for pod in h.pods()) == 2
        assert len(h.pods()) == 9

    on_the_embedded_cluster(story)


def test_pods_of_another_scheduler_stay_where_they_are() -> None:
    async def story(h: Harness) -> None:
        await classes(h)
        (node,) = [node.metadata.name for node in h.informer(Node).list()]
        await h.apply(*(bare(f"theirs-{i}", "low", "16", schedulerName="other", nodeName=node) for i in range(8)))
        await h.eventually(running(h, 8))
        await h.apply(bare("high", "high", "16"))
        await h.clock.sleep(60.0)
        assert h.pod("high").spec.node_name == ""
        assert len(h.pods()) == 9

    on_the_embedded_cluster(story)
