"""drf: jobs by dominant share, queues as a tree of shares, and who gives to whom, as the slow reference says."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.scheduler.plugins.drf import Drf
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.plugins import asking
from tests.scheduler.rules import literal
from tests.scheduler.rules.literal import EPS, Vector
from tests.scheduler.worlds import group, node, pod

GIB = 1 << 30
Json = dict[str, Any]
TOTAL: Vector = {"cpu": 8000.0, "memory": 16.0 * GIB, "pods": 110.0}
NODE = node("n", cpu="8", memory="16Gi", pods="110")


def opened(*objects: Json, tree: bool = False, **arguments: Any) -> tuple[Session, Drf]:
    plugin: Json = {"name": "drf", "arguments": arguments, **({"enableHierarchy": True} if tree else {})}
    ssn = asking.session(worlds.world(NODE, *objects), plugin)
    (found,) = [one for one in ssn.plugins if isinstance(one, Drf)]
    return ssn, found


@dataclass
class Leaf:
    """A job, or a pod that runs for it."""

    held: Vector
    wanted: Vector


@dataclass
class Inner:
    """A queue's node of the tree, with queues and jobs below it."""

    weight: float = 1.0
    children: dict[str, Inner] = field(default_factory=dict)
    jobs: dict[str, Leaf] = field(default_factory=dict)


class Tree:
    """The hierarchy word by word (spec volcano-plugins 4); everything is reckoned anew at every question."""

    def __init__(self) -> None:
        self.root = Inner()
        self.paths: dict[str, list[str]] = {}

    def add(self, queue: str, path: str, weights: str) -> Inner:
        names, given, at = path.split("/"), weights.split("/"), self.root
        for level, name in enumerate(names[1:], 1):
            weight = max(float(given[level]), 1.0) if level < len(given) else 1.0
            at = at.children.setdefault(name, Inner(weight))
        self.paths[queue] = names[1:]
        return at

    def _jobs(self, at: Inner) -> list[Leaf]:
        return [*at.jobs.values(), *(leaf for child in at.children.values() for leaf in self._jobs(child))]

    def answer(self, at: Inner) -> tuple[Vector, float, bool]:
        """Return what a node counts as holding, its share, and whether it is saturated."""
        used = literal.empty()
        for leaf in self._jobs(self.root):
            used = literal.added(used, leaf.held)
        demanding = {name: used.get(name, 0.0) < total for name, total in TOTAL.items()}
        return self._answer(at, demanding)

    def _answer(self, at: Inner, demanding: dict[str, bool]) -> tuple[Vector, float, bool]:
        parts = [self._answer(child, demanding) for child in at.children.values()]
        for leaf in at.jobs.values():
            saturated = False
            for name, held in leaf.held.items():
                wanted = leaf.wanted.get(name, 0.0)
                if held >= EPS:  # a resource that it holds nothing of is not among those looked at
                    saturated |= wanted != 0 and (held >= wanted or not demanding[name])
            parts.append((leaf.held, literal.dominant(leaf.held, TOTAL), saturated))
        least = min([1.0, *(share for _, share, saturated in parts if not saturated and share != 0)])
        total = literal.empty()
        for held, share, saturated in parts:
            if share != 0:
                by = 1.0 if saturated else least / share
                total = literal.added(total, {name: amount * by for name, amount in held.items()})
        return total, literal.dominant(total, TOTAL), all(saturated for _, _, saturated in parts)

    def compare(self, left: str, right: str) -> int:
        a, b = self.root, self.root
        for mine, theirs in zip(self.paths[left], self.paths[right], strict=False):
            a, b = a.children[mine], b.children[theirs]
            (_, x, x_full), (_, y, y_full) = self.answer(a), self.answer(b)
            if x_full != y_full:
                return 1 if x_full else -1
            if abs(x / a.weight - y / b.weight) > 1e-12:
                return -1 if x / a.weight < y / b.weight else 1
        return 0


class Cluster:
    """Random queues in a tree with random jobs: as objects, and as the reference sees them."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.slow, self.objects = Tree(), list[Json]()
        self.jobs: dict[str, tuple[str, Leaf]] = {}
        self.pods: dict[str, tuple[str, Vector]] = {}
        self.running: list[str] = []
        paths = ["root/a", "root/b/x", "root/b/y", "root/c/x", "root/d"]
        for path in rng.sample(paths, rng.randint(2, 4)):
            weights = "/".join(str(rng.randint(1, 3)) for _ in path.split("/"))
            name = path.replace("/", "-")
            made = worlds.queue(name)
            made["metadata"]["annotations"] = {
                "volcano.sh/hierarchy": path,
                "volcano.sh/hierarchy-weights": weights,
            }
            self.objects.append(made)
            at = self.slow.add(name, path, weights)
            for number in range(rng.randint(1, 2)):
                at.jobs[f"{name}-{number}"] = self._job(rng, name, f"{name}-{number}")

    def _job(self, rng: random.Random, queue: str, name: str) -> Leaf:
        self.objects.append(group(name, 0, queue=queue, phase="Running"))
        held, wanted = literal.empty(), literal.empty()
        for number in range(rng.randint(1, 4)):
            cpu, memory, own = rng.randint(0, 2), rng.randint(0, 4), f"{name}-{number}"
            amounts: Vector = {"cpu": cpu * 1000.0, "memory": memory * float(GIB), "pods": 1.0}
            runs = number > 0 and rng.random() < 0.7
            where: Json = {"phase": "Running", "nodeName": "n"} if runs else {}
            size = str(cpu) if cpu else "", f"{memory}Gi" if memory else ""
            self.objects.append(pod(own, name, *size, **where))
            self.pods[own] = name, amounts
            wanted = literal.added(wanted, amounts)
            if runs:
                self.running.append(own)
                held = literal.added(held, amounts)
        leaf = Leaf(held, wanted)
        self.jobs[name] = queue, leaf
        return leaf

    def reclaimed(self, mine: str, candidates: list[str]) -> list[str]:
        job, request = self.pods[mine]
        queue, leaf = self.jobs[job]
        gone = []
        before, leaf.held = leaf.held, literal.added(leaf.held, request)
        for victim in candidates:
            theirs, amounts = self.pods[victim]
            other, losing = self.jobs[theirs]
            had, losing.held = losing.held, {n: a - amounts.get(n, 0.0) for n, a in losing.held.items()}
            if self.slow.compare(queue, other) < 0:
                gone.append(victim)
            losing.held = had
        leaf.held = before
        return gone

    def preempted(self, mine: str, candidates: list[str]) -> list[str]:
        job, request = self.pods[mine]
        after = literal.dominant(literal.added(self.jobs[job][1].held, request), TOTAL)
        left: dict[str, Vector] = {}
        gone = []
        for victim in candidates:
            theirs, amounts = self.pods[victim]
            held = left.get(theirs, self.jobs[theirs][1].held)
            left[theirs] = {n: a - amounts.get(n, 0.0) for n, a in held.items()}
            rest = literal.dominant(left[theirs], TOTAL)
            if after < rest or abs(after - rest) <= 1e-6:
                gone.append(victim)
        return gone


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_queues_are_ordered_as_the_reference_orders_them(seed: int) -> None:
    slow = Cluster(seed)
    ssn, plugin = opened(*slow.objects, tree=True)
    for left in slow.slow.paths:
        for right in slow.slow.paths:
            mine, theirs = (plugin.queue_order(ssn.world.queues[name]) for name in (left, right))
            found = (mine > theirs) - (mine < theirs)
            assert found == slow.slow.compare(left, right), (left, right)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_who_gives_is_who_gives_in_the_reference(seed: int) -> None:
    slow = Cluster(seed)
    ssn, plugin = opened(*slow.objects, tree=True)
    running = [asking.task(ssn, name) for name in slow.running]
    for name in slow.pods.keys() - set(slow.running):
        task = asking.task(ssn, name)
        others = [
            other for other in running if slow.jobs[slow.pods[other.name][0]][0] != slow.jobs[slow.pods[name][0]][0]
        ]
        before = [plugin.queue_order(queue) for queue in ssn.world.queues.values() if queue.view is not None]
        assert asking.keys(plugin.reclaimable(task, others)[0]) == slow.reclaimed(name, asking.keys(others))
        assert asking.keys(plugin.preemptable(task, running)[0]) == slow.preempted(name, asking.keys(running))
        after = [plugin.queue_order(queue) for queue in ssn.world.queues.values() if queue.view is not None]
        assert before == after, "asking changes nothing"


def held(name: str, cpu: int, memory: int = 0) -> list[Json]:
    return [
        group(name, 0, phase="Running"),
        pod(f"{name}0", name, str(cpu), f"{memory}Gi" if memory else "", phase="Running", nodeName="n"),
    ]


SHARES: list[Any] = [
    pytest.param(held("j", 4, 2), 0.5, id="cpu is the larger part"),
    pytest.param(held("j", 1, 12), 0.75, id="memory is"),
    pytest.param([group("j", 1), pod("j0", "j")], 0.0, id="what waits holds nothing"),
    pytest.param([group("j", 1)], 0.0, id="no pods"),
]


@pytest.mark.parametrize(("objects", "share"), SHARES)
def test_dominant_share(objects: list[Json], share: float) -> None:
    ssn, plugin = opened(worlds.queue(), *objects)
    assert plugin.job_order(ssn.world.jobs["ns/j"]) == pytest.approx(share)


def test_with_memory_a_namespace_that_held_much_comes_later() -> None:
    mine = [group("j", 1), pod("j0", "j")]
    theirs = [group("o", 1, namespace="other"), pod("o0", "o", namespace="other")]
    world = worlds.world(NODE, worlds.queue(), *held("r", 4), *mine, *theirs)
    plugin = {"name": "drf", "arguments": {"usageHalfLifeSeconds": 60}}
    orders = []
    for minutes in (0, 1, 2):
        ssn = asking.session(world, plugin, now=asking.NOW + 60 * minutes)
        (found,) = [one for one in ssn.plugins if isinstance(one, Drf)]
        orders.append([found.job_order(world.jobs[key]) for key in ("ns/j", "other/o")])
    assert orders[0] == [0.0, 0.0]
    assert [other for _, other in orders] == [0.0, 0.0, 0.0]
    assert 0 < orders[1][0] < orders[2][0] < 0.5


def test_all_that_a_namespace_held_is_remembered() -> None:
    more: Json = {"phase": "Running", "nodeName": "n"}
    jobs = [one for name in "ab" for one in (group(name, 0, phase="Running"), pod(f"{name}0", name, "2", **more))]
    world = worlds.world(NODE, worlds.queue(), *jobs, group("j", 1), pod("j0", "j"))
    plugin = {"name": "drf", "arguments": {"usageHalfLifeSeconds": 60}}
    for minutes in (0, 1000):
        ssn = asking.session(world, plugin, now=asking.NOW + 60 * minutes)
    (found,) = [one for one in ssn.plugins if isinstance(one, Drf)]
    assert found.job_order(world.jobs["ns/j"]) == pytest.approx(0.5)


def test_who_is_in_no_queue_neither_gives_nor_gets() -> None:
    queue = worlds.queue()
    queue["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/1"}
    stray = pod("s", "", phase="Running", nodeName="n")
    lost = [group("l", 0, queue="gone", phase="Running"), pod("l0", "l", phase="Running", nodeName="n")]
    ssn, plugin = opened(queue, *held("j", 1), stray, *lost, group("w", 1), pod("w0", "w"), tree=True)
    tasks = {name: asking.task(ssn, name) for name in ("s", "l0", "j0", "w0")}
    assert plugin.reclaimable(tasks["w0"], [tasks["s"]])[0] == []
    assert list(plugin.reclaimable(tasks["s"], [tasks["j0"]])[0]) == []
    assert list(plugin.preemptable(tasks["s"], [tasks["j0"]])[0]) == []
    assert plugin.preemptable(tasks["w0"], [tasks["s"]])[0] == []
    ssn.statement().evict(tasks["s"], "what has no job is followed too")
