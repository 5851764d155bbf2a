"""Job classes: cycles that visit one job of a class decide and tell what cycles that visit every job do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strato.clock import format_time
from strato.scheduler.cache.runtimes import EXPECTED
from strato.scheduler.cache.world import World
from strato.scheduler.config import DEFAULT_TEXT, default_config, parse_config
from strato.scheduler.cycle import run_cycle
from strato.scheduler.framework.options import Config, PluginOption
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.jobs import Task
from strato.scheduler.model.plan import Plan
from strato.scheduler.model.tasks import BINDING, RELEASING, RUNNING
from strato.scheduler.ordering.jobclasses import JobClasses, facts_of
from strato.scheduler.placement.placer import Placer
from strato.scheduler.plugins.priority import Priority
from strato.scheduler.statement import Statement
from tests.profiles import examples
from tests.scheduler import worlds

CAPACITY = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: capacity}, {name: resourcequota}]
- plugins: [{name: nodeorder}, {name: binpack}]
"""
ROLE = "volcano.sh/task-spec"
NO_ENQUEUE = DEFAULT_TEXT.replace("enqueue, ", "")
EVICTING = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: overcommit}}, {{name: drf, enablePreemptable: {drf}}}, {{name: predicates}}, {{name: {shares}}}]
- plugins: [{{name: nodeorder}}]
"""
UNEQUAL = DEFAULT_TEXT.replace("- name: overcommit", "- name: sla\n  - name: overcommit")
EASY = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: easy}}, {{name: predicates}}, {{name: nodeorder}}]
"""


def evicting(actions: str, shares: str = "proportion", *, drf: bool = False) -> Config:
    """A configuration with actions that take from others."""
    return parse_config(EVICTING.format(actions=actions, shares=shares, drf=str(drf).lower()))


everywhere = pytest.mark.parametrize(
    "config",
    [
        pytest.param(parse_config(DEFAULT_TEXT), id="built-in"),
        pytest.param(parse_config(CAPACITY), id="capacity and quotas"),
        pytest.param(parse_config(NO_ENQUEUE), id="without enqueue"),
        pytest.param(parse_config(UNEQUAL), id="a plugin that keeps jobs apart"),
    ],
)


class Side:
    """A world, and what users were told of it: what a plan leaves out stands."""

    def __init__(self, config: Config, *, apart: bool = False) -> None:
        self.world = World()
        self.placer = Placer(self.world.nodes, 0, JobClasses(apart=apart))
        self.config = config
        self.told: dict[str, tuple[str, str]] = {}
        self.verdicts: dict[str, list[tuple[str, str, str]]] = {}
        self.groups: dict[str, Any] = {}
        """Statuses of groups; one that was not written yet may be in a plan again."""
        self.unplaced = 0

    def cycle(self, number: int) -> Plan:
        plan = run_cycle(
            self.world, self.config, now=1e9 + number, rng=random.Random(1), uid=f"c{number}", placer=self.placer
        )
        assert plan.failures == []
        self.told.update({p.task.uid: (p.reason, p.message) for p in plan.pods})
        self.verdicts.update({k: [(v.plugin, v.code, v.text) for v in found] for k, found in plan.verdicts.items()})
        self.groups.update({status.job.key: status[1:] for status in plan.groups})
        self.unplaced += len(plan.pods) + plan.quiet_pods
        return plan


def decided(plan: Plan) -> dict[str, Any]:
    """What a plan has done, in order; its groups' statuses in any."""
    return {
        "binds": [(bind.task.key, bind.node) for bind in plan.binds],
        "evictions": [(gone.task.key, gone.action, gone.beneficiary) for gone in plan.evictions],
        "pipelined": plan.pipelined,
        "groups": {status.job.key: status[1:] for status in plan.groups},
        "queues": [(q.name, q.allocated, q.deserved, q.share, q.overused) for q in plan.queues],
    }


class Changes:
    """Random changes of a cluster in which much waits; the same for every side."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.made = 0
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.wanted: dict[str, dict[str, str]] = {}

    def start(self) -> list[dict[str, Any]]:
        rng = self.rng
        out: list[dict[str, Any]] = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
        out.append(worlds.queue("root"))
        for i in range(rng.randint(1, 3)):
            more = {"capability": {"cpu": str(rng.randint(2, 6))}} if rng.random() < 0.5 else {}
            out.append(worlds.queue(f"q{i}", weight=rng.randint(1, 3), **more))
        self.queues = [o["metadata"]["name"] for o in out if o["kind"] == "Queue" and o["metadata"]["name"] != "root"]
        out += [worlds.node(f"n{i}", cpu=str(rng.randint(1, 4)), memory="6Gi") for i in range(rng.randint(1, 4))]
        for _ in range(rng.randint(4, 12)):
            out += self.job()
        return out

    def job(self) -> list[dict[str, Any]]:
        rng = self.rng
        self.made += 1
        name, size = f"j{self.made}", rng.choice([1, 1, 1, 1, 2, 3])
        spec: dict[str, Any] = {"queue": rng.choice([*self.queues, "nowhere"] if rng.random() < 0.1 else self.queues)}
        if rng.random() < 0.2:
            spec["priorityClassName"] = "high"
        cpu = rng.choice(["1", "1", "2", ""])
        if rng.random() < 0.7:
            spec["minResources"] = {"cpu": str(size * int(cpu or 0))}
        minimum = rng.choice([size, size, size, max(size - 1, 0)])
        made = worlds.group(name, minimum, phase=rng.choice(["", "Pending", "Pending", "Inqueue"]), **spec)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{rng.randint(0, 3)}Z"
        self.jobs[name] = made
        out = [made]
        for p in range(size if rng.random() < 0.8 else 0):
            key = f"{name}-w-{p}"
            more: dict[str, Any] = {"schedulingGates": [{"name": "x"}]} if rng.random() < 0.05 else {}
            if rng.random() < 0.1:
                more["labels"] = {"a": rng.choice("bc")}
            memory = rng.choice(["1Gi", "1Gi", "1Gi", "4Gi"]) if cpu else ""
            self.pods[key] = worlds.pod(key, name, cpu=cpu, memory=memory, **more)
            if rng.random() < 0.03:
                self.pods[key]["spec"]["affinity"] = _apart()
            out.append(self.pods[key])
        return out

    def next(self, sides: list[Side]) -> None:
        """Change one thing or a few everywhere."""
        rng = self.rng
        for _ in range(rng.randint(0, 3)):
            what = rng.choice(["job", "job", "end", "end", "node", "queue", "gone", "group", "written", "run", "quota"])
            world = sides[0].world
            feed: list[dict[str, Any]] = []
            gone: list[str] = []
            if what == "job":
                feed = self.job()
            elif what in ("end", "run"):
                feed = self._moved_on(world, what)
            elif what == "node":
                feed = [worlds.node(f"n{rng.randint(0, 4)}", cpu=str(rng.randint(1, 4)), memory="6Gi")]
            elif what == "queue":
                feed = [worlds.queue(rng.choice(self.queues), state=rng.choice(["Open", "Open", "Closed"]))]
            elif what == "gone" and self.pods:
                gone = [rng.choice(sorted(self.pods))]
                del self.pods[gone[0]]
            elif what == "group" and self.jobs:
                changed = self.jobs[rng.choice(sorted(self.jobs))]
                changed["spec"]["minMember"] = rng.randint(0, 3)
                feed = [self._as_is(world, changed)]
            elif what == "quota":
                hard = {"cpu": str(rng.randint(1, 8))}
                view = {"metadata": {"name": "quota", "namespace": "ns"}, "status": {"hard": hard, "used": {}}}
                feed = [{"kind": "ResourceQuota", **view}]
            elif what == "written":
                self._write(sides)
            for side in sides:
                worlds.feed(side.world, *feed)
                for name in gone:
                    side.world.remove_pod(f"ns/{name}")

    def _moved_on(self, world: World, what: str) -> list[dict[str, Any]]:
        placed = sorted(n for n in self.pods if world.tasks[f"ns/{n}"].row >= 0)
        if not placed:
            return []
        name = self.rng.choice(placed)
        task = world.tasks[f"ns/{name}"]
        spec = {**self.pods[name]["spec"], "nodeName": world.nodes.names[task.row]}
        return [{**self.pods[name], "spec": spec, "status": {"phase": "Succeeded" if what == "end" else "Running"}}]

    def _as_is(self, world: World, group: dict[str, Any]) -> dict[str, Any]:
        return {**group, "status": {"phase": world.jobs[f"ns/{group['metadata']['name']}"].phase}}

    def _write(self, sides: list[Side]) -> None:
        """Let some groups have the phase the scheduler wants, and a condition that may be what it wants."""
        for name in sorted(self.jobs):
            if self.rng.random() < 0.5:
                stale = self.rng.random() < 0.3
                for side in sides:
                    view = self._as_is(side.world, self.jobs[name])
                    wanted = self.wanted.get(f"ns/{name}")
                    if wanted is not None and not stale:
                        view["status"]["conditions"] = [wanted]
                    worlds.feed(side.world, view)

    def remember(self, plan: Plan) -> None:
        for status in plan.groups:
            if status.condition is not None:
                self.wanted[status.job.key] = msgspec.to_builtins(status.condition)


class Struggle(Changes):
    """A full cluster in which more than fits wants to run, of few kinds, so that classes meet those who evict."""

    def start(self) -> list[dict[str, Any]]:
        rng = self.rng
        out: list[dict[str, Any]] = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
        self.queues = ["q0", "q1"]
        out += [worlds.queue(name, weight=rng.randint(1, 2)) for name in self.queues]
        out += [worlds.node(f"n{i}", cpu=str(rng.randint(2, 4)), memory="20Gi") for i in range(rng.randint(2, 4))]
        first = rng.choice(["q0", ""])  # who fills the cluster alone holds more than its share
        for _ in range(rng.randint(6, 9)):
            out += self.some("", first)
        return out

    def some(self, priority: str, queue: str = "") -> list[dict[str, Any]]:
        """Make a job of one of few kinds."""
        rng = self.rng
        self.made += 1
        name, (size, minimum) = f"j{self.made}", rng.choice([(1, 1), (1, 1), (2, 2), (3, 1), (3, 2)])
        spec: dict[str, Any] = {"queue": queue or rng.choice(self.queues), "priorityClassName": priority}
        made = worlds.group(name, minimum, phase="Inqueue", **spec)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:{self.made // 4:02}:00Z"
        self.jobs[name] = made
        cpu, policy = rng.choice(["1", "1", "2"]), rng.choice(["", "", "", "Never"])
        for p in range(size):
            more: dict[str, Any] = {"preemptionPolicy": policy} if policy else {}
            self.pods[f"{name}-w-{p}"] = worlds.pod(f"{name}-w-{p}", name, cpu=cpu, **more)
        return [made, *(self.pods[f"{name}-w-{p}"] for p in range(size))]

    def next(self, sides: list[Side]) -> None:
        """Let bound pods run and evicted ones go, mostly; let jobs come, seldom end."""
        rng, world = self.rng, sides[0].world
        feed: list[dict[str, Any]] = []
        gone: list[str] = []
        known = sorted(self.pods)
        for _ in range(rng.choice([0, 0, 1, 5])):
            feed += self.some(rng.choice(["", "high"]), rng.choice(["", "q1"]))
        for name in known:
            task = world.tasks[f"ns/{name}"]
            if task.status == RELEASING and rng.random() < 0.7:
                gone.append(name)
            elif task.status in (BINDING, RUNNING) and rng.random() < 0.95:
                spec = {**self.pods[name]["spec"], "nodeName": world.nodes.names[task.row]}
                phase = "Running" if rng.random() < 0.98 else "Succeeded"
                if phase == "Succeeded" or task.status == BINDING:
                    feed.append({**self.pods[name], "spec": spec, "status": {"phase": phase}})
        for side in sides:
            worlds.feed(side.world, *feed)
            for name in gone:
                side.world.remove_pod(f"ns/{name}")
        for name in gone:
            del self.pods[name]
        if rng.random() < 0.5:
            self._write(sides)


class Fragments(Changes):
    """Gangs of one or two kinds, each of one or two sorts of tasks, of which a part fits into what is free."""

    def start(self) -> list[dict[str, Any]]:
        rng = self.rng
        self.kinds = [self._kind() for _ in range(rng.randint(1, 2))]
        self.queues = [f"q{i}" for i in range(rng.randint(1, 2))]
        out: list[dict[str, Any]] = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}]
        for name in self.queues:
            more = {"capability": {"cpu": str(rng.randint(2, 9))}} if rng.random() < 0.3 else {}
            out.append(worlds.queue(name, **more))
        out += [worlds.node(f"n{i}", cpu=str(rng.randint(1, 3)), memory="20Gi") for i in range(rng.randint(2, 5))]
        for _ in range(rng.randint(3, 12)):
            out += self.job()
        return out

    def _kind(self) -> tuple[str, bool, int, list[tuple[str, str]]]:
        rng = self.rng
        cpus, roles = rng.choice([["1"], ["1", "2"], ["3", "1"]]), rng.choice([[""], ["w"], ["w", "v"]])
        tasks = [(rng.choice(cpus), rng.choice(roles)) for _ in range(rng.randint(1, 5))]
        return rng.choice(["Inqueue", "Inqueue", "Pending"]), rng.random() < 0.5, rng.randint(1, len(tasks)), tasks

    def job(self) -> list[dict[str, Any]]:
        rng = self.rng
        if rng.random() < 0.1:
            return super().job()
        self.made += 1
        name, (phase, asks, minimum, tasks) = f"j{self.made}", rng.choice(self.kinds)
        least = {"minResources": {"cpu": str(sum(int(cpu) for cpu, _ in tasks))}} if asks else {}
        made = worlds.group(name, minimum, phase=phase, queue=rng.choice(self.queues), **least)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:{self.made // 4:02}:00Z"
        self.jobs[name] = made
        for p, (cpu, role) in enumerate(tasks):
            notes = {ROLE: role} if role else {}
            self.pods[f"{name}-w-{p}"] = worlds.pod(f"{name}-w-{p}", name, cpu=cpu, annotations=notes)
        return [made, *(self.pods[f"{name}-w-{p}"] for p in range(len(tasks)))]


class Foreseeable(Fragments):
    """Gangs that say how long they run, mostly; those that run do since the first cycle."""

    def job(self) -> list[dict[str, Any]]:
        rng, made = self.rng, super().job()
        seconds = [str(rng.choice([2, 50, 200]))]
        if rng.random() < 0.1:
            seconds.append("7")
        for pod in made[1:] if rng.random() < 0.9 else []:
            notes = pod["metadata"].get("annotations", {})
            pod["metadata"]["annotations"] = {**notes, EXPECTED: rng.choice(seconds)}
        return made

    def _moved_on(self, world: World, what: str) -> list[dict[str, Any]]:
        moved = super()._moved_on(world, what)
        for pod in moved:
            pod["status"]["startTime"] = format_time(1e9)
        return moved


def _apart() -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@everywhere
@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_visiting_one_of_a_class_decides_and_tells_what_visiting_all_does(config: Config, seed: int) -> None:
    _compare(config, Changes(seed), cycles=7)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(evicting("enqueue, allocate, preempt, reclaim, backfill"), id="whoever is refused evicts"),
        pytest.param(
            evicting("enqueue, reclaim, allocate, backfill, preempt", drf=True), id="queues reclaim before they place"
        ),
        pytest.param(
            evicting("enqueue, allocate, preempt, backfill, reclaim", "capacity"), id="capacities are reclaimed"
        ),
        pytest.param(
            evicting("enqueue, allocate, gangpreempt, gangreclaim, backfill"), id="whole gangs evict whole gangs"
        ),
    ],
)
@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 1 << 30))
@example(seed=26)  # with these three, whoever was told of a place it nearly had in one cycle needs no visit in the next
@example(seed=127)
@example(seed=216)
def test_visiting_one_of_a_class_evicts_whom_visiting_all_does(config: Config, seed: int) -> None:
    _compare(config, Struggle(seed), cycles=9)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(parse_config(DEFAULT_TEXT), id="built-in"),
        pytest.param(parse_config(CAPACITY), id="capacity and quotas"),
        pytest.param(evicting("enqueue, allocate, preempt, reclaim, backfill"), id="whoever is refused evicts"),
        pytest.param(
            evicting("enqueue, reclaim, allocate, backfill, preempt", drf=True), id="queues reclaim before they place"
        ),
        pytest.param(
            evicting("enqueue, allocate, preempt, backfill, reclaim", "capacity"), id="capacities are reclaimed"
        ),
        pytest.param(
            evicting("enqueue, allocate, gangpreempt, gangreclaim, backfill"), id="whole gangs evict whole gangs"
        ),
    ],
)
@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_one_gang_of_a_class_is_told_for_all_what_part_of_it_fits(config: Config, seed: int) -> None:
    _compare(config, Fragments(seed), cycles=7)


@pytest.mark.parametrize("actions", ["allocate", "enqueue, allocate, backfill"])
@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_room_kept_for_one_of_a_class_bears_on_the_others(actions: str, seed: int) -> None:
    """The first blocked gang has room kept for it, which those equal to it may not take."""
    _compare(parse_config(EASY.format(actions=actions)), Foreseeable(seed), cycles=7)


def _compare(config: Config, changes: Changes, cycles: int) -> None:
    """Run the same cycles with job classes, and with every job in a class of its own."""
    sides = [Side(config), Side(config, apart=True)]
    start = changes.start()
    for side in sides:
        worlds.feed(side.world, *start)
    for number in range(cycles):
        kept, asked = [side.cycle(number) for side in sides]
        assert decided(kept) == decided(asked)
        assert sides[0].told == sides[1].told
        assert sides[0].verdicts == sides[1].verdicts
        assert sides[0].unplaced == sides[1].unplaced
        assert worlds.fingerprint(sides[0].world) == worlds.fingerprint(sides[1].world)
        changes.remember(asked)
        changes.next(sides)


def full(config: Config, jobs: int, **spec: Any) -> Side:
    """A cluster without room in which as many equal jobs wait."""
    side = Side(config)
    phase = spec.pop("phase", "Inqueue")
    worlds.feed(side.world, worlds.queue(), worlds.queue("other"), worlds.node("n0", cpu="1"))
    for j in range(jobs):
        worlds.feed(
            side.world, worlds.group(f"j{j}", 1, phase=phase, **spec), worlds.pod(f"j{j}-w-0", f"j{j}", cpu="2")
        )
    return side


def test_one_of_a_class_is_visited_until_something_moves() -> None:
    side = full(default_config(), 50)
    assert len(side.cycle(0).pods) == 50
    second = side.cycle(1)
    assert (len(second.pods), second.quiet_pods) == (1, 49)
    worlds.feed(side.world, worlds.node("n1", cpu="7"))
    third = side.cycle(2)
    assert [bind.task.key for bind in third.binds] == ["ns/j0-w-0", "ns/j1-w-0", "ns/j10-w-0"]
    assert len(third.pods) == 47, "what they are told names two nodes now"
    assert side.cycle(3).quiet_pods == 46


def test_who_was_not_visited_knows_who_was_visited_instead() -> None:
    """Its explanation has the numbers of that one."""
    side = full(default_config(), 3)
    side.cycle(0)
    side.cycle(1)
    visited_for = side.placer.job_classes.visited_for
    assert [visited_for(f"ns/j{j}") for j in range(3)] == ["ns/j0"] * 3
    assert visited_for("ns/unknown") == ""


def test_one_of_a_class_looks_for_victims_until_something_moves() -> None:
    side = full(evicting("enqueue, allocate, preempt, reclaim, backfill"), 50)
    assert len(side.cycle(0).pods) == 50
    second = side.cycle(1)
    assert (len(second.pods), second.quiet_pods, second.evictions) == (1, 49, [])
    victims = [worlds.pod(f"old-{p}", "old", nodeName="n1", phase="Running") for p in range(8)]
    worlds.feed(side.world, worlds.queue("other", weight=1), worlds.group("old", 1, phase="Running", queue="other"))
    worlds.feed(side.world, worlds.node("n1", cpu="8"), *victims)
    third = side.cycle(2)
    assert [gone.beneficiary for gone in third.evictions] == ["ns/j0-w-0"] * 2 + ["ns/j1-w-0"] * 2
    assert set(third.pipelined) == {"ns/j0-w-0", "ns/j1-w-0"}


def test_a_place_that_a_pod_nearly_had_is_not_told_any_longer() -> None:
    """Both gangs are told of the one place that reclaim found for them; then nobody may be evicted any more."""
    side = Side(evicting("enqueue, reclaim, allocate, backfill"))
    worlds.feed(side.world, worlds.queue("mine"), worlds.queue("other"), worlds.node("n0", cpu="2"))
    worlds.feed(side.world, worlds.group("old", 1, phase="Running", queue="other"))
    worlds.feed(side.world, *(worlds.pod(f"old-{p}", "old", nodeName="n0", phase="Running") for p in range(2)))
    for name in ("j0", "j1"):
        worlds.feed(side.world, worlds.group(name, 2, phase="Inqueue", queue="mine"))
        worlds.feed(side.world, *(worlds.pod(f"{name}-w-{p}", name) for p in range(2)))
    side.cycle(0)
    possible = "can possibly be assigned to n0, once resource is released"
    assert [uid for uid, (_, text) in side.told.items() if possible in text] == ["ns-j0-w-0", "ns-j1-w-0"]
    worlds.feed(side.world, worlds.queue("other", reclaimable=False))
    assert side.cycle(1).quiet_pods == 0
    assert [uid for uid, (_, text) in side.told.items() if possible in text] == []
    assert side.cycle(2).quiet_pods == 2, "both were told the same now, so that one is visited for both"


def test_places_that_two_actions_had_for_a_gang_are_told_once() -> None:
    """`allocate` had two idle places, `reclaim` one for the first pod only: that pod is told of the later one."""
    side = Side(evicting("enqueue, allocate, reclaim, backfill"))
    worlds.feed(side.world, worlds.queue("mine"), worlds.queue("other"))
    worlds.feed(side.world, worlds.node("n0", cpu="2"), worlds.node("n1", cpu="2"))
    worlds.feed(side.world, worlds.group("old", 1, phase="Running", queue="other"))
    worlds.feed(side.world, *(worlds.pod(f"old-{p}", "old", nodeName="n0", phase="Running") for p in range(2)))
    for name in ("j0", "j1"):
        worlds.feed(side.world, worlds.group(name, 3, phase="Inqueue", queue="mine"))
        worlds.feed(side.world, *(worlds.pod(f"{name}-w-{p}", name) for p in range(3)))
    side.cycle(0)
    for name in ("j0", "j1"):
        assert "assigned to n0, once resource is released" in side.told[f"ns-{name}-w-0"][1]
        assert "assigned to n1, once minAvailable is satisfied" in side.told[f"ns-{name}-w-1"][1]
    assert side.cycle(1).quiet_pods == 3


def gangs(config: Config, jobs: int) -> Side:
    """A node with room for two tasks, and as many equal gangs of three wait."""
    side = Side(config)
    worlds.feed(side.world, worlds.queue(), worlds.node("n0", cpu="2"), worlds.node("n1", cpu="1"))
    worlds.feed(side.world, worlds.group("old", 1, phase="Running"))
    worlds.feed(side.world, worlds.pod("old-0", "old", nodeName="n1", phase="Running"))
    for j in range(jobs):
        worlds.feed(side.world, worlds.group(f"j{j}", 3, phase="Inqueue"))
        worlds.feed(side.world, *(worlds.pod(f"j{j}-w-{p}", f"j{j}") for p in range(3)))
    return side


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(default_config(), id="built-in"),
        pytest.param(evicting("enqueue, allocate, reclaim, gangpreempt, backfill"), id="with evictions"),
    ],
)
def test_one_of_a_class_of_gangs_is_tried_until_something_moves(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, tried = gangs(config, 20), set[str]()
    placed = Statement.placed

    def counted(self: Statement, tasks: Sequence[Task], *args: Any, **more: Any) -> None:
        tried.update(task.job.key for task in tasks if task.job is not None)
        placed(self, tasks, *args, **more)

    monkeypatch.setattr(Statement, "placed", counted)
    assert len(side.cycle(0).pods) == 60
    assert tried == {"ns/j0"}
    second = side.cycle(1)
    assert (len(second.pods), second.quiet_pods) == (3, 57)
    worlds.feed(side.world, worlds.node("n2", cpu="1"))
    assert [bind.task.key for bind in side.cycle(2).binds] == ["ns/j0-w-0", "ns/j0-w-1", "ns/j0-w-2"]


def test_members_are_told_of_the_places_that_one_of_them_nearly_had() -> None:
    side = gangs(default_config(), 3)
    side.cycle(0)
    for j in range(3):
        for p in range(2):
            reason, text = side.told[f"ns-j{j}-w-{p}"]
            assert reason == "Schedulable"
            assert text == f"Pod ns/j{j}-w-{p} can possibly be assigned to n0, once minAvailable is satisfied"
        assert side.told[f"ns-j{j}-w-2"][0] == "Unschedulable"


def test_jobs_that_need_other_roles_are_of_other_classes() -> None:
    """The role that the first one needs fits nowhere, that of the second does."""
    side = Side(default_config())
    worlds.feed(side.world, worlds.queue(), worlds.node("n"))
    for name, needed in (("j0", "large"), ("j1", "small")):
        worlds.feed(side.world, worlds.group(name, 1, minTaskMember={needed: 1}))
        for role, cpu in (("small", "1"), ("large", "8")):
            worlds.feed(side.world, worlds.pod(f"{name}-{role}", name, cpu=cpu, annotations={ROLE: role}))
    assert worlds.binds(side.cycle(0)) == {"ns/j1-small": "n"}


def test_job_facts_that_no_job_has_refuse_the_plugin() -> None:
    with pytest.raises(TypeError, match=r"Curious\.job_facts: 'labels' is none of created, min_available, minimum"):
        type("Curious", (Plugin,), {"job_facts": ("labels",)})


def test_one_of_those_that_wait_for_their_queue_is_visited() -> None:
    side = full(default_config(), 50, phase="Pending", minResources={"cpu": "2"})
    worlds.feed(side.world, worlds.queue(state="Closed"))
    assert len(side.cycle(0).verdicts) == 50
    assert len(side.cycle(1).verdicts) == 1
    worlds.feed(side.world, worlds.queue(), worlds.node("n1", cpu="10"))
    plan = side.cycle(2)
    assert len(plan.binds) == 5


def test_a_status_that_is_not_written_is_handed_on() -> None:
    side = full(default_config(), 3)
    first, second = side.cycle(0), side.cycle(1)
    assert len(second.pods) == 1
    assert sorted(s.job.key for s in second.groups) == ["ns/j0", "ns/j1", "ns/j2"]
    for status in first.groups:
        written = worlds.group(status.job.name, 1)
        written["status"]["conditions"] = [msgspec.to_builtins(status.condition)]
        worlds.feed(side.world, written)
    assert side.cycle(2).groups == []
    worlds.feed(side.world, worlds.group("j2", 1))  # somebody took the condition away
    assert [s.job.key for s in side.cycle(3).groups] == ["ns/j2"]


def test_a_second_placer_starts_anew() -> None:
    """Who followed the changes of a world lost track of them when somebody else did in between."""
    side = full(default_config(), 5)
    side.cycle(0)
    first = side.placer
    side.placer = Placer(side.world.nodes)
    assert len(side.cycle(1).pods) == 5
    side.placer = first
    assert len(side.cycle(2).pods) == 5


class Stranger(Plugin):
    """Says nothing of what matters to it in a job."""

    name = "stranger"


class Heir(Priority):
    """Inherits from one that says it."""

    name = "heir"


def _with(plugin: type[Plugin]) -> Config:
    option = PluginOption(plugin.name, plugin, None, default_config().tiers[0][0].toggles)
    return Config(actions=("enqueue", "allocate"), tiers=((option,),))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(default_config(), True, id="the built-in configuration"),
        pytest.param(parse_config(CAPACITY), True, id="capacity, quotas, binpack"),
        pytest.param(parse_config(UNEQUAL), False, id="sla looks at ages"),
        pytest.param(evicting("enqueue, allocate, preempt, reclaim"), True, id="actions that evict"),
        pytest.param(parse_config(EASY.format(actions="allocate")), True, id="room is kept for blocked jobs"),
        pytest.param(parse_config(EASY.format(actions="allocate, preempt")), False, id="and others evict for theirs"),
        pytest.param(parse_config(DEFAULT_TEXT.replace("backfill", "flow")), False, id="an action that plans for all"),
        pytest.param(
            parse_config(
                EVICTING.format(actions="allocate, preempt", shares="proportion", drf="false")
                + "configurations: [{name: preempt, arguments: {enableTopologyAwarePreemption: true}}]"
            ),
            False,
            id="an action that throws dice for every job",
        ),
        pytest.param(parse_config(DEFAULT_TEXT.replace("backfill", "allocate")), False, id="an action that runs twice"),
        pytest.param(_with(Priority), True, id="one plugin that says so"),
        pytest.param(_with(Stranger), False, id="a plugin that says nothing"),
        pytest.param(_with(Heir), False, id="a plugin that only inherits from one that says so"),
    ],
)
def test_jobs_are_apart_unless_plugins_and_actions_say_what_matters(config: Config, expected: bool) -> None:
    assert (facts_of(config) is not None) is expected
