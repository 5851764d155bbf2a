"""Explanations: the binding constraint first, with its numbers; fixes that the engine has tried on a copy."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.config import default_config, parse_config
from strato.scheduler.dryrun.examine import examine, examine_queue
from strato.scheduler.dryrun.run import decode_all
from strato.scheduler.dryrun.trial import Copy
from strato.scheduler.framework.options import Config
from tests.scheduler import worlds

Json = dict[str, Any]
PLAIN = "actions: 'enqueue, allocate, backfill'\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: %s}]"
CAPACITY = PLAIN % "capacity"


def copy(*objects: Json, config: Config | str | None = None) -> Copy:
    chosen = default_config() if config is None else parse_config(config) if isinstance(config, str) else config
    return Copy(decode_all([(f"object {i}", obj) for i, obj in enumerate(objects)]), chosen)


def gang(size: int, *, name: str = "g", queue: str = "default", minimum: int = 0, **fields: Any) -> list[Json]:
    cpu = int(fields.get("cpu", "1"))
    spec = {"queue": queue, "minResources": {"cpu": str(cpu * (minimum or size))}}
    members = [worlds.pod(f"{name}-{i}", name, **fields) for i in range(size)]
    return [worlds.group(name, minimum or size, phase="Pending", **spec), *members]


def running(count: int, node: str, *, queue: str = "default", name: str = "old") -> list[Json]:
    pods = [worlds.pod(f"{name}-{i}", name, nodeName=node, phase="Running") for i in range(count)]
    return [worlds.group(name, 1, phase="Running", queue=queue), *pods]


NODES = [worlds.node("n1", labels={"zone": "a"}), worlds.node("n2", labels={"zone": "b"})]
FOREIGN = [worlds.node("t", taints=[{"key": "gpu", "effect": "NoSchedule"}], cpu="16")]

CASES: list[Any] = [
    pytest.param(
        [*NODES, worlds.queue("q", capability={"cpu": "3"}), *gang(4, queue="q")],
        None,
        ["queue q: resource quota insufficient: insufficient cpu", "wanted cpu 4", "capability cpu 3"],
        [
            "fewer members: minMember 4 -> 3",
            "another queue: q -> default",
            "more quota: capability of queue q: cpu 3 -> 4",
        ],
        id="the queue's capability",
    ),
    pytest.param(
        [
            *NODES,
            worlds.queue("above", capability={"cpu": "6"}),
            worlds.queue("q", parent="above", capability={"cpu": "5"}),
            worlds.queue("beside", parent="above"),
            *running(1, "n1", queue="beside"),
            *gang(2, queue="q", cpu="3"),
        ],
        CAPACITY,
        ["insufficient cpu"],
        ["more quota: capability of queue q: cpu 5 -> 6; capability of queue above: cpu 6 -> 7"],
        id="no more than what is needed, of queues above too",
    ),
    pytest.param(
        [*NODES, worlds.queue("q", state="Closed"), *gang(2, queue="q")],
        None,
        ["queue q is not open, it is Closed"],
        ["another queue: q -> default", "open queue q, which is Closed"],
        id="a closed queue",
    ),
    pytest.param(
        [*NODES, *gang(4, cpu="3")],
        PLAIN % "conformance",
        ["the cluster is too small even when empty: the job asks for cpu 12 in all, it has 8"],
        ["fewer members: minMember 4 -> 2", "2 more nodes like n1 (cpu 4, memory 8Gi, pods 110)"],
        id="cpu on nodes",
    ),
    pytest.param(
        [*NODES, *gang(1, cpu="32")],
        PLAIN % "conformance",
        ["no node is large enough even when empty: a pod asks for cpu 32, the most is 4"],
        ["1 more node as large as one pod asks for (cpu 32, memory 1Gi, pods 1)"],
        id="a pod larger than any node",
    ),
    pytest.param(
        [*NODES, *gang(6, nodeSelector={"zone": "a"})],
        PLAIN % "conformance",
        ["no node takes 2 of 6 waiting pods: node(s) didn't match", "on 1 of 2 nodes"],
        ["fewer members: minMember 6 -> 4", "drop the node selector zone=a", "1 more node like n1"],
        id="a selector",
    ),
    pytest.param(
        [*FOREIGN, *gang(2)],
        PLAIN % "conformance",
        ["no node takes 2 of 2 waiting pods: ", "taint"],
        ["tolerate the taint gpu"],
        id="a taint",
    ),
    pytest.param(
        [*NODES, *gang(2, minimum=3)],
        None,
        ["Not enough valid tasks for gang-scheduling, valid: 2, min: 3"],
        ["fewer members: minMember 3 -> 2"],
        id="pods that do not exist",
    ),
    pytest.param(
        [
            *NODES,
            worlds.queue("a", deserved={"cpu": "2"}, capability={"cpu": "2"}),
            worlds.queue("b", deserved={"cpu": "6"}),
            *running(2, "n1", queue="a"),
            *gang(1, queue="a"),
        ],
        CAPACITY,
        ["queue a has no share left", "deserved cpu 2, ", "allocated cpu 2"],
        ["another queue: a -> b", "more quota: capability of queue a: cpu 2 -> 3; deserved of queue a: cpu 2 -> 3"],
        id="a full queue of the capacity plugin",
    ),
]


@pytest.mark.parametrize(("objects", "config", "words", "fixes"), CASES)
def test_the_binding_constraint_comes_first_and_fixes_are_found(
    objects: list[Json], config: str | None, words: list[str], fixes: list[str]
) -> None:
    found = examine(copy(*objects, config=config), "ns/g", fix=True)
    assert found is not None
    for word in words:
        assert word in found.summary
    assert found.fixes is not None
    texts = [fix.text for fix in found.fixes]
    for fix in fixes:
        assert any(text.startswith(fix) for text in texts), texts


def test_two_changes_are_found_where_no_single_one_is_enough() -> None:
    quota = worlds.queue("q", capability={"cpu": "1"})
    state = copy(*NODES, quota, *gang(2, queue="q", cpu="3", nodeSelector={"zone": "z"}), config=PLAIN % "proportion")
    found = examine(state, "ns/g", fix=True)
    assert found is not None
    assert found.fixes is not None
    texts = [fix.text for fix in found.fixes]
    assert "more quota: capability of queue q: cpu 1 -> 6, and drop the node selector zone=z" in texts
    assert "another queue: q -> default, and drop the node selector zone=z" in texts


def test_a_pod_that_does_not_wait_needs_no_fix() -> None:
    state = copy(*NODES, *running(1, "n1"), *gang(2), worlds.pod("late", "g", gates=True))
    assert (there := examine(state, "ns/old-0", fix=True)) is not None
    assert there.summary == "it is on node n1"
    assert there.fixes is None
    assert (soon := examine(state, "ns/g-0")) is not None
    assert soon.summary.startswith("nothing holds it back: the next cycle binds it to n")
    assert examine(state, "ns/nobody") is None


def test_reclaiming_for_a_fix_is_counted() -> None:
    config = (
        "actions: 'enqueue, allocate, reclaim'\n"
        "tiers:\n- plugins: [{name: gang}, {name: predicates}, {name: proportion}]"
    )
    state = copy(
        worlds.node("n1", cpu="4"),
        worlds.queue("poor", weight=1, reclaimable=True),
        worlds.queue("rich", weight=1, reclaimable=True),
        *running(4, "n1", queue="poor"),
        *gang(4, queue="rich"),
        config=config,
    )
    found = examine(state, "ns/g", fix=True)
    assert found is not None
    assert found.fixes
    assert any(fix.evictions for fix in found.fixes)


def test_a_queue_tells_what_it_has_and_what_its_jobs_wait_for() -> None:
    state = copy(*NODES, worlds.queue("q", capability={"cpu": "3"}), *running(2, "n1", queue="q"), *gang(4, queue="q"))
    found = examine_queue(state, "q")
    assert found is not None
    text = found.render()
    assert "allocated cpu 2" in text
    assert "capability cpu 3" in text
    assert "1 job waits for the queue's capability" in text
    assert "podgroup ns/g: " in text  # it may have no pods yet
    assert found.to_json()["podgroups"] == found.pods
    assert list(found.pods) == ["ns/g"]
    assert examine_queue(state, "nothing") is None


ROOM: list[Any] = [
    pytest.param(
        [*NODES, *running(4, "n1"), *running(4, "n2", name="other"), *gang(1)],
        "the cluster is full: cpu 0 is free, 1 is asked for; queue default has its whole share",
        "the cluster is full: 1 job waits; the queue itself may have more",
        id="a full cluster is full, and the queue is not the reason",
    ),
    pytest.param(
        [*NODES, *running(3, "n1"), *running(3, "n2", name="other"), *gang(1, cpu="2")],
        "no room for its pod: Insufficient cpu on 2 of 2 nodes; what is free is spread over too many nodes",
        "1 job waits for room on nodes; the queue itself may have more",
        id="room in parts is no full cluster",
    ),
    pytest.param(
        [*NODES, *gang(1, memory="1000Gi")],
        "no node is large enough even when empty: a pod asks for memory 1000Gi, the most is 8Gi",
        "1 job waits for a larger cluster; the queue itself may have more",
        id="amounts are written as people do",
    ),
    pytest.param(
        [*NODES, *gang(2)], "nothing holds it back: the next cycle binds its 2 waiting pods",
        "nothing waits in it", id="nothing waits for long",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "of_job", "of_queue"), ROOM)
def test_words_follow_what_the_engine_found(objects: list[Json], of_job: str, of_queue: str) -> None:
    state = copy(*objects, config=PLAIN % "proportion")
    job, queue = examine(state, "ns/g"), examine_queue(state, "default")
    assert job is not None
    assert queue is not None
    assert job.summary.startswith(of_job)
    assert queue.summary == of_queue


def test_a_group_that_overcommit_keeps_out_is_too_large_or_the_cluster_is_full() -> None:
    config = PLAIN % "proportion}, {name: overcommit"
    large = examine(copy(*NODES, *gang(1, cpu="100"), config=config), "ns/g")
    assert large is not None
    assert large.summary == "no node is large enough even when empty: a pod asks for cpu 100, the most is 4"
    wide = examine(copy(*NODES, *gang(50), config=config), "ns/g")
    assert wide is not None
    assert wide.summary == "the cluster is too small even when empty: the job asks for cpu 50 in all, it has 8"
    late = examine(copy(*NODES, *running(4, "n1"), *running(4, "n2", name="other"), *gang(2), config=config), "ns/g")
    assert late is not None
    assert late.summary == "the cluster is full: cpu 0 is free, 2 is asked for"


def test_a_thousand_equal_pods_are_one_line() -> None:
    found = examine(copy(*NODES, *gang(1000), config=PLAIN % "conformance"), "ns/g")
    assert found is not None
    lines = found.render().splitlines()
    assert lines[0].startswith("ns/g (Pending): the cluster is too small even when empty: the job asks for cpu 1000")
    assert len(lines) == 4
    assert re.fullmatch(r"  992 pods \(ns/g-\d+, ns/g-\d+, … ns/g-999\): 0/2 nodes are .*", lines[1]), lines
    assert re.fullmatch(r"  4 pods \(ns/g-.*\): it can possibly be assigned to n1, once .*", lines[2]), lines


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 20))
def test_every_fix_starts_the_job_whatever_the_world(seed: int) -> None:
    """`Search` reports only what the engine did on the copy; asking must work on any world and change nothing."""
    rng = random.Random(seed)
    objects = [worlds.node(f"n{i}", cpu=str(rng.randint(1, 6)), labels={"zone": rng.choice("ab")}) for i in range(3)]
    objects += [worlds.queue("q", capability={"cpu": str(rng.randint(1, 5))})]
    for name in ("g", "h"):
        selector = {"nodeSelector": {"zone": "a"}} if rng.random() < 0.5 else {}
        objects += gang(
            rng.randint(1, 4), name=name, queue=rng.choice(["q", "default"]), cpu=str(rng.randint(1, 4)), **selector
        )
    state = copy(*objects)
    before = worlds.fingerprint(state.run(0).world)
    found = examine(state, "ns/g", fix=True)
    assert found is not None
    assert found.render()
    assert worlds.fingerprint(state.run(0).world) == before
