"""Reservations of nodes by both plugins: room is gathered for a pod that fits nowhere yet."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strato.interop.yarn.remembering import REMEMBERED
from tests.interop.yarn.worlds import Cluster, app, capacity_config, config, node, queues, said

Setup = Any
"""Returns a configuration, by arguments of the plugin."""
CAPACITY = {
    "root.queues": "a,b",
    "root.a.capacity": "50",
    "root.b.capacity": "50",
    "root.a.user-limit-factor": "9",
    "root.b.user-limit-factor": "9",
}


@pytest.fixture(params=["yarnfair", "yarncapacity"])
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Setup:
    if request.param == "yarnfair":
        return partial(config, "yarnfair")
    return partial(capacity_config, tmp_path / "capacity-scheduler.xml", CAPACITY)


def scene(small: int = 20) -> list[Any]:
    """Two nodes with a free core each, small pods of a queue that want these, and a large one of another queue."""
    nodes = [node("n1", cpu="4", memory="32Gi"), node("n2", cpu="4", memory="32Gi")]
    running = [app("old", "a", 3, on="n1", memory="1536Mi"), app("elder", "a", 3, on="n2", memory="1536Mi")]
    waiting = app("small", "a", small, memory="1536Mi", creationTimestamp="2023-11-14T00:00:01Z")
    large = app("large", "b", 1, cpu="4", memory="6Gi", creationTimestamp="2023-11-14T00:00:02Z")
    return [*nodes, *queues("a", "b"), *running, waiting, large]


def test_room_is_gathered_on_one_node_for_a_large_pod(setup: Setup) -> None:
    cluster = Cluster(scene(), setup())
    plan = cluster.cycle(0)
    assert "NodeReserved: reserved on n1 for default/large-0 for 0 s; the node lacks 3 vcores" in said(plan, "large")
    assert "1 node(s) reserved for default/large-0" in str([pod.message for pod in plan.pods])
    for at in range(3):
        cluster.end(f"old-{at}", f"elder-{at}")
        plan = cluster.cycle(1 + at)
        if at < 2:
            text = f"reserved on n1 for default/large-0 for {1 + at} s; the node lacks {2 - at} vcores"
            assert text in said(plan, "large")
    assert cluster.running["large-0"] == "n1"
    assert {where for name, where in cluster.running.items() if name.startswith("small")} == {"n2"}
    assert plan.queue_annotations["b"] == {REMEMBERED: ""}


def test_without_reservations_small_pods_keep_a_large_one_out(setup: Setup) -> None:
    off = {"reservableNodes": 0} if setup.args[0] == "yarnfair" else {"reservations": False}
    cluster = Cluster(scene(), setup(**off))
    for at in range(3):
        cluster.end(f"old-{at}", f"elder-{at}")
        cluster.cycle(at)
    assert "large-0" not in cluster.running


def test_a_reservation_outlives_the_scheduler(setup: Setup) -> None:
    cluster = Cluster(scene(), setup())
    cluster.cycle(0)
    cluster.end("elder-0", "elder-1")  # the other node lacks less now
    cluster.restart()
    plan = cluster.cycle(30)
    assert "reserved on n1 for default/large-0 for 30 s" in said(plan, "large")
    assert Counter(cluster.running.values()) == {"n1": 3, "n2": 4}


def test_what_is_no_memory_is_no_obstacle(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    objects = scene()
    objects[3]["metadata"]["annotations"] = {REMEMBERED: '{"reserved": [1]}'}
    assert "reserved on n1" in said(Cluster(objects, setup()).cycle(0), "large")
    assert f"annotation is not read: queue=b annotation={REMEMBERED}" in caplog.text


def test_a_pod_that_is_gone_holds_nothing(setup: Setup) -> None:
    cluster = Cluster(scene(), setup())
    cluster.cycle(0)
    cluster.end("large-0", "old-0")
    cluster.cycle(1)
    assert [where for name, where in cluster.running.items() if "small" in name].count("n1") == 2


def test_a_pod_with_a_reservation_starts_elsewhere_when_it_fits_there(setup: Setup) -> None:
    cluster = Cluster(scene(0), setup())
    cluster.cycle(0)
    cluster.end(*(f"elder-{at}" for at in range(3)))
    plan = cluster.cycle(1)
    assert cluster.running["large-0"] == "n2"
    assert plan.queue_annotations["b"] == {REMEMBERED: ""}


def test_an_application_reserves_no_more_than_its_share_of_nodes() -> None:
    nodes = [node(f"n{at}", cpu="4", memory="8Gi") for at in range(4)]
    running = [app(f"old{at}", "a", 4, on=f"n{at}", memory="1Gi") for at in range(4)]
    large = app("large", "b", 4, cpu="4", memory="6Gi")
    plan = Cluster([*nodes, *queues("a", "b"), *running, large], config("yarnfair", reservableNodes=0.5)).cycle(0)
    assert said(plan, "large").count("NodeReserved") == 2


@pytest.mark.parametrize(
    ("cpu", "memory", "arguments"),
    [
        pytest.param("4", "1Gi", {}, id="smaller than two increments"),
        pytest.param("5", "6Gi", {}, id="larger than any node"),
        pytest.param("4", "6Gi", {"reservationThreshold": 9}, id="smaller than the threshold that is set"),
    ],
)
def test_who_reserves_nothing(cpu: str, memory: str, arguments: dict[str, Any]) -> None:
    world = [node("n1", cpu="4", memory="8Gi"), *queues("a", "b"), app("old", "a", 4, on="n1")]
    plan = Cluster([*world, app("large", "b", 1, cpu=cpu, memory=memory)], config("yarnfair", **arguments)).cycle(0)
    assert "NodeReserved" not in said(plan, "large")


def test_gangs_reserve_nothing(setup: Setup) -> None:
    world = scene()
    world[-1] = app("large", "b", 2, cpu="4", memory="6Gi", minimum=2)
    assert "NodeReserved" not in said(Cluster(world, setup()).cycle(0), "large")


# -- of the Capacity Scheduler -----------------------------------------------------------------------------------------


def test_what_is_reserved_counts_towards_the_maximum(tmp_path: Path) -> None:
    settings = {**CAPACITY, "root.b.maximum-capacity": "50"}
    world = [*scene(0)[:-1], app("large", "b", 4, cpu="4", memory="20Gi")]
    text = capacity_config(tmp_path / "capacity-scheduler.xml", settings)
    plan = Cluster(world, text).cycle(0)
    assert said(plan, "large").count("NodeReserved") == 1  # two would be 40 of 32 GB


@pytest.mark.parametrize(("looks_on", "where"), [("true", "n2"), ("false", "n1")])
def test_whether_it_looks_on(tmp_path: Path, looks_on: str, where: str) -> None:
    settings = {**CAPACITY, "reservations-continue-look-all-nodes": looks_on}
    cluster = Cluster(scene(0), capacity_config(tmp_path / "capacity-scheduler.xml", settings))
    cluster.cycle(0)
    cluster.end(*(f"elder-{at}" for at in range(3)))
    cluster.cycle(1)
    cluster.end(*(f"old-{at}" for at in range(3)))
    cluster.cycle(2)
    assert cluster.running["large-0"] == where


@pytest.mark.parametrize("selects", [True, False])
def test_room_is_made_on_the_reserved_node(tmp_path: Path, selects: bool) -> None:
    """Without the setting, pods of the last application go, wherever they are."""
    preemption = "yarn.resourcemanager.monitor.capacity.preemption."
    settings = {
        **CAPACITY,
        "root.a.capacity": "25",
        "root.b.capacity": "75",
        "resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        "yarn.resourcemanager.scheduler.monitor.enable": "true",
        preemption + "total_preemption_per_round": "1.0",
        preemption + "natural_termination_factor": "1.0",
        preemption + "max_wait_before_kill": "2000",
        preemption + "monitoring_interval": "1000",
        preemption + "select_based_on_reserved_containers": str(selects).lower(),
    }
    nodes = [node(name, cpu="4", memory="4Gi") for name in ("n1", "n2", "n3")]
    running = [app("first", "a", 2, on="n1"), app("second", "a", 2, on="n2"), app("third", "a", 4, on="n3")]
    large = app("large", "b", 1, cpu="4", memory="4Gi", creationTimestamp="2023-11-14T00:00:01Z")
    large += app("little", "b", 6, creationTimestamp="2023-11-14T00:00:02Z")
    actions = "enqueue, allocate, reclaim, preempt"
    text = capacity_config(tmp_path / "capacity-scheduler.xml", settings, actions)
    cluster = Cluster([*nodes, *queues("a", "b"), *running, large], text)
    assert "reserved on n1" in said(cluster.cycle(0), "large")
    for at in range(1, 8):
        cluster.cycle(at)
    assert (cluster.running.get("large-0") == "n1") == selects
