"""Jobs of one task and one class are placed as a batch: with the same outcome as one after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.actions.batches import Batches
from strato.scheduler.cache.world import World
from strato.scheduler.config import DEFAULT_TEXT, default_config, parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.ordering.jobclasses import JobClasses
from tests.profiles import examples
from tests.scheduler import worlds
from tests.scheduler.ordering.test_job_classes import CAPACITY, EASY, Changes, Side, decided, evicting

PACKED = DEFAULT_TEXT.replace("nodeorder", "binpack")
SELECTIVE = DEFAULT_TEXT.replace("- name: drf", "- name: nodegroup\n  - name: drf")


class Burst(Changes):
    """Jobs that come by the dozen, most of one task and of one class; room for some of them."""

    def start(self) -> list[dict[str, Any]]:
        rng = self.rng
        out: list[dict[str, Any]] = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
        out.append(worlds.queue("root"))
        self.queues = ["q0"] if rng.random() < 0.7 else ["q0", "q1"]
        for name in self.queues:
            more = {"capability": {"cpu": str(rng.randint(5, 40))}} if rng.random() < 0.4 else {}
            out.append(worlds.queue(name, weight=rng.randint(1, 3), **more))
        for number in range(rng.randint(1, 5)):
            taints = [{"key": "a", "effect": "PreferNoSchedule"}] if rng.random() < 0.2 else []
            pods = str(rng.choice([3, 110]))
            out.append(worlds.node(f"n{number}", cpu=str(rng.randint(1, 12)), memory="64Gi", pods=pods, taints=taints))
        self.kinds = [(rng.choice(["1", "2", "500m"]), rng.choice(["", "w"])) for _ in range(rng.randint(1, 2))]
        return out + self.some()

    def some(self) -> list[dict[str, Any]]:
        """Make a number of jobs that arrive together."""
        out: list[dict[str, Any]] = []
        for _ in range(self.rng.randint(1, 20)):
            out += self.job() if self.rng.random() < 0.05 else self.small()
        return out

    def small(self) -> list[dict[str, Any]]:
        rng = self.rng
        self.made += 1
        name, (cpu, role) = f"j{self.made}", rng.choice(self.kinds)
        spec: dict[str, Any] = {"queue": rng.choice(self.queues)}
        if rng.random() < 0.05:
            spec["priorityClassName"] = "high"
        made = worlds.group(name, rng.choice([1, 1, 1, 1, 0]), phase="Inqueue", **spec)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:{self.made // 30:02}:0{rng.randint(0, 1)}Z"
        self.jobs[name] = made
        notes = {"volcano.sh/task-spec": role} if role else {}
        more: dict[str, Any] = {"schedulingGates": [{"name": "x"}]} if rng.random() < 0.03 else {}
        if rng.random() < 0.01:
            more["ports"] = [{"containerPort": 80, "hostPort": 80}]
        self.pods[f"{name}-w-0"] = worlds.pod(f"{name}-w-0", name, cpu=cpu, annotations=notes, **more)
        return [made, self.pods[f"{name}-w-0"]]

    def next(self, sides: list[Side]) -> None:
        """Let bound pods run or end, and more jobs come."""
        feed: list[dict[str, Any]] = []
        for _ in range(self.rng.randint(0, 6)):
            feed += self._moved_on(sides[0].world, self.rng.choice(["run", "end"]))
        feed += self.some() if self.rng.random() < 0.7 else []
        for side in sides:
            worlds.feed(side.world, *feed)
        super().next(sides)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(default_config(), id="built-in"),
        pytest.param(parse_config(CAPACITY), id="capacity and quotas"),
        pytest.param(parse_config(PACKED), id="nodes are filled"),
        pytest.param(parse_config(SELECTIVE), id="queues prefer nodes"),
        pytest.param(parse_config(EASY.format(actions="allocate")), id="room is kept for who is blocked"),
        pytest.param(evicting("enqueue, allocate, preempt, reclaim, backfill"), id="whoever is refused evicts"),
    ],
)
@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_batches_decide_and_tell_what_one_after_the_other_does(config: Config, seed: int) -> None:
    changes, sides = Burst(seed), [Side(config), Side(config, apart=True)]
    start = changes.start()
    for side in sides:
        worlds.feed(side.world, *start)
    for number in range(6):
        together, alone = [side.cycle(number) for side in sides]
        assert decided(together) | {"groups": {}} == decided(alone) | {"groups": {}}
        assert sides[0].groups == sides[1].groups
        assert sides[0].told == sides[1].told
        assert sides[0].verdicts == sides[1].verdicts
        assert worlds.fingerprint(sides[0].world) == worlds.fingerprint(sides[1].world)
        changes.remember(alone)
        changes.next(sides)


def burst(count: int, config: Config | None = None, *, cpu: str = "64") -> Side:
    """A queue and a node, and as many equal jobs of one task."""
    side = Side(config or default_config())
    worlds.feed(side.world, worlds.queue(), worlds.node("n0", cpu=cpu, memory="640Gi"))
    for number in range(count):
        worlds.feed(side.world, worlds.group(f"j{number:02}", 1), worlds.pod(f"j{number:02}-w-0", f"j{number:02}"))
    return side


def test_batch_of_jobs_is_placed_with_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    side, calls = burst(40), list[int]()
    place = side.placer.place

    def counted(ssn: Any, tasks: Sequence[Task], **more: Any) -> list[int]:
        calls.append(len(tasks))
        return place(ssn, tasks, **more)

    monkeypatch.setattr(side.placer, "place", counted)
    assert [bind.task.key for bind in side.cycle(0).binds] == [f"ns/j{number:02}-w-0" for number in range(40)]
    assert calls == [40]


def test_jobs_that_find_no_room_are_looked_at_once_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    side, looked = burst(40, cpu="8"), list[str]()
    fits_batch = Batches._fits_batch

    def counted(self: Batches, job: Any) -> bool:
        looked.append(job.key)
        return fits_batch(self, job)

    monkeypatch.setattr(Batches, "_fits_batch", counted)
    assert len(side.cycle(0).binds) == 8
    assert len(looked) < 100, "not each time one is visited"


@pytest.mark.parametrize("bad", [0, 3, 9])
def test_error_with_one_job_of_a_batch_costs_no_other_job_its_turn(bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    place_batch = World.place_batch

    def failing(self: World, tasks: Sequence[Task], rows: Sequence[int], status: int) -> None:
        if tasks[0].name == f"j{bad:02}-w-0":
            raise RuntimeError("broken")
        place_batch(self, tasks, rows, status)

    monkeypatch.setattr(World, "place_batch", failing)
    plans: list[Plan] = []
    for apart in (False, True):
        side = burst(10)
        side.placer.job_classes = JobClasses(apart=apart)
        plans.append(run_cycle(side.world, side.config, now=1e9, rng=random.Random(1), uid="c", placer=side.placer))
        worlds.check_invariants(side.world)
    for plan in plans:
        assert len(plan.binds) == 9
        assert plan.verdicts[f"ns/j{bad:02}"][0].code == "Error"
        assert set(plan.verdicts) == {f"ns/j{bad:02}"}
    assert decided(plans[0]) == decided(plans[1])
