"""Delay scheduling by both plugins: pods wait a while for nodes that they prefer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strato.clock import format_time
from strato.errors import InvalidInput
from strato.scheduler.config import parse_config
from strato.scheduler.dryrun.states import START
from tests.interop.yarn.worlds import Cluster, app, capacity_config, config, node, queues

NEAR = {"kubernetes.io/hostname": "n1"}
CAPACITY = {"root.queues": "a,b", "root.a.capacity": "50", "root.b.capacity": "50", "root.a.user-limit-factor": "9"}
HEARTBEAT = "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"


def scene(count: int = 1, **meta: Any) -> list[Any]:
    """A full node that pods prefer, one in its rack, one in another."""
    racks = {"n1": "r1", "n2": "r1", "n3": "r2"}
    nodes = [
        node(name, cpu="4", memory="8Gi", rack=rack, **{"kubernetes.io/hostname": name})  # type: ignore[arg-type]  # values of a table
        for name, rack in racks.items()
    ]
    return [*nodes, *queues("a", "b"), app("old", "b", 4, on="n1"), app("x", "a", count, prefers=NEAR, **meta)]


def started(cluster: Cluster, until: int) -> dict[str, tuple[int, str]]:
    """Return when pods of the application started, and where."""
    found: dict[str, tuple[int, str]] = {}
    for at in range(until):
        cluster.cycle(at)
        for name, where in cluster.running.items():
            if name.startswith("x"):
                found.setdefault(name, (at, where))
    return found


FAIR: dict[str, Any] = {"rackLabel": "rack", "heartbeatInterval": 4000}


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param({}, (0, "n2 n3"), id="nobody waits unless told to"),
        pytest.param({"localityThresholdNode": 0.5, "localityThresholdRack": 1}, (3, "n2"), id="the rack comes next"),
        pytest.param({"localityThresholdNode": 5, "localityThresholdRack": 0}, (5, "n2 n3"), id="a share is at most 1"),
        pytest.param({"localityThresholdNode": 0.5}, (0, "n2 n3"), id="both shares or none"),
        pytest.param({"localityDelayNode": 2000, "localityDelayRack": 0}, (3, "n2 n3"), id="by time"),
    ],
)
def test_fair_waits(arguments: dict[str, Any], want: tuple[int, str]) -> None:
    at, where = started(Cluster(scene(), config("yarnfair", **FAIR, **arguments)), 9)["x-0"]
    assert at == want[0]
    assert where in want[1].split()


def test_another_rack_comes_last() -> None:
    world = scene()
    world.append(app("more", "b", 4, on="n2"))
    text = config("yarnfair", **FAIR, localityDelayNode=1000, localityDelayRack=3000)
    assert started(Cluster(world, text), 9) == {"x-0": (5, "n3")}


def test_who_has_waited_takes_the_preferred_node_when_it_is_free() -> None:
    cluster = Cluster(scene(), config("yarnfair", **FAIR, localityDelayNode=5000, localityDelayRack=0))
    cluster.cycle(0)
    cluster.end("old-0")
    cluster.cycle(1)
    assert cluster.running["x-0"] == "n1"


def test_nobody_waits_for_nodes_that_there_are_not() -> None:
    world = [*scene()[:-1], app("x", "a", 1, prefers={"kubernetes.io/hostname": "elsewhere"})]
    text = config("yarnfair", **FAIR, localityDelayNode=5000, localityDelayRack=0)
    assert set(started(Cluster(world, text), 2)) == {"x-0"}


@pytest.mark.parametrize(("created", "starts"), [(-60, True), (-2, False)])
def test_a_restart_begins_no_wait_again(created: int, starts: bool) -> None:
    cluster = Cluster(
        scene(creationTimestamp=format_time(START + created)),
        config("yarnfair", **FAIR, localityDelayNode=30_000, localityDelayRack=0),
    )
    cluster.cycle(0)
    assert ("x-0" in cluster.running) == starts


def test_what_it_waits_for_is_said() -> None:
    text = config("yarnfair", **FAIR, localityDelayNode=5000, localityDelayRack=0)
    plan = Cluster(scene(), text).cycle(0)
    assert "2 node(s) are not those that the pod prefers and still waits for" in plan.pods[0].message


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param({}, (0, "n2 n3"), id="nobody waits unless the file says so"),
        pytest.param(
            {"node-locality-delay": "2", "rack-locality-additional-delay": "1"}, (3, "n2"), id="opportunities"
        ),
        pytest.param({"node-locality-delay": "-1"}, (0, "n2 n3"), id="off"),
        pytest.param(
            {"node-locality-delay": "99", "rack-locality-additional-delay": "9"}, (5, "n2 n3"), id="at most one round"
        ),
        pytest.param({"node-locality-delay": "3"}, (1, "n3"), id="anywhere by how much is asked for"),
    ],
)
def test_capacity_waits(tmp_path: Path, settings: dict[str, str], want: tuple[int, str]) -> None:
    text = capacity_config(
        tmp_path / "capacity-scheduler.xml", {**CAPACITY, **settings}, rackLabel="rack", properties={HEARTBEAT: "4000"}
    )
    at, where = started(Cluster(scene(), text), 9)["x-0"]
    assert at == want[0]
    assert where in want[1].split()


def test_a_heartbeat_is_a_number_of_milliseconds(tmp_path: Path) -> None:
    text = capacity_config(tmp_path / "capacity-scheduler.xml", CAPACITY, properties={HEARTBEAT: "soon"})
    with pytest.raises(InvalidInput, match="'soon': expected milliseconds above 0"):
        parse_config(text)
