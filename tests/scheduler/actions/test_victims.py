"""Who makes room, and for whom: what is remembered between equal tasks changes no decision."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler import session
from strato.scheduler.actions import victims
from strato.scheduler.actions.offers import Offers
from strato.scheduler.config import parse_config
from strato.scheduler.cycle import decide
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.ordering.jobclasses import PENDING
from strato.scheduler.ordering.jobqueue import JobQueues
from strato.scheduler.placement.placer import Placer
from strato.scheduler.session import Session
from tests.scheduler import worlds

Json = dict[str, Any]

CONFIG = """
actions: "enqueue, allocate, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enableReclaimable: false}}, {{name: conformance}}]
- plugins: [{{name: drf, enablePreemptable: {drf}}}, {{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


class OneByOne(victims.Attempts):
    """The reference: nothing is remembered; every task has all rows ranked anew."""

    def turn_to(self, ssn: Session, task: Task, offers: Offers | None = None) -> None:
        self.exhausted = set()

    def rows(self, ssn: Session, task: Task) -> list[int]:
        groups = victims.by_shard(ssn, task, victims.candidate_rows(ssn, task))
        return [int(row) for group in groups for row in group]

    def best_first(self, ssn: Session, task: Task, serves: Callable[[int], bool], *, neighbours: bool) -> bool:
        rows = victims.candidate_rows(ssn, task)
        if neighbours:
            rows = ssn.neighbours_allow(task, rows)
        return any(serves(row) for row in victims.scored_order(ssn, task, rows))


def one_queue_in_order(ssn: Session, candidates: Sequence[Task], preemptor: Task) -> list[Task]:
    """The reference: victims of one queue compared two by two, each key asked for when it is needed."""

    def key(victim: Task) -> Any:
        assert victim.job is not None
        return ssn.job_plugin_key(victim.job), ssn.task_key(victim)

    def compare(left: Task, right: Task) -> int:
        a, b = key(left), key(right)
        return -1 if a > b else 1 if a < b else 0

    return sorted(candidates, key=cmp_to_key(compare))


def crowded(seed: int, action: str) -> list[Json]:
    """A full cluster: jobs that may have to give, and gangs of one or two classes that ask."""
    rng = random.Random(seed)
    out: list[Json] = [{"kind": "PriorityClass", "metadata": {"name": f"p{i}"}, "value": i * 10} for i in range(4)]
    out += [worlds.queue("old"), worlds.queue("new", weight=rng.randint(1, 3))]
    jobs = rng.randint(1, 6)
    sizes = [0] * jobs
    pods = []
    for n in range(rng.randint(1, 8)):
        cpu = rng.randint(1, 6)
        out.append(worlds.node(f"n{n}", cpu=str(cpu), memory="64Gi", pods=str(rng.choice([3, 8, 110]))))
        used = 0
        while used < cpu and len([p for p in pods if p["spec"]["nodeName"] == f"n{n}"]) < 3:
            j, need = rng.randrange(jobs), min(rng.choice([1, 1, 2]), cpu - used)
            more: Json = {"phase": "Running", "nodeName": f"n{n}", "priority": rng.randrange(4)}
            if rng.random() < 0.15:
                more["annotations"] = {"volcano.sh/preemptable": "false"}
            pods.append(worlds.pod(f"old{j}-w-{sizes[j]}", f"old{j}", cpu=str(need), **more))
            sizes[j] += 1
            used += need
    for j, size in enumerate(sizes):
        name = {"priorityClassName": f"p{rng.randrange(3)}"}
        out.append(worlds.group(f"old{j}", rng.randint(0, size), phase="Running", queue="old", **name))
    out += pods
    for g in range(rng.randint(1, 3)):
        size, two = rng.randint(1, 6), rng.random() < 0.4
        more = {"queue": "old" if action == "preempt" else "new", "priorityClassName": "p3"}
        out.append(worlds.group(f"new{g}", rng.randint(1, size), **more))
        for p in range(size):
            cpu = str(1 + p % 2) if two else "1"
            out.append(worlds.pod(f"new{g}-w-{p}", f"new{g}", cpu=cpu, priority=rng.choice([5, 5, 7])))
    return out


def decisions(plan: Plan) -> tuple[list[tuple[str, str]], dict[str, str], dict[str, str]]:
    return [(e.task.key, e.beneficiary) for e in plan.evictions], plan.pipelined, worlds.binds(plan)


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), drf=st.booleans())
def test_equal_tasks_take_the_victims_that_each_would_have_taken_by_itself(action: str, seed: int, drf: bool) -> None:
    config = CONFIG.format(action=action, drf=str(drf).lower())
    fast = worlds.cycle(worlds.world(*crowded(seed, action)), config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victims, "Attempts", OneByOne)
        patch.setattr(session, "in_order", one_queue_in_order)
        slow = worlds.cycle(worlds.world(*crowded(seed, action)), config)
    assert decisions(fast) == decisions(slow)


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_the_comparison_meets_worlds_that_evict(action: str) -> None:
    config = CONFIG.format(action=action, drf="false")
    plans = [worlds.cycle(worlds.world(*crowded(seed, action)), config) for seed in range(30)]
    assert sum(len(plan.evictions) > 1 for plan in plans) > 3


def test_queues_are_compared_again_once_something_was_evicted() -> None:
    """Of two queues the one that holds less goes first, also when it held more before an eviction."""
    objects = [worlds.node("n", cpu="9")]
    for name, held in (("a", 0), ("b", 3), ("c", 2)):
        objects += [worlds.queue(name), worlds.group(name, 0, phase="Running", queue=name)]
        objects += [worlds.pod(f"{name}-{i}", name, phase="Running", nodeName="n") for i in range(held)]
        objects.append(worlds.pod(f"{name}-waits", name, cpu="9"))
    world = worlds.world(*objects)
    config = parse_config(CONFIG.format(action="reclaim", drf="false").replace("enqueue, allocate, reclaim", "enqueue"))
    ssn = decide(world, config, now=0.0, rng=random.Random(1), uid="u", placer=Placer(world.nodes))
    queues = JobQueues(ssn, ssn.job_classes, PENDING, lambda _: True)
    first = queues.pop()
    assert first is not None
    assert first.queue.name == "a"
    stmt = ssn.statement()
    for key in ("ns/b-0", "ns/b-1"):
        stmt.evict(world.tasks[key], "reclaim")
    stmt.commit()
    assert [found.queue.name for found in iter(queues.pop, None)] == ["b", "c"]
    assert not queues


def test_queue_status_leaves_promises_out() -> None:
    """What is leaving no longer counts, what was only promised its place does not count yet."""
    leaving = worlds.pod("old", "old", phase="Running", nodeName="n", leaving=True)
    objects = [worlds.queue(), worlds.node("n", cpu="2"), worlds.group("old", 0, phase="Running"), leaving]
    objects.append(worlds.pod("stays", "old", phase="Running", nodeName="n"))
    plan = worlds.cycle(worlds.world(*objects, worlds.group("new", 1), worlds.pod("new", "new")))
    assert plan.pipelined == {"ns/new": "n"}
    [status] = plan.queues
    assert status.allocated["cpu"] == "1"


@pytest.mark.parametrize(
    ("phase", "unschedulable"),
    [
        pytest.param("Failed", False, id="a pod that failed had its place"),
        pytest.param("Succeeded", False, id="so had one that succeeded"),
        pytest.param("Unknown", True, id="of one that is lost nobody knows"),
    ],
)
def test_gang_that_is_leaving_lacks_nobody_who_was_scheduled(phase: str, unschedulable: bool) -> None:
    ended = worlds.pod("w-0", "gang", phase=phase, nodeName="n")
    leaving = worlds.pod("w-1", "gang", phase="Running", nodeName="n", leaving=True)
    world = worlds.world(worlds.queue(), worlds.node("n"), worlds.group("gang", 2, phase="Running"), ended, leaving)
    plan = worlds.cycle(world)
    conditions = [status.condition.type for status in plan.groups if status.condition is not None]
    assert ("Unschedulable" in conditions) is unschedulable
