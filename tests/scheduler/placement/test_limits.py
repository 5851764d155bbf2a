"""What must hold whatever the world looks like: limits of queues, and nothing left idle that somebody could use."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.config import parse_config
from strato.scheduler.model.tasks import RUNNING
from strato.scheduler.placement.placer import Placer
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.test_properties import some_world

Json = dict[str, Any]


def full(share: str, hierarchy: bool = False) -> str:
    extra = ", enableHierarchy: true" if hierarchy else ""
    return f"""
actions: "enqueue, reclaim, allocate, backfill, preempt"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: {share}{extra}}}, {{name: nodeorder}}, {{name: binpack}}]
"""


def capped(seed: int) -> list[Json]:
    """A random world whose queues have capabilities above what they hold already."""
    rng = random.Random(seed)
    objects = some_world(seed)
    groups = {o["metadata"]["name"]: o["spec"]["queue"] for o in objects if o["kind"] == "PodGroup"}
    held: dict[str, int] = {}
    for obj in objects:
        if obj["kind"] == "Pod" and obj["status"]["phase"] == "Running":
            name = groups[obj["metadata"]["annotations"]["scheduling.k8s.io/group-name"]]
            request = obj["spec"]["containers"][0]["resources"]["requests"].get("cpu", "0")
            held[name] = held.get(name, 0) + int(request or 0)
    for obj in objects:
        if obj["kind"] == "Queue":
            most = max(1, held.get(obj["metadata"]["name"], 0) + rng.randint(0, 2))
            obj["spec"]["capability"] = {"cpu": str(most)}
    return objects


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 30), share=st.sampled_from(["proportion", "capacity"]))
def test_no_queue_holds_more_than_its_capability(seed: int, share: str) -> None:
    world = worlds.world(*capped(seed))
    for cycle in range(2):
        worlds.cycle(world, full(share), seed=cycle)
        for queue in world.queues.values():
            for column, most in queue.capability.items():
                assert queue.used[column] <= most, f"{queue.name} holds {queue.used[column]} of {most}"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_no_ancestor_of_a_queue_holds_more_than_its_capability(seed: int) -> None:
    rng = random.Random(seed)
    objects = some_world(seed)
    objects.append(worlds.queue("root"))
    objects.append(worlds.queue("middle", parent="root", capability={"cpu": str(rng.randint(1, 6))}))
    for obj in objects:
        if obj["kind"] == "Queue" and obj["metadata"]["name"].startswith("q"):
            obj["spec"]["parent"] = "middle"
    objects = [o for o in objects if not (o["kind"] == "Pod" and o["status"]["phase"] == "Running")]
    world = worlds.world(*objects)
    worlds.cycle(world, full("capacity", hierarchy=True))
    limit = world.queues["middle"].capability[0]
    assert sum(int(q.used[0]) for name, q in world.queues.items() if name.startswith("q")) <= limit


GREEDY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: nodeorder}]
"""


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_nothing_is_left_idle_that_a_waiting_pod_could_use(seed: int) -> None:
    """Work-conserving: after a cycle without limits no pod that may run alone fits where nothing is promised."""
    objects = some_world(seed)
    for obj in objects:
        if obj["kind"] == "PodGroup":
            obj["spec"]["minMember"] = min(obj["spec"]["minMember"], 1)
    world = worlds.world(*objects)
    config = parse_config(GREEDY)
    promised = set(worlds.cycle(world, config).pipelined.values())
    placer = Placer(world.nodes)
    ssn = Session(world, config, placer, now=0.0, rng=random.Random(0), uid="after")
    for job in world.jobs.values():
        if job.is_waiting_for_queue or job.group is None or ssn.job_valid(job) is not None:
            continue
        for task in job.pending.values():
            fits = {world.nodes.names[row] for row in placer.rows_for(ssn, task, ssn.kernel_flags)}
            assert fits <= promised, f"{task.key} fits {fits}"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_cycle_that_changes_nothing_is_followed_by_one_that_changes_nothing(seed: int) -> None:
    world = worlds.world(*some_world(seed))
    plans = [worlds.cycle(world, GREEDY) for _ in range(4)]
    quiet = [not plan.binds and not plan.evictions for plan in plans]
    assert quiet == sorted(quiet), "a cycle without changes was followed by one with changes"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_points_of_a_row_are_the_same_however_they_are_worked_out(seed: int) -> None:
    """By numpy for many rows, by the kernel for a few, and kept between two questions."""
    world = worlds.world(*some_world(seed))
    config = parse_config(full("proportion"))
    placer = Placer(world.nodes)
    ssn = Session(world, config, placer, now=0.0, rng=random.Random(0), uid="u")
    rows = np.arange(world.nodes.size)
    rng = random.Random(seed)
    tasks = list(world.tasks.values())
    for _ in range(3):
        for task in tasks:
            kept = placer.score_rows(ssn, task, rows)
            fresh = Placer(world.nodes).score_rows(ssn, task, rows)
            assert (kept == fresh).all()
        moved = rng.choice(tasks)
        if moved.row < 0:
            world.move(moved, RUNNING, rng.randrange(world.nodes.size))
