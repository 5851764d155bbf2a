"""task-topology: buckets, their order, and where their tasks go."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.plugins.buckets import JobTopology, read_topology
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

PREFIX = "volcano.sh/task-topology-"


def notes(**kinds: str) -> dict[str, str]:
    return {PREFIX + kind.replace("_", "-"): text for kind, text in kinds.items()}


def job(annotations: dict[str, str], **roles: int) -> list[dict[str, Any]]:
    made = worlds.group("g", 0)
    made["metadata"]["annotations"] = annotations
    pods = [
        worlds.pod(f"{role}{i}", "g", annotations={"volcano.sh/task-spec": role})
        for role, count in roles.items()
        for i in range(count)
    ]
    return [worlds.queue(), made, *pods]


UNREADABLE = [
    pytest.param(notes(affinity="ps,other"), id="an unknown name"),
    pytest.param(notes(affinity="ps,ps"), id="a name twice"),
    pytest.param(notes(task_order="ps,ps"), id="twice in the order"),
    pytest.param(notes(affinity=""), id="nothing"),
]


@pytest.mark.parametrize("annotations", UNREADABLE)
def test_topologies_that_are_none(annotations: dict[str, str]) -> None:
    assert read_topology(annotations, {"ps", "worker"}) is None


BUCKETS = [
    pytest.param(notes(affinity="ps,worker"), {"ps": 2, "worker": 2}, [{"ps": 2, "worker": 2}], id="all together"),
    pytest.param(
        notes(affinity="ps,worker", anti_affinity="ps"),
        {"ps": 2, "worker": 4},
        [{"ps": 1, "worker": 2}, {"ps": 1, "worker": 2}],
        id="one ps each, and workers spread over them",
    ),
    pytest.param(notes(anti_affinity="ps"), {"ps": 3}, [{"ps": 1}] * 3, id="all apart"),
    pytest.param(notes(affinity="ps"), {"ps": 3, "worker": 1}, [{"ps": 3}], id="roles without rules are in no bucket"),
    pytest.param(
        notes(anti_affinity="worker", task_order="worker,ps"),
        {"ps": 2, "worker": 2},
        [{"worker": 1}] * 2,
        id="roles that the order alone names are in no bucket",
    ),
    pytest.param(
        notes(anti_affinity="ps,worker"), {"ps": 1, "worker": 2}, [{"ps": 1}, {"worker": 2}], id="two roles apart"
    ),
]


@pytest.mark.parametrize(("annotations", "roles", "expected"), BUCKETS)
def test_buckets(annotations: dict[str, str], roles: dict[str, int], expected: list[dict[str, int]]) -> None:
    world = worlds.world(*job(annotations, **roles))
    topology = read_topology(annotations, roles)
    assert topology is not None
    made = JobTopology(world.jobs["ns/g"], topology, world.nodes.names)
    assert [bucket.counts for bucket in made.buckets] == expected
    assert made.largest == max(sum(counts.values()) for counts in expected)


PRIORITIES = [
    pytest.param({}, 0, id="no rule"),
    pytest.param({"anti_affinity": "ps,worker"}, 1, id="apart from others"),
    pytest.param({"affinity": "ps", "anti_affinity": "ps,worker"}, 2, id="near to its own"),
    pytest.param({"affinity": "ps;ps,worker"}, 3, id="near to others"),
    pytest.param({"affinity": "ps,worker", "anti_affinity": "ps"}, 4, id="apart from its own"),
]


@pytest.mark.parametrize(("rules", "priority"), PRIORITIES)
def test_the_strongest_rule_of_a_role_counts(rules: dict[str, str], priority: int) -> None:
    topology = read_topology(notes(task_order="ps", **rules), {"ps", "worker"})
    assert topology is not None
    assert topology.priority("ps") == priority


PLACES = [
    pytest.param(notes(affinity="ps,worker", anti_affinity="ps"), {"ps": 2, "worker": 2}, "3", [(1, 1), (1, 1)],
                 id="each ps with its worker"),
    pytest.param(notes(affinity="ps,worker"), {"ps": 1, "worker": 2}, "3", [(1, 2)], id="together on one node"),
    pytest.param(notes(anti_affinity="worker"), {"worker": 3}, "9", [(0, 1)] * 3, id="apart"),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "roles", "cpu", "expected"), PLACES)
def test_placement(annotations: dict[str, str], roles: dict[str, int], cpu: str, expected: list[Any]) -> None:
    nodes = [worlds.node(f"n{i}", cpu=cpu) for i in range(3)]
    world = worlds.world(*nodes, *job(annotations, **roles))
    plan = worlds.cycle(world, asking.config("task-topology", {"name": "predicates"}))
    by_node: dict[str, list[str]] = {}
    for key, node in worlds.binds(plan).items():
        by_node.setdefault(node, []).append(key)
    found = sorted((sum("/ps" in k for k in on), sum("/worker" in k for k in on)) for on in by_node.values())
    assert found == sorted(expected)


def test_scores_count_what_is_there_and_what_fits() -> None:
    """Three workers wait, one runs on `here`; a node takes as many as fit, of the largest bucket's four."""
    annotations = notes(affinity="worker")
    objects = [
        worlds.node("here", cpu="3"),
        worlds.node("one", cpu="1"),
        worlds.node("two", cpu="2"),
        worlds.node("full", cpu="0"),
    ]
    running = worlds.pod("r", "g", phase="Running", nodeName="here", annotations={"volcano.sh/task-spec": "worker"})
    ssn = asking.session(worlds.world(*objects, *job(annotations, worker=3), running), "task-topology")
    assert asking.scores(ssn, "worker0") == {"here": 75.0, "one": 25.0, "two": 50.0, "full": 0.0}
    asking.place(ssn, "worker1", "two")
    assert asking.scores(ssn, "worker0") == {"here": 75.0, "one": 25.0, "two": 50.0, "full": 0.0}


def test_what_a_role_avoids_counts_whatever_else_is_there() -> None:
    """Near to `a` and apart from `b`: `a` draws by its bucket, and `b` pushes as much; they do not cancel twice."""
    annotations = notes(affinity="a,w", anti_affinity="b,w")
    nodes = [worlds.node("both", cpu="9"), worlds.node("none", cpu="9")]
    ssn = asking.session(worlds.world(*nodes, *job(annotations, a=1, b=1, w=2)), "task-topology")
    asking.place(ssn, "a0", "both")
    drawn = asking.scores(ssn, "w0")
    assert drawn["both"] > drawn["none"]
    asking.place(ssn, "b0", "both")
    shared = asking.scores(ssn, "w0")
    assert shared["both"] == shared["none"]


def test_order_of_tasks() -> None:
    annotations = notes(affinity="ps,worker", anti_affinity="ps", task_order="ps,worker")
    ssn = asking.session(worlds.world(*job(annotations, worker=3, ps=2, other=1)), "task-topology")
    ordered = [t.role for t in ssn.sorted_tasks(ssn.world.jobs["ns/g"].tasks.values())]
    assert ordered == ["ps", "worker", "worker", "ps", "worker", "other"]
