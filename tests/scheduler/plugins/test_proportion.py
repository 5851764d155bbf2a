"""proportion: who may place, preempt, give back and enter, against the slow reference; and the boundaries of each."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.plugins.proportion import Proportion
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.plugins import asking
from tests.scheduler.rules import literal
from tests.scheduler.rules.literal import EPS, SlowQueue, Vector
from tests.scheduler.worlds import group, node, pod, queue

GPU = "nvidia.com/gpu"
GIB = 1 << 30
Json = dict[str, Any]


def opened(*objects: Json, **arguments: Any) -> tuple[Session, Proportion]:
    ssn = asking.session(worlds.world(*objects), {"name": "proportion", "arguments": arguments})
    (plugin,) = [one for one in ssn.plugins if isinstance(one, Proportion)]
    return ssn, plugin


class Cluster:
    """Random queues of random pods: as objects, and as the reference sees them."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.objects: list[Json] = [node("n", cpu="12", memory="24Gi", pods="110", **{GPU: "4"})]
        self.total: Vector = {"cpu": 12000.0, "memory": 24.0 * GIB, GPU: 4000.0, "pods": 110.0}
        self.queues: dict[str, SlowQueue] = {}
        self.open: dict[str, bool] = {}
        self.pods: dict[str, tuple[str, Vector]] = {}
        self.running: list[str] = []
        for number in range(rng.randint(1, 4)):
            self._queue(rng, f"q{number}")
        literal.water_fill(self.queues, self.total)

    def _queue(self, rng: random.Random, name: str) -> None:
        weight, self.open[name] = rng.randint(1, 4), rng.random() < 0.9
        state = "Open" if self.open[name] else "Closed"
        self.objects += [queue(name, weight=weight, state=state), group(name, 1, queue=name)]
        held, waiting = literal.empty(), literal.empty()
        for number in range(rng.randint(1, 6)):
            cpu, memory, gpus = rng.randint(0, 2), rng.randint(0, 3), int(rng.random() < 0.2)
            amounts: Vector = {"cpu": cpu * 1000.0, "memory": memory * float(GIB), "pods": 1.0}
            extra = {GPU: "1"} if gpus else {}
            if gpus:
                amounts[GPU] = 1000.0
            own, runs = f"{name}-{number}", number > 0 and rng.random() < 0.6
            where: Json = {"phase": "Running", "nodeName": "n"} if runs else {}
            size = str(cpu) if cpu else "", f"{memory}Gi" if memory else ""
            self.objects.append(pod(own, name, *size, resources=extra, **where))
            self.pods[own] = name, amounts
            if runs:
                self.running.append(own)
                held = literal.added(held, amounts)
            else:
                waiting = literal.added(waiting, amounts)
        self.queues[name] = SlowQueue(weight, None, literal.empty(), held, waiting)

    def room(self, name: str, asked: Vector) -> int:
        """Return how many such pods what the queue deserves has room for."""
        mine, count = self.queues[name], 9
        if not self.open[name]:
            return 0
        for dim, amount in asked.items():
            if amount >= EPS and dim != "pods":
                left = mine.deserved.get(dim, 0.0) - mine.allocated.get(dim, 0.0)
                count = min(count, int(max(left // amount, 0)))
        return count

    def reclaimed(self, candidates: list[str]) -> list[str]:
        held = {name: mine.allocated for name, mine in self.queues.items()}
        gone = []
        for victim in candidates:
            name, amounts = self.pods[victim]
            if not literal.less_equal_zero(held[name], self.queues[name].deserved):
                held[name] = {dim: amount - amounts.get(dim, 0.0) for dim, amount in held[name].items()}
                gone.append(victim)
        return gone


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_proportion_answers_as_the_reference(seed: int) -> None:
    slow = Cluster(seed)
    ssn, plugin = opened(*slow.objects)
    running = [asking.task(ssn, name) for name in slow.running]
    for name, (home, asked) in slow.pods.items():
        if name in slow.running:
            continue
        at, task, room = ssn.world.queues[home], asking.task(ssn, name), slow.room(home, asked)
        assert plugin.allocatable(at, task, 9) == room, name
        assert plugin.preemptive(at, [task]) == (room > 0), name
        assert plugin.preemptive(at, [task] * 2) == (room > 1), name
        others = [other for other in running if slow.pods[other.name][0] != home]
        assert asking.keys(plugin.reclaimable(task, others)[0]) == slow.reclaimed(asking.keys(others))


def holds(name: str, home: str, cpu: str) -> list[Json]:
    return [group(name, 0, queue=home, phase="Running"), pod(f"{name}0", name, cpu, phase="Running", nodeName="n")]


def waits(name: str, home: str, cpu: str) -> list[Json]:
    return [group(name, 0, queue=home), pod(f"{name}0", name, cpu)]


NODE = node("n", cpu="4", memory="8Gi")
ORDERS: list[Any] = [
    pytest.param([queue("a"), queue("b")], ("1", "2"), ["a", "b"], id="the smaller share"),
    pytest.param([queue("a", weight=1), queue("b", weight=3)], ("1", "2"), ["b", "a"], id="of what it deserves"),
    pytest.param([queue("a"), queue("b", priority=1)], ("1", "2"), ["b", "a"], id="priority comes first"),
]


@pytest.mark.parametrize(("queues", "held", "expected"), ORDERS)
def test_order_of_queues(queues: list[Json], held: tuple[str, str], expected: list[str]) -> None:
    jobs = [*holds("x", "a", held[0]), *holds("y", "b", held[1]), *waits("u", "a", "3"), *waits("v", "b", "3")]
    ssn, plugin = opened(NODE, *queues, *jobs)
    assert sorted(("a", "b"), key=lambda name: plugin.queue_order(ssn.world.queues[name])) == expected


def test_a_queue_without_jobs_is_neither_limited_nor_overused() -> None:
    ssn, plugin = opened(NODE, queue("a"), queue("empty"), *waits("u", "a", "1"))
    empty, task = ssn.world.queues["empty"], asking.task(ssn, "u0")
    assert plugin.of(empty) is None
    assert (plugin.overused(empty), plugin.allocatable(empty, task, 7), plugin.preemptive(empty, [task])) == (
        False, 7, True,
    )  # fmt: skip
    assert plugin.queue_order(empty) == (0, 0.0)


def test_what_a_queue_deserves_is_used_up_as_pods_are_placed() -> None:
    jobs = [*waits("u", "a", "2"), *waits("v", "b", "4")]
    ssn, plugin = opened(NODE, queue("a"), queue("b"), *jobs)
    at, task = ssn.world.queues["a"], asking.task(ssn, "u0")
    assert (plugin.allocatable(at, task, 5), plugin.overused(at), plugin.preemptive(at, [task])) == (1, False, True)
    ssn.statement().pipeline(task, ssn.world.nodes.row_of["n"], evicted=False)
    assert (plugin.allocatable(at, task, 5), plugin.preemptive(at, [task])) == (0, False)
    plugin.close(ssn)
    facts = ssn.queue_facts["a"]
    assert (facts.share, facts.overused, facts.weight, facts.deserved["cpu"]) == (1.0, True, 1.0, "2")


def asks(name: str, cpu: str, **spec: Any) -> Json:
    return group(name, 1, phase="Pending", queue="a", **({"minResources": {"cpu": cpu}} if cpu else {}), **spec)


def test_who_was_let_in_holds_its_minimum() -> None:
    closed = group("z", 1, phase="Pending", queue="shut", minResources={"cpu": "1"})
    queues = [queue("a", capability={"cpu": "3"}), queue("shut", state="Closing")]
    ssn, plugin = opened(NODE, *queues, asks("g", "2"), asks("h", "1001m"), asks("i", "1"), asks("j", ""), closed)
    entered = []
    for name in ("g", "h", "i", "j", "z"):
        job = ssn.world.jobs[f"ns/{name}"]
        if plugin.job_enqueueable(job) > 0:
            plugin.job_enqueued(job)
            entered.append(name)
    assert entered == ["g", "i", "j"]
    (full,) = ssn.note(ssn.world.jobs["ns/h"]).verdicts
    assert full.text == "queue resource quota insufficient: insufficient cpu"
    assert full.numbers == {"wanted cpu": 3001.0, "capability cpu": 3000.0}
    (shut,) = ssn.note(ssn.world.jobs["ns/z"]).verdicts
    assert (shut.code, shut.text) == ("QueueClosed", "queue shut is not open, it is Closing")


def test_memory_lets_those_catch_up_who_had_less() -> None:
    """After a while in which only one queue held anything, the other one deserves more than its weight says."""
    jobs = [*holds("x", "a", "4"), *waits("u", "a", "4"), *waits("v", "b", "4")]
    world = worlds.world(NODE, queue("a"), queue("b"), *jobs)
    plugin = {"name": "proportion", "arguments": {"usageHalfLifeSeconds": 3600}}
    deserved = []
    for hours in (0, 5):
        ssn = asking.session(world, plugin, now=asking.NOW + 3600 * hours)
        (found,) = [one for one in ssn.plugins if isinstance(one, Proportion)]
        facts = [found.of(world.queues[name]) for name in ("a", "b")]
        deserved.append([0.0 if one is None else float(one.deserved[0]) for one in facts])
    assert deserved[0] == [2000.0, 2000.0]
    assert deserved[1][0] < 1500 < 2500 < deserved[1][1]
    assert sum(deserved[1]) == pytest.approx(4000.0)


def test_who_is_in_no_queue_neither_gives_nor_is_held_back() -> None:
    stray = pod("s", "", phase="Running", nodeName="n")
    lost = [group("l", 0, queue="gone", phase="Running"), pod("l0", "l", phase="Running", nodeName="n")]
    waiting = group("x", 1, phase="Pending", queue="gone", minResources={"cpu": "99"})
    ssn, plugin = opened(NODE, queue("a"), *holds("h", "a", "1"), stray, *lost, *waits("u", "a", "1"), waiting)
    victims = [asking.task(ssn, name) for name in ("s", "l0")]
    assert plugin.reclaimable(asking.task(ssn, "u0"), victims)[0] == []
    assert plugin.job_enqueueable(ssn.world.jobs["ns/x"]) > 0


@pytest.mark.parametrize(("cpu", "goes"), [("2", False), ("2001m", True)], ids=["what it deserves", "more"])
def test_a_queue_gives_what_is_beyond_what_it_deserves(cpu: str, goes: bool) -> None:
    ssn, plugin = opened(
        NODE, queue("a"), queue("b"), *holds("h", "a", cpu), *waits("u", "b", "4"), *waits("v", "a", "4")
    )
    (victim,) = [asking.task(ssn, "h0")]
    assert asking.keys(plugin.reclaimable(asking.task(ssn, "u0"), [victim])[0]) == (["h0"] if goes else [])
